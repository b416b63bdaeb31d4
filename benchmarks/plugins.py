# SPDX-License-Identifier: Apache-2.0
"""Compares the PJRT CPU plugins that are installed: prints tables and writes JSON.

python benchmarks/plugins.py [--json FILE] [--flags PACKAGE]
"""

import argparse
import json
import os
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Wheel, and the plugin in it.
CANDIDATES = {
    "lammps-jax-pjrt-cpu": "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    "fastatomstruct-xla-cpu": "fastatomstruct_xla_cpu/libpjrt_cpu.so",
    "xla-cpu-pjrt": "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
}
HEADER = ("xla-cpu-pjrt", "xla_plugins/xla_cpu_pjrt/include")


def installed(wheel, path):
    """The path of a file of a wheel, or None."""
    try:
        found = Path(metadata.distribution(wheel).locate_file(path))
    except metadata.PackageNotFoundError:
        return None
    return found if found.exists() else None


def build(folder):
    """Compiles the C++ part against the wheel's header."""
    include = installed(*HEADER)
    if include is None:
        raise SystemExit("plugins.py: expected the wheel xla-cpu-pjrt, which carries pjrt_c_api.h; pip install it")
    binary = Path(folder) / "plugins_bench"
    sources = [ROOT / "benchmarks/plugins_bench.cpp", *sorted((ROOT / "csrc/pjrt").glob("*.cpp"))]
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O2",
            f"-I{ROOT / 'csrc'}",
            "-isystem",
            include,
            *sources,
            "-o",
            binary,
            "-ldl",
            "-pthread",
        ],
        check=True,
    )
    return binary


def run(binary, plugin, *mode):
    """Output and number of lines on stderr, with the plugin's logging as it is without our settings."""
    env = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    env["TF_CPP_MIN_LOG_LEVEL"] = "0"
    done = subprocess.run([binary, plugin, *mode], capture_output=True, text=True, env=env, check=False)
    if done.returncode != 0:
        raise SystemExit(f"plugins.py: {plugin} {mode}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout, done.stderr.splitlines()


def requirements(wheel):
    """Names of what the wheel needs without extras."""
    needs = metadata.requires(wheel) or []
    return [need.split(";")[0].strip() for need in needs if "extra ==" not in need]


def table(rows, columns):
    """Rows (a dict each) as Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(shown(row.get(column, "")) for column in columns) + " |")
    return "\n".join(lines)


def shown(value):
    """A cell of a table."""
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return ", ".join(value) if isinstance(value, list) else str(value)


def main():
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--flags", help="also try XLA flags on this wheel's plugin")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        binary = build(folder)
        figures = {}
        for wheel, path in CANDIDATES.items():
            plugin = installed(wheel, path)
            if plugin is None:
                print(f"{wheel}: not installed")
                continue
            result = json.loads(run(binary, plugin, "measure")[0])
            saved = Path(folder) / "program"
            run(binary, plugin, "save", saved)
            lines = run(binary, plugin, "load", saved)[1]
            result["stderr_lines_at_start"] = lines.index("[loading]")
            result["stderr_lines_at_program_load"] = len(lines) - lines.index("[loading]") - 1
            result["file_MB"] = plugin.stat().st_size / 1e6
            result["wheel_version"] = metadata.version(wheel)
            result["requires"] = requirements(wheel) or ["nothing"]
            figures[wheel] = result
        names = list(next(iter(figures.values())))
        print(
            table(
                [{"": name, **{w: f.get(name, "") for w, f in figures.items()}} for name in names],
                ["", *figures],
            )
        )
        report = {"plugins": figures}
        if options.flags:
            out = run(binary, installed(options.flags, CANDIDATES[options.flags]), "flags")[0]
            report["flags"] = [json.loads(part + "}") for part in out.split("}\n") if part.strip()]
            columns = list(report["flags"][0])
            print(
                "\n"
                + table(
                    [{**row, "not_ieee": row.get("not_ieee", row.get("error", ""))} for row in report["flags"]],
                    columns,
                )
            )
        if options.json:
            options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
