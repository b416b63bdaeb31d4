# SPDX-License-Identifier: Apache-2.0
"""The rules of the repository that a machine can check."""

import ast
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 800


def tracked(*suffixes: str) -> list[Path]:
    """Files of the repository with one of these suffixes (of the folders, where there is no git)."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else []
    paths = [ROOT / name for name in names] or [
        path
        for folder in ("csrc", "torch_tpu", "tests", "tools", "examples", "benchmarks")
        for path in (ROOT / folder).rglob("*")
    ]
    return [path for path in paths if path.suffix in suffixes and path.is_file()]


SOURCES = tracked(".cpp", ".h", ".py", ".pyi")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_includes_follow_the_arrows() -> None:
    spec = importlib.util.spec_from_file_location("layering", ROOT / "tools" / "layering.py")
    assert spec is not None and spec.loader is not None
    layering = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layering)
    assert layering.problems(ROOT) == []


def test_each_source_names_its_licence() -> None:
    missing = [name(path) for path in SOURCES if "SPDX-License-Identifier: Apache-2.0" not in path.read_text()[:200]]
    assert missing == []


def test_files_are_short() -> None:
    long = {name(path): n for path in SOURCES if (n := len(path.read_text().splitlines())) > MAX_LINES}
    assert long == {}


TABLES = [path for path in tracked(".cpp") if path.parent.name == "lower" and "Table " in path.read_text()]
_TABLE = re.compile(r"^const Table \w+ = \{\n(.*?)^\};", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r'^    \{"([^"]+)",', re.MULTILINE)


def rows(path: Path) -> list[list[str]]:
    """The names of each table of a file, in order."""
    return [_ROW.findall(body) for body in _TABLE.findall(path.read_text())]


@pytest.mark.parametrize("path", TABLES, ids=name)
def test_table_is_sorted(path: Path) -> None:
    tables = rows(path)
    for names in tables:
        assert names, "no rows found: rows start with four spaces, a brace and the overload"
        assert names == sorted(names)


def test_no_overload_has_two_rules() -> None:
    seen: dict[str, str] = {}
    twice = []
    for path in TABLES:
        for overload in (overload for names in rows(path) for overload in names):
            if overload in seen:
                twice.append((overload, seen[overload], name(path)))
            seen[overload] = name(path)
    assert twice == []
    assert len(seen) > 100


def test_the_extension_has_each_overload_once() -> None:
    from torch_tpu import _C

    overloads = [overload for _, overload, *_ in _C.rules()]
    assert len(overloads) == len(set(overloads))


def test_decompositions_have_no_rule() -> None:
    from torch_tpu import _C, decompositions

    names = decompositions.NAMES
    assert list(names) == sorted(set(names))
    assert not set(names) & {overload for _, overload, *_ in _C.rules()}


PACKAGE = [path for path in SOURCES if path.suffix == ".py" and path.parent.name == "torch_tpu"]


@pytest.mark.parametrize("path", PACKAGE, ids=name)
def test_public_functions_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module"
    missing = [
        node.name
        for scope in [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
        for node in scope.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in getattr(node, "decorator_list", ()))
    ]
    assert missing == []


def test_each_environment_variable_is_documented() -> None:
    used = set()
    for path in SOURCES:
        if path.parts[len(ROOT.parts)] in ("csrc", "torch_tpu"):
            used |= set(re.findall(r"\bTORCH_TPU_[A-Z_]*[A-Z]\b", path.read_text()))
    documented = set(re.findall(r"`(TORCH_TPU_[A-Z_]+)`", (ROOT / "docs" / "environment.md").read_text()))
    assert used - {"TORCH_TPU_TESTS"} == documented


def test_nothing_names_a_registry_or_this_machine() -> None:
    # Written in pieces, so that this file does not find itself.
    private = re.compile("|".join([r"/work" + r"/(main|shared|venv)", r"/opt" + r"/pypi", r"index-url\s+http"]))
    files = [*SOURCES, *tracked(".md", ".toml", ".txt", ".yml"), ROOT / "Makefile"]
    assert [name(path) for path in files if private.search(path.read_text())] == []
