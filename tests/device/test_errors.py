# SPDX-License-Identifier: Apache-2.0
"""Each way to do it wrong: the class of the error, and what its text says. None may crash, hang, or spoil what follows."""

import os
import re
import stat
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from torch_tpu import _C

HERE = Path(__file__).name


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device="tpu")


def at(*places: int) -> torch.Tensor:
    return torch.tensor(places, device="tpu")


# name -> (code, class, fragments of the text). Raised where the op is called, in each mode.
AT_ONCE = {
    "add of other shapes": (lambda: t(2, 3) + t(4), RuntimeError, ["tensor a (3)", "tensor b (4)", "dimension 1"]),
    "matmul of other shapes": (lambda: t(2, 3) @ t(4, 5), RuntimeError, ["cannot be multiplied", "2x3 and 4x5"]),
    "bmm of other shapes": (lambda: torch.bmm(t(2, 3, 4), t(2, 5, 6)), RuntimeError, ["4", "5"]),
    "cat of other shapes": (
        lambda: torch.cat([t(2, 3), t(2, 4)]),
        RuntimeError,
        ["Sizes of tensors must match", "3", "4"],
    ),
    "view of another size": (lambda: t(6).view(4), RuntimeError, ["shape '[4]' is invalid for input of size 6"]),
    "view of a transposed": (lambda: t(2, 3).T.view(6), RuntimeError, ["view size is not compatible"]),
    "expand of another size": (lambda: t(2, 3).expand(4, 3), RuntimeError, ["expanded size"]),
    "conv of other channels": (
        lambda: nn.functional.conv2d(t(1, 3, 5, 5), t(2, 4, 3, 3)),
        RuntimeError,
        ["expected input[1, 3, 5, 5] to have 4 channels"],
    ),
    "layer_norm of another shape": (
        lambda: nn.functional.layer_norm(t(2, 3), (4,)),
        RuntimeError,
        ["normalized_shape"],
    ),
    "in-place result that is larger": (
        lambda: t(3).add_(t(2, 3)),
        RuntimeError,
        ["output with shape [3]", "broadcast shape [2, 3]"],
    ),
    "set by another shape": (lambda: t(3).__setitem__(slice(0, 2), t(3)), RuntimeError, ["expanded size", "2", "3"]),
    "matmul of other dtypes": (
        lambda: t(2, 2) @ t(2, 2, dtype=torch.float64),
        RuntimeError,
        ["dtype"],
    ),
    "linear of other dtypes": (
        lambda: nn.functional.linear(t(2, 2), t(2, 2, dtype=torch.bfloat16)),
        RuntimeError,
        ["dtype"],
    ),
    "in-place result of a wider kind": (
        lambda: t(2, dtype=torch.int32).add_(1.5),
        RuntimeError,
        ["result type Float", "output type Int"],
    ),
    "out= of a narrower kind": (
        lambda: torch.add(t(2), t(2), out=t(2, dtype=torch.int32)),
        RuntimeError,
        ["can't be cast"],
    ),
    "embedding of floats": (lambda: nn.functional.embedding(t(2), t(3, 3)), RuntimeError, ["Long, Int"]),
    "index by floats": (lambda: t(3)[t(2)], IndexError, ["long, int, byte or bool"]),
    "bitwise of floats": (lambda: t(2) & t(2), (RuntimeError, NotImplementedError), ["bitwise_and"]),
    "dim of sum": (lambda: t(2, 3).sum(2), IndexError, ["Dimension out of range", "[-2, 1]", "2"]),
    "dim of softmax": (lambda: t(2, 3).softmax(-3), IndexError, ["Dimension out of range", "-3"]),
    "dim of transpose": (lambda: t(2).transpose(0, 1), IndexError, ["Dimension out of range"]),
    "integer index": (lambda: t(3)[3], IndexError, ["index 3 is out of bounds for dimension 0 with size 3"]),
    "select": (lambda: t(2, 3).select(1, -4), IndexError, ["-4", "out of range"]),
    "too many indices": (lambda: t(3)[0, 0], IndexError, ["too many indices"]),
    "item of many": (lambda: t(2).item(), RuntimeError, ["cannot be converted to Scalar"]),
    "truth of many": (lambda: bool(t(2)), RuntimeError, ["ambiguous"]),
    "max of nothing": (lambda: t(0).max(), RuntimeError, ["numel() == 0"]),
    "negative size": (lambda: torch.empty(-1, device="tpu"), RuntimeError, ["negative dimension"]),
    "cpu with tpu": (lambda: torch.ones(2) + t(2), RuntimeError, ["same device", "cpu", "tpu:0", '.to("tpu:0")']),
    "tpu with cpu": (lambda: t(2).mul_(torch.ones(2)), RuntimeError, ["same device", "cpu", "tpu:0"]),
    "cpu weight": (lambda: nn.Linear(2, 2)(t(1, 2)), RuntimeError, ["same device", "cpu", "tpu:0"]),
    "cpu among a list": (lambda: torch.cat([t(2), torch.ones(2)]), RuntimeError, ["same device", "cpu", "tpu:0"]),
    "cpu out=": (lambda: torch.add(t(2), t(2), out=torch.ones(2)), RuntimeError, ["device", "cpu", "tpu"]),
    "generator of the cpu": (
        lambda: torch.randn(2, device="tpu", generator=torch.Generator()),
        RuntimeError,
        ["'tpu' device type for generator", "cpu"],
    ),
    "chip index": (lambda: torch.ones(2, device="tpu:7"), RuntimeError, ["tpu:7", "expected a chip index from 0 to"]),
    "write into an expanded tensor": (
        lambda: t(1).expand(3).add_(1),
        RuntimeError,
        ["more than one element of the written-to tensor refers to a single memory location"],
    ),
    "out= that is expanded": (
        lambda: torch.exp(t(3), out=t(1).expand(3)),
        RuntimeError,
        ["more than one element of the written-to tensor refers to a single memory location"],
    ),
    "in-place on a leaf": (lambda: t(2).requires_grad_().add_(1), RuntimeError, ["leaf Variable"]),
    "sparse": (lambda: t(2, 2).to_sparse(), (NotImplementedError, RuntimeError), ["parse"]),
    "sparse tensor": (
        lambda: torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.long), torch.ones(1)).to("tpu"),
        (NotImplementedError, RuntimeError),
        ["parse"],
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8).to("tpu"),
        (NotImplementedError, RuntimeError),
        ["uantized"],
    ),
    "complex half": (
        lambda: t(2, dtype=torch.complex32),
        (NotImplementedError, RuntimeError),
        ["ComplexHalf", "another dtype"],
    ),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to("tpu"),
        (NotImplementedError, RuntimeError),
        ["ested"],
    ),
    "singular inverse": (lambda: torch.linalg.inv(t(2, 2) * 0).cpu(), RuntimeError, ["singular"]),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_at_once(name, eager_mode):
    code, kind, fragments = AT_ONCE[name]
    with pytest.raises(kind) as caught:
        code()
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)
    assert (t(3) + 1).tolist() == [2, 2, 2]


