# SPDX-License-Identifier: Apache-2.0
"""Whether two results of an operator agree."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

# Relative and absolute. A few ulp of the half types; for the others what sums of some hundred elements lose.
TOLERANCE = {
    torch.bfloat16: 3.2e-2,
    torch.float16: 4e-3,
    torch.float32: 2e-4,
    torch.complex64: 2e-4,
    torch.float64: 1e-7,
    torch.complex128: 1e-7,
}


def tensors(tree: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def map_tensors(f: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    return tree_map(lambda x: f(x) if isinstance(x, torch.Tensor) else x, tree)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.layout != torch.strided or a.is_quantized:
        return True
    return torch.allclose(a, b, equal_nan=True) if a.is_floating_point() or a.is_complex() else torch.equal(a, b)


def differing_kind(expected: Any, actual: Any) -> str:
    """Compares shapes and dtypes only."""
    for e, a in zip(tensors(expected), tensors(actual), strict=True):
        if e.shape != a.shape or e.dtype != a.dtype:
            return f"expected {e.dtype} {list(e.shape)}, got {a.dtype} {list(a.shape)}"
        a.cpu()
    return ""


def difference(expected: Any, actual: Any, factor: float = 1) -> str:
    """Says how two results differ; "" if they agree."""
    left, right = tree_leaves(expected), tree_leaves(actual)
    if len(left) != len(right):
        return f"expected {len(left)} results, got {len(right)}"
    for e, a in zip(left, right, strict=True):
        try:
            if isinstance(e, torch.Tensor):
                if not isinstance(a, torch.Tensor):
                    return f"expected a tensor, got {a!r}"
                tolerance = TOLERANCE.get(e.dtype, 0) * factor
                torch.testing.assert_close(
                    a.cpu(), e, rtol=tolerance, atol=tolerance, equal_nan=True, check_device=False, check_stride=False
                )
            elif isinstance(e, bool | int | float | complex):
                torch.testing.assert_close(a, e, rtol=2e-4, atol=2e-4, equal_nan=True)
        except AssertionError as error:
            return str(error)
    return ""


def tie(name: str, expected: Any, actual: Any, arguments: Any) -> bool:
    """True if only the order of equal values differs."""
    x, args, kwargs = arguments
    if kwargs.get("stable"):
        return False
    if name == "argsort":
        dim = kwargs.get("dim", args[0] if args else -1)
        pick = lambda index: torch.take_along_dim(x, index, dim)  # noqa: E731
        return not difference(pick(expected), pick(actual))
    if difference(expected[0], actual[0]):
        return False
    if name in ("sort", "topk"):
        return True
    # A reduction with an index: the index must name an element equal to the value.
    dim = kwargs.get("dim", args[-1 if name == "kthvalue" and len(args) > 1 else 0] if args else -1)
    if isinstance(dim, bool):
        dim = args[0]
    keep = expected[0].dim() == x.dim()
    values, index = (actual[0], actual[1]) if keep else (actual[0].unsqueeze(dim), actual[1].unsqueeze(dim))
    return not difference(values, torch.take_along_dim(x, index, dim))
