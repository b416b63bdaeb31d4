# SPDX-License-Identifier: Apache-2.0
"""torch.backends.tpu: whether the backend is there, for code that asks before it uses the device."""

import sys


def is_built() -> bool:
    """Whether this PyTorch has the tpu backend (it has: the backend is loaded)."""
    return True


def is_available() -> bool:
    """Whether a chip, real or virtual, can be used; the same as `torch.tpu.is_available()`."""
    from torch_tpu import tpu

    return tpu.is_available()


def register() -> None:
    """Makes this module `torch.backends.tpu`."""
    import torch

    torch.backends.tpu = sys.modules[__name__]
    sys.modules["torch.backends.tpu"] = sys.modules[__name__]
