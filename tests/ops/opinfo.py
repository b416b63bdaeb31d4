# SPDX-License-Identifier: Apache-2.0
"""One operator of PyTorch's own database, one check, one dtype: run on the CPU and on tpu, and compare.

As a script it runs all units, or those that match, and writes what came out, one JSON object a line:

  python tests/ops/opinfo.py --out results.jsonl [--check forward] [--dtype float32] [--only linalg] [--every 7]

A unit that ends the process is found at the next start (run it again: it goes on behind that unit).
"""

import argparse
import itertools
import json
import random
import re
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch
from agreement import difference, differing_kind, map_tensors, same, tensors, tie
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils._pytree import tree_map

SAMPLE_DTYPES = ["float32", "int64", "bool", "bfloat16", "complex64"]
ALL_DTYPES = [*SAMPLE_DTYPES, "float16", "float64", "int32", "uint8"]
OPS = {op.formatted_name: op for op in op_db}
COMPILED_DTYPES = ["float32", "int64", "bool"]
COMPILED = 3  # one operator in so many, by a fixed hash of its name, also under torch.compile
SAMPLES = 3  # of each unit, evenly spaced among the first 30
OUTCOMES = ["crash", "error", "wrong", "no error", "other error", "fallback", "pass", "none"]

WIDE = {torch.bfloat16: torch.float32, torch.float16: torch.float32}

# Sums whose terms cancel.
LOOSE = {"logcumsumexp": 20, "matrix_exp": 100}

# Factorizations are defined up to signs (and phases); the database's own normalization is tried, then magnitudes.
AMBIGUOUS = re.compile(r"^(linalg_(svd|eig|eigh|qr|ldl_factor|lu)|svd|qr|geqrf|svd_lowrank|pca_lowrank)")
# The order of equal values is open.
TIES = {"sort", "topk", "argsort", "kthvalue", "mode", "median", "nanmedian"}
# tensor_split reads its indices on the CPU.
HOST_ARGUMENTS = {"tensor_split"}


# Where a sample says unsafe=True, the CPU reads past the end of empty arguments.
CRASHES_ON_CPU = {"_segment_reduce_lengths"}
# Of a batch of none the CPU returns memory that it did not write.
UNWRITTEN_ON_CPU = {"nn_functional_multi_margin_loss"}


@dataclass(frozen=True)
class Unit:
    """An operator, a check and a dtype."""

    op: str
    check: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.op}-{self.check}-{self.dtype}"

    def chosen(self, every: int) -> bool:
        """Tells whether a fixed hash puts this unit into a sample of one in `every`."""
        return zlib.crc32(str(self).encode()) % every == 0


@dataclass
class Report:
    """What came out: the worst outcome, the first message of it, and the ops that ran on the CPU."""

    outcome: str = "none"
    message: str = ""
    fallbacks: list[str] = field(default_factory=list)

    def add(self, outcome: str, message: str = "") -> None:
        if OUTCOMES.index(outcome) < OUTCOMES.index(self.outcome):
            self.outcome, self.message = outcome, " ".join(message.split())[:300]


# The database fixes the seed inside of random ops, which would hide that they are random.
for _module in list(sys.modules.values()):
    if getattr(_module, "__name__", "").startswith("torch.testing._internal") and hasattr(_module, "wrapper_set_seed"):
        _module.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def units(dtypes: list[str] = ALL_DTYPES) -> list[Unit]:
    """All units, in the order of the database."""
    result = []
    for name, op in OPS.items():
        supported = [d for d in dtypes if op.supports_dtype(getattr(torch, d), "cpu")]
        result += [Unit(name, "forward", d) for d in supported]
        first = next((d for d in ("float32", "int64", "complex64", "bool") if d in supported), None)
        if first is None:
            continue
        if name not in CRASHES_ON_CPU:
            result.append(Unit(name, "layouts", first))
        if op.supports_out:
            result.append(Unit(name, "out", first))
        if op.inplace_variant:
            result.append(Unit(name, "inplace", first))
        if op.error_inputs_func:
            result.append(Unit(name, "errors", first))
        if op.supports_autograd:
            backward = op.supported_backward_dtypes("cpu")
            result += [Unit(name, "backward", d) for d in ("float32", "complex64") if getattr(torch, d) in backward]
        if zlib.crc32(name.encode()) % COMPILED == 0:
            result += [Unit(name, "compiled", d) for d in COMPILED_DTYPES if d in supported]
    return result


