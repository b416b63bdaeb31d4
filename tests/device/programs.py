# SPDX-License-Identifier: Apache-2.0
"""Random programs: 5 to 15 operators on a few tensors, with views and writes, as Python source.

A program is drawn by running it on the CPU, so that each line fits the tensors at hand. How a tensor is compared follows from how it came about:

  exact   small whole numbers that only went through operators which keep them exact: equal to the last bit
  smooth  rounded numbers: they only go through continuous operators, and are compared with a tolerance
  opaque  bits that were seen through another dtype, or huge numbers: they are only moved
"""

import dataclasses
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

SHAPES = [(4,), (3, 4), (4, 4), (2, 3, 4), (1, 4), (2, 1, 4), ()]
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.complex64]
DTYPES = [torch.float32] * 4 + FLOATS + [torch.int64] * 2 + [torch.int32, torch.int16, torch.uint8, torch.bool]
# Whole numbers up to here are exact, with room for sums of some.
EXACT = {
    torch.float32: 2**20,
    torch.float64: 2**40,
    torch.bfloat16: 2**6,
    torch.float16: 2**9,
    torch.complex64: 2**20,
    torch.complex128: 2**20,
}
TOLERANCE = {
    torch.float32: 1e-4, torch.complex64: 1e-4, torch.float64: 1e-10, torch.complex128: 1e-10, torch.bfloat16: 4e-2,
    torch.float16: 5e-3,
}  # fmt: skip
MOST = 300  # elements of any tensor
MOST_DIMS = 5


@dataclass
class Program:
    """Source lines over x0, x1, …: first `inputs`, then `views` of them, which are arguments as well."""

    inputs: list[torch.Tensor]
    views: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)  # of each tensor at the end
    dynamic: bool = False  # a shape depends on values, which no graph can have
    scale: float = 1  # the largest rounded number that was seen

    def parameters(self) -> list[str]:
        return [f"x{i}" for i in range(len(self.inputs) + len(self.views))]

    def arguments(self, device: str) -> list[torch.Tensor]:
        values = {f"x{i}": x.clone().to(device) for i, x in enumerate(self.inputs)}
        for view in self.views:
            values[f"x{len(values)}"] = eval(view, dict(values))
        return list(values.values())

    def results(self, lines: list[str]) -> list[str]:
        made = self.parameters() + [made[1] for line in lines if (made := re.match(r"(x\d+) = ", line))]
        return [name for name in made if f"del {name}" not in lines]

    def source(self, lines: list[str]) -> str:
        results = ", ".join(f"{x}.clone()" for x in self.results(lines))
        body = ["device = x0.device", *lines, f"return [{results}]"]
        return "\n    ".join([f"def program({', '.join(self.parameters())}):", *body]) + "\n"

    def function(self) -> Callable[..., list[torch.Tensor]]:
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(self.source(self.lines), scope)
        return scope["program"]

    def __repr__(self) -> str:
        made = [
            f"x{i} = torch.tensor({x.tolist()}, dtype={x.dtype}).reshape({tuple(x.shape)})"
            for i, x in enumerate(self.inputs)
        ]
        made += [f"x{i + len(self.inputs)} = {view}" for i, view in enumerate(self.views)]
        return "\n".join(["", *made, self.source(self.lines)])


