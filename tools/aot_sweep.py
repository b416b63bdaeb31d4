# SPDX-License-Identifier: Apache-2.0
"""Has the real TPU compiler compile what every row of the tables lowers to, on a machine without a TPU.

    python tools/aot_sweep.py [--topology v6e:2x2] [--every N] [--dtypes float32,bfloat16,int32,int64] [--rows REGEX] [--json FILE]

One process runs PyTorch's OpInfo samples, modules and optimizers on a virtual chip and keeps the programs by row and dtype;
another one gives them to libtpu, ahead of time for the topology. `--every N` takes each Nth entry, by a hash of its name.
"""

import argparse
import collections
import functools
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DTYPES = "float32,bfloat16,int32,int64"
# What libtpu wants to know where there is no TPU.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v6e-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def chosen(name: str, every: int) -> bool:
    """Whether an entry of op_db belongs to the sample of each `every`th."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % every == 0


def calls(dtypes: list[str], every: int, samples: int) -> Iterator[Callable[[], Any]]:
    """Calls which run the rows: op_db with gradients, the foreach operators, modules, optimizers, and some by hand."""
    import torch
    from torch.testing._internal import common_methods_invocations as database
    from torch.testing._internal.common_modules import module_db
    from torch.utils._pytree import tree_leaves, tree_map

    def put(value: Any, grad: bool) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to("tpu").requires_grad_(grad and value.is_floating_point())

    def run(function: Callable[..., Any], args: Any, kwargs: Any, grad: bool) -> None:
        args, kwargs = tree_map(lambda x: put(x, grad), (args, kwargs))
        results = [r for r in tree_leaves(function(*args, **kwargs)) if isinstance(r, torch.Tensor) and r.requires_grad]
        if results:
            torch.autograd.backward(results, [torch.ones_like(r) for r in results])

    ops = [*database.op_db]
    for kind in ("unary", "binary", "pointwise", "reduce", "other"):
        ops += getattr(database, f"foreach_{kind}_op_db")
    for op in (op for op in ops if chosen(op.name, every) and "sparse" not in op.name and "jiterator" not in op.name):
        foreach = isinstance(op, database.ForeachFuncInfo)
        function = op if op.op is not None and op.name not in ("_foreach_zero", "_foreach_copy") else op.inplace_variant
        for name in dtypes:
            dtype = getattr(torch, name)
            if dtype not in op.supported_dtypes("cpu"):
                continue
            try:
                inputs = list(
                    op.sample_inputs("cpu", dtype, requires_grad=False, **({"noncontiguous": False} if foreach else {}))
                )
            except Exception:
                continue
            some = (
                inputs
                if foreach
                else [inputs[i] for i in sorted({0, len(inputs) // 2, len(inputs) - 1})]
                if inputs
                else []
            )
            for sample in some[: 8 if foreach else samples]:
                grad = op.supports_autograd and dtype.is_floating_point and not foreach
                yield functools.partial(run, function, (sample.input, *sample.args), sample.kwargs, grad)
    for name in (name for name in dtypes if getattr(torch, name).is_floating_point):
        dtype = getattr(torch, name)
        for info in (info for info in module_db if chosen(info.name, every)):
            try:
                found = info.module_inputs_func(info, "cpu", dtype, requires_grad=False, training=True)
            except Exception:
                continue
            for sample in found[:samples]:

                def module(*args: Any, build: Any = (info, sample), dtype: Any = dtype, **kwargs: Any) -> Any:
                    made = build[1].constructor_input
                    return build[0].module_cls(*made.args, **made.kwargs).to("tpu", dtype).train()(*args, **kwargs)

                given = sample.forward_input
                if given is not None:
                    yield functools.partial(run, module, given.args, given.kwargs, True)

        def step(make: Callable[..., torch.optim.Optimizer], dtype: Any = dtype) -> None:
            weight = torch.nn.Parameter(torch.ones(4, 4, device="tpu", dtype=dtype))
            weight.grad = torch.ones_like(weight)
            make([weight]).step()

        if chosen("optim", every):
            for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad):
                for lr in (0.1, torch.tensor(0.1, device="tpu")):
                    yield functools.partial(step, functools.partial(kind, lr=lr, fused=True))
        if chosen("by hand", every):
            yield from by_hand(dtype)


def by_hand(dtype: Any) -> Iterator[Callable[[], Any]]:
    """Rows that no database reaches."""
    import torch

    aten = torch.ops.aten

    def ones(*sizes: int, kind: Any = dtype) -> torch.Tensor:
        return torch.ones(sizes, device="tpu", dtype=kind)

    x, line, scale = ones(2, 4, 8, 8), ones(4, kind=torch.float32), ones(1, kind=torch.float32)
    indices = torch.zeros(4, device="tpu", dtype=torch.int64)
    yield lambda: torch._amp_foreach_non_finite_check_and_unscale_([ones(4, 4)], scale * 0, scale)
    yield lambda: torch._amp_update_scale_(scale.clone(), (scale * 0).to(torch.int32), scale * 0, 2.0, 0.5, 10)
    yield lambda: torch._assert_async(scale)
    yield lambda: aten._assert_async.msg(scale, "")
    yield lambda: aten._functional_assert_async.msg(scale, "", scale)
    yield lambda: aten._batch_norm_with_update(x, line, line, line.clone(), line.clone(), 0.1, 1e-5)
    yield lambda: aten._native_batch_norm_legit_functional(x, line, line, line, line, True, 0.1, 1e-5)
    yield lambda: aten._native_batch_norm_legit_no_training(x, line, line, line, line, 0.1, 1e-5)
    yield lambda: aten.batch_norm_stats(x, 1e-5)
    yield lambda: aten.batch_norm_elemt(x, line, line, line, line, 1e-5)
    yield lambda: aten.batch_norm_gather_stats_with_counts(x, line[None], line[None], line, line, 0.1, 1e-5, scale)
    yield lambda: aten.batch_norm_backward_reduce(x, x, line, line, line, True, True, True)
    yield lambda: aten.batch_norm_backward_elemt(x, x, line, line, line, line, line, scale.to(torch.int32))
    yield lambda: aten._fused_dropout(x, 0.5)
    yield lambda: aten._masked_scale(x, x.to(torch.uint8), 2.0)
    yield lambda: aten.native_dropout(x, 0.5, True)
    yield lambda: aten._embedding_bag_forward_only(ones(4, 4), indices, indices[:1])
    yield lambda: aten._unsafe_index(ones(4, 4), [indices])
    yield lambda: aten._unsafe_index_put(ones(4, 4), [indices], ones(4, 4))
    yield lambda: aten._index_put_impl_(ones(4, 4), [indices], ones(4, 4))
    yield lambda: aten.embedding_renorm(ones(4, 4), indices, 0.5, 2.0)
    yield lambda: aten._addmm_activation(ones(4), ones(4, 4), ones(4, 4))
    yield lambda: aten._int_mm(ones(32, 32, kind=torch.int8), ones(32, 32, kind=torch.int8))
    yield lambda: aten._grouped_mm(ones(8, 16), ones(2, 16, 16), (indices[:2] + 4).to(torch.int32))
    yield lambda: aten.mm.dtype(ones(4, 4), ones(4, 4), torch.float32)
    yield lambda: aten.bmm.dtype(ones(2, 4, 4), ones(2, 4, 4), torch.float32)
    yield lambda: aten.addmm.dtype(ones(4, 4), ones(4, 4), ones(4, 4), torch.float32)
    yield lambda: aten.baddbmm.dtype(ones(2, 4, 4), ones(2, 4, 4), ones(2, 4, 4), torch.float32)
    yield lambda: aten._sample_dirichlet(ones(4, 4))
    yield lambda: aten._standard_gamma(ones(4, 4))
    yield lambda: aten.poisson(ones(4, 4))
    yield lambda: aten.binomial(ones(4, 4), ones(4, 4) / 2)
    yield lambda: aten.bernoulli.p(ones(4, 4), 0.5)
    yield lambda: ones(4, 4).bernoulli_(0.5)
    yield lambda: ones(4, 4).bernoulli_(ones(4, 4))
    yield lambda: aten.normal.Tensor_float(ones(4), 1.0)
    yield lambda: aten.normal.float_Tensor(0.0, ones(4))
    yield lambda: [ones(4).random_(), ones(4).random_(9), ones(4).random_(1, 9)]
    yield lambda: [f(9, device="tpu", dtype=dtype) for f in (torch.randperm, torch.arange, torch.eye)]
    yield lambda: [torch.eye(3, 4, device="tpu", dtype=dtype), torch.range(0, 4, device="tpu", dtype=dtype)]
    yield lambda: [f(0, 1, 5, device="tpu", dtype=dtype) for f in (torch.linspace, torch.logspace)]
    yield lambda: [f(3, 4, device="tpu") for f in (torch.tril_indices, torch.triu_indices)]
    yield lambda: [torch.kaiser_window(9, *more, device="tpu", dtype=dtype) for more in ((), (True,), (True, 3.0))]
    yield lambda: aten.rrelu_with_noise_functional(x, x, 0.1, 0.3, True)
    yield lambda: aten.glu_jvp(x, torch.cat([x, x], 1), torch.cat([x, x], 1), 1)


def harvest(path: str, dtypes: list[str], every: int, samples: int, rows: str) -> None:
    """Writes {row: {dtype: program}} to `path`. Programs of one op begin with a comment that names the row."""
    import torch

    from torch_tpu import _C

    spelled = {"f32": "float32", "bf16": "bfloat16", "i32": "int32", "i64": "int64", "f64": "float64", "f16": "float16"}
    programs: dict[str, dict[str, str]] = collections.defaultdict(dict)
    warnings.simplefilter("ignore")
    torch.tpu.set_eager_mode("strict")  # a program for each op
    _C.collect_programs(True)
    for call in calls(dtypes, every, samples):
        try:
            with torch.device("tpu"):
                call()
        except Exception:
            pass  # tests/ops judges results; here only programs are gathered
        for text in _C.take_programs():
            named = re.match(r"// (\S+)\n.*?@main\((.*)", text, re.DOTALL)
            if not named or not re.search(rows, named[1]):
                continue
            kinds = [spelled.get(kind) for kind in re.findall(r"tensor<(?:\d+x)*(\w+)>", named[2].partition("{\n")[0])]
            if dtype := next((kind for kind in kinds if kind in dtypes), None):
                programs[named[1]].setdefault(dtype, text)
    Path(path).write_text(json.dumps(programs))


def compile_all(path: str, topology: str) -> None:
    """Prints a line of JSON for each program: row, dtype, and what the compiler refused ("" if nothing)."""
    from torch_tpu import _C

    spec = importlib.util.find_spec("libtpu")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("aot_sweep: expected libtpu, pip install libtpu==0.0.52")
    plugin = os.path.join(next(iter(spec.submodule_search_locations)), "libtpu.so")
    for row, by_dtype in sorted(json.loads(Path(path).read_text()).items()):
        for dtype, text in by_dtype.items():
            try:
                _C.compile_ahead(plugin, topology, text)
                why = ""
            except Exception as error:
                why = str(error).split("\n")[0][:400]
            print(json.dumps([row, dtype, why]), flush=True)


def sweep(topology: str, dtypes: list[str], every: int, samples: int = 3, rows: str = "") -> list[tuple[str, str, str]]:
    """Rows and dtypes that were compiled: (row, dtype, what was refused or "")."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "programs.json")
        command = [sys.executable, os.path.abspath(__file__), "--programs", path, "--topology", topology]
        command += ["--dtypes", ",".join(dtypes), "--every", str(every), "--samples", str(samples), "--rows", rows]
        environment = {**os.environ, "TORCH_TPU_FALLBACK": "warn"}
        subprocess.run([*command, "--step", "harvest"], check=True, env=environment, cwd=folder)
        lines: list[str] = []
        for _ in range(50):  # the compiler may abort on a program: go on behind it
            run = subprocess.run(
                [*command, "--step", "compile"],
                env=environment | ENVIRONMENT,
                cwd=folder,
                capture_output=True,
                text=True,
            )
            lines += [line for line in run.stdout.splitlines() if line.startswith("[")]
            if run.returncode == 0:
                break
            rest = json.loads(Path(path).read_text())
            done = {tuple(json.loads(line)[:2]) for line in lines}
            left = [(r, d) for r in sorted(rest) for d in rest[r] if (r, d) not in done]
            if not left or not run.stdout:
                raise RuntimeError(f"aot_sweep: {run.stderr[-2000:]}")
            lines.append(json.dumps([*left[0], "the compiler aborted the process"]))
            Path(path).write_text(
                json.dumps({r: {d: t for d, t in by.items() if (r, d) in left[1:]} for r, by in rest.items()})
            )
    return [tuple(json.loads(line)) for line in lines]  # type: ignore[misc]


def main() -> None:
    """Runs the sweep and prints what was refused, and the share that compiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="v6e:2x2")
    parser.add_argument("--dtypes", default=DTYPES)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--rows", default="", help="a regular expression")
    parser.add_argument("--json")
    parser.add_argument("--step", choices=["harvest", "compile"], help=argparse.SUPPRESS)
    parser.add_argument("--programs", help=argparse.SUPPRESS)
    options = parser.parse_args()
    dtypes = options.dtypes.split(",")
    if options.step == "harvest":
        return harvest(options.programs, dtypes, options.every, options.samples, options.rows)
    if options.step == "compile":
        return compile_all(options.programs, options.topology)
    results = sweep(options.topology, dtypes, options.every, options.samples, options.rows)
    refused = [r for r in results if r[2]]
    for row, dtype, why in refused:
        print(f"{row} {dtype}: {why}")
    rows = len({r[0] for r in results})
    print(f"{options.topology}: {len(results) - len(refused)} of {len(results)} programs ({rows} rows) compile")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