def seed(value: int = 0) -> None:
    torch.manual_seed(value)
    random.seed(value)
    numpy.random.seed(value)


def placed(x: torch.Tensor, device: str) -> torch.Tensor:
    """A copy with the same strides, offset and size of storage."""
    if x.layout != torch.strided or x.is_quantized:
        return x.detach().clone().to(device)
    whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    there = whole.clone().to(device).as_strided(x.shape, x.stride(), x.storage_offset())
    there = there.conj() if x.is_conj() else there
    there = there._neg_view() if x.is_neg() else there
    return there.detach().requires_grad_(x.requires_grad)


def copied(tree: Any) -> Any:
    return map_tensors(lambda x: placed(x, "cpu"), tree)


def on_device(tree: Any) -> Any:
    """The same arguments on tpu."""

    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return placed(x, "tpu")
        return torch.device("tpu") if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu") else x

    return tree_map(move, tree)


class Runner:
    """The checks of one unit."""

    def __init__(self, unit: Unit, samples: int = SAMPLES) -> None:
        self.unit = unit
        self.op = OPS[unit.op]
        self.dtype = getattr(torch, unit.dtype)
        self.samples = samples
        self.report = Report()

    def run(self) -> Report:
        before = dict(torch.tpu.counters()["fallbacks"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                getattr(self, self.unit.check)()
            except Exception as error:
                self.report.add("error", f"the check itself: {type(error).__name__}: {error}")
        after = torch.tpu.counters()["fallbacks"]
        self.report.fallbacks = sorted(name for name, count in after.items() if count > before.get(name, 0))
        if self.report.fallbacks and self.report.outcome == "pass":
            self.report.outcome, self.report.message = "fallback", ", ".join(self.report.fallbacks)
        return self.report

    # ---- samples and calls

    def inputs(self, requires_grad: bool = False) -> Iterator[Any]:
        seed()
        found = list(itertools.islice(self.op.sample_inputs("cpu", self.dtype, requires_grad=requires_grad), 30))
        if len(found) > self.samples:
            step = (len(found) - 1) / (self.samples - 1)
            found = [found[round(i * step)] for i in range(self.samples)]
        yield from found

    @staticmethod
    def arguments(sample: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return sample.input, tuple(sample.args), dict(sample.kwargs)

    def moved(self, arguments: Any) -> Any:
        if self.unit.op in HOST_ARGUMENTS:
            return (on_device(arguments[0]), *arguments[1:])
        return on_device(arguments)

    def call(self, arguments: Any, function: Callable[..., Any] | None = None, **more: Any) -> Any:
        x, args, kwargs = arguments
        seed(1)
        return (function or self.op.op)(x, *args, **kwargs, **more)

    def call_on_device(self, arguments: Any, function: Callable[..., Any] | None = None, **more: Any) -> Any:
        if tensors(arguments) or "device" in arguments[2]:
            return self.call(arguments, function, **more)
        with torch.device("tpu"):  # a factory whose sample names no device
            return self.call(arguments, function, **more)

    def is_random(self, arguments: Any, result: Any) -> bool:
        if "empty" in self.unit.op:
            return True
        for value in (77, 78, 79, 80):
            x, args, kwargs = copied(arguments)
            try:
                seed(value)
                again = self.op.op(x, *args, **kwargs)
            except Exception:
                return False
            if any(not same(a, b) for a, b in zip(tensors(result), tensors(again), strict=False)):
                return True
        return False

    # ---- comparisons

    def compare(self, expected: Any, actual: Any, sample: Any, arguments: Any) -> None:
        """Adds the outcome of one comparison."""
        complaint = self.complaint(expected, actual, sample, arguments)
        devices = {x.device.type for x in tensors(actual)}
        if not complaint and tensors(arguments) and devices - {"tpu"} and tensors(expected):
            complaint = f"the result is on {sorted(devices)}"
        self.report.add("wrong" if complaint else "pass", complaint)

    def complaint(self, expected: Any, actual: Any, sample: Any, arguments: Any) -> str:
        """Says how two results differ, or ""."""
        complaint = difference(expected, actual, LOOSE.get(self.unit.op, 1))
        if complaint and self.is_random(arguments, expected):
            return differing_kind(expected, actual)
        return "" if complaint and self.excused(expected, actual, sample, arguments) else complaint

    def complaint_of_gradients(self, expected: Any, actual: Any, arguments: Any) -> str:
        complaint = difference(expected, actual, 5 * LOOSE.get(self.unit.op, 1))
        if complaint and self.is_random(arguments, self.call(copied(arguments))):
            return differing_kind(expected, actual)
        return complaint

    def excused(self, expected: Any, actual: Any, sample: Any, arguments: Any) -> bool:
        actual = map_tensors(lambda x: x.cpu(), actual)
        try:
            if self.unit.op in TIES and tie(self.unit.op, expected, actual, arguments):
                return True
            if AMBIGUOUS.match(self.unit.op):
                if not difference(sample.output_process_fn_grad(expected), sample.output_process_fn_grad(actual)):
                    return True

                def size(tree: Any) -> Any:
                    return map_tensors(lambda x: x.abs() if x.is_floating_point() or x.is_complex() else x, tree)

                return not difference(size(expected), size(actual))
            if self.dtype in WIDE:  # the CPU may have rounded more often
                widen = lambda x: x.to(WIDE[x.dtype]) if x.dtype in WIDE else x  # noqa: E731
                exact = self.call(map_tensors(widen, copied(arguments)))
                narrow = [e.to(a.dtype) for e, a in zip(tensors(exact), tensors(actual), strict=True)]
                return not difference(narrow, tensors(actual))
        except Exception:
            return False
        return False

    def both(self, sample: Any, arguments: Any) -> None:
        """Calls the op on both, unless the CPU refuses the arguments."""
        try:
            expected = self.call(copied(arguments))
        except Exception:
            return
        try:
            self.compare(expected, self.call_on_device(self.moved(arguments)), sample, arguments)
        except Exception as error:
            self.report.add("error", f"{type(error).__name__}: {error}")

    def has_answer(self, arguments: Any) -> bool:
        """False for equal rows that make a matrix singular, and for writes into elements that share memory.

        The first show in that the CPU's single and double precision disagree.
        """
        here = copied(arguments)
        try:
            single = self.call(here)
            if any(not same(a, b) for a, b in zip(tensors(arguments), tensors(here), strict=True)):
                return False
            if self.dtype != torch.float32:
                return True
            double = self.call(map_tensors(lambda x: x.double() if x.dtype == self.dtype else x, copied(arguments)))
            double = map_tensors(lambda x: x.float() if x.dtype == torch.float64 else x, double)
            return not difference(single, double, LOOSE.get(self.unit.op, 1)) or self.is_random(arguments, single)
        except Exception:
            return True

    # ---- the checks

    def forward(self) -> None:
        for sample in self.inputs():
            self.both(sample, self.arguments(sample))

    def layouts(self) -> None:
        """Non-contiguous, expanded and empty arguments."""

        def expanded(x: torch.Tensor) -> torch.Tensor:
            if x.dim() == 0 or x.numel() == 0 or x.layout != torch.strided:
                return x
            return x.narrow(0, 0, 1).expand(x.shape)

        for sample in self.inputs():
            arguments = self.arguments(sample)
            self.both(
                sample,
                map_tensors(
                    lambda x: noncontiguous_like(x) if x.layout == torch.strided and x.numel() > 1 else x, arguments
                ),
            )
            repeated = map_tensors(expanded, arguments)
            if self.has_answer(repeated):
                self.both(sample, repeated)
            first = tensors(arguments)
            if not first or first[0].dim() == 0 or self.unit.op in UNWRITTEN_ON_CPU:
                continue
            size = first[0].size(0)
            self.both(
                sample,
                map_tensors(lambda x, n=size: x.narrow(0, 0, 0) if x.dim() and x.size(0) == n else x, arguments),
            )

    def backward(self) -> None:
        for sample in self.inputs(requires_grad=True):
            arguments = self.arguments(sample)
            try:
                here = copied(arguments)
                expected = self.gradients(here, sample, self.call)
            except Exception:
                continue
            try:
                actual = self.gradients(self.moved(arguments), sample, self.call_on_device)
            except Exception as error:
                self.report.add("error", f"{type(error).__name__}: {error}")
                continue
            if expected is None:
                continue
            complaint = self.complaint_of_gradients(expected, actual, arguments)
            self.report.add("wrong" if complaint else "pass", complaint)

    def compiled(self) -> None:
        """torch.compile, the whole op in one graph: its results, and gradients where there are any.

        What aot_eager cannot do on the CPU, or does differently, is not asked of tpu.
        """
        for sample in self.inputs(requires_grad=self.differentiable()):
            arguments = self.arguments(sample)
            try:
                expected, gradients = self.everything(copied(arguments), sample, self.call)
            except Exception:
                continue
            report = there = self.compiled_by("tpu", expected, gradients, sample, arguments)
            if report.outcome != "pass":
                there = self.compiled_by("aot_eager", expected, gradients, sample, arguments)
            if "pass" in (report.outcome, there.outcome):
                self.report.add(report.outcome, report.message)

    def compiled_by(self, backend: str, expected: Any, gradients: Any, sample: Any, arguments: Any) -> Report:
        report = Report()
        moved, call = (self.moved, self.call_on_device) if backend == "tpu" else (copied, self.call)
        try:
            actual, slopes = self.everything(moved(arguments), sample, call, backend)
            complaint = self.complaint(expected, actual, sample, arguments)
            if not complaint and gradients is not None:
                complaint = self.complaint_of_gradients(gradients, slopes, arguments)
            report.add("wrong" if complaint else "pass", complaint)
        except Exception as error:
            report.add("error", f"{type(error).__name__}: {error}")
        return report

    def differentiable(self) -> bool:
        return self.op.supports_autograd and self.dtype in self.op.supported_backward_dtypes("cpu")

    def everything(self, arguments: Any, sample: Any, call: Callable[..., Any], backend: str = "") -> tuple[Any, Any]:
        """Results and gradients, through torch.compile if a backend is named."""
        operator = function = self.op.op
        if backend:
            torch._dynamo.reset()
            function = torch.compile(
                lambda x, *args, **kwargs: operator(x, *args, **kwargs), backend=backend, fullgraph=True, dynamic=False
            )
        kept: list[Any] = []

        def run(given: Any) -> Any:
            kept.append(call(given, function))
            return kept[0]

        gradients = self.gradients(arguments, sample, run) if self.differentiable() else None
        if not kept:
            run(arguments)
        return map_tensors(torch.Tensor.detach, kept[0]), gradients

    @staticmethod
    def gradients(arguments: Any, sample: Any, call: Callable[..., Any]) -> list[torch.Tensor | None] | None:
        leaves = [x for x in tensors(arguments) if x.requires_grad]
        outputs = [x for x in tensors(sample.output_process_fn_grad(call(arguments))) if x.requires_grad]
        if not leaves or not outputs:
            return None
        generator = torch.Generator().manual_seed(5)
        cotangents = [torch.randn(x.shape, dtype=x.dtype, generator=generator).to(x.device) for x in outputs]
        return list(torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True))

    def inplace(self) -> None:
        for sample in self.inputs():
            if sample.broadcasts_input:
                continue
            arguments = self.arguments(sample)
            here, there = copied(arguments), self.moved(arguments)
            try:
                expected = self.call(here, self.op.inplace_variant)
            except Exception as refused:
                self.must_refuse(refused, lambda a=there: self.call(a, self.op.inplace_variant))
                continue
            try:
                actual = self.call_on_device(there, self.op.inplace_variant)
                self.compare((expected, here[0]), (actual, there[0]), sample, arguments)
            except Exception as error:
                self.report.add("error", f"{type(error).__name__}: {error}")

    def out(self) -> None:
        """out= of the right size, of none, and not contiguous."""
        for sample in self.inputs():
            arguments = self.arguments(sample)
            try:
                results = self.call(copied(arguments))
            except Exception:
                continue
            single = isinstance(results, torch.Tensor)
            if not tensors(results):
                continue
            forms = [
                lambda x: torch.empty_like(x),
                lambda x: torch.empty(0, dtype=x.dtype),
                lambda x: noncontiguous_like(torch.zeros_like(x)) if x.numel() > 1 else torch.zeros_like(x),
            ]
            for form in forms:
                made = [form(x) for x in tensors(results)]
                here, there = made, on_device(made)
                try:
                    self.call(copied(arguments), out=here[0] if single else tuple(here))
                except Exception as refused:
                    self.must_refuse(
                        refused,
                        lambda a=arguments, o=there, s=single: self.call(self.moved(a), out=o[0] if s else tuple(o)),
                    )
                    continue
                try:
                    self.call_on_device(self.moved(arguments), out=there[0] if single else tuple(there))
                    self.compare(here, there, sample, arguments)
                except Exception as error:
                    self.report.add("error", f"{type(error).__name__}: {error}")

    def must_refuse(self, refused: Exception, call: Callable[[], Any]) -> None:
        """Adds whether the call raises what the CPU raised."""
        if "not implemented for" in str(refused):  # the CPU lacks the dtype: more is allowed
            return
        try:
            call()
        except Exception as error:
            if type(error) is type(refused) or (isinstance(error, NotImplementedError) and "tpu" in str(error)):
                self.report.add("pass")
            else:
                self.report.add(
                    "other error",
                    f"expected {type(refused).__name__}: {refused}, got {type(error).__name__}: {error}",
                )
        else:
            self.report.add("no error", f"expected {type(refused).__name__}: {refused}")

    def errors(self) -> None:
        seed()
        for case in self.op.error_inputs("cpu"):
            arguments = self.arguments(case.sample_input)
            if any(x.device.type != "cpu" for x in tensors(arguments)):
                continue
            try:
                there = self.moved(arguments)
            except Exception:
                continue
            try:
                self.call(copied(arguments))
            except Exception as refused:
                self.must_refuse(refused, lambda a=there: [x.cpu() for x in tensors(self.call_on_device(a))])


def run(unit: Unit, samples: int = SAMPLES) -> Report:
    """Runs one unit."""
    return Runner(unit, samples).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--check", default="")
    parser.add_argument("--dtype", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--seconds", type=float, default=1e9)
    a = parser.parse_args()
    chosen = [
        u
        for u in units()
        if (not a.check or u.check in a.check.split(","))
        and (not a.dtype or u.dtype in a.dtype.split(","))
        and re.search(a.only, u.op)
        and u.chosen(a.every)
    ]
    lines = [json.loads(line) for line in a.out.read_text().splitlines()] if a.out.exists() else []
    done = {line["unit"] for line in lines if line["outcome"] != "started"}
    crashed = {line["unit"] for line in lines} - done
    start = time.time()
    with a.out.open("a") as out:
        for unit in chosen:
            if str(unit) in done:
                continue
            if time.time() - start > a.seconds:
                break
            result: dict[str, Any] = {"unit": str(unit), "op": unit.op, "check": unit.check, "dtype": unit.dtype}
            if str(unit) in crashed:
                result |= {"outcome": "crash"}
            else:
                print(json.dumps(result | {"outcome": "started"}), file=out, flush=True)
                began = time.time()
                report = run(unit, a.samples)
                result |= vars(report) | {"seconds": round(time.time() - began, 3)}
            print(json.dumps(result), file=out, flush=True)


if __name__ == "__main__":
    main()
