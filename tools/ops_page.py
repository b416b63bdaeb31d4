# SPDX-License-Identifier: Apache-2.0
"""Writes docs/ops.md: how tpu runs each operator of PyTorch's database, and what differs from the CPU.

python tools/ops_page.py [--check]
"""

import functools
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ops.md"
CHECKS = ["forward", "backward", "inplace", "out", "layouts", "errors", "compiled"]

HEAD = """\
# Operators

<!-- Made by tools/ops_page.py from csrc/lower, the dispatcher and tests/ops/expected.toml. Don't edit it. -->

Each row is an operator of PyTorch's own database (`op_db`), which `pytest tests/ops --all-ops` runs on tpu and on the CPU:
forward in nine dtypes, backward, in place, `out=`, with arguments that are not contiguous, expanded or empty, with wrong
ones, and a third of the operators under `torch.compile` as well.

- **native**: a row of a table in `csrc/lower`, or a kernel in `csrc/device`.
- **composed**: PyTorch builds it of native operators, or it only changes how a tensor is seen.
- **fallback**: runs on the CPU, is counted in `torch.tpu.counters()` and said once.
- **unsupported**: raises an error that says so.

Where several elements are equal, `sort` and `topk` (unless stable), `argsort`, `kthvalue`, `median`, `nanmedian` and `mode` may
name another of their places than the CPU, whose choice follows from its sorting algorithm. Random operators draw other numbers.

"""


def rules() -> dict[str, list[str]]:
    """The overloads of each table, by file."""
    result = {}
    for path in sorted((ROOT / "csrc" / "lower").glob("*.cpp")):
        tables = re.findall(r"^const Table \w+ = \{\n(.*?)^\};", path.read_text(), re.DOTALL | re.MULTILINE)
        rows = [row for table in tables for row in re.findall(r'^    \{"([^"]+)",', table, re.MULTILINE)]
        if rows:
            result[path.stem] = rows
    return result


@functools.cache
def kernels() -> set[str]:
    """The names of the ATen operators with a kernel for tpu in some form."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    return {name.removeprefix("aten::").partition(".")[0].rstrip("_") for name in names}


def is_native(op: Any) -> bool:
    """Tells whether the operator has a kernel for tpu."""
    return not {(op.aten_name or "").rstrip("_"), op.name.rpartition(".")[2].rstrip("_")}.isdisjoint(kernels())


def how(op: Any, entries: list[dict[str, Any]]) -> str:
    """The word for an operator."""
    for outcome in ("unsupported", "fallback"):
        for entry in entries:
            if entry["outcome"] == outcome and "forward" in entry.get("checks", CHECKS) and "dtypes" not in entry:
                return outcome
    return "native" if is_native(op) else "composed"


def note(entry: dict[str, Any]) -> str:
    """An entry of expected.toml as a sentence."""
    where = [", ".join(entry[key]) for key in ("checks", "dtypes") if key in entry]
    return f"{entry['outcome']}{' (' + '; '.join(where) + ')' if where else ''}: {entry['reason']}".replace("|", "\\|")


def page() -> str:
    """The text of docs/ops.md."""
    expected = tomllib.loads((ROOT / "tests" / "ops" / "expected.toml").read_text())
    lines, count = [], Counter[str]()
    for op in sorted({op.formatted_name: op for op in op_db}.values(), key=lambda op: op.formatted_name.lower()):
        entries = expected.get(op.formatted_name, [])
        word = how(op, entries)
        count[word] += 1
        lines.append(f"| {op.formatted_name} | {word} | {' '.join(note(entry) for entry in entries)} |")
    summary = ", ".join(f"{count[word]} {word}" for word in ("native", "composed", "fallback", "unsupported"))
    text = (
        HEAD
        + f"{len(lines)} operators: {summary}.\n\n| operator | how | what does not pass, and why |\n|---|---|---|\n"
    )
    text += "\n".join(lines) + "\n\n## The rows of the tables\n\n"
    for file, rows in rules().items():
        text += f"**{file}** ({len(rows)}): {', '.join(f'`{row}`' for row in rows)}\n\n"
    return text.rstrip("\n") + "\n"


def main() -> None:
    """Writes the page, or compares."""
    text = page()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == text else "docs/ops.md is not current: run tools/ops_page.py")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
