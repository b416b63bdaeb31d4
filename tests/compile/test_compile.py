# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="tpu"): results, gradients, writes to inputs, and how often it compiles."""

import copy

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield


def compiled(function, **options):
    return torch.compile(function, backend="tpu", fullgraph=True, dynamic=False, **options)


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.mix(self.norm(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(nn.functional.gelu(y.transpose(1, 2).flatten(2)))


FUNCTIONS = {
    "views": lambda x: (x[1:].t() @ x[:-1]).view(-1)[::2] + x.unfold(0, 2, 1).sum(),
    "softmax": lambda x: x.softmax(-1).log_softmax(0).cumsum(1),
    "index": lambda x: x[torch.tensor([0, 2], device=x.device), 1:] * x.argmax(1)[:2, None],
    "mutated temporary": lambda x: x.clone().index_fill_(0, torch.tensor([1], device=x.device), 2.0).add_(x),
    "scatter": lambda x: torch.zeros_like(x).scatter_add_(1, x.argsort(1), x),
    "two results": lambda x: (x.sum(0), x.max(1).values),
    "same result twice": lambda x: (y := x * 2, y),
    "input handed back": lambda x: (x, x.view(-1), x + 1),
    "host constant": lambda x: x + torch.arange(4.0).to(x.device),
    "number in a tensor": lambda x: x * torch.tensor(3.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_the_cpu(name):
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    expected = FUNCTIONS[name](x.clone())
    run = compiled(FUNCTIONS[name])
    for _ in range(2):
        torch.testing.assert_close(run(x.to("tpu")), expected, check_device=False)


def test_gradients_equal_the_cpu():
    torch.manual_seed(0)
    block = Block()
    x = torch.randn(2, 5, 16)
    on_tpu, y = copy.deepcopy(block).to("tpu"), x.to("tpu").requires_grad_()
    x.requires_grad_()
    block(x).square().sum().backward()
    compiled(on_tpu)(y).square().sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-4, atol=1e-5)
    for a, b in zip(on_tpu.parameters(), block.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)


def test_module_compile_trains(counted):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)).to("tpu")
    model.compile(backend="tpu", dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x = torch.randn(32, 8, device="tpu")
    y = x.sum(1, keepdim=True)
    losses = []
    for step in range(30):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if step == 1:
            before = counted()["compilations"]
    assert losses[-1] < losses[0] / 2
    assert counted()["compilations"] == before
    assert counted()["fallbacks"] == 0


def test_inputs_are_written_in_place(counted):
    @compiled
    def step(cache, row, at):
        cache.index_copy_(0, at, row)
        cache[:, 0] += 1
        return cache.sum()

    cache = torch.zeros(64, 256, device="tpu")
    view = cache[3]
    for i in range(4):
        total = step(cache, torch.full((1, 256), float(i), device="tpu"), torch.tensor([i], device="tpu"))
    expected = torch.zeros(64, 256)
    for i in range(4):
        expected[i] = float(i)
        expected[:, 0] += 1
    torch.testing.assert_close(cache.cpu(), expected)
    assert total.item() == expected.sum().item()
    torch.testing.assert_close(view.cpu(), expected[3])  # an alias made before sees the writes
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()
    live = torch.tpu.memory_allocated()
    step(cache, torch.ones(1, 256, device="tpu"), torch.tensor([9], device="tpu"))
    assert torch.tpu.max_memory_allocated() - live < 64 * 256 * 4  # the cache's buffer was donated, not doubled


def test_views_as_inputs_compile_once(counted):
    run = compiled(lambda x: x * 2 + 1)
    base = torch.arange(60.0, device="tpu").view(6, 10)
    expected = torch.arange(60.0).view(6, 10) * 2 + 1
    torch.testing.assert_close(run(base[0]).cpu(), expected[0])
    before = counted()["compilations"]
    for i in range(1, 6):
        torch.testing.assert_close(run(base[i]).cpu(), expected[i])
    assert counted()["compilations"] == before


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[1:3, ::2], lambda x: x.expand(2, 4, 6), lambda x: x[:, 2]]
)
def test_strided_inputs_read_and_written(view):
    def change(x):
        y = x * 3
        if x.dim() < 3:
            x.add_(y)
        return y

    host, there = torch.arange(24.0).view(4, 6), torch.arange(24.0, device="tpu").view(4, 6)
    torch.testing.assert_close(compiled(change)(view(there)).cpu(), change(view(host)))
    torch.testing.assert_close(there.cpu(), host)


def test_inputs_of_one_storage():
    @compiled
    def swap(a, b):
        t = a + b
        a.copy_(b)
        b.copy_(t)

    host, there = torch.arange(6.0), torch.arange(6.0, device="tpu")
    a, b = host[:3], host[3:]
    t = a + b
    a.copy_(b)
    b.copy_(t)
    swap(there[:3], there[3:])
    torch.testing.assert_close(there.cpu(), host)


def test_a_graph_that_computes_on_the_cpu_is_not_frozen():
    run = torch.compile(lambda x, y: x + (y * 2).to("tpu"), backend="tpu")
    x = torch.ones(3, device="tpu")
    with pytest.warns(UserWarning, match="op by op"):
        run(x, torch.ones(3))
    torch.testing.assert_close(run(x, torch.full((3,), 5.0)).cpu(), torch.full((3,), 11.0))


def test_dynamic_shapes_and_graph_breaks():
    def function(x):
        y = x * 2
        if y.sum().item() > 0:
            y = y + x.shape[0]
        return y

    run = torch.compile(function, backend="tpu", dynamic=True)
    for n in (3, 5, 8):
        torch.testing.assert_close(run(torch.ones(n, device="tpu")).cpu(), function(torch.ones(n)))


def test_options_are_refused_by_name():
    with pytest.raises(Exception, match="no mode 'max-autotune'"):
        torch.compile(lambda x: x + 1, backend="tpu", mode="max-autotune")(torch.ones(2, device="tpu"))