# Known only when the program has run: raised at the next wait, naming the op and the line that called it, in the class
# that the CPU's kernel raises.
LATER = {
    "index_select": (lambda: t(3, 4).index_select(0, at(3)), "index_select"),
    "gather": (lambda: t(3, 4).gather(1, at(4)[None]), "gather"),
    "scatter": (lambda: t(3, 4).scatter(1, at(-1)[None], 2.0), "scatter"),
    "scatter_add_": (lambda: t(3).scatter_add_(0, at(5), t(1)), "scatter_add"),
    "embedding": (lambda: nn.functional.embedding(at(0, 5), t(5, 2)), "embedding"),
    "negative embedding": (lambda: nn.functional.embedding(at(-1), t(5, 2)), "embedding"),
    "embedding_bag": (lambda: nn.functional.embedding_bag(at(9), t(5, 2), at(0)), "embedding"),
    "x[i]": (lambda: t(3, 4)[at(3)], "index"),
    "x[-i]": (lambda: t(3, 4)[:, at(-5)], "index"),
    "x[i, j]": (lambda: t(3, 4)[at(0), at(4)], "index"),
    "x[i] = y": (lambda: t(3).__setitem__(at(3), 1.0), "index_put"),
    "index_add_": (lambda: t(3).index_add_(0, at(3), t(1)), "index_add"),
    "index_copy_": (lambda: t(3).index_copy_(0, at(3), t(1)), "index_copy"),
    "index_fill_": (lambda: t(3).index_fill_(0, at(3), 1.0), "index_fill"),
    "take": (lambda: t(3).take(at(3)), "take"),
    "cross_entropy": (lambda: nn.functional.cross_entropy(t(1, 3), at(3)), "nll_loss"),
}


@pytest.mark.parametrize("name", LATER)
def test_later(name, eager_mode):
    code, op = LATER[name]
    torch.tpu.synchronize()
    kind = RuntimeError if name in ("gather", "scatter", "scatter_add_", "index_add_") else IndexError
    with pytest.raises(kind) as caught:
        code()
        torch.tpu.synchronize()
    text = str(caught.value)
    assert op in text and re.search(rf"{HERE}:{code.__code__.co_firstlineno} in <lambda>", text), text
    assert (t(3) + 1).tolist() == [2, 2, 2]


@pytest.mark.parametrize("read", [lambda x: x.cpu(), lambda x: x.sum().item(), repr], ids=["cpu", "item", "repr"])
def test_bad_index_is_raised_by_whoever_reads(read, eager_mode):
    with pytest.raises(IndexError, match="index_select"):
        read(t(3).index_select(0, at(7)))


