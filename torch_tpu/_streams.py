# SPDX-License-Identifier: Apache-2.0
"""Streams and events of torch.tpu.

A chip runs its programs in the order of their launch, whatever the stream: streams order nothing more than that, and
events tell when the work before them is done.
"""

from types import TracebackType
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu._device import _exchange_device, _index

_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)


class Stream(torch.Stream):
    """A queue of work on a chip. `device` is an int, a str, a torch.device, or None for the current one."""

    def __new__(cls, device: Any = None, priority: int = 0, **ids: int) -> "Stream":
        """Makes a stream, or with stream_id, device_index and device_type the one that these name."""
        if ids:
            return super().__new__(cls, priority=priority, **ids)
        return super().__new__(cls, torch.device("tpu", _index(device)), priority=priority)

    def __repr__(self) -> str:
        return f"torch.tpu.Stream(device={self.device}, stream_id={self.stream_id})"


class Event(torch.Event):
    """A point in the work of a stream. With `enable_timing`, `a.elapsed_time(b)` gives milliseconds.

    Calling it makes a plain `torch.Event` of the tpu: `torch.Event.elapsed_time` takes no subclass.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> torch.Event:
        """Makes an event of the tpu; `interprocess` is refused, there are no events across processes."""
        if interprocess:
            raise NotImplementedError("torch.tpu.Event: expected interprocess=False, got True.")
        return torch.Event("tpu", enable_timing=enable_timing, blocking=blocking)


def _own(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: Any = None) -> Stream:
    """The current stream of `device` (default: the current one) in this thread."""
    return _own(torch._C._accelerator_getStream(_index(device)))


def default_stream(device: Any = None) -> Stream:
    """The stream that is current unless another one was set."""
    return Stream(stream_id=0, device_index=_index(device), device_type=_DEVICE_TYPE)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream` the current one of this thread, and its device the current device; None changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context manager that makes a stream the current one and restores stream and device; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: list[tuple[int, Stream]] = []

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._before.append((_C.current_device(), current_stream(self.stream.device)))
            set_stream(self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            device, stream = self._before.pop()
            set_stream(stream)
            _exchange_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: `with torch.tpu.stream(s):` runs its block on `s`."""
    return StreamContext(stream)
