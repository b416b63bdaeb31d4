# SPDX-License-Identifier: Apache-2.0
"""Memory stays flat, in the process and on the chip; writing in place needs no second copy.

TORCH_TPU_TEST_LONG=1 runs a million operators and 10,000 training steps instead of the short version.
"""

import gc
import os
from pathlib import Path

import pytest
import torch
from torch import nn

LONG = os.environ.get("TORCH_TPU_TEST_LONG") == "1"
OPS, STEPS = (1_000_000, 10_000) if LONG else (50_000, 500)
MIB = 1 << 20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def settled() -> tuple[int, int]:
    torch.tpu.synchronize()
    gc.collect()
    return resident(), torch.tpu.memory_allocated()


def ops(count: int) -> None:
    """Small operators: scalars that are new each time, views at changing places, writes, shapes that repeat."""
    x, y = torch.ones(16, device="tpu"), torch.zeros(8, 16, device="tpu")
    for i in range(count // 5):
        z = x + i * 0.001
        y[i % 8] = z
        x = (z * 0.5).clamp_max(i)


def training(steps: int) -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    data, target = torch.randn(8, 16), torch.randint(0, 4, (8,))
    for i in range(steps):
        x, y = data.to("tpu"), target.to("tpu")
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if i % 50 == 0:
            loss.item()


def compiled(steps: int) -> None:
    model = nn.Linear(16, 16).to("tpu")
    function = torch.compile(model, backend="tpu", fullgraph=True)
    x = torch.randn(8, 16, device="tpu")
    for _ in range(steps * 4):
        function(x).sum().backward()


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize(
    "work, count", [(ops, OPS), (training, STEPS), (compiled, STEPS)], ids=["ops", "training", "compiled"]
)
def test_flat(work, count, mode, record_property):
    with torch.tpu.set_eager_mode(mode):
        work(max(count // 10, 100))  # programs, memos and the allocator's pools fill
        before, live = settled()
        work(count)
        after, live_after = settled()
    record_property("resident_before", before)
    record_property("resident_after", after)
    print(f"{work.__name__} {count} {mode}: {before / MIB:.1f} -> {after / MIB:.1f} MiB, live {live} -> {live_after}")
    assert live_after <= live + 8192 * 8  # numbers that are kept count as live: at most 8192 of them
    assert after - before < 24 * MIB


def test_numbers_that_are_kept_have_a_limit():
    x = torch.ones(2, device="tpu")
    for i in range(20_000):
        x + i
    torch.tpu.synchronize()
    torch.tpu.empty_cache()
    live = torch.tpu.memory_allocated()
    for i in range(20_000):
        x + i
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() - live <= 8192 * 8 + 64
    torch.tpu.empty_cache()
    assert torch.tpu.memory_allocated() <= live


SIZE = 4 * MIB  # elements


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.mul_(2).relu_(),
        lambda x: x[3:9].fill_(2),
        lambda x: x.__setitem__(torch.tensor([1, 2], device="tpu"), 5.0),
        lambda x: x.view(1024, -1)[:, 7].sub_(1),
    ],
    ids=["add_", "chain", "slice", "index", "column"],
)
@pytest.mark.parametrize("times", ["first", "second"])
def test_writing_in_place_needs_no_second_copy(write, times):
    x = torch.ones(SIZE, device="tpu")
    for _ in range(times == "second"):
        write(x)
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()
    live = torch.tpu.memory_allocated()
    write(x)
    torch.tpu.synchronize()
    assert torch.tpu.max_memory_allocated() - live < MIB


def test_a_clone_costs_nothing_until_it_is_written():
    x = torch.ones(SIZE, device="tpu")
    torch.tpu.synchronize()
    live = torch.tpu.memory_allocated()
    y = x.clone()
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() - live < MIB
    y.add_(1)
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() - live == 4 * SIZE and x[0] == 1 and y[0] == 2


def test_optimizer_step_needs_no_second_copy():
    parameter = nn.Parameter(torch.ones(SIZE, device="tpu"))
    optimizer = torch.optim.SGD([parameter], 0.1, momentum=0.9)
    for i in range(3):
        parameter.grad = torch.ones(SIZE, device="tpu")
        torch.tpu.synchronize()
        torch.tpu.reset_peak_memory_stats()
        live = torch.tpu.memory_allocated()
        optimizer.step()
        torch.tpu.synchronize()
        if i:
            assert torch.tpu.max_memory_allocated() - live < MIB


def test_tensors_in_cycles_and_threads_are_freed():
    import threading

    torch.tpu.synchronize()
    gc.collect()
    live = torch.tpu.memory_allocated()

    def work():
        for _ in range(50):
            a = torch.ones(1000, device="tpu").requires_grad_()
            b = (a * 2).sum()
            b.backward()
            holder = [a, b]
            holder.append(holder)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    torch.tpu.synchronize()
    gc.collect()
    assert torch.tpu.memory_allocated() - live < 1000
