# SPDX-License-Identifier: Apache-2.0
"""Operators that torch._decomp writes in terms of others, and that therefore need no rule: a list of names, sorted.

Eager code and torch.compile use the same list. The functions are looked up at first use: `import torch` is not to pay
for torch._decomp.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

NAMES: tuple[str, ...] = ()


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """Maps each overload of the list to its decomposition."""
    from torch._decomp import get_decompositions

    return get_decompositions([_overload(name) for name in NAMES])