def numbers(r: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    low = 0 if dtype in (torch.uint8, torch.bool) else -3
    drawn = torch.randint(low, 4, shape, generator=torch.Generator().manual_seed(r.randrange(20)))
    return drawn.to(dtype) if dtype != torch.bool else drawn > 1


def key(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def places(x: torch.Tensor) -> torch.Tensor:
    """The bytes of its storage where each element lies."""
    starts = torch.arange(x.untyped_storage().nbytes()).as_strided(
        x.size(), [s * x.element_size() for s in x.stride()], x.storage_offset() * x.element_size()
    )
    return starts.reshape(-1, 1) + torch.arange(x.element_size())


def overlaps_itself(x: torch.Tensor) -> bool:
    at = places(x)
    return at.unique().numel() < at.numel()


def conflict(written: torch.Tensor, read: torch.Tensor) -> bool:
    """Whether what is read depends on the order in which elements are written."""
    if key(written) != key(read) or written.numel() == 0 or read.numel() == 0:
        return False
    a, b = places(written), places(read)
    return not (a.shape == b.shape and torch.equal(a, b)) and bool(torch.isin(a, b).any())


def is_float(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def parts(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def has_negative_zero(x: torch.Tensor) -> bool:
    """relu(-0.0) may be 0.0 or -0.0: IEEE 754 and PyTorch leave it open, and bits show it."""
    return is_float(x) and bool((parts(x).signbit() & (parts(x) == 0)).any())


class Builder:
    """Draws lines, and runs each on the CPU."""

    def __init__(self, r: random.Random, view: Callable[["Builder", int], str | None]) -> None:
        self.r = r
        self.values = [numbers(r, r.choice(SHAPES), r.choice(DTYPES)) for _ in range(r.randint(1, 3))]
        self.program = Program([x.clone() for x in self.values])
        self.rounded: set[int] = set()  # storages of smooth tensors
        self.seen_as_bits: set[int] = set()  # storages that were seen through another dtype
        self.dead: set[int] = set()  # numbers of tensors that were deleted (kept here: a storage's address is its key)
        if r.random() < 0.3:
            i = r.randrange(len(self.values))
            if text := view(self, i):
                self.program.views = [text]
                self.values = self.program.arguments("cpu")
        self.scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "device": torch.device("cpu")}
        self.scope |= {f"x{i}": x for i, x in enumerate(self.values)}

    # ---- what may be done with a tensor

    def kind(self, x: torch.Tensor) -> str:
        if not is_float(x):
            return "opaque" if key(x) in self.rounded else "exact"
        v = parts(x).double().abs()
        if not bool(v.isfinite().all()) or bool((v > 1e6).any()) or bool(((v > 0) & (v < 1e-5)).any()):
            return "opaque"
        whole = bool((v == v.round()).all()) and bool((v <= EXACT[x.dtype]).all())
        return "exact" if whole and key(x) not in self.rounded else "smooth"

    def pick(self, accept: Callable[[torch.Tensor], bool] = lambda x: True, kinds: str = "exact smooth") -> int | None:
        """The number of a tensor; the latest are likelier."""
        fit = [i for i, x in enumerate(self.values) if i not in self.dead and accept(x) and self.kind(x) in kinds]
        if not fit:
            return None
        return fit[-1] if self.r.random() < 0.4 else self.r.choice(fit)

    # ---- lines

    def run(self, line: str) -> bool:
        try:
            exec(line, self.scope)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            return False
        self.program.lines.append(line)
        return True

    def note(self, x: torch.Tensor, rounded: bool) -> None:
        """Keeps the books about a tensor that was made or written."""
        if not is_float(x) or x.numel() == 0:
            return
        if rounded or self.kind(x) != "exact":  # huge numbers are rounded as well
            self.rounded.add(key(x))
        if key(x) in self.rounded:
            v = parts(x).double().abs()
            self.program.scale = max(self.program.scale, float(v[v.isfinite()].max()) if v.isfinite().any() else 1)

    def make(self, expression: str, reads: list[int], rounds: bool = False, moves: bool = False) -> bool:
        """x<n> = expression."""
        name = f"x{len(self.values)}"
        lines = len(self.program.lines)
        if not self.run(f"{name} = {expression}"):
            return False
        x = self.scope[name]
        if not isinstance(x, torch.Tensor) or x.numel() > MOST or x.dim() > MOST_DIMS:
            del self.program.lines[lines:], self.scope[name]
            return False
        self.values.append(x)
        rounds = rounds or any(key(self.values[i]) in self.rounded for i in reads)
        if rounds or not moves:
            self.note(x, rounds)
        return True

    def write(self, line: str, target: int, reads: list[int], rounds: bool = False, moves: bool = False) -> bool:
        """A line that changes the elements of x<target>."""
        x = self.values[target]
        if overlaps_itself(x) or any(conflict(x, self.values[i]) for i in reads):
            return False
        rounds = rounds or any(key(self.values[i]) in self.rounded for i in reads)
        if rounds and key(x) in self.seen_as_bits:
            return False
        shape, before = x.shape, x.clone()
        lines = len(self.program.lines)
        if not self.run(line):
            return False
        shows_zeros = key(x) in self.seen_as_bits and (has_negative_zero(before) or has_negative_zero(x))
        if x.shape != shape or (
            (self.kind(x) == "opaque" or shows_zeros) and not moves
        ):  # out= made it larger; overflow
            del self.program.lines[lines:]
            if x.shape == shape:
                x.copy_(before)
                return False
            raise AssertionError(line)
        if rounds or not moves:
            self.note(x, rounds)
        return True

    def build(self, lines: Sequence[Callable[["Builder"], bool]], steps: int) -> Program:
        tries = 0
        while len(self.program.lines) < steps and tries < 8 * steps:
            tries += 1
            self.r.choice(lines)(self)
        for i, x in enumerate(self.values):
            kind = "exact" if key(x) not in self.rounded else "rounded" if is_float(x) else "bits of rounded"
            self.program.kinds[f"x{i}"] = kind
        return self.program


def difference(program: Program, expected: list[torch.Tensor], got: list[torch.Tensor]) -> str:
    """Says where two runs differ; "" if they agree."""
    for name, e, g in zip(program.results(program.lines), expected, got, strict=True):
        kind = program.kinds[name]
        g = g.cpu()
        if (e.shape, e.dtype) != (g.shape, g.dtype):
            return f"{name}: expected {e.dtype} {list(e.shape)}, got {g.dtype} {list(g.shape)}"
        if kind == "bits of rounded":
            continue
        if kind == "rounded":
            tolerance = max(TOLERANCE[x.dtype] for x in expected if is_float(x))  # may come from narrower ones
            close = torch.isclose(e, g, rtol=tolerance, atol=tolerance * program.scale, equal_nan=True)
        else:
            close = same_bits(e, g) | (e == g)
        if not bool(close.all()):
            return f"{name} ({kind}): expected {e}, got {g}"
    return ""


def bits(x: torch.Tensor) -> torch.Tensor:
    """The bytes of each element."""
    return torch.empty(x.shape, dtype=x.dtype).copy_(x).view(-1).view(torch.uint8).view(-1, x.element_size())


def same_bits(e: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return (bits(e) == bits(g)).all(1).view(e.shape)


def first_difference(program: Program, run: Callable[[Program], list[torch.Tensor]]) -> str:
    """For the reader of a failure: the first line after which the program goes wrong."""
    for keep in range(len(program.lines) + 1):
        short = dataclasses.replace(program, lines=program.lines[:keep])
        try:
            complaint = difference(short, short.function()(*short.arguments("cpu")), run(short))
        except Exception as error:
            complaint = f"{type(error).__name__}: {error}"
        if complaint:
            return f"after line {keep} ({program.lines[keep - 1] if keep else 'none'}): {complaint}"
    return "no beginning of it goes wrong"
