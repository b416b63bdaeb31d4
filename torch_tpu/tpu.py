# SPDX-License-Identifier: Apache-2.0
"""torch.tpu: the device "tpu", with the names and the meaning that torch.cuda gives them."""

import sys
import types
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu._device import (
    _exchange_device,
    _is_compiled,
    _is_in_bad_fork,
    _maybe_exchange_device,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_autocast_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_autocast_enabled,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_autocast_dtype,
    set_autocast_enabled,
    set_device,
    synchronize,
)
from torch_tpu._memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
)
from torch_tpu._modes import EagerMode, Precision, counters, explain, precision, reset_counters, set_eager_mode
from torch_tpu._random import (
    _get_generator,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_tpu._random import default_generators as _default_generators
from torch_tpu._streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "EagerMode",
    "Event",
    "Precision",
    "Stream",
    "StreamContext",
    "counters",
    "current_device",
    "current_stream",
    "default_generators",  # noqa: F822
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",  # noqa: F822
    "empty_cache",
    "explain",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "precision",
    "reset_counters",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_device",
    "set_eager_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

# Asked for by torch, by these names: the random state, the current device, and torch.utils.checkpoint.
_PRIVATE = (_exchange_device, _get_generator, _is_compiled, _is_in_bad_fork, _maybe_exchange_device)


class _TpuModule(types.ModuleType):
    """The attributes of torch.tpu that are computed when they are read."""

    @property
    def eager_mode(self) -> EagerMode:
        """The eager mode; assign an EagerMode or its name to change it."""
        return EagerMode(_C.get_eager_mode())

    @eager_mode.setter
    def eager_mode(self, mode: EagerMode | str) -> None:
        set_eager_mode(mode)

    @property
    def default_generators(self) -> tuple[torch.Generator, ...]:
        """The default generator of each chip."""
        return _default_generators()

    @property
    def _initialized(self) -> bool:
        return _C.is_initialized()

    def __dir__(self) -> list[Any]:
        return [*super().__dir__(), "default_generators", "eager_mode"]


sys.modules[__name__].__class__ = _TpuModule
