# SPDX-License-Identifier: Apache-2.0
"""What the tests of a tensor's surroundings share: values of each dtype, equality in bits, a saved file."""

import io

import torch

CPU, TPU = torch.device("cpu"), torch.device("tpu", 0)
COMPLEX = (torch.complex64, torch.complex128)


def of(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Small numbers that each dtype has, on the CPU."""
    count = torch.Size(shape).numel()
    values = torch.arange(count, dtype=torch.float64) % 7
    if dtype in COMPLEX:
        return torch.complex(values, 1 - values).reshape(shape).to(dtype)
    return values.reshape(shape).to(torch.float32).to(dtype)


def same(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Equal in shape, dtype and bits."""
    x, y = x.detach().cpu().resolve_conj().contiguous(), y.detach().cpu().resolve_conj().contiguous()
    bits = (x.flatten().view(torch.uint8), y.flatten().view(torch.uint8)) if x.numel() else (x, y)
    return x.shape == y.shape and x.dtype == y.dtype and torch.equal(*bits)


def saved(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file
