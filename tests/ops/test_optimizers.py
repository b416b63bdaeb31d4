# SPDX-License-Identifier: Apache-2.0
"""PyTorch's optimizer database on tpu, against the plainest form of the same optimizer on the CPU.

Each set of arguments as a loop, foreach, fused and differentiable where the optimizer has it, capturable where it can be, and
with tensors as numbers (on the CPU and on tpu).

pytest tests/ops/test_optimizers.py              a sample
pytest tests/ops/test_optimizers.py --all-ops    everything
"""

import copy
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import opinfo
import pytest
import torch
from torch.testing._internal.common_optimizers import optim_db

OPTIMIZERS = {info.name: info for info in optim_db}
SAMPLE = 16  # one unit in so many
STEPS = 4

# What does not pass, and why; by the beginning of a unit's name. Strict: an entry that passes fails.
EXPECTED = {"SparseAdam-": "gradients must be sparse, and tpu has no sparse tensors"}


@dataclass(frozen=True)
class Unit:
    """An optimizer, one set of its arguments (by its name in the database), a form of it, and the parameters' dtype."""

    optimizer: str
    arguments: str
    form: str
    dtype: str = "float32"

    def __str__(self) -> str:
        return f"{self.optimizer}-{self.arguments}-{self.form}-{self.dtype}"

    def chosen(self) -> bool:
        return zlib.crc32(str(self).encode()) % SAMPLE == 0


def inputs(name: str) -> dict[str, dict[str, Any]]:
    """The sets of arguments: what CUDA has, as tpu can be captured, too; and a tensor as the learning rate."""
    info = OPTIMIZERS[name]
    found = {i.desc: dict(i.kwargs) for i in info.optim_inputs_func("cuda")}
    found.setdefault("Tensor lr", {"lr": torch.tensor(0.01)})
    if info.has_capturable_arg:
        found |= {
            f"{desc}, capturable": kw | {"capturable": True} for desc, kw in found.items() if "capturable" not in kw
        }
    on_device = {
        f"{desc}, on tpu": kw for desc, kw in found.items() if any(isinstance(x, torch.Tensor) for x in kw.values())
    }
    return found | on_device


def units() -> list[Unit]:
    result = []
    for name, info in OPTIMIZERS.items():
        for desc, kw in inputs(name).items():
            for form in ("loop", *info.supported_impls):
                tensor = any(isinstance(x, torch.Tensor) for x in kw.values())
                if form == "foreach" and tensor and not kw.get("capturable"):
                    continue  # PyTorch refuses it
                if name == "LBFGS" and form == "differentiable":
                    continue
                result.append(Unit(name, desc, form))
                if desc == "default":
                    if name != "LBFGS":  # it diverges, on the CPU as well
                        result.append(Unit(name, desc, form, "bfloat16"))
                    if info.supports_complex and form != "fused":
                        result.append(Unit(name, desc, form, "complex64"))
    return result


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "unit" in metafunc.fixturenames:
        config = metafunc.config
        every = config.getoption("--all-ops") or config.option.keyword
        metafunc.parametrize("unit", [unit for unit in units() if every or unit.chosen()], ids=str)


