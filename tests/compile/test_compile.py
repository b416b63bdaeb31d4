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


# ---- graphs that compute on both devices

ON_BOTH = {
    "before": lambda x, y: x + (y * 2).to(x.device),
    "after": lambda x, y: (x * 2).to("cpu") + y,
    "in turns": lambda x, y: (((x * 2).cpu() + y).to(x.device) * 3, y + 1),
    "0-d operands": lambda x, y: (x * y[0] + y[1] ** 2, torch._foreach_mul([x, x + 1], [y[1], y[2]])),
    "written on the CPU": lambda x, y: (x * y[0], y.add_(1), x + y[0]),
    "written on the tpu": lambda x, y: (y + 1, x.add_(y[0]), (x.cpu() * y)),
    "written from the other": lambda x, y: (y + 1, y.copy_(x * 2), x.add_(1)),
    "input returned": lambda x, y: (y, x, y[1:]),
    "number": lambda x, y: x * x.sum().item() + y[0].item(),
}


@pytest.mark.parametrize("name", ON_BOTH)
def test_graphs_that_compute_on_the_cpu_too(name):
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run = torch.compile(ON_BOTH[name], backend="tpu", fullgraph=True)
        for first in (1.0, 5.0):
            x, y = torch.full((3,), first), torch.arange(3.0) + first
            there, host = x.to("tpu"), y.clone()
            got, expected = run(there, host), ON_BOTH[name](x, y)
            for a, b in zip(*(torch.utils._pytree.tree_leaves(r) for r in (got, expected)), strict=True):
                torch.testing.assert_close(a.cpu(), b)
            torch.testing.assert_close((there.cpu(), host), (x, y))


def test_random_numbers_of_the_cpu_keep_their_order():
    def draw(x, y):
        return torch.rand(2), x.cpu() + torch.rand(3), torch.rand(1) + y

    results = []
    for function, device in ((draw, "cpu"), (torch.compile(draw, backend="tpu"), "tpu")):
        torch.manual_seed(3)
        results.append(function(torch.ones(3, device=device), torch.ones(1)))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, 1e-2),
        lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True, foreach=False),
        lambda p: torch.optim.Adam(p, torch.tensor(1e-2)),
        lambda p: torch.optim.NAdam(p, 1e-2),
        lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9),
    ],
    ids=["foreach", "single", "rate on the CPU", "NAdam", "SGD"],
)
def test_compiled_optimizer_step(make):
    results = {}
    for device in ("cpu", "tpu"):
        torch._dynamo.reset()
        weights = [torch.arange(6.0).reshape(2, 3).div(7).to(device).requires_grad_() for _ in range(2)]
        optimizer = make(weights)
        step = torch.compile(optimizer.step, backend="tpu") if device == "tpu" else optimizer.step
        for i in range(4):
            if i == 3:
                counted = torch.tpu.counters()["compilations"]
            optimizer.zero_grad()
            sum((w * w).sum() * (k + 1) for k, w in enumerate(weights)).backward()
            step()
        states = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
        results[device] = [x.detach().cpu() for x in (*weights, *states)]
    torch.testing.assert_close(results["tpu"], results["cpu"])
    assert torch.tpu.counters()["compilations"] == counted  # the count of steps is an operand


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
