# SPDX-License-Identifier: Apache-2.0
"""Numbers that went wrong once, on sizes that the operator database does not have."""

import pytest
import torch

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("shape, dim", [((64, 800), (0, 1)), ((64, 800), 1), ((64, 800), 0), ((100000,), 0)])
@pytest.mark.parametrize("reduce", [torch.amax, torch.amin])
def test_extrema_of_large_tensors_keep_nan(reduce, shape, dim):
    x = torch.randn(shape)
    x.view(-1)[5] = torch.nan
    assert torch.equal(reduce(x.to("tpu"), dim).cpu().isnan(), reduce(x, dim).isnan())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [7, 64, 1000, 5000])
@pytest.mark.parametrize("name", ["atan", "asin", "tan", "tanh", "sinh", "log1p", "expm1", "erf", "sigmoid", "rsqrt"])
def test_unary_functions_of_long_arrays(name, size, dtype):
    function = getattr(torch, name)
    x = (torch.rand(size) * 1.9 - 0.95).to(dtype)
    torch.testing.assert_close(function(x.to("tpu")).cpu(), function(x), equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_arc_tangent_of_everything(dtype):
    x = torch.cat([torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0, 1.0]), torch.randn(1000) * 50]).to(dtype)
    result = torch.atan(x.to("tpu")).cpu()
    torch.testing.assert_close(result, torch.atan(x), equal_nan=True)
    assert torch.equal(result[3:].signbit(), torch.atan(x)[3:].signbit())


def products():
    yield "mm", lambda x: x @ x.mH
    yield "bmm", lambda x: torch.bmm(x[None], x.mH[None])
    yield "addmm", lambda x: torch.addmm(x.mH, x.mH, x)
    yield "vdot", lambda x: torch.vdot(x[0], x.mH[0])
    yield "out", lambda x: torch.mm(x, x.mH, out=torch.empty_like(x))
    yield "cov", torch.cov
    yield "copy", lambda x: torch.empty_like(x).copy_(x.conj())
    yield "write", lambda x: x.clone().conj().copy_(x).resolve_conj()
    yield "imaginary part", lambda x: x.conj().imag + 1


@pytest.mark.parametrize("function", [pytest.param(f, id=name) for name, f in products()])
def test_conjugated_views(function):
    x = torch.randn(3, 3, dtype=torch.complex64)
    torch.testing.assert_close(function(x.to("tpu")).cpu(), function(x))


WRONG_NUMBERS = {
    "bernoulli_": lambda x, wrong: x.bernoulli_(2.0 if wrong else 0.5),
    "cauchy_": lambda x, wrong: x.cauchy_(0, -1 if wrong else 1),
    "exponential_": lambda x, wrong: x.exponential_(-1 if wrong else 1),
    "geometric_": lambda x, wrong: x.geometric_(-1 if wrong else 0.5),
    "huber_loss": lambda x, wrong: torch.nn.functional.huber_loss(x, x, delta=-1.0 if wrong else 1.0),
    "log_normal_": lambda x, wrong: x.log_normal_(0, -1 if wrong else 1),
    "normal_": lambda x, wrong: x.normal_(0, -1 if wrong else 1),
    "random_": lambda x, wrong: x.random_(5, 2 if wrong else 7),
    "renorm": lambda x, wrong: x.renorm(2, 0, -1.0 if wrong else 1.0),
    "smooth_l1_loss": lambda x, wrong: torch.nn.functional.smooth_l1_loss(x, x, beta=-1.0 if wrong else 1.0),
    "uniform_": lambda x, wrong: x.uniform_(3, 1 if wrong else 5),
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_numbers_are_checked_at_each_call(name):
    """They are run-time operands: a remembered call has another number."""
    x = torch.ones(3, 3, device="tpu")
    WRONG_NUMBERS[name](x, False)
    with pytest.raises(RuntimeError) as on_cpu:
        WRONG_NUMBERS[name](x.cpu(), True)
    with pytest.raises(RuntimeError) as on_tpu:
        WRONG_NUMBERS[name](x, True)
    assert str(on_tpu.value).startswith(str(on_cpu.value)[:20])


def test_a_failed_call_is_told_once():
    weights = torch.tensor([-1.0, 0.0], device="tpu")  # negative, and their sum is too small
    with pytest.raises(RuntimeError, match="multinomial"):
        torch.multinomial(weights, 1).cpu()
    assert torch.ones(2, device="tpu").sum().item() == 2
    torch.tpu.synchronize()


def test_uniform_fills_both_parts_of_complex_numbers():
    x = torch.empty(1000, dtype=torch.complex64, device="tpu").uniform_(2, 3).cpu()
    for part in (x.real, x.imag):
        assert 2 <= part.min() < 2.1 and 2.9 < part.max() < 3
    assert not torch.equal(x.real, x.imag)


@pytest.mark.parametrize("training", [True, False])
def test_running_statistics(training):
    here, there = torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3).to("tpu")
    x = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(there.train(training)(x.to("tpu")).cpu(), here.train(training)(x))
    torch.testing.assert_close(there.running_var.cpu(), here.running_var)


@pytest.mark.parametrize("value", [2.0, torch.tensor(2.0)], ids=["number", "tensor"])
def test_masked_assignment(value, counted):
    x, mask = torch.randn(4, 5), torch.rand(4, 5) > 0.5
    y = x.to("tpu")
    there = mask.to("tpu")
    before = counted()["syncs"]
    y[there] = value
    assert counted()["syncs"] == before  # no search for the places
    x[mask] = value
    assert torch.equal(y.cpu(), x)