def test_value_that_a_graph_would_need():
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"data-dependent|Data-dependent"):
        torch.compile(lambda x: x * 2 if x.sum() > 0 else x, backend="tpu", fullgraph=True)(t(3))
    for value in (lambda x: [x * x.sum().item()], lambda x: [x * 2 if x.sum() > 0 else x], lambda x: x.tolist()):
        with pytest.raises(RuntimeError, match=r"exists only when the compiled function runs.*torch\.where"):
            _C.CompiledFunction(value)([t(3)])
    # A graph that needs a number is broken there; the numbers are right at each call.
    scaled = torch.compile(lambda x: x * x.sum().item(), backend="tpu")
    assert [scaled(t(3) * k).tolist() for k in (1, 2)] == [[3, 3, 3], [12, 12, 12]]


# ---- processes of their own

REPORT = """
import torch, warnings
def attempt(code):
    try:
        print("ok", code())
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""


def test_operator_without_a_rule(python):
    code = REPORT + (
        "x = torch.eye(3, device='tpu')\n"
        "attempt(lambda: torch.linalg.eigvals(x).shape)\n"
        "attempt(lambda: (x + 1).sum().item())\n"
        "print(torch.tpu.counters()['fallbacks'])"
    )
    result = python(code, TORCH_TPU_FALLBACK="error")
    first, second, third = result.stdout.splitlines()
    assert first.startswith("NotImplementedError aten::") and "TORCH_TPU_FALLBACK=error" in first, result.stderr
    assert (second, third) == ("ok 12.0", "{}") and result.stderr == ""
    result = python(code)
    first, second, third = result.stdout.splitlines()
    assert first == "ok torch.Size([3])" and "aten::" in third and result.returncode == 0
    assert "has no lowering for tpu yet and runs on the CPU (called at <string>:9 in <lambda>)" in result.stderr


def test_operator_that_nobody_has(python):
    code = REPORT + (
        "library = torch.library.Library('mine', 'DEF'); library.define('nothing(Tensor x) -> Tensor')\n"
        "attempt(lambda: torch.ops.mine.nothing(torch.ones(2, device='tpu')))"
    )
    result = python(code)
    assert result.stdout.startswith("NotImplementedError") and "mine::nothing" in result.stdout, (
        result.stdout + result.stderr
    )


def test_plugin_that_is_no_plugin(python):
    path = next(p for p in Path("/proc/self/maps").read_text().split() if re.search(r"/libm\.so", p))
    result = python(REPORT + "attempt(lambda: torch.ones(2, device='tpu'))", TORCH_TPU_PLUGIN=path)
    assert result.returncode == 0 and path in result.stdout and "GetPjrtApi" in result.stdout, (
        result.stdout + result.stderr
    )


def test_two_chips_do_not_mix(python):
    code = REPORT + (
        "a, b = torch.ones(2, device='tpu:0'), torch.ones(2, device='tpu:1')\n"
        "attempt(lambda: a + b)\n"
        "attempt(lambda: torch.cat([a, b]))\n"
        "attempt(lambda: a.copy_(b).tolist())\n"
        "attempt(lambda: torch.ones(1, device='tpu:2'))\n"
        "torch.tpu.set_eager_mode('fused')\n"
        "attempt(lambda: (a + 1) * b)\n"
        "attempt(lambda: ((a + 1).to('tpu:1') * b).tolist())\n"
    )
    lines = python(code, TORCH_TPU_VIRTUAL_CHIPS="2").stdout.splitlines()
    for i in (0, 1, 4):
        assert lines[i].startswith("RuntimeError") and "tpu:0" in lines[i] and "tpu:1" in lines[i], lines
    assert lines[2] == "ok [1.0, 1.0]" and lines[5] == "ok [2.0, 2.0]"
    assert lines[3].startswith("RuntimeError tpu:2: expected a chip index from 0 to 1, got 2"), lines


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_out_of_memory(python, mode):
    code = REPORT + (
        f"torch.tpu.set_eager_mode({mode!r})\n"
        "x = torch.ones(10 << 20, device='tpu'); torch.tpu.synchronize()\n"
        "def more():\n"
        "    y = x + 1; torch.tpu.synchronize(); return y\n"
        "attempt(more)\n"
        "attempt(lambda: torch.zeros(20 << 20).to('tpu'))\n"
        "print(torch.tpu.memory_stats()['num_ooms'])\n"
        "x.add_(1); print(x[0].item())\n"  # in place: nothing more is needed
        "del x; print(torch.tpu.memory_allocated() < 1 << 20)\n"
        "y = torch.full((12 << 20,), 3.0, device='tpu'); print(y[5].item())\n"
    )
    result = python(code, TORCH_TPU_VIRTUAL_MEMORY="64MiB")
    lines = result.stdout.splitlines()
    assert len(lines) == 6, result.stdout + result.stderr
    for line, size in zip(lines[:2], ("40.0 MiB", "80.0 MiB"), strict=True):
        assert line.startswith("OutOfMemoryError") and "40.0 MiB of 64.0 MiB are in use" in line and size in line, lines
    assert int(lines[2]) >= 2 and lines[3:] == ["2.0", "True", "3.0"]


FORK = """
import os, sys, torch
def in_child(code):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            print("ok", code())
        except Exception as error:
            print(type(error).__name__, str(error).splitlines()[0])
        sys.stdout.flush()
        sys.exit(0)
    print("exit", os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_use_after_fork(python, mode):
    code = FORK + (
        f"torch.tpu.set_eager_mode({mode!r})\n"
        "x = torch.ones(3, device='tpu') + 1\n"
        "for code in (lambda: x + 1, lambda: x.cpu(), lambda: torch.ones(2, device='tpu'), torch.tpu.synchronize, lambda: repr(x),"
        " lambda: x.to('cpu', non_blocking=True), lambda: torch.tpu.Event().record()):\n"
        "    in_child(code)\n"
        "in_child(lambda: torch.ones(2).sum().item())\n"
        "print((x + 1).sum().item())\n"
    )
    result = python(code)
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and lines[-1] == "9.0", result.stdout + result.stderr
    assert lines[-3:-1] == ["ok 2.0", "exit 0"]
    for error, status in zip(lines[:-3:2], lines[1:-3:2], strict=True):
        assert error.startswith("RuntimeError") and "fork" in error and "spawn" in error and status == "exit 0", lines


def test_fork_before_use(python):
    code = (
        FORK
        + "in_child(lambda: (torch.ones(2, device='tpu') + 1).sum().item())\nprint(torch.ones(1, device='tpu').item())"
    )
    assert python(code).stdout.splitlines() == ["ok 4.0", "exit 0", "1.0"]


# ---- the cache on disk

COMPUTE = "import torch; print((torch.arange(5., device='tpu') * 3 + 1).tolist(), torch.tpu.counters()['compilations'])"
RESULT = "[1.0, 4.0, 7.0, 10.0, 13.0]"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tpuexe"))


@pytest.mark.parametrize(
    "damage, why",
    [
        (lambda p: p.write_bytes(b""), "truncated"),
        (lambda p: p.write_bytes(p.read_bytes()[:-100]), "truncated"),
        (lambda p: p.write_bytes(p.read_bytes()[:60] + b"xxxx" + p.read_bytes()[64:]), "damaged"),
        (
            lambda p: p.write_bytes(b"something else entirely, long enough to hold a header of any kind"),
            "no entry of this version",
        ),
        (lambda p: p.chmod(0o666), "others can write to it"),
    ],
    ids=["empty", "short", "changed", "foreign", "writable"],
)
def test_broken_cache_entries_are_compiled_again(python, tmp_path, damage, why):
    folder = tmp_path / "cache"
    first = python(COMPUTE).stdout.split("] ")
    count = int(first[1])
    assert first[0] + "]" == RESULT and count > 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and not any(p.stat().st_mode & 0o077 for p in entries(folder))
    assert python(COMPUTE).stdout == f"{RESULT} 0\n"
    for path in entries(folder):
        damage(path)
    result = python(COMPUTE)
    assert result.stdout == f"{RESULT} {count}\n" and result.returncode == 0
    assert why in result.stderr and "It is compiled again" in result.stderr
    result = python(COMPUTE)  # and the new entries are good
    assert (result.stdout, result.stderr) == (f"{RESULT} 0\n", "")


def test_cache_folder_that_others_can_write_to_is_not_used(python, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    result = python(COMPUTE, TORCH_TPU_CACHE_DIR=str(folder))
    assert result.stdout.startswith(RESULT) and "others can write to it" in result.stderr and not list(folder.iterdir())
    result = python(COMPUTE, TORCH_TPU_CACHE_DIR="0")
    assert result.stdout.startswith(RESULT) and result.stderr == ""


def test_processes_share_a_cache(tmp_path):
    import subprocess
    import sys

    environment = os.environ | {"TORCH_TPU_CACHE_DIR": str(tmp_path / "cache")}
    many = "import torch\nfor n in range(1, 9): assert (torch.arange(n, device='tpu') + n).tolist() == list(range(n, 2 * n))"
    running = [
        subprocess.Popen([sys.executable, "-c", many], env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
    assert not [p for p in (tmp_path / "cache").iterdir() if p.suffix != ".tpuexe"]


def test_warning_once_and_no_leftovers():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        (t(3) + 1).cpu()
    assert not seen
