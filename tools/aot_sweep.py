# SPDX-License-Identifier: Apache-2.0
"""Has the real TPU compiler compile what every row of the tables lowers to, on a machine without a TPU.

    python tools/aot_sweep.py [--topology v6e:2x2] [--every N] [--dtypes float32,bfloat16,int32,int64] [--json FILE]

One process runs PyTorch's OpInfo samples on a virtual chip and keeps the program of each operator by row and dtype; another
one gives the programs to libtpu, ahead of time for the topology. `--every N` takes each Nth entry of op_db, by a hash of its name.
"""

import argparse
import collections
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings
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


def harvest(path: str, dtypes: list[str], every: int, samples: int) -> None:
    """Writes {row: {dtype: program}} to `path`."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map

    from torch_tpu import _C

    programs: dict[str, dict[str, str]] = collections.defaultdict(dict)

    class Keep(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = function._schema.name.removeprefix("aten::")
            overload = function._overloadname
            row = _C.row_of(name if overload == "default" else f"{name}.{overload}")
            _C.take_programs()
            result = function(*args, **(kwargs or {}))
            made = _C.take_programs()
            if row and made:
                tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
                kinds = [str(t.dtype).removeprefix("torch.") for t in tensors if t.device.type == "tpu"]
                dtype = next((k for k in kinds if k in dtypes), None)
                if dtype:
                    programs[row].setdefault(dtype, made[-1])
            return result

    def put(value: Any) -> Any:
        return value.detach().to("tpu") if isinstance(value, torch.Tensor) else value

    warnings.simplefilter("ignore")
    _C.collect_programs(True)
    for op in [op for op in op_db if chosen(op.name, every)]:
        for name in dtypes:
            dtype = getattr(torch, name)
            if dtype not in op.supported_dtypes("cpu") or "sparse" in op.name or "jiterator" in op.name:
                continue
            grad = op.supports_autograd and dtype.is_floating_point
            try:
                inputs = list(op.sample_inputs("cpu", dtype, requires_grad=False))
            except Exception:
                continue
            for sample in (
                [inputs[i] for i in sorted({0, len(inputs) // 2, len(inputs) - 1})][:samples] if inputs else []
            ):
                try:
                    args, kwargs = tree_map(put, (sample.input, *sample.args)), tree_map(put, sample.kwargs)
                    leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
                    with Keep(), torch.device("tpu"):
                        for leaf in leaves:
                            leaf.requires_grad_(grad and leaf.is_floating_point())
                        out = op(*args, **kwargs)
                        results = [r for r in tree_leaves(out) if isinstance(r, torch.Tensor) and r.requires_grad]
                        if results:
                            torch.autograd.backward(results, [torch.ones_like(r) for r in results])
                except Exception:
                    continue  # tests/ops judges results; here only programs are gathered
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


def sweep(topology: str, dtypes: list[str], every: int, samples: int = 3) -> list[tuple[str, str, str]]:
    """Rows and dtypes that were compiled: (row, dtype, what was refused or "")."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "programs.json")
        command = [sys.executable, os.path.abspath(__file__), "--programs", path, "--topology", topology]
        command += ["--dtypes", ",".join(dtypes), "--every", str(every), "--samples", str(samples)]
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
    parser.add_argument("--json")
    parser.add_argument("--step", choices=["harvest", "compile"], help=argparse.SUPPRESS)
    parser.add_argument("--programs", help=argparse.SUPPRESS)
    options = parser.parse_args()
    dtypes = options.dtypes.split(",")
    if options.step == "harvest":
        return harvest(options.programs, dtypes, options.every, options.samples)
    if options.step == "compile":
        return compile_all(options.programs, options.topology)
    results = sweep(options.topology, dtypes, options.every, options.samples)
    refused = [r for r in results if r[2]]
    for row, dtype, why in refused:
        print(f"{row} {dtype}: {why}")
    rows = len({r[0] for r in results})
    print(f"{options.topology}: {len(results) - len(refused)} of {len(results)} programs ({rows} rows) compile")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
