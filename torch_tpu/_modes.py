# SPDX-License-Identifier: Apache-2.0
"""Ways to run of torch.tpu: eager modes, matmul precision, and the counters of what was compiled and launched."""

import contextlib
import enum
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch

from torch_tpu import _C


class EagerMode(enum.Enum):
    """When eager operators become a program. Results are the same bits in each mode."""

    DEFER_NEVER = "strict"  # after each operator, asynchronously
    DEFER_AND_FUSE = "fused"  # operators collect and are compiled together: the default
    DEFER_NEVER_AND_LAUNCH_BLOCKING = "debug"  # after each operator, and waits for it
    STRICT = DEFER_NEVER
    FUSED = DEFER_AND_FUSE
    DEBUG = DEFER_NEVER_AND_LAUNCH_BLOCKING


def _mode(mode: Any) -> EagerMode:
    if isinstance(mode, EagerMode):
        return mode
    if isinstance(mode, str) and mode.upper() in EagerMode.__members__:
        return EagerMode[mode.upper()]
    raise ValueError(f"torch.tpu.eager_mode: expected strict, fused or debug (torch.tpu.EagerMode), got {mode!r}.")


class _SetEagerMode:
    """Sets the mode when made; as a context manager it restores the mode from before."""

    def __init__(self, mode: Any) -> None:
        new = _mode(mode)
        self._before = _C.get_eager_mode()
        _C.set_eager_mode(new.value)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C.set_eager_mode(self._before)


def set_eager_mode(mode: "EagerMode | str") -> _SetEagerMode:
    """Sets the eager mode of the process at once; with `with`, for the block only.

    `mode` is an EagerMode or its name ("strict", "fused", "debug"). What is recorded is launched before the change.
    Raises ValueError for anything else.
    """
    return _SetEagerMode(mode)


class Precision(enum.Enum):
    """Precision of float32 matrix products and convolutions, in StableHLO's words."""

    DEFAULT = "medium"
    HIGH = "high"
    HIGHEST = "highest"


@contextlib.contextmanager
def precision(mode: Precision) -> Iterator[None]:
    """Context manager for the precision of matrix products; the same switch as `torch.set_float32_matmul_precision`."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(Precision(mode).value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def counters() -> dict[str, Any]:
    """What the runtime did since the start, or since `reset_counters`.

    compilations, memory_hits, disk_hits (programs), launches, syncs (waits of the host), compile_seconds, and
    fallbacks: a dict from operator to the number of times it ran on the CPU.
    """
    return _C.counters()


def reset_counters() -> None:
    """Sets the counters to zero; programs stay in the caches."""
    _C.reset_counters()


def explain(last: int = 50) -> str:
    """Says what was compiled, for whom, why, and how long it took: one line for each program, the latest last.

    "other sizes": a program that differs from an earlier one only in its sizes; "sizes up to n": one that serves all
    of them from now on (`torch_tpu.config.buckets`). Programs from the cache folder are marked "disk".
    """
    programs = _C.compilations()
    seconds = sum(p[4] for p in programs)
    compiled = sum(not p[5] for p in programs)
    lines = [f"{compiled} programs compiled in {seconds:.2f} s, {len(programs) - compiled} from disk."]
    for op, place, ops, why, took, from_disk in programs[-last:]:
        what = f"{op} and {ops - 1} more" if ops > 1 else op
        time = "  disk" if from_disk else f"{took:6.2f}"
        lines.append(f"{time}  {what}{f', from {place}' if place else ''}: {why or 'new'}")
    return "\n".join(lines)
