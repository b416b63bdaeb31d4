# SPDX-License-Identifier: Apache-2.0
"""Checks that the folders of csrc/ are the listed ones, and that includes only follow the arrows between them."""

import re
import sys
from pathlib import Path

# folder -> what it may include, besides itself. No arrow goes back.
LAYERS = {
    "bind": {"device", "runtime", "lower", "hlo"},  # nothing above runtime mentions PJRT
    "device": {"runtime", "lower", "hlo"},
    "hlo": set(),
    "lower": {"hlo"},
    "pjrt": set(),
    "runtime": {"lower", "hlo", "pjrt"},
}
FREE_OF_TORCH = ("hlo", "pjrt")
_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
_TORCH = ("ATen/", "c10/", "torch/", "pybind11/", "Python.h")


def problems(root: Path) -> list[str]:
    """Says, a line each, what breaks the rules in the csrc folder of `root`."""
    csrc = root / "csrc"
    found = {path.name for path in csrc.iterdir() if path.is_dir()}
    wrong = [f"csrc/{name}: not a folder of the architecture" for name in sorted(found - LAYERS.keys())]
    for folder, allowed in LAYERS.items():
        for path in sorted((csrc / folder).rglob("*.*")):
            if path.suffix not in (".cpp", ".h"):
                continue
            for quote, header in _INCLUDE.findall(path.read_text()):
                where = f"{path.relative_to(root)}: includes {header}"
                target = header.partition("/")[0]
                if quote == '"' and target in LAYERS and target not in allowed | {folder}:
                    wrong.append(f"{where}, but {folder} may only include {', '.join(sorted(allowed)) or 'itself'}")
                if folder in FREE_OF_TORCH and header.startswith(_TORCH):
                    wrong.append(f"{where}, but {folder} knows nothing of PyTorch")
                if header == "torch/extension.h":
                    wrong.append(f"{where}: it takes 24 s to compile; include narrowly")
    return wrong


def main() -> int:
    """Prints the problems; the exit status is their presence."""
    wrong = problems(Path(__file__).resolve().parent.parent)
    print("\n".join(wrong) if wrong else "layers: all includes follow the arrows")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
