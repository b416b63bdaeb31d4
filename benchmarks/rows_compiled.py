# SPDX-License-Identifier: Apache-2.0
"""Compiled models, the cost of a compiled call, and how compile time grows with depth."""

import time
from collections.abc import Iterator
from typing import Any

from harness import Bar, row
from sides import Side


@row(
    "minilm",
    "all-MiniLM-L6-v2, 32 x 128 tokens",
    {"batch": "ms", "first call": "s"},
    ("ours compiled", "ours strict", "ours fused", "cpu eager", "cpu inductor", "jax", "jaxlib"),
    [Bar(1.05, "batch", side="ours compiled", over="jax")],
)
def minilm(side: Side) -> Iterator[dict[str, float]]:
    """A real model with its weights, forward only."""
    if side.jax:
        run = _jax_minilm()
        first = side.seconds(run)
        while True:
            yield {"batch": side.per_call(run, 1, 3) * 1e3, "first call": first}
    torch = side.torch
    import models

    model, inputs = models.minilm()
    model = model.to(side.device)
    inputs = {name: value.to(side.device) for name, value in inputs.items()}
    if side.compiled:
        model = side.compile(model)
    with torch.no_grad():
        run = lambda: model(**inputs).last_hidden_state  # noqa: E731
        first = side.seconds(run)
        side.seconds(run)
        while True:
            yield {"batch": side.per_call(run, 1, 3) * 1e3, "first call": first}


def _jax_minilm() -> Any:
    import jax
    import jax_models
    import models
    import torch

    model, inputs = models.minilm()
    w = jax_models.weights(model)
    ids, mask = (jax.numpy.asarray(inputs[name].numpy()) for name in ("input_ids", "attention_mask"))
    bert = jax.jit(jax_models.bert)
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
    kept = inputs["attention_mask"].bool()
    worst = (torch.from_numpy(jax.device_get(bert(w, ids, mask)).copy()) - expected)[kept].abs().max().item()
    assert worst < 1e-4, f"not the same model: differs by {worst}"
    return lambda: bert(w, ids, mask)


TENSORS = 200


@row(
    "call",
    f"a compiled function of {TENSORS} tensors of 16 elements, per call",
    {"": "µs", "with Dynamo": "µs", "tensors alone": "µs"},
    ("ours compiled", "cpu inductor", "jax", "bare"),
    [Bar(40, side="ours compiled", minus="bare")],
    note='Each result is its argument plus one. Without Dynamo: the function that backend="tpu" gives it, called directly. '
    "Tensors alone: what PyTorch takes to make so many tensor objects from Python (detach), which is part of the first figure.",
)
def call(side: Side) -> Iterator[dict[str, float]]:
    """What stands between Python and the executable."""
    calls = 50
    if side.kind == "bare":
        program = _plus_one(TENSORS)
        while True:
            yield {"": side.bare(program, calls) * 1e6}

    def function(xs: Any) -> Any:
        return [x + 1 for x in xs]

    if side.jax:
        import jax

        xs, run = [jax.numpy.ones(16) for _ in range(TENSORS)], jax.jit(function)
        while True:
            yield {"": side.per_call(lambda: run(xs), calls) * 1e6}
    xs = [side.torch.ones(16, device=side.device) for _ in range(TENSORS)]
    dynamo = side.compile(function)
    direct = _captured(side, function, xs) if side.kind == "ours" else None
    with side.torch.no_grad():
        while True:
            figures = {"with Dynamo": side.per_call(lambda: dynamo(xs), calls) * 1e6}
            if direct is not None:
                figures[""] = side.per_call(lambda: direct(list(xs)), calls) * 1e6
                figures["tensors alone"] = side.per_call(lambda: [x.detach() for x in xs], calls) * 1e6
            yield figures


def _captured(side: Side, function: Any, xs: Any) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    from torch_tpu import _C

    graph = make_fx(lambda *xs: function(xs), tracing_mode="fake")(*xs)
    return _C.CompiledFunction(graph)


def _plus_one(count: int) -> str:
    t = "tensor<16xf32>"
    args = ", ".join(f"%a{i}: {t}" for i in range(count))
    types = ", ".join([t] * count)
    lines = [f"%r{i} = stablehlo.add %a{i}, %one : {t}" for i in range(count)]
    body = "\n".join([f"%one = stablehlo.constant dense<1.0> : {t}", *lines])
    results = ", ".join(f"%r{i}" for i in range(count))
    return f"module {{\nfunc.func @main({args}) -> ({types}) {{\n{body}\nreturn {results} : {types}\n}}\n}}\n"


DEPTHS = (1, 10, 100)


@row(
    "layers",
    "first run of a stack of equal layers, nothing cached",
    {f"{part}, {n}": unit for part, unit in (("seconds", "s"), ("programs", "")) for n in DEPTHS},
    ("ours fused", "ours strict", "ours compiled", "cpu eager"),
    [Bar(2, f"seconds, {DEPTHS[-1]}", side="ours fused", over_figure=f"seconds, {DEPTHS[-2]}")],
    phases=tuple(str(n) for n in DEPTHS),
    shared_cache=False,
    rounds=3,
    note="LayerNorm, Linear 64-256, GELU, Linear 256-64, added; forward and backward. A process per depth.",
)
def layers(side: Side) -> Iterator[dict[str, float]]:
    """A repeated structure is compiled once."""
    torch = side.torch
    depth = int(side.phase)

    class Layer(torch.nn.Module):  # type: ignore[name-defined, misc]
        """A feed-forward block."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(
                torch.nn.LayerNorm(64), torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)
            )

        def forward(self, x: Any) -> Any:
            """One layer."""
            return x + self.inner(x)

    if side.kind == "ours":
        torch.tpu.reset_counters()
    model = torch.nn.Sequential(*(Layer() for _ in range(depth))).to(side.device)
    x = torch.ones(32, 64).to(side.device)
    side.sync()
    run = side.compile(model) if side.compiled else model
    begin = time.perf_counter()
    run(x).sum().backward()
    side.sync()
    figures = {f"seconds, {depth}": time.perf_counter() - begin}
    if side.kind == "ours":
        figures[f"programs, {depth}"] = side.counters()["compilations"]
    yield figures
