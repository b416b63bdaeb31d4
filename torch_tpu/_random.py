# SPDX-License-Identifier: Apache-2.0
"""Random numbers of torch.tpu: one generator per chip, a stream that (seed, offset) defines."""

from collections.abc import Iterable
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu._device import _index, device_count


def _get_generator(device: Any = None) -> torch.Generator:
    """The default generator of `device` (default: the current one)."""
    return _C.default_generator(_index(device))


def default_generators() -> tuple[torch.Generator, ...]:
    """The default generator of each chip."""
    return tuple(_C.default_generator(i) for i in range(device_count()))


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device."""
    _get_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; `torch.manual_seed` does it too. Does nothing where there are none."""
    for generator in default_generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the generator of the current device with a random number."""
    _get_generator().seed()


def seed_all() -> None:
    """Seeds the generators of all devices with one random number."""
    number = None
    for generator in default_generators():
        if number is None:
            number = generator.seed()
        else:
            generator.manual_seed(number)


def initial_seed() -> int:
    """The seed of the generator of the current device."""
    return _get_generator().initial_seed()


def get_rng_state(device: Any = "tpu") -> torch.Tensor:
    """The state of the generator of `device`: a uint8 tensor on the CPU."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of the generators of all devices."""
    return [generator.get_state() for generator in default_generators()]


def set_rng_state(new_state: torch.Tensor, device: Any = "tpu") -> None:
    """Sets the state of the generator of `device` to one that `get_rng_state` returned."""
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of the generators of all devices, in order."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
