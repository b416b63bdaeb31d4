# SPDX-License-Identifier: Apache-2.0
"""Measures torch_tpu against what is installed: PyTorch on the CPU, JAX, the C API alone, and torch-tpu if its path is given.

python benchmarks/run.py                      everything: prints tables, writes build/benchmarks.json and docs/performance.md
python benchmarks/run.py --quick              a look, in under three minutes; the page is left alone
python benchmarks/run.py --only add,matmul    some rows; --sides "ours strict,bare" some sides
python benchmarks/run.py --page FILE.json     draws the page again from figures
"""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import page
from harness import Settings, busy_cores, measure
from rich.console import Console
from rows import ROWS

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "benchmarks"
HEADER = ("xla_plugins", "xla_cpu_pjrt/include")  # pjrt_c_api.h, from the wheel xla-cpu-pjrt
PLUGIN = ("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so")
SLOW = ("cpu inductor", "jaxlib", "ours compiled whole")  # left out by --quick
QUICK_ROWS = ("start", "add", "chain", "matmul", "mlp", "minilm", "call")


def inside(package: str, path: str) -> str:
    """The path of a file of an installed package, which is not imported; "" where it is missing."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        if (found := Path(folder) / path).exists():
            return str(found)
    return ""


def build_bare() -> str:
    """Compiles bare.cpp where its sources are newer; returns "" where it cannot."""
    include = inside(*HEADER)
    if not include:
        return ""
    program = BUILD / "bare"
    sources = [ROOT / "benchmarks/bare.cpp", *sorted((ROOT / "csrc/pjrt").glob("*.cpp"))]
    newest = max(path.stat().st_mtime for path in [*sources, *(ROOT / "csrc/pjrt").glob("*.h")])
    if not program.exists() or program.stat().st_mtime < newest:
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", f"-I{ROOT / 'csrc'}", "-isystem", include]
        try:
            done = subprocess.run(
                [*command, *map(str, sources), "-o", str(program), "-ldl", "-pthread"], capture_output=True, text=True
            )
        except FileNotFoundError:
            return ""
        if done.returncode:
            raise SystemExit(f"run.py: bare.cpp does not compile\n{done.stderr[-2000:]}")
    return str(program)


def why_missing(side: str, settings: Settings) -> str:
    """Why a side is not measured; "" if it can be."""
    kind = side.split()[0]
    if kind == "peer" and not settings.peer:
        return "no --peer"
    if kind in ("jax", "jaxlib") and importlib.util.find_spec("jax") is None:
        return "jax is not installed"
    if kind in ("jax", "bare") and not settings.plugin:
        return "no PJRT plugin for the CPU"
    if kind == "bare" and not settings.bare:
        return "no C++ compiler, or no wheel xla-cpu-pjrt"
    if settings.quick and side in SLOW:
        return "--quick"
    return ""


def conditions(settings: Settings) -> dict[str, Any]:
    """What a reader of the figures has to know."""
    ask = "import torch, json; print(json.dumps({'mode': torch.tpu.eager_mode.value, 'threads': torch.get_num_threads()}))"
    with tempfile.TemporaryDirectory() as folder:  # not the repository: its torch_tpu folder may hold only sources
        asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True, cwd=folder)
    found = json.loads(asked.stdout)
    versions = {}
    for name in ("torch", "torch-tpu", "jax", "jaxlib", "lammps-jax-pjrt-cpu", "transformers"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "-"
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    model = [
        line.split(":")[1].strip()
        for line in (Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else [])
        if line.startswith("model name")
    ]
    return {
        "date": datetime.date.today().isoformat(),
        "commit": head.stdout.strip() or "-",
        "machine": f"{os.cpu_count()} cores, {model[0] if model else platform.machine()}",
        "python": platform.python_version(),
        "threads": found["threads"],
        "default_mode": found["mode"],
        "versions": versions,
        "quick": settings.quick,
        "busy_cores_at_start": round(busy_cores(1), 2),
    }


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, sides and rounds")
    parser.add_argument("--only", default="", help=f"rows, of: {', '.join(ROWS)}")
    parser.add_argument("--sides", default="", help='sides, as in "ours strict,cpu eager"')
    parser.add_argument("--rounds", type=int, help="rounds of each row")
    parser.add_argument("--timeout", type=float, default=900, help="seconds that a round of a side may take")
    parser.add_argument(
        "--peer", default="", help="the Python of a virtual environment with torch-tpu (benchmarks/README.md)"
    )
    parser.add_argument("--plugin", default="", help="a PJRT plugin for ours, jax and bare; default: the CPU plugin")
    parser.add_argument("--json", type=Path, default=BUILD.with_suffix(".json"), help="where the figures go")
    parser.add_argument("--page", type=Path, help="only draw docs/performance.md from this file")
    options = parser.parse_args()
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    if options.page:
        page.write(ROOT, json.loads(options.page.read_text()))
        return
    only = [name for name in options.only.split(",") if name]
    if unknown := [name for name in only if name not in ROWS]:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    wanted_sides = [side for side in options.sides.split(",") if side]
    names = only or (QUICK_ROWS if options.quick else list(ROWS))
    sides_of = {name: [side for side in ROWS[name].sides if not wanted_sides or side in wanted_sides] for name in names}
    bare = build_bare() if any("bare" in sides for sides in sides_of.values()) else ""
    plugin = options.plugin or inside(*PLUGIN)
    settings = Settings(options.quick, options.rounds, options.timeout, options.peer, plugin, bare)
    report: dict[str, Any] = {"conditions": conditions(settings), "rows": {}}
    start = time.perf_counter()
    for name in names:
        row = ROWS[name]
        missing = {side: why for side in sides_of[name] if (why := why_missing(side, settings))}
        sides = [side for side in sides_of[name] if side not in missing]
        with console.status("") as status:
            result = measure(row, sides, settings, status.update)
        result |= {"missing": missing, "bars": page.bars(row, result["figures"], report["conditions"]["default_mode"])}
        report["rows"][name] = result
        page.show(console, row, result)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")  # after each row: a long run may be cut
    report["conditions"]["minutes"] = round((time.perf_counter() - start) / 60, 1)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    whole = not (options.quick or only or wanted_sides)
    if whole:
        page.write(ROOT, report)
    console.print(
        f"{report['conditions']['minutes']} min; figures in {options.json}" + ("; docs/performance.md" if whole else "")
    )


if __name__ == "__main__":
    main()
