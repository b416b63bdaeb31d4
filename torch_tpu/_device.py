# SPDX-License-Identifier: Apache-2.0
"""Devices of torch.tpu: how many, which one, what they are."""

import dataclasses
import functools
import os
import re
from types import TracebackType
from typing import Any

import torch

from torch_tpu import _C

_forked_after_use = False


def _after_fork_in_child() -> None:
    global _forked_after_use
    _forked_after_use = _forked_after_use or _C.is_initialized()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that used the device; its client does not survive that."""
    return _forked_after_use


def _is_compiled() -> bool:
    """Whether the backend is built; it is."""
    return True


def _index(device: Any = None) -> int:
    """The index that `device` means: an int, "tpu", "tpu:1", a torch.device, or None for the current device."""
    if device is None:
        return _C.current_device()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "tpu":
            raise ValueError(f"torch.tpu: expected a tpu device, got {str(device)!r}.")
        return _C.current_device() if device.index is None else device.index
    if isinstance(device, bool) or not hasattr(device, "__index__"):
        raise TypeError(f"torch.tpu: expected an int, a str, a torch.device or None, got {type(device).__name__}.")
    return device.__index__()


def is_available() -> bool:
    """Whether a chip, real or virtual, can be used. Never raises."""
    try:
        return _C.device_count() > 0
    except Exception:
        return False


def is_initialized() -> bool:
    """Whether the device has been used: a client of the plugin exists."""
    return _C.is_initialized()


def device_count() -> int:
    """The number of chips of this process; 0 when there are none. Makes no client where the count is known without."""
    try:
        return _C.device_count()
    except Exception:
        return 0


def current_device() -> int:
    """The index of the current device of this thread."""
    return _C.current_device()


def set_device(device: Any) -> None:
    """Makes `device` (int, str or torch.device) the current one of this thread; a negative index changes nothing."""
    index = _index(device)
    if index >= 0:
        _C.set_device(index)


def _exchange_device(index: int) -> int:
    """Sets the current device unless `index` is negative; returns the one before (-1 if nothing was changed)."""
    if index < 0:
        return -1
    before = _C.current_device()
    if before != index:
        _C.set_device(index)
    return before


_maybe_exchange_device = _exchange_device


class device:
    """Context manager that changes the current device and restores it.

    Takes an int, a str or a torch.device; None and negative indices change nothing. It can be nested.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _index(device)
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before.append(_exchange_device(self.idx))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _exchange_device(self._before.pop())


class device_of(device):
    """Context manager that makes the device of a tensor or storage the current one; no effect for other devices."""

    def __init__(self, obj: Any) -> None:
        where = getattr(obj, "device", None)
        super().__init__(where.index if where is not None and where.type == "tpu" else None)


def synchronize(device: Any = None) -> None:
    """Waits until all work of `device` (default: the current one) is done; errors of that work are raised here."""
    if device is None and not _C.is_initialized():
        return
    _C.synchronize(_index(device))


@dataclasses.dataclass(frozen=True)
class _DeviceProperties:
    """What `torch.tpu.get_device_properties` returns."""

    name: str  # for people, e.g. "TPU v6 lite" or "virtual chip (cpu)"
    kind: str  # the plugin's word for the chip
    virtual: bool  # played by a CPU plugin
    total_memory: int  # bytes
    platform: str
    platform_version: str
    pjrt_version: str
    plugin: str  # path
    major: int = 0  # TPU generation; 0 for a virtual chip
    minor: int = 0
    multi_processor_count: int = 1


@functools.cache
def _properties(index: int) -> _DeviceProperties:
    found = dict(_C.device_properties(index))
    generation = re.search(r"(\d+)", found["kind"])
    major = int(generation[1]) if generation and not found["virtual"] else 0
    fields = {field.name for field in dataclasses.fields(_DeviceProperties)}
    return _DeviceProperties(**{name: found[name] for name in fields & found.keys()}, major=major)


def get_device_properties(device: Any = None) -> _DeviceProperties:
    """The properties of `device` (default: the current one): name, kind, virtual, total_memory (bytes), platform, …"""
    return _properties(_index(device))


def get_device_name(device: Any = None) -> str:
    """The name of `device` (default: the current one)."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The generation of the chip as (major, minor), e.g. (6, 0) for v6e; (0, 0) for a virtual chip."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 can be computed with: on every chip."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast("tpu", dtype)` accepts."""
    return [torch.bfloat16, torch.float16]


def is_autocast_enabled() -> bool:
    """Whether autocast is on for the tpu in this thread."""
    return torch.is_autocast_enabled("tpu")


def set_autocast_enabled(enabled: bool) -> None:
    """Turns autocast for the tpu on or off in this thread; `torch.autocast("tpu")` is the usual way."""
    torch.set_autocast_enabled("tpu", enabled)


def get_autocast_dtype() -> torch.dtype:
    """The dtype that autocast computes in on the tpu."""
    return torch.get_autocast_dtype("tpu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the dtype that autocast computes in on the tpu."""
    torch.set_autocast_dtype("tpu", dtype)
