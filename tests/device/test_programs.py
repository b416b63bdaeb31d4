# SPDX-License-Identifier: Apache-2.0
"""Random programs of 5 to 15 operators with views and writes: strict = fused = compiled = CPU.

PROGRAMS=5000 pytest tests/device/test_programs.py    all of them; 100 by default
"""

import os
import random

import hypothesis
import program_lines
import program_rows
import program_writes
import programs
import pytest
import torch
from hypothesis import strategies
from programs import Program

from torch_tpu import _C

PROGRAMS = int(os.environ.get("PROGRAMS", "100"))
BLOCK = 50
MODES = ["strict", "fused", "captured"]


def draw(seed: int) -> Program:
    r = random.Random(seed)
    builder = programs.Builder(r, program_lines.view_of)
    return builder.build([*program_lines.LINES, *program_writes.LINES], r.randint(5, 15))


def run(mode: str, program: Program) -> list[torch.Tensor]:
    """What the program makes on tpu; "captured" is what torch.compile records, without Dynamo's time."""
    function = program.function()
    if mode == "compile":
        torch._dynamo.reset()
        function = torch.compile(function, backend="tpu", dynamic=False)
    elif mode == "captured":
        graph = _C.CompiledFunction(program.function())
        function = lambda *x: graph(list(x))  # noqa: E731
    with torch.tpu.set_eager_mode(mode if mode in ("strict", "fused") else "strict"):
        first = [x.cpu() for x in function(*program.arguments("tpu"))]
        again = [x.cpu() for x in function(*program.arguments("tpu"))]  # what is remembered
    assert all(torch.equal(programs.bits(a), programs.bits(b)) for a, b in zip(first, again, strict=True)), (
        f"{mode}: the second call gives other results\n{program}"
    )
    return first


def complaint(mode: str, program: Program) -> str:
    """Says how tpu and the CPU differ."""
    found = programs.difference(program, program.function()(*program.arguments("cpu")), run(mode, program))
    if not found:
        return ""
    first = programs.first_difference(program, lambda short: run(mode, short))
    return f"{mode}: {found}\n{program}\n{first}"


@pytest.mark.parametrize("block", range(-(-PROGRAMS // BLOCK)))
def test_programs_equal_the_cpu(block: int) -> None:
    settings = hypothesis.settings(
        max_examples=min(BLOCK, PROGRAMS),
        deadline=None,
        database=None,
        phases=[
            hypothesis.Phase.generate
        ],  # a smaller seed is no smaller program; first_difference() says where it goes wrong
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    # The seed of a program rather than its choices, of which Hypothesis would draw a third again and again.
    @hypothesis.seed(block)
    @settings
    @hypothesis.given(strategies.integers(0, 2**62))
    def some(seed: int) -> None:
        program = draw(seed)
        for mode in MODES:
            if mode != "captured" or not program.dynamic:
                found = complaint(mode, program)
                assert not found, found

    some()


@pytest.mark.parametrize("seed", range(-(-PROGRAMS // 50)))
def test_dynamo_programs_equal_the_cpu(seed: int) -> None:
    program = draw(seed)
    try:
        torch._dynamo.reset()
        torch.compile(program.function(), backend="aot_eager", dynamic=False)(*program.arguments("cpu"))
    except torch._dynamo.exc.BackendCompilerFailed:  # PyTorch refuses some writes into views in any graph
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            run("compile", program)
    else:
        found = complaint("compile", program)
        assert not found, found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", range(len(program_rows.ROWS)))
def test_written_programs_equal_the_cpu(row: int, mode: str) -> None:
    dtype, lines = program_rows.ROWS[row]
    if mode == "captured" and any(word in line for word in program_rows.EAGER_ONLY for line in lines):
        pytest.skip("no part of a graph")
    inputs = [(torch.arange(n * 4) % 7 - 3).reshape(n, 4).to(dtype) for n in (3, 4)]
    program = Program(inputs, lines=lines)
    program.kinds = dict.fromkeys(program.results(lines), "exact")
    fallbacks = dict(torch.tpu.counters()["fallbacks"])
    found = complaint(mode, program)
    assert not found, found
    assert dict(torch.tpu.counters()["fallbacks"]) == fallbacks, "a part ran on the CPU"
