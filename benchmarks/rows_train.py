# SPDX-License-Identifier: Apache-2.0
"""Training steps with AdamW, batch 16, float32: speed, and the bytes that are alive."""

from collections.abc import Callable, Iterator
from typing import Any

from harness import Bar, row
from sides import Side

SIDES = (
    *("ours strict", "ours fused", "ours compiled", "ours compiled+opt", "ours compiled whole"),
    *("cpu eager", "cpu inductor", "peer", "peer fused", "peer compiled", "peer compiled+opt", "jax", "jaxlib"),
)


def _rounds(side: Side, name: str) -> Iterator[dict[str, float]]:
    if side.jax:
        import jax_models

        step = jax_models.step_of(name)
    else:
        side.torch  # noqa: B018 - loads the device
        import models

        step = models.step_of(side, name)
    with side.attention():
        first = side.seconds(step)
        loss = float(step())  # work that failed later would look fast
        assert 0 < loss < 10, f"a loss of {loss}"
        side.per_call(step, 8, 1)
        while True:
            yield {"steps": 1 / side.per_call(step, 10, 3), "first step": first}


@row(
    "mlp",
    "training step, MLP 256-1024-1024-10",
    {"steps": "/s", "first step": "s"},
    SIDES,
    [
        Bar(200, "steps", least=True),
        Bar(250, "steps", side="ours compiled", least=True),
        Bar(0.9, "steps", side="ours compiled+opt", over="jax", least=True),
        Bar(0.9, "steps", side="ours compiled whole", over="jax", least=True),
    ],
    recorded={"peer": {"steps": 107}, "peer compiled": {"steps": 66}, "peer compiled+opt": {"steps": 108}},
)
def mlp(side: Side) -> Iterator[dict[str, float]]:
    """Few operators on larger matrices."""
    return _rounds(side, "mlp")


@row(
    "gpt",
    "training step, GPT (2 blocks, width 128, 64 tokens)",
    {"steps": "/s", "first step": "s"},
    SIDES,
    [
        Bar(1.2, "steps", over="peer", least=True),
        Bar(1, "steps", side="ours compiled+opt", over="jax", least=True),
        Bar(1, "steps", side="ours compiled whole", over="jax", least=True),
    ],
    recorded={"peer": {"steps": 15.5}, "peer compiled": {"steps": 18}, "peer compiled+opt": {"steps": 23}},
)
def gpt(side: Side) -> Iterator[dict[str, float]]:
    """Many operators of all kinds."""
    return _rounds(side, "gpt")


@row(
    "memory",
    "most bytes alive in a training step",
    {"mlp": "MiB", "gpt": "MiB"},
    (*("ours strict", "ours fused", "ours compiled", "ours compiled+opt", "ours compiled whole"), "cpu eager"),
    [
        Bar(1.15, name, side=f"ours {way}", over="cpu eager")
        for name in ("mlp", "gpt")
        for way in ("strict", "fused", "compiled", "compiled+opt", "compiled whole")
    ],
    rounds=1,
    note="Weights, optimizer state and inputs included; the third step. For the CPU, what PyTorch's profiler sees allocated.",
)
def memory(side: Side) -> Iterator[dict[str, float]]:
    """Results must die as early as on the CPU."""
    torch = side.torch
    import models

    figures = {}
    for name in ("mlp", "gpt"):
        step = models.step_of(side, name)
        for _ in range(2):
            side.seconds(step)
        figures[name] = (_peak_on_cpu(torch, step) if side.kind == "cpu" else _peak(side, step)) / 2**20
        del step
    while True:
        yield figures


def _peak(side: Side, step: Callable[[], Any]) -> int:
    side.torch.tpu.reset_peak_memory_stats()
    side.seconds(step)
    return side.torch.tpu.max_memory_allocated()


def _peak_on_cpu(torch: Any, step: Callable[[], Any]) -> int:
    import gc

    gc.collect()
    tensors = (found for found in gc.get_objects() if isinstance(found, torch.Tensor))
    held = sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    events = (event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]")
    peak = now = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return held + peak
