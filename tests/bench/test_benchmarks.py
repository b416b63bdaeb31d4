# SPDX-License-Identifier: Apache-2.0
"""The benchmark runs: one small row, and the page."""

import json
import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=BENCHMARKS, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_row(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    sides = ["ours strict", "ours fused", "cpu eager"]
    run("run.py", "--quick", "--rounds", "1", "--only", "add", "--sides", ",".join(sides), "--json", os.fspath(figures))
    report = json.loads(figures.read_text())
    row = report["rows"]["add"]
    assert row["failed"] == {}
    assert sorted(row["figures"]) == sorted(sides)
    assert all(0 < figure[""] < 1e4 for figure in row["figures"].values())
    assert report["conditions"]["default_mode"] in ("strict", "fused")

    (tmp_path / "docs").mkdir()
    draw = (
        "import json, sys, pathlib, page; page.write(pathlib.Path(sys.argv[1]), json.loads(open(sys.argv[2]).read()))"
    )
    run("-c", draw, os.fspath(tmp_path), os.fspath(figures))
    drawn = (tmp_path / "docs" / "performance.md").read_text()
    assert report["conditions"]["date"] in drawn
    assert "| ours strict |" in drawn
    assert "µs" in drawn


def test_all_rows_load_without_torch() -> None:
    names = run("-c", "import sys, rows; assert 'torch' not in sys.modules; print(*rows.ROWS)").split()
    assert {"start", "add", "generate", "gpt", "minilm", "layers"} <= set(names)
