# SPDX-License-Identifier: Apache-2.0
"""The contestants: what differs between them is here, so that a row is written once.

"ours strict", "ours fused", "ours compiled" ...: torch.tpu; "cpu eager", "cpu inductor": PyTorch on the CPU; "peer ...":
Google's torch-tpu in a virtual environment of its own; "jax": JAX on the plugin that ours uses, "jaxlib": on its own CPU
client; "bare": a program through the C API alone (bare.cpp).
"""

import contextlib
import functools
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any


class Side:
    """A contestant, inside its process."""

    def __init__(self, name: str, phase: str = "", quick: bool = False) -> None:
        self.name, self.phase, self.quick = name, phase, quick
        self.kind, _, self.way = name.partition(" ")

    @functools.cached_property
    def torch(self) -> Any:
        """PyTorch with the side's device; imported at first use."""
        import torch

        if self.kind == "ours":
            assert hasattr(torch, "tpu"), "import torch did not load torch_tpu"
        if self.kind == "peer":
            self._load_peer()
        return torch

    def _load_peer(self) -> None:
        # It looks for a chip on the PCI bus; a CPU plugin plays it here (TPU_LIBRARY_PATH names the plugin).
        from torch_tpu._internal.utils import hardware

        import torch_tpu  # noqa: F401
        from torch_tpu import _loader

        hardware.get_tpu_device_count = lambda: 1
        _loader.load()
        import torch

        cumsum = torch.Tensor.cumsum  # it makes a scan of it, which XLA:CPU does not have
        torch.Tensor.cumsum = lambda x, *args, **more: cumsum(x.cpu(), *args, **more).to(x.device)
        if self.way == "fused":
            torch.tpu.set_eager_mode(torch.tpu.EagerMode.DEFER_AND_FUSE)

    @property
    def jax(self) -> bool:
        """Whether the side is JAX, on either client."""
        return self.kind.startswith("jax")

    @property
    def device(self) -> str:
        """The name of the device for PyTorch."""
        return "cpu" if self.kind == "cpu" else "tpu"

    @property
    def compiled(self) -> bool:
        """Whether the side stands for torch.compile."""
        return self.way.startswith("compiled") or self.way == "inductor"

    def compile(self, function: Any, **options: Any) -> Any:
        """torch.compile for this side."""
        backend = "inductor" if self.kind == "cpu" else "tpu"
        return self.torch.compile(function, backend=backend, dynamic=False, **options)

    def attention(self) -> Any:
        """A context in which attention runs: the peer's kernel for it is for TPUs only."""
        if self.kind != "peer":
            return contextlib.nullcontext()
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(SDPBackend.MATH)

    def sync(self, result: Any = None) -> None:
        """Waits for the device; for JAX, for the result."""
        if self.jax:
            import jax

            jax.block_until_ready(result)
        elif self.kind != "cpu":
            self.torch.accelerator.synchronize()

    def counters(self) -> dict[str, float]:
        """Programs compiled so far; empty where a side cannot tell."""
        return self.torch.tpu.counters() if self.kind == "ours" else {}

    def seconds(self, work: Callable[[], Any]) -> float:
        """Seconds of one call, ended by a wait."""
        start = time.perf_counter()
        self.sync(work())
        return time.perf_counter() - start

    def per_call(self, work: Callable[[], Any], calls: int, batches: int = 5) -> float:
        """Seconds per call: the median over batches of calls, each ended by one wait."""

        def batch() -> Any:
            for _ in range(calls):
                result = work()
            return result

        return statistics.median(self.seconds(batch) for _ in range(batches)) / calls

    def bare(self, program: str, calls: int, batches: int = 5, options: tuple[str, ...] = ()) -> float:
        """Seconds per call of a StableHLO program through the C API alone, with the plugin's own options."""
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(program)
            file.flush()
            command = [os.environ["BENCH_BARE"], os.environ["BENCH_PLUGIN"], file.name, str(calls), str(batches)]
            done = subprocess.run([*command, *options], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr.strip() or f"bare: exit {done.returncode}")
        return json.loads(done.stdout)["seconds"]
