# SPDX-License-Identifier: Apache-2.0
"""Sizes that grow: programs are shared by all sizes of a bucket, and results are those of each size alone."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

torch.manual_seed(0)
WEIGHT = torch.randn(16, 16)
TABLE = torch.randn(64, 16)


def attention(x: torch.Tensor) -> torch.Tensor:
    q = (x @ WEIGHT.to(x.device)).view(1, -1, 2, 8).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).reshape(-1, 16)


# Each gets a float32 tensor of n rows of 16.
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x + 1.5 * x.flip(1),
    "softmax rows": lambda x: x.softmax(0),
    "softmax columns": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(0),
    "mean of all": lambda x: x.mean(),
    "var": lambda x: x.var(0),
    "std": lambda x: x.std(0, correction=0),
    "norm": lambda x: x.norm(dim=0),
    "prod": lambda x: (1 + 0.01 * x).prod(0),
    "amax": lambda x: x.amax(0),
    "min with places": lambda x: x.min(0).indices + x.min(0).values,
    "argmax": lambda x: x.argmax(0),
    "argmax of all": lambda x: x.argmax(),
    "logsumexp": lambda x: x.logsumexp(0),
    "cumsum": lambda x: x.cumsum(0),
    "cumsum backwards": lambda x: x.flip(0).cumsum(0),
    "cummax": lambda x: x.cummax(0).values,
    "sort": lambda x: x.sort(0).values,
    "topk": lambda x: x.topk(3, 0).values,
    "any": lambda x: (x > 2).any(0),
    "count": lambda x: (x > 0).sum(),
    "cat behind": lambda x: torch.cat([x, x[:1] + 1]),
    "cat before": lambda x: torch.cat([x[:1] + 1, x]),
    "cat with itself": lambda x: torch.cat([x, x * 2]),
    "stack": lambda x: torch.stack([x, x * 2]).sum(0),
    "all but the first": lambda x: x[1:] * 2,
    "all but the last": lambda x: x[:-1] * 2,
    "last": lambda x: x[-1] * 2,
    "differences": lambda x: x[1:] - x[:-1],
    "every other": lambda x: x[::2] * 2,
    "transposed": lambda x: x.t().contiguous() * 2,
    "flat": lambda x: x.reshape(-1) * 2,
    "linear": lambda x: F.linear(x, WEIGHT.to(x.device)),
    "gram": lambda x: x.t() @ x,
    "outer gram": lambda x: x @ x.t(),
    "batched": lambda x: torch.bmm(x.view(1, -1, 16).expand(3, -1, -1), WEIGHT.to(x.device).expand(3, -1, -1)),
    "linear of 3 batches": lambda x: F.linear(torch.stack([x, x, x]), WEIGHT.to(x.device)),
    "layer_norm": lambda x: F.layer_norm(x, (16,)),
    "layer_norm over all": lambda x: F.layer_norm(x.t().contiguous(), (x.shape[0],)),
    "attention": attention,
    "positions": lambda x: x + TABLE.to(x.device)[: x.shape[0]],
    "embedding": lambda x: F.embedding(torch.arange(x.shape[0], device=x.device), TABLE.to(x.device)),
    "one_hot": lambda x: F.one_hot(torch.arange(x.shape[0], device=x.device) % 5, 5),
    "gather": lambda x: x.gather(0, x.argsort(0)),
    "index": lambda x: x[x[:, 0].argmax()],
    "index_add": lambda x: torch.zeros(4, 16, device=x.device).index_add(
        0, torch.arange(x.shape[0], device=x.device) % 4, x
    ),
    "index_copy": lambda x: torch.zeros(70, 16, device=x.device).index_copy(
        0, torch.arange(x.shape[0], device=x.device) + 2, x
    ),
    "pad to a size": lambda x: F.pad(x, (0, 0, 0, 64 - x.shape[0])),
    "pad by two": lambda x: F.pad(x, (0, 0, 1, 1), value=3.0).sum(0),
    "causal mask": lambda x: (x @ x.t()).masked_fill(
        torch.ones(x.shape[0], x.shape[0], dtype=torch.bool, device=x.device).triu(1), -1e9
    ),
    "arange": lambda x: x * torch.arange(x.shape[0], device=x.device)[:, None],
    "linspace": lambda x: x[:, 0] * torch.linspace(0, 1, x.shape[0], device=x.device),
    "conv over rows": lambda x: F.conv1d(x.t()[None], WEIGHT.to(x.device)[:, :, None], padding=0),
    "conv with padding": lambda x: F.conv1d(x.t()[None], WEIGHT.to(x.device)[:, :, None].repeat(1, 1, 3), padding=1),
    "conv of a batch": lambda x: F.conv1d(x[:, None], WEIGHT.to(x.device)[:4, None, :3]),
    "max_pool": lambda x: F.max_pool1d(x.t()[None], 3, 1),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.arange(x.shape[0], device=x.device) % 16),
    "unfold": lambda x: x.unfold(0, 3, 1).sum(-1),
    "write a row": lambda x: x.clone().index_fill_(0, torch.tensor([2], device=x.device), 9.0),
    "write a slice": lambda x: torch.cat([x, x]).fill_diagonal_(1.0),
    "where": lambda x: torch.where(x > 0, x, x.mean()),
    "half": lambda x: (x.to(torch.bfloat16).softmax(0) * 4).float(),
    "integers": lambda x: (x * 10).int().sum(0) // x.shape[0],
    "repeat": lambda x: x.repeat(2, 1),
    "interleave": lambda x: x.repeat_interleave(2, 0),
    "roll": lambda x: x.roll(1, 0),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "einsum": lambda x: torch.einsum("ni,nj->ij", x, x),
    "grouped": lambda x: F.linear(x.view(1, -1, 4, 4), WEIGHT.to(x.device)[:4, :4]).flatten(2),
}

# Each gets 40 rows of 16, and a number that grows: a place, a step, a width.
PLACES: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "roll": lambda x, n: x.roll(n, 0) * 2,
    "roll back": lambda x, n: x.roll(-n, 0) * 2,
    "all behind": lambda x, n: x[n:] * 2,
    "all before": lambda x, n: x[:n] * 2,
    "a window": lambda x, n: x[n : n + 5] * 2,
    "swapped": lambda x, n: torch.cat([x[n:], x[:n]]),
    "every nth": lambda x, n: x[::n] * 2,
    "every other up to": lambda x, n: x[: 2 * n : 2] * 2,
    "diagonal": lambda x, n: x.diagonal(-n) * 2,
    "padded": lambda x, n: F.pad(x, (0, 0, n, n)),
    "cropped in front": lambda x, n: F.pad(x, (0, 0, -n, n)),
    "cropped behind": lambda x, n: F.pad(x, (0, 0, n, -n)),
    "unfold": lambda x, n: x.unfold(0, n, 1).sum(-1),
    "max_pool": lambda x, n: F.max_pool1d(x.t()[None], 2 * n, 1, padding=n),
    "conv with padding": lambda x, n: F.conv1d(x.t()[None], WEIGHT.to(x.device)[:2, :, None], padding=n),
    "conv with dilation": lambda x, n: F.conv1d(
        x.t()[None], WEIGHT.to(x.device)[:2, :, None].repeat(1, 1, 2), dilation=n
    ),
    "topk": lambda x, n: x.topk(n, 0).values,
    "repeat": lambda x, n: x.repeat(n, 1),
    "rows of two": lambda x, n: x[: 2 * n].view(n, 2, 16).transpose(0, 1).reshape(-1, 16) * 2,
    "write behind": lambda x, n: x.clone().narrow(0, n, 40 - n).fill_(1.0),
    "write before": lambda x, n: torch.cat([x, x]).index_fill_(0, torch.arange(n, device=x.device), 1.0),
}


@pytest.mark.parametrize("mode", ["fused", "strict"])
@pytest.mark.parametrize("name", PLACES)
def test_growing_places(name: str, mode: str) -> None:
    x = torch.randn(40, 16, generator=torch.Generator().manual_seed(1))
    with torch.tpu.set_eager_mode(mode):
        for n in [5, 6, 7, 9, 8, 5]:
            got, expected = PLACES[name](x.to("tpu"), n).cpu(), PLACES[name](x, n)
            torch.testing.assert_close(got, expected, rtol=2e-4, atol=1e-4, msg=lambda m, n=n: f"n = {n}: {m}")


@pytest.mark.parametrize("mode", ["fused", "strict"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_growing(name: str, mode: str) -> None:
    function = FUNCTIONS[name]
    torch.manual_seed(1)
    with torch.tpu.set_eager_mode(mode):
        for n in [5, 6, 7, 9, 12, 17, 18, 33]:
            x = torch.randn(n, 16)
            expected = function(x)
            got = function(x.to("tpu")).cpu()
            tolerance = 1e-2 if name == "half" else 2e-4
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=1e-4)
