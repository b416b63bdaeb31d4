# SPDX-License-Identifier: Apache-2.0
"""PyTorch's module database against the CPU: construction, moves, forward, backward, train and eval.

pytest tests/ops/test_modules.py              a sample of modules, a few inputs each
pytest tests/ops/test_modules.py --all-ops    every module, up to 40 inputs each
"""

import copy
import zlib
from dataclasses import dataclass
from typing import Any

import opinfo
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence
from torch.testing._internal.common_modules import module_db

MODULES = {info.name: info for info in module_db}
SAMPLE = 9  # one unit in so many
FEW, MANY = 3, 40  # inputs of each unit


@dataclass(frozen=True)
class Unit:
    """A module, a dtype and, where they differ, train or eval."""

    module: str
    dtype: str
    mode: str

    def __str__(self) -> str:
        return f"{self.module}-{self.mode}-{self.dtype}"

    def chosen(self) -> bool:
        return zlib.crc32(str(self).encode()) % SAMPLE == 0


def units() -> list[Unit]:
    return [
        Unit(name, dtype, mode)
        for name, info in MODULES.items()
        for dtype in ("float32", "bfloat16", "complex64")
        if dtype != "complex64" or torch.complex64 in info.dtypes
        for mode in (("train", "eval") if info.train_and_eval_differ else ("train",))
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "unit" in metafunc.fixturenames:
        config = metafunc.config
        every = config.getoption("--all-ops") or config.option.keyword
        metafunc.parametrize("unit", [unit for unit in units() if every or unit.chosen()], ids=str)


def copied(tree: Any, device: str) -> Any:
    """The arguments on `device`, as leaves."""
    if isinstance(tree, PackedSequence):
        return tree.to(device)
    if isinstance(tree, tuple | list):
        return type(tree)(copied(x, device) for x in tree)
    if isinstance(tree, dict):
        return {name: copied(x, device) for name, x in tree.items()}
    return opinfo.placed(tree, device) if isinstance(tree, torch.Tensor) else tree


def tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors of arguments or results, packed sequences included."""
    if isinstance(tree, PackedSequence):
        return [tree.data]
    if isinstance(tree, tuple | list):
        return [x for element in tree for x in tensors(element)]
    if isinstance(tree, dict):
        return tensors(list(tree.values()))
    return opinfo.tensors(tree)


def gradients(module: nn.Module, arguments: Any, result: Any) -> dict[str, torch.Tensor | None]:
    """The gradients of all parameters and floating-point inputs, for one fixed gradient of the results."""
    outputs = [x for x in tensors(result) if x.requires_grad]
    inputs = {f"input {i}": x for i, x in enumerate(tensors(arguments)) if x.requires_grad and x.is_leaf}
    inputs |= {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not outputs or not inputs:
        return {}
    opinfo.seed(3)
    given = [torch.randn(x.shape, dtype=x.dtype).to(x.device) for x in outputs]
    found = torch.autograd.grad(outputs, list(inputs.values()), given, allow_unused=True)
    return dict(zip(inputs, found, strict=True))


def make(unit: Unit, sample: Any) -> nn.Module:
    opinfo.seed(2)
    args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
    module = MODULES[unit.module].module_cls(*args, **kwargs)
    return module.to(getattr(torch, unit.dtype)).train(unit.mode == "train")


def moved(unit: Unit, sample: Any, here: nn.Module) -> nn.Module:
    """The same module on tpu, with the state of `here`: moved, and its state loaded from the CPU's."""
    there = copy.deepcopy(make(unit, sample))
    parameters = list(there.parameters())
    assert there.to("tpu") is there
    assert all(a is b for a, b in zip(parameters, there.parameters(), strict=True)), "parameters were replaced"
    lazy = MODULES[unit.module].is_lazy
    if not lazy:
        for p in there.parameters():
            p.data.zero_()
        missing = there.load_state_dict(here.state_dict())
        assert not missing.missing_keys and not missing.unexpected_keys
        back = {name: x for name, x in there.state_dict().items() if isinstance(x, torch.Tensor)}
        assert all(x.device.type == "tpu" for x in back.values())
        assert all(torch.equal(x.cpu(), here.state_dict()[name]) for name, x in back.items())
    return there


def call(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    opinfo.seed(1)
    return module(*arguments, **named)


def compare_sample(unit: Unit, sample: Any) -> bool:
    """Runs one input on both devices; false if the CPU refuses it."""
    differentiable = unit.dtype != "bfloat16"
    given = (tuple(sample.forward_input.args), dict(sample.forward_input.kwargs))
    here = make(unit, sample)
    there = moved(unit, sample, here)
    if MODULES[unit.module].is_lazy:  # parameters are made, on their device, by the first call
        call(here, *copied(given, "cpu"))
        call(there, *copied(given, "tpu"))
        there.load_state_dict(here.state_dict())
        assert all(p.device.type == "tpu" for p in there.parameters())
    here_inputs, there_inputs = copied(given, "cpu"), copied(given, "tpu")
    try:
        expected = call(here, *here_inputs)
    except (RuntimeError, NotImplementedError):
        if unit.dtype == "float32":
            raise
        return False
    actual = call(there, *there_inputs)

    def check(what: str, e: Any, a: Any) -> None:
        left, right = tensors(e), tensors(a)
        assert len(left) == len(right), what
        complaint = opinfo.difference(left, right, 4 if unit.dtype == "bfloat16" else 1)
        assert not complaint, f"{what} of {sample.desc or sample.constructor_input.args}: {complaint}"
        assert all(x.device.type == "tpu" for x in right), what

    check("the result", expected, actual)
    check("the buffers", list(here.buffers()), list(there.buffers()))
    if differentiable:
        e = gradients(here, here_inputs, expected)
        a = gradients(there, there_inputs, actual)
        assert e.keys() == a.keys()
        for name in e:
            assert (e[name] is None) == (a[name] is None), name
            check(f"the gradient of {name}", e[name], a[name])
    return True


@pytest.mark.filterwarnings("ignore")
def test_module(unit: Unit, request: pytest.FixtureRequest) -> None:
    info = MODULES[unit.module]
    opinfo.seed()
    found = info.module_inputs_func(
        info,
        device="cpu",
        dtype=getattr(torch, unit.dtype),
        requires_grad=unit.dtype != "bfloat16",
        training=unit.mode == "train",
    )
    samples = list(found)
    most = MANY if request.config.getoption("--all-ops") else FEW
    if len(samples) > most:
        samples = [samples[round(i * (len(samples) - 1) / (most - 1))] for i in range(most)]
    before = dict(torch.tpu.counters()["fallbacks"])
    compared = [compare_sample(unit, sample) for sample in samples]
    if not any(compared):
        pytest.skip("the CPU has no result to compare with")
    assert dict(torch.tpu.counters()["fallbacks"]) == before, "a part ran on the CPU"
