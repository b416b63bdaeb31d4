# SPDX-License-Identifier: Apache-2.0
"""Shows figures: tables on the terminal, and docs/performance.md."""

from pathlib import Path
from typing import Any

import jinja2
from harness import Row
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rows import ROWS


def shown(value: float | None) -> str:
    """Three digits that matter."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def bars(row: Row, figures: dict[str, dict[str, float]], default: str) -> list[dict[str, Any]]:
    """The bars of a row: text, value, and whether it holds (None where a side was not measured).

    A side that is not installed is represented by its recorded figures, which `recorded` says.
    """
    found = []
    for bar in row.bars:
        value, recorded = bar.value(figures, default), False
        if value is None:
            value = bar.value({**row.recorded, **figures}, default)
            recorded = value is not None
        holds = None if value is None else value >= bar.limit if bar.least else value <= bar.limit
        unit = row.figures.get(bar.figure, "")
        found.append({"text": bar.words(unit), "value": value, "holds": holds, "recorded": recorded})
    return found


def cells(row: Row, result: dict[str, Any]) -> list[dict[str, Any]]:
    """A line per side that was measured or has recorded figures."""
    lines = []
    for side in row.sides:
        figures = result["figures"].get(side)
        recorded = figures is None and side in row.recorded
        if recorded:
            figures = row.recorded[side]
        if figures:
            lines.append(
                {
                    "side": side + (" (recorded)" if recorded else ""),
                    "values": [shown(figures.get(name)) if name in figures else "" for name in row.figures],
                }
            )
    return lines


def heads(row: Row) -> list[str]:
    """The columns: a figure with its unit."""
    return [f"{name} ({unit})" if name and unit else name or unit for name, unit in row.figures.items()]


def show(console: Console, row: Row, result: dict[str, Any]) -> None:
    """Prints a row."""
    console.print(f"[bold]{row.name}[/]: {row.title}")
    made = Table(box=box.SIMPLE)
    made.add_column("")
    for head in heads(row):
        made.add_column(head, justify="right")
    for line in cells(row, result):
        made.add_row(line["side"], *line["values"])
    console.print(made)
    for side, why in result["failed"].items():
        console.print(f"  [red]{side} failed[/]: {escape(why)}")
    for bar in result["bars"]:
        mark = {None: "·", True: "[green]✓[/]", False: "[red]✗[/]"}[bar["holds"]]
        recorded = " (other side recorded)" if bar["recorded"] else ""
        console.print(f"  {mark} {bar['text']}: {shown(bar['value'])}{recorded}")
    console.print()


def write(root: Path, report: dict[str, Any]) -> None:
    """Draws docs/performance.md."""
    folder = Path(__file__).resolve().parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    rows = [
        {"row": ROWS[name], "result": result, "heads": heads(ROWS[name]), "cells": cells(ROWS[name], result)}
        for name, result in report["rows"].items()
    ]
    text = environment.get_template("performance.md.j2").render(conditions=report["conditions"], rows=rows, shown=shown)
    (root / "docs" / "performance.md").write_text(text)
