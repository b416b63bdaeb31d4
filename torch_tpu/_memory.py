# SPDX-License-Identifier: Apache-2.0
"""Memory of torch.tpu, in bytes, as the runtime counts the buffers that live on a chip."""

from collections import OrderedDict
from typing import Any

from torch_tpu import _C
from torch_tpu._device import _index

_ALLOCATED = "allocated_bytes.all."
_RESERVED = "reserved_bytes.all."


def memory_stats(device: Any = None) -> "OrderedDict[str, int]":
    """Counters of `device` (default: the current one) by name, e.g. "allocated_bytes.all.peak"; empty before first use.

    Names as for CUDA: current, peak, allocated (ever) and freed (ever) of allocated_bytes and allocation.
    """
    if not _C.is_initialized():
        return OrderedDict()
    return OrderedDict(sorted(_C.memory_stats(_index(device)).items()))


def memory_allocated(device: Any = None) -> int:
    """Bytes that live tensors hold on `device` (default: the current one)."""
    return memory_stats(device).get(_ALLOCATED + "current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were held at once since the start, or since `reset_peak_memory_stats`."""
    return memory_stats(device).get(_ALLOCATED + "peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the chip; those of live tensors where the plugin does not say more."""
    stats = memory_stats(device)
    return stats.get(_RESERVED + "current", stats.get(_ALLOCATED + "current", 0))


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes taken from the chip at once, as `memory_reserved` counts them."""
    stats = memory_stats(device)
    return stats.get(_RESERVED + "peak", stats.get(_ALLOCATED + "peak", 0))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Lets the peaks start again from what is held now."""
    if _C.is_initialized():
        _C.reset_peak_memory_stats(_index(device))


def empty_cache() -> None:
    """Gives memory back that no tensor holds. The plugin keeps its own pool; compiled programs stay."""
    if _C.is_initialized():
        _C.empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of `device` (default: the current one)."""
    return _C.mem_get_info(_index(device))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of `memory_stats` for people."""
    stats = memory_stats(device)
    if not stats:
        return "tpu: not used yet, no memory is held"
    rows = [(name, value) for name, value in stats.items() if not abbreviated or ".all." in name]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value:>18,}" for name, value in rows]
    return "\n".join([f"tpu:{_index(device)}", *lines])
