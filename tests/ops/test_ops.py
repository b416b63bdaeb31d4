# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator database against the CPU; `expected.toml` says what does not pass, and why.

pytest tests/ops                      a sample, chosen by a fixed hash
pytest tests/ops --all-ops            everything: about half an hour
pytest tests/ops -k "cumsum and not backward"   all units that match
"""

import functools
import importlib.util
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import opinfo
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).with_name("expected.toml")
CHECKS = ["forward", "backward", "inplace", "out", "layouts", "errors", "compiled"]
# What an entry may say, and the outcomes of opinfo.py that bear it out.
OUTCOMES = {
    "fallback": ["fallback"],  # right, but computed on the CPU
    "unsupported": ["error", "other error"],  # a clear error, by design
    "differs": ["wrong", "error"],  # both results are defensible; the reason says how they differ
    "message": ["no error", "other error"],  # tpu accepts what the CPU refuses, or refuses it with another exception
    "fails": ["error", "wrong", "no error", "other error"],  # a defect that is known
}
SAMPLE = 9  # one unit in so many: about three minutes on two cores, compilations included


@functools.cache
def entries() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(EXPECTED.read_text())


def expectation(unit: opinfo.Unit) -> dict[str, Any] | None:
    """The entry for a unit, if there is one."""
    for entry in entries().get(unit.op, []):
        if unit.check in entry.get("checks", CHECKS) and unit.dtype in entry.get("dtypes", opinfo.ALL_DTYPES):
            return entry
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "unit" not in metafunc.fixturenames:
        return
    config = metafunc.config
    if config.getoption("--all-ops") or config.option.keyword:
        units = opinfo.units()
    else:
        units = [unit for unit in opinfo.units(opinfo.SAMPLE_DTYPES) if unit.chosen(SAMPLE)]
    metafunc.parametrize("unit", units, ids=str)


def test_op(unit: opinfo.Unit) -> None:
    report = opinfo.run(unit)
    if report.outcome == "none":
        pytest.skip("the CPU has no result to compare with")
    entry = expectation(unit)
    if entry is None:
        assert report.outcome == "pass", report.message
    else:
        assert report.outcome in OUTCOMES[entry["outcome"]], (
            f"expected {entry['outcome']} ({entry['reason']}), got {report.outcome} {report.message}: "
            "correct or remove the entry in expected.toml"
        )


def test_expectations_are_well_formed() -> None:
    problems = []
    covered: Counter[opinfo.Unit] = Counter()
    known = {(unit.op, unit.check, unit.dtype) for unit in opinfo.units()}
    for op, listed in entries().items():
        for entry in listed:
            checks, dtypes = entry.get("checks", CHECKS), entry.get("dtypes", opinfo.ALL_DTYPES)
            matched = {unit for unit in known if unit[0] == op and unit[1] in checks and unit[2] in dtypes}
            covered.update(matched)
            for bad in (
                not matched and "matches no unit",
                entry.keys() - {"outcome", "reason", "checks", "dtypes"} and "has unknown keys",
                entry.get("outcome") not in OUTCOMES and "has no known outcome",
                len(entry.get("reason", "")) < 10 and "has no reason",
                set(checks) - set(CHECKS) and "has unknown checks",
                set(dtypes) - set(opinfo.ALL_DTYPES) and "has unknown dtypes",
            ):
                if bad:
                    problems.append(f"{op}: {entry} {bad}")
    problems += [f"{unit} has {count} entries" for unit, count in covered.items() if count > 1]
    assert problems == []
    assert list(entries()) == sorted(entries())


def test_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("ops_page", ROOT / "tools" / "ops_page.py")
    assert spec is not None and spec.loader is not None
    ops_page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ops_page)
    assert ops_page.PAGE.read_text() == ops_page.page(), "run tools/ops_page.py"
