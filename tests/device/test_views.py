# SPDX-License-Identifier: Apache-2.0
"""Views and writes: random chains, each compared with the CPU in every mode."""

import os
import random
from collections.abc import Callable

import pytest
import torch

CHAINS = int(os.environ.get("VIEW_CHAINS", "400"))  # per mode; CONTRIBUTING.md has the command for all 2,000
BLOCK = 50

SHAPES = [(6,), (4, 6), (2, 3, 4), (3, 1, 5), (2, 2, 3, 2)]
DTYPES = [torch.float32, torch.int64, torch.int32, torch.float64, torch.bfloat16, torch.complex64, torch.uint8]
# A step looks at the tensor's metadata, draws what it needs, and says what to do with any tensor that has such metadata.
Step = Callable[[torch.Tensor], torch.Tensor]


def _slice(x: torch.Tensor, r: random.Random) -> Step | None:
    if x.dim() == 0:
        return None
    d = r.randrange(x.dim())
    start = r.randint(0, max(x.size(d) - 1, 0))
    stop = r.randint(start, x.size(d))
    step = r.randint(1, 3)
    return lambda t: t[(slice(None),) * d + (slice(start, stop, step),)]


def _select(x: torch.Tensor, r: random.Random) -> Step | None:
    sizes = [d for d in range(x.dim()) if x.size(d) > 0]
    if not sizes:
        return None
    d = r.choice(sizes)
    i = r.randint(-x.size(d), x.size(d) - 1)
    return lambda t: t.select(d, i)


def _transpose(x: torch.Tensor, r: random.Random) -> Step | None:
    if x.dim() < 2:
        return None
    a, b = r.sample(range(x.dim()), 2)
    return lambda t: t.transpose(a, b)


def _permute(x: torch.Tensor, r: random.Random) -> Step | None:
    order = r.sample(range(x.dim()), x.dim())
    return lambda t: t.permute(order)


def _expand(x: torch.Tensor, r: random.Random) -> Step | None:
    if x.dim() > 4:
        return None
    sizes = [r.randint(2, 3) if s == 1 else -1 for s in x.shape]
    front = [r.randint(1, 2)] if r.random() < 0.4 else []
    return (lambda t: t.expand(*front, *sizes)) if front or sizes else None


