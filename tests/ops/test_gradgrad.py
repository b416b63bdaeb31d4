# SPDX-License-Identifier: Apache-2.0
"""Second derivatives: gradgradcheck on tpu, in float64, for operators chosen by a fixed hash."""

import zlib
from typing import Any

import opinfo
import pytest
import torch
from torch.autograd import gradgradcheck
from torch.utils._pytree import tree_flatten, tree_unflatten

MOST_ELEMENTS = 200


def twice_differentiable() -> list[str]:
    names = [
        name
        for name, op in opinfo.OPS.items()
        if op.supports_gradgrad and op.supports_dtype(torch.float64, "cpu") and "sparse" not in name
    ]
    return sorted(names, key=lambda name: zlib.crc32(name.encode()))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", twice_differentiable()[: 60 if metafunc.config.getoption("--all-ops") else 12])


def small_sample(op: Any) -> Any:
    opinfo.seed()
    for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True):
        leaves = [x for x in opinfo.tensors((sample.input, sample.args, sample.kwargs)) if x.requires_grad]
        if leaves and sum(x.numel() for x in leaves) <= MOST_ELEMENTS:
            return sample
    pytest.skip("no small sample")


@pytest.mark.filterwarnings("ignore")
def test_second_derivative(name: str) -> None:
    op = opinfo.OPS[name]
    sample = small_sample(op)
    flat, spec = tree_flatten(opinfo.on_device((sample.input, tuple(sample.args), dict(sample.kwargs))))
    places = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor) and x.requires_grad]

    def function(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = list(flat)
        for place, leaf in zip(places, leaves, strict=True):
            given[place] = leaf
        x, args, kwargs = tree_unflatten(given, spec)
        opinfo.seed(1)
        result = sample.output_process_fn_grad(op.gradcheck_wrapper(op.op, x, *args, **kwargs))
        return tuple(x for x in opinfo.tensors(result) if x.requires_grad)

    leaves = tuple(flat[i] for i in places)
    assert gradgradcheck(function, leaves, fast_mode=True, check_batched_grad=False, nondet_tol=1e-6)
