# SPDX-License-Identifier: Apache-2.0
"""The real TPU compiler takes what the rules make. `python tools/aot_sweep.py` does it for every row."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import aot_sweep

# (row, dtype): why libtpu refuses it. An entry that compiles fails the test.
REFUSED: dict[tuple[str, str], str] = {}


@pytest.mark.parametrize(
    ("topology", "every"),
    [("v6e:2x2", 30), ("v5e:2x2", 300), ("tpu7x:2x2x1", 300)],
)
def test_the_tpu_compiler_takes_a_sample_of_rows(topology: str, every: int):
    assert importlib.util.find_spec("libtpu"), "pip install libtpu==0.0.52"
    results = aot_sweep.sweep(topology, aot_sweep.DTYPES.split(","), every, samples=1)
    assert results
    refused = {(row, dtype): why for row, dtype, why in results if why}
    assert {k: v for k, v in refused.items() if k not in REFUSED} == {}
    assert not {(row, dtype) for row, dtype, why in results if not why} & set(REFUSED)