def _reshape(x: torch.Tensor, r: random.Random) -> Step | None:
    n = x.numel()
    if n == 0:
        return None
    a = r.choice([k for k in range(1, n + 1) if n % k == 0])
    return lambda t: t.reshape(a, n // a)


def _unsqueeze(x: torch.Tensor, r: random.Random) -> Step | None:
    d = r.randint(0, x.dim())
    return (lambda t: t.unsqueeze(d)) if x.dim() < 5 else None


def _unfold(x: torch.Tensor, r: random.Random) -> Step | None:
    dims = [d for d in range(x.dim()) if x.size(d) >= 2]
    if not dims or x.dim() > 4:
        return None
    d = r.choice(dims)
    size = r.randint(1, x.size(d))
    step = r.randint(1, 2)
    return lambda t: t.unfold(d, size, step)


def _as_strided(x: torch.Tensor, r: random.Random) -> Step | None:
    room = x.untyped_storage().nbytes() // x.element_size()
    sizes = [r.randint(1, 3) for _ in range(r.randint(1, 3))]
    strides = [r.randint(1, 4) for _ in sizes]
    span = sum((s - 1) * t for s, t in zip(sizes, strides, strict=True)) + 1
    if span > room:
        return None
    offset = r.randint(0, room - span)
    return lambda t: t.as_strided(sizes, strides, offset)


def _diagonal(x: torch.Tensor, r: random.Random) -> Step | None:
    return (lambda t: t.diagonal()) if x.dim() == 2 and min(x.shape) > 0 else None


def _view_dtype(x: torch.Tensor, r: random.Random) -> Step | None:
    same = {4: [torch.int32, torch.float32], 8: [torch.int64, torch.float64, torch.complex64], 2: [torch.int16]}
    if x.is_conj():
        return None
    if r.random() < 0.3 and x.element_size() > 1 and x.dim() > 0 and x.stride(-1) == 1 and x.is_contiguous():
        return lambda t: t.view(torch.uint8)
    wanted = r.choice(same.get(x.element_size(), [x.dtype]))
    return lambda t: t.view(wanted)


VIEWS = [
    _slice, _slice, _select, _transpose, _permute, _expand, _reshape, _unsqueeze, _unfold, _as_strided, _diagonal, _view_dtype,
]  # fmt: skip


def _numbers(shape: torch.Size, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randint(0, 50, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _overlaps(x: torch.Tensor) -> bool:
    """Whether several elements lie at one place, so that a write has no one result."""
    places = torch.arange(x.untyped_storage().nbytes() // x.element_size()).as_strided(
        x.size(), x.stride(), x.storage_offset()
    )
    return places.unique().numel() < x.numel()


def _write(x: torch.Tensor, r: random.Random) -> Step | None:
    if _overlaps(x):
        return None
    seed, kind = r.randrange(1 << 30), r.randrange(8)
    if x.dtype in (torch.float32, torch.float64, torch.bfloat16, torch.complex64) and kind in (1, 4):
        kind = 0  # bits that were seen as another dtype may be NaN or huge: only moves are exact then
    values = _numbers(x.shape, x.dtype, seed)

    def do(t: torch.Tensor) -> torch.Tensor:
        given = values.to(t.device)
        if kind == 0:
            t.copy_(given)
        elif kind == 1:
            t.add_(3)
        elif kind == 2:
            t.fill_(7)
        elif kind == 3 and t.dim() > 0 and t.size(0) > 0:
            t[0] = given[0]
        elif kind == 4 and t.dim() > 0 and t.size(0) > 1:
            t[1:] += 1
        elif kind == 5:
            torch.add(given, given, out=t)
        elif kind == 6 and t.dim() > 0 and t.size(0) > 0:
            index = torch.tensor([0, t.size(0) - 1][: t.size(0)], device=t.device)
            t.index_put_((index[-1:],), given[:1])
        else:
            t.masked_fill_(given.real > 25 if t.is_complex() else given > 25, 1)
        return t

    return do


def make_chain(seed: int) -> tuple[torch.Tensor, list[tuple[str, Step]]]:
    """A base tensor and a chain of steps that fit it, drawn by running them on the CPU."""
    r = random.Random(seed)
    base = _numbers(torch.Size(r.choice(SHAPES)), r.choice(DTYPES), seed)
    steps: list[tuple[str, Step]] = []
    x = base.clone()
    for _ in range(r.randint(2, 8)):
        make = _write if r.random() < 0.35 else r.choice(VIEWS)
        step = make(x, r)
        if step is None:
            continue
        x = step(x)
        steps.append((make.__name__, step))
    step = _write(x, r)
    return base, [*steps, ("_write", step)] if step else steps


def run(base: torch.Tensor, steps: list[tuple[str, Step]]) -> tuple[torch.Tensor, ...]:
    """All that the chain saw, and the base at the end."""
    x = base
    seen = []
    for _, step in steps:
        x = step(x)
        seen.append(x.clone())
    return (*seen, base)


def bits(x: torch.Tensor) -> torch.Tensor:
    dense = torch.empty(x.shape, dtype=x.dtype).copy_(x)
    return dense.view(-1).view(torch.uint8)


def compare(
    seed: int, steps: list[tuple[str, Step]], expected: tuple[torch.Tensor, ...], got: tuple[torch.Tensor, ...]
):
    names = [name for name, _ in steps] + ["base"]
    for i, (e, g) in enumerate(zip(expected, got, strict=True)):
        assert e.shape == g.shape and e.stride() == g.cpu().stride() and e.dtype == g.dtype, (seed, names[: i + 1])
        assert torch.equal(bits(e), bits(g)), f"chain {seed}: after {names[: i + 1]}: expected {e}, got {g.cpu()}"


@pytest.mark.parametrize("first", range(0, CHAINS, BLOCK))
def test_eager_chains_equal_the_cpu(first: int, eager_mode: str):
    for seed in range(first, first + BLOCK):
        base, steps = make_chain(seed)
        expected = run(base.clone(), steps)
        compare(seed, steps, expected, run(base.to("tpu"), steps))


@pytest.mark.parametrize("first", range(0, CHAINS, BLOCK))
def test_compiled_chains_equal_the_cpu(first: int):
    """The chain as one program: what the capture of torch.compile records, without Dynamo's time."""
    from torch_tpu import _C

    for seed in range(first, first + BLOCK):
        base, steps = make_chain(seed)
        expected = run(base.clone(), steps)
        compiled = _C.CompiledFunction(lambda x, steps=steps: list(run(x, steps)))
        compare(seed, steps, expected, tuple(compiled([base.to("tpu")])))


@pytest.mark.parametrize("seed", range(12))
def test_dynamo_chains_equal_the_cpu(seed: int):
    base, steps = make_chain(seed + 5000)

    def compiled(backend: str, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        torch._dynamo.reset()
        return torch.compile(lambda x: run(x, steps), backend=backend, dynamic=False)(x)

    try:
        expected = compiled("aot_eager", base.clone())
    except torch._dynamo.exc.BackendCompilerFailed:  # PyTorch refuses some writes into overlapping views in any graph
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            compiled("tpu", base.to("tpu"))
    else:
        compare(seed, steps, expected, compiled("tpu", base.to("tpu")))
