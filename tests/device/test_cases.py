# SPDX-License-Identifier: Apache-2.0
"""Small programs of the kinds that went wrong for users of other backends, with their siblings, against the CPU."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

HALVES = [torch.bfloat16, torch.float16]


def outcome(code, device):
    """The tensors, or the class of the error."""
    try:
        result = code(device)
        return [t.cpu() for t in ((result,) if isinstance(result, torch.Tensor) else result)]
    except (RuntimeError, IndexError, ValueError) as error:
        return type(error)


def check(code, **tolerance):
    expected, got = outcome(code, "cpu"), outcome(code, "tpu")
    if isinstance(expected, type) or isinstance(got, type):
        assert expected is got
        return
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True, **tolerance)


# ---- numbers with tensors of 16 bits: to the bit

WITH_NUMBERS = {
    "x + n": lambda x, n: x + n,
    "n + x": lambda x, n: n + x,
    "x - n": lambda x, n: x - n,
    "n - x": lambda x, n: n - x,
    "x * n": lambda x, n: x * n,
    "x / n": lambda x, n: x / n,
    "fmod": lambda x, n: torch.fmod(x, n),
    "x % n": lambda x, n: x % n,
    "n % x": lambda x, n: torch.remainder(n, x),
    "x // n": lambda x, n: x // n,
    "add_": lambda x, n: x.clone().add_(n),
    "sub_": lambda x, n: x.clone().sub_(n),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "negative alpha": lambda x, n: torch.sub(x, x * 2, alpha=n),
    "lerp": lambda x, n: torch.lerp(x, x * 2, n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "addcdiv": lambda x, n: torch.addcdiv(x, x, x.abs() + 1, value=n),
    "0-d of the device": lambda x, n: x + torch.tensor(n, device=x.device),
    "0-d of the CPU": lambda x, n: x + torch.tensor(n),
    "0-d float64": lambda x, n: x * torch.tensor(n, dtype=torch.float64),
    "clamp": lambda x, n: x.clamp(-n, n),
    "x > n": lambda x, n: x > n,
    "x == n": lambda x, n: x == n,
    "where": lambda x, n: torch.where(x > 0, x, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "full_like": lambda x, n: torch.full_like(x, n),
    "foreach add": lambda x, n: torch._foreach_add([x], n)[0],
    "foreach mul": lambda x, n: torch._foreach_mul([x], n)[0],
    "leaky_relu": lambda x, n: F.leaky_relu(x, n),
    "threshold": lambda x, n: F.threshold(x, n, n),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("number", [0.1, 1 / 3, 2.5, 3], ids=str)
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers_with_halves(name, number, dtype):
    x = (torch.arange(-64, 65) / 16).to(dtype)
    check(lambda d: WITH_NUMBERS[name](x.to(d), number), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("exponent", [-2, -1, 0, 0.5, 1, 2, 2.0, 3, 1.5])
def test_powers_of_halves(dtype, exponent):
    x = torch.arange(10).to(dtype)
    check(lambda d: x.to(d) ** exponent)
    check(lambda d: exponent ** (x.to(d) / 4))


# x [5, 6], v [6], r [1, 6], b [3, 5, 6], c [3, 1, 6]
WITH_A_VECTOR = {
    "matrix times vector": lambda x, v, r, b, c: x.mv(v),
    "vector times matrix": lambda x, v, r, b, c: v @ x.T,
    "row times matrix": lambda x, v, r, b, c: r @ x.T,
    "matrix times column": lambda x, v, r, b, c: x @ r.T,
    "rows times matrices": lambda x, v, r, b, c: torch.bmm(c, b.mT),
    "matrices times columns": lambda x, v, r, b, c: torch.bmm(b, c.mT),
    "row times row": lambda x, v, r, b, c: (v.dot(v), r @ r.T),
    "column times row": lambda x, v, r, b, c: r.T @ r,
    "layer of a vector": lambda x, v, r, b, c: F.linear(v, x, x[:, 0]),
    "layer of a row": lambda x, v, r, b, c: F.linear(c[:1], x),
    "no columns": lambda x, v, r, b, c: r @ x[:0].T,
    "nothing summed": lambda x, v, r, b, c: r[:, :0] @ x[:, :0].T,
    "added": lambda x, v, r, b, c: (torch.baddbmm(c[:, :, :5], c, b.mT), torch.addmv(x[:, 0], x, v)),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", WITH_A_VECTOR)
def test_products_with_a_vector(name, dtype):
    numbers = torch.Generator().manual_seed(0)
    shapes = [(5, 6), (6,), (1, 6), (3, 5, 6), (3, 1, 6)]
    arguments = [torch.randint(-3, 4, shape, generator=numbers).to(dtype) for shape in shapes]
    check(lambda d: WITH_A_VECTOR[name](*(x.to(d) for x in arguments)), rtol=0, atol=0)


# ---- no elements

EMPTY = [(0,), (0, 3), (3, 0), (2, 0, 3)]
REDUCTIONS = {
    **{
        n: (lambda x, *a, n=n: getattr(x, n)(*a))
        for n in ("sum", "prod", "mean", "max", "min", "amax", "amin", "all", "any")
    },
    **{n: (lambda x, *a, n=n: getattr(x, n)(*a)) for n in ("nansum", "count_nonzero", "median", "nanmedian", "mode")},
    **{
        n: (lambda x, a=0, n=n: getattr(x, n)(a))
        for n in ("cumsum", "cumprod", "softmax", "logsumexp", "sort", "argsort")
    },
}


@pytest.mark.parametrize("shape", EMPTY, ids=str)
@pytest.mark.parametrize("dim", [(), (0,), (-1,)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_nothing(name, shape, dim):
    check(lambda d: REDUCTIONS[name](torch.zeros(shape, device=d), *dim))


def e(d, *shape, dtype=torch.float32):
    return torch.ones(shape, device=d, dtype=dtype)


NOTHING = {
    "matmul of no rows": lambda d: e(d, 0, 3) @ e(d, 3, 2),
    "matmul over nothing": lambda d: e(d, 2, 0) @ e(d, 0, 3),
    "bmm of no batch": lambda d: torch.bmm(e(d, 0, 2, 3), e(d, 0, 3, 4)),
    "addmm over nothing": lambda d: torch.addmm(e(d, 2, 3), e(d, 2, 0), e(d, 0, 3)),
    "dot": lambda d: torch.dot(e(d, 0), e(d, 0)),
    "conv": lambda d: F.conv2d(e(d, 0, 3, 5, 5), e(d, 2, 3, 3, 3)),
    "max_pool": lambda d: F.max_pool2d(e(d, 0, 3, 4, 4), 2),
    "layer_norm": lambda d: F.layer_norm(e(d, 0, 4), (4,)),
    "group_norm": lambda d: F.group_norm(e(d, 0, 4, 2), 2),
    "batch_norm": lambda d: F.batch_norm(e(d, 0, 4), e(d, 4), e(d, 4)),
    "embedding": lambda d: F.embedding(e(d, 0, dtype=torch.int64), e(d, 3, 2)),
    "embedding of nothing": lambda d: F.embedding(e(d, 1, dtype=torch.int64), e(d, 0, 2)),
    "gather": lambda d: e(d, 3, 4).gather(1, e(d, 0, 4, dtype=torch.int64)),
    "scatter": lambda d: e(d, 3, 4).scatter(1, e(d, 0, 4, dtype=torch.int64), 1.0),
    "index_add": lambda d: e(d, 3, 4).index_add(0, e(d, 0, dtype=torch.int64), e(d, 0, 4)),
    "index by none of none": lambda d: e(d, 0, 3)[e(d, 0, dtype=torch.bool)],
    "index_put": lambda d: e(d, 3).index_put((e(d, 0, dtype=torch.int64),), e(d, 0)),
    "cat": lambda d: torch.cat([e(d, 0), e(d, 2, 3)]),
    "stack": lambda d: torch.stack([e(d, 0, 3)] * 2),
    "roll": lambda d: e(d, 0, 3).roll(1, 0),
    "pad": lambda d: F.pad(e(d, 2, 0), (1, 1)),
    "repeat": lambda d: e(d, 2, 3).repeat(0, 2),
    "cross_entropy": lambda d: F.cross_entropy(e(d, 0, 4), e(d, 0, dtype=torch.int64)),
    "attention without queries": lambda d: F.scaled_dot_product_attention(
        e(d, 1, 2, 0, 4), e(d, 1, 2, 3, 4), e(d, 1, 2, 3, 4)
    ),
    "attention without keys": lambda d: F.scaled_dot_product_attention(
        e(d, 1, 2, 3, 4), e(d, 1, 2, 0, 4), e(d, 1, 2, 0, 4)
    ),
    "dropout": lambda d: F.dropout(e(d, 0, 3)),
    "random": lambda d: (torch.randn(0, 3, device=d), torch.randint(0, 5, (0,), device=d), torch.randperm(0, device=d)),
    "searchsorted": lambda d: torch.searchsorted(e(d, 0), e(d, 3)),
    "linalg": lambda d: (torch.linalg.inv(e(d, 0, 0)), torch.linalg.det(e(d, 0, 0)), torch.linalg.cholesky(e(d, 0, 0))),
    "broadcast": lambda d: e(d, 0, 1) + e(d, 1, 3),
    "bad broadcast": lambda d: e(d, 0) + e(d, 2),
    "item": lambda d: torch.tensor(e(d, 0).item()),
    "view": lambda d: e(d, 0, 3).view(-1, 0),
    "einsum": lambda d: torch.einsum("ij,jk->ik", e(d, 2, 0), e(d, 0, 3)),
    "one_hot": lambda d: F.one_hot(e(d, 0, dtype=torch.int64), 3),
    "nonzero": lambda d: (torch.zeros(4, device=d).nonzero(), e(d, 0).nonzero(), e(d, 0).unique()),
    "masked_select": lambda d: e(d, 3).masked_select(e(d, 3) > 5),
    "split": lambda d: e(d, 4, 2).split([0, 4]),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing(name, eager_mode):
    check(NOTHING[name])


# ---- places in memory

PLACES = {
    "data rebound": lambda x: _rebound(x),
    "out= transposed": lambda x: torch.mul(x, 2, out=torch.empty(4, 3, dtype=x.dtype, device=x.device).T),
    "out= sliced": lambda x: _out_into(x, lambda b: b[1:4, ::2][:, :4]),
    "column in place": lambda x: _column(x),
    "masked_fill_ transposed": lambda x: x.clone().T.masked_fill_(x.T > 3, -1),
    "copy_ across": lambda x: x.clone().T.copy_(x.T.flip(0)),
    "strided of a slice": lambda x: x[1:].as_strided((2, 2), (1, 4)).clone(),
    "unfold": lambda x: x.unfold(1, 2, 1)[:, 1].clone(),
    "places of nonzero": lambda x: (x.nonzero().as_strided((3,), (4,), 1).clone(), x.nonzero().T.view(torch.uint8)),
    "view as bytes": lambda x: x.view(torch.uint8).clone(),
    "diagonal written": lambda x: _diagonal(x),
    "chained slices written": lambda x: _chained(x),
    "six dims": lambda x: x.reshape(1, 3, 1, 2, 1, 2).permute(5, 3, 1, 0, 2, 4).contiguous().sum((0, 3)),
}


def _rebound(x):
    a, view = x.clone(), None
    view = a[1]
    a.data = x + 10
    a.add_(1)
    return a, view


def _out_into(x, place):
    base = torch.zeros(5, 9, dtype=x.dtype, device=x.device)
    torch.add(x, 1, out=place(base))
    return base


def _column(x):
    y = x.clone()
    y[:, 1].mul_(3)
    y[1:, ::2] += 1
    return y


def _diagonal(x):
    y = x.clone()
    y.diagonal().fill_(7)
    y[[0, 2], [1, 3]] = 9
    return y


def _chained(x):
    y = x.clone()
    y[1:][:, 2:][0] = 5
    y.view(-1)[::5].sub_(1)
    return y


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.float64, torch.uint8], ids=str
)
@pytest.mark.parametrize("name", PLACES)
def test_places(name, dtype, eager_mode):
    check(lambda d: PLACES[name](torch.arange(12).reshape(3, 4).to(dtype).to(d)), rtol=0, atol=0)


# ---- integers, NaN and ties

ORDER = {
    "argmax": lambda x: (x.argmax(), x.argmax(0), x.argmin(-1)),
    "max": lambda x: (*x.max(0), *x.min(1)),
    "sort": lambda x: (*x.sort(dim=-1, stable=True), *x.sort(dim=0, descending=True, stable=True)),
    "topk": lambda x: x.topk(2)[0],
    "cummax": lambda x: (*x.cummax(0), *x.cummin(1)),
    "extrema": lambda x: (x.amax(), x.amin(0), torch.maximum(x, x.flip(0)), torch.fmax(x, x.flip(1)), x.clamp(1, 2)),
    "median": lambda x: (x.median(), x.nanmedian(), x.median(1)[0]),
}


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize(
    "values",
    [[1.0, float("nan"), 1.0, -0.0, 0.0, float("inf")], [2.0, 2.0, 1.0, 1.0, 3.0, 3.0]],
    ids=["nan", "ties"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_order(name, values, dtype):
    check(lambda d: ORDER[name](torch.tensor(values, device=d, dtype=dtype).reshape(2, 3)), rtol=0, atol=0)


INTEGERS = {
    "division": lambda x, y: (x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y), x / y),
    "sums": lambda x, y: (x.sum(), x.cumsum(0), x.prod(), (x * y).sum()),
    "overflow": lambda x, y: (x * x * x, x + 127, x - 128, -x),
    "bits": lambda x, y: (x & y, x | y, x ^ y, ~x, x << 1, x >> 1),
    "comparisons": lambda x, y: (x < y, x == -1, x.abs(), x.sign(), x.clamp(0, 2)),
    "mixed": lambda x, y: (x + 0.5, x * True, x + y.float(), torch.where(x > 0, x, 0)),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8], ids=str)
def test_integers(name, dtype):
    x, y = torch.tensor([-7, -1, 0, 5, 100]).to(dtype), torch.tensor([3, -2, 1, 4, 7]).to(dtype)
    check(lambda d: INTEGERS[name](x.to(d), y.to(d)))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("ignored", [0, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_ignored_targets(dtype, ignored, weighted):
    def loss(d):
        x = (torch.arange(12).reshape(4, 3) / 7).to(dtype).to(d).requires_grad_()
        target = torch.tensor([-100] * ignored + [1] * (4 - ignored), device=d)
        weight = torch.tensor([1.0, 2.0, 3.0], device=d, dtype=dtype) if weighted else None
        y = F.cross_entropy(x, target, weight)
        y.backward()
        return y.detach(), x.grad

    check(loss)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_modules_in_halves(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).to(dtype)
    x = torch.randn(5, 8).to(dtype)
    expected = model(x)
    torch.testing.assert_close(model.to("tpu")(x.to("tpu")).cpu(), expected, rtol=0.02, atol=0.02)
