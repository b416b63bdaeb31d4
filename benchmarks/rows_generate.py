# SPDX-License-Identifier: Apache-2.0
"""`generate` of a small Llama: 32 tokens after a prompt of 16, greedy."""

from collections.abc import Iterator
from typing import Any

from harness import Bar, row
from sides import Side


class _Generate:
    """The model on the side's device; `tokens()` gives seconds and checks the tokens at the end."""

    def __init__(self, side: Side, **options: Any) -> None:
        torch = side.torch
        import models

        self._side = side
        self._model = models.llama()
        torch.manual_seed(1)
        ids = torch.randint(2, 1000, (1, 16))
        self._given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        self._greedy = {"max_new_tokens": 32, "min_new_tokens": 32, "do_sample": False}
        self._options = options
        with torch.no_grad():  # before anything is measured: PyTorch's own start-up on the CPU
            self._expected = self._model.generate(**self._given, **self._greedy)
        self._model = self._model.to(side.device)
        self._given = {name: value.to(side.device) for name, value in self._given.items()}
        side.sync()

    def seconds(self) -> float:
        """One call, ended by reading the tokens."""
        made = []
        torch = self._side.torch

        def work() -> None:
            made.append(self._model.generate(**self._given, **self._greedy, **self._options).cpu())

        with torch.no_grad(), self._side.attention():
            seconds = self._side.seconds(work)
        assert torch.equal(made[0], self._expected), "other tokens than the CPU's"
        return seconds


@row(
    "generate",
    "small Llama, eager generate with a growing cache",
    {
        "first call": "s",
        "programs": "",
        "third call": "s",
        "new process": "s",
        "programs, new process": "",
    },
    ("ours strict", "ours fused", "cpu eager", "peer", "peer fused"),
    [
        Bar(0.2, "first call", over="peer"),
        Bar(25, "programs"),
        Bar(0.333, "third call", over="peer fused"),
        Bar(0.7, "new process"),
    ],
    recorded={
        "peer": {"first call": 13.7, "programs": 300, "third call": 0.42, "new process": 0.93},
        "peer fused": {"first call": 16.4, "programs": 214, "third call": 0.29},
    },
    phases=("cold", "warm"),
    rounds=3,
    note="The first call starts with an empty cache folder; the new process has the folder that the first one filled.",
)
def generate(side: Side) -> Iterator[dict[str, float]]:
    """The shapes grow with each token."""
    call = _Generate(side)
    before = side.counters()
    first = call.seconds()
    programs = {name: side.counters()[name] - before[name] for name in ("compilations", "disk_hits") if before}
    compiled = {"programs": programs["compilations"]} if programs else {}
    if side.phase == "warm":
        yield {"new process": first} | {f"{name}, new process": value for name, value in compiled.items()}
    call.seconds()
    yield {"first call": first, "third call": call.seconds()} | compiled


@row(
    "static",
    "small Llama, generate with a static cache, compiled",
    {"first call": "s", "programs": "", "third call": "s"},
    ("ours compiled", "cpu eager", "cpu inductor", "peer compiled"),
    [
        Bar(0.6, "first call", side="ours compiled", over="peer compiled"),
        Bar(0.6, "third call", side="ours compiled", over="peer compiled"),
        Bar(1.15, "third call", side="ours compiled", over="cpu inductor"),
    ],
    recorded={"peer compiled": {"first call": 3.5, "third call": 0.14}},
    phases=("cold",),
    rounds=3,
    note='transformers compiles for a device "tpu" by itself; for inductor it is told to.',
)
def static(side: Side) -> Iterator[dict[str, float]]:
    """The shapes stay."""
    options: dict[str, Any] = {"cache_implementation": "static"}
    if side.way == "inductor":
        from transformers.generation.configuration_utils import CompileConfig

        options["compile_config"] = CompileConfig(backend="inductor", fullgraph=False, mode=None, dynamic=None)
        options["compile_config"]._compile_all_devices = True
    call = _Generate(side, **options)
    before = side.counters()
    first = call.seconds()
    compiled = {"programs": side.counters()["compilations"] - before["compilations"]} if before else {}
    call.seconds()
    yield {"first call": first, "third call": call.seconds()} | compiled
