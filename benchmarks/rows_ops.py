# SPDX-License-Identifier: Apache-2.0
"""Single operators, and what they cost when many tensors are alive."""

from collections.abc import Iterator

from harness import Bar, row
from sides import Side

EAGER = ("ours strict", "ours fused", "cpu eager", "peer", "peer fused")

ADD = """module {
func.func @main(%a: tensor<16xf32>, %b: tensor<16xf32>) -> tensor<16xf32> {
%c = stablehlo.add %a, %b : tensor<16xf32>
return %c : tensor<16xf32>
}
}
"""


@row(
    "add",
    "x + y on 16 elements, per operator",
    {"": "µs"},
    (*EAGER, "jax", "bare"),
    [Bar(7, side="ours strict"), Bar(2.5, side="ours strict", over="bare")],
    recorded={"peer": {"": 20.7}},
    note="1000 independent additions, one wait.",
)
def add(side: Side) -> Iterator[dict[str, float]]:
    """An operator's cost on the host."""
    calls = 1000
    if side.kind == "bare":
        while True:
            yield {"": side.bare(ADD, calls) * 1e6}
    if side.jax:
        import jax
        import jax.numpy as jnp

        x, y, plus = jnp.ones(16), jnp.ones(16), jax.jit(jnp.add)
        while True:
            yield {"": side.per_call(lambda: plus(x, y), calls) * 1e6}
    x, y = (side.torch.ones(16, device=side.device) for _ in range(2))
    while True:
        yield {"": side.per_call(lambda: x + y, calls) * 1e6}


@row(
    "chain",
    "20 pointwise operators on 1M elements, per operator",
    {"": "µs"},
    (*EAGER, "cpu inductor", "ours compiled", "jax"),
    [Bar(0.5, over="cpu eager")],
    recorded={"peer": {"": 790}, "peer fused": {"": 660}},
    note="tanh(z * y + x) and sigmoid, five times, then a wait.",
)
def chain(side: Side) -> Iterator[dict[str, float]]:
    """Memory traffic of eager chains."""
    size = 1 << 20
    if side.jax:
        import jax
        import jax.numpy as jnp

        ones, tanh, sigmoid, wrap = jnp.linspace(0, 1, size), jnp.tanh, jax.nn.sigmoid, jax.jit
    else:
        torch = side.torch
        ones, tanh, sigmoid = torch.linspace(0, 1, size).to(side.device), torch.tanh, torch.sigmoid
        wrap = side.compile if side.compiled else lambda function: function
    x, y = ones, ones * 0.5

    def twenty(x, y):  # type: ignore[no-untyped-def]
        z = x
        for _ in range(5):
            z = sigmoid(tanh(z * y + x))
        return z

    run = wrap(twenty)
    for _ in range(2):
        side.seconds(lambda: run(x, y))
    while True:
        yield {"": side.per_call(lambda: run(x, y), 1, 7) / 20 * 1e6}


MATMUL = """module {{
func.func @main(%a: tensor<{n}x{n}x{dtype}>, %b: tensor<{n}x{n}x{dtype}>) -> tensor<{n}x{n}x{dtype}> {{
%c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<{n}x{n}x{dtype}>, tensor<{n}x{n}x{dtype}>) -> tensor<{n}x{n}x{dtype}>
return %c : tensor<{n}x{n}x{dtype}>
}}
}}
"""
MATMULS = {512: 20, 1024: 5, 2048: 2}  # size -> products in a chain
DTYPES = {"f32": "float32", "bf16": "bfloat16"}


@row(
    "matmul",
    "matmul in a dependent chain, per product",
    {f"{n} {dtype}": "ms" for n in MATMULS for dtype in DTYPES},
    (*EAGER, "jax", "bare"),
    [Bar(1.05, f"{n} {dtype}", over="bare") for n in MATMULS for dtype in DTYPES],
    recorded={"peer": {"512 f32": 2.1}, "peer fused": {"512 f32": 1.6}},
)
def matmul(side: Side) -> Iterator[dict[str, float]]:
    """Whether anything is lost around the plugin's product."""
    cases = [(n, dtype) for n in MATMULS for dtype in DTYPES if not side.quick or n == 512]
    works = {(n, dtype): _product(side, n, dtype) for n, dtype in cases if side.kind != "bare"}
    while True:
        figures = {}
        for n, dtype in cases:
            if side.kind == "bare":
                seconds = side.bare(MATMUL.format(n=n, dtype=dtype), MATMULS[n], 3, ("feed:0=0",))
            else:
                seconds = side.per_call(works[n, dtype], 1, 3) / MATMULS[n]
            figures[f"{n} {dtype}"] = seconds * 1e3
        yield figures


def _product(side: Side, n: int, dtype: str):  # type: ignore[no-untyped-def]
    if side.jax:
        import jax
        import jax.numpy as jnp

        x, times = jnp.full((n, n), 1 / n, dtype=DTYPES[dtype]), jax.jit(jnp.matmul)
    else:
        torch = side.torch
        x, times = torch.full((n, n), 1 / n, dtype=getattr(torch, DTYPES[dtype])).to(side.device), torch.matmul

    def work():  # type: ignore[no-untyped-def]
        z = x
        for _ in range(MATMULS[n]):
            z = times(z, x)
        return z

    side.seconds(work)
    return work


LIVE = (1_000, 10_000, 100_000)


@row(
    "live",
    "x + y on 16 elements with many live tensors, per operator",
    {f"{count:,} live": "µs" for count in LIVE},
    ("ours strict", "ours fused", "cpu eager"),
    [
        Bar(1.25, f"{LIVE[-1]:,} live", side=side, over_figure=f"{LIVE[0]:,} live")
        for side in ("ours strict", "ours fused")
    ],
    rounds=3,
)
def live(side: Side) -> Iterator[dict[str, float]]:
    """Nothing in the runtime may depend on how much is alive."""
    x, y = (side.torch.ones(16, device=side.device) for _ in range(2))
    while True:
        held, figures = [], {}
        for count in LIVE[: 2 if side.quick else 3]:
            while len(held) < count:  # each another value, or fused mode would compute one of them
                held.append((held[-1] if held else x) + y)
            side.sync()
            figures[f"{count:,} live"] = side.per_call(lambda: x + y, 1000) * 1e6
        yield figures