def map_numbers(f: Callable[[torch.Tensor], Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(f(y) for y in x) if isinstance(x, tuple) else f(x) for k, x in kwargs.items()}


def arguments(unit: Unit, device: str) -> dict[str, Any]:
    kwargs = dict(inputs(unit.optimizer)[unit.arguments])
    if device == "cpu":
        kwargs.pop("capturable", None)
        kwargs = map_numbers(lambda x: x.item() if isinstance(x, torch.Tensor) else x, kwargs)
    elif unit.arguments.endswith("on tpu"):
        kwargs = map_numbers(lambda x: x.to("tpu") if isinstance(x, torch.Tensor) else x, kwargs)
    for form in OPTIMIZERS[unit.optimizer].supported_impls:
        kwargs[form] = device == "tpu" and form == unit.form
    return kwargs


class Trained:
    """Two groups of parameters, and an optimizer for them."""

    def __init__(self, unit: Unit, device: str) -> None:
        self.unit, self.device = unit, device
        self.info = OPTIMIZERS[unit.optimizer]
        self.dtype = getattr(torch, unit.dtype)
        opinfo.seed(4)
        shapes = [(3, 4), (5, 2), (2, 2)] if unit.optimizer == "Muon" else [(3, 4), (5,), ()]
        leaves = [torch.randn(s, dtype=self.dtype).to(device).requires_grad_() for s in shapes]
        if arguments(unit, device).get("differentiable"):
            leaves = [x.clone() for x in leaves]  # a leaf cannot be written where gradients are recorded
        self.parameters = leaves
        self.frozen = torch.zeros(2, 2, dtype=self.dtype, device=device, requires_grad=True)  # never has a gradient
        self.optimizer = self.make()

    def make(self) -> torch.optim.Optimizer:
        groups: list[Any] = [*self.parameters, self.frozen]
        if self.info.supports_param_groups:
            groups = [
                {"params": self.parameters[:2]},
                {"params": [self.parameters[2], self.frozen], "weight_decay": 0.2},
            ]
            if self.unit.optimizer in ("Rprop", "SparseAdam"):
                del groups[1]["weight_decay"]
        return self.info.optim_cls(groups, **arguments(self.unit, self.device))

    def closure(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = sum((x * x.conj()).real.sum() * (i + 1) for i, x in enumerate(self.parameters))
        loss.backward()
        return loss

    def step(self, k: int) -> None:
        if self.info.step_requires_closure:
            self.optimizer.step(self.closure)
            return
        opinfo.seed(100 + k)
        for x in self.parameters:
            gradient = torch.randn(x.shape, dtype=self.dtype).to(self.device)
            x.grad = gradient.to_sparse() if self.info.only_supports_sparse_grads else gradient
        self.optimizer.step()

    def reload(self) -> None:
        """A new optimizer which goes on from the state of the old one."""
        state = copy.deepcopy(self.optimizer.state_dict())
        self.optimizer = self.make()
        self.optimizer.load_state_dict(state)

    def state(self) -> list[Any]:
        if self.unit.optimizer == "LBFGS":  # differences of almost equal numbers
            return [{k: self.optimizer.state[self.parameters[0]][k] for k in ("func_evals", "n_iter")}]
        kept = [self.optimizer.state[p] for p in [*self.parameters, self.frozen] if p in self.optimizer.state]
        # A step count is a number, or a tensor of one element on either device.
        return [
            {k: float(x) if k == "step" else x for k, x in sorted(state.items()) if x is not None} for state in kept
        ]


def check(unit: Unit) -> None:
    before = dict(torch.tpu.counters()["fallbacks"])
    here, there = Trained(unit, "cpu"), Trained(unit, "tpu")
    for k in range(STEPS):
        here.step(k)
        there.step(k)
        if k == 1 and unit.form != "differentiable":
            here.reload()
            there.reload()
    complaint = opinfo.difference(here.parameters, there.parameters, 4)
    assert not complaint, f"parameters: {complaint}"
    complaint = opinfo.difference(here.state(), there.state(), 4)
    assert not complaint, f"state: {complaint}"
    assert all(x.device.type == "tpu" for x in there.parameters)
    assert dict(torch.tpu.counters()["fallbacks"]) == before, "a part ran on the CPU"


@pytest.mark.filterwarnings("ignore")
def test_optimizer(unit: Unit) -> None:
    if any(str(unit).startswith(beginning) for beginning in EXPECTED):
        with pytest.raises((RuntimeError, NotImplementedError)):
            check(unit)
    else:
        check(unit)


def test_expectations_match_units() -> None:
    names = [str(unit) for unit in units()]
    assert all(any(name.startswith(beginning) for name in names) for beginning in EXPECTED)
    assert sum(name.startswith(tuple(EXPECTED)) for name in names) <= 0.03 * len(names)
