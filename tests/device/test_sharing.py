# SPDX-License-Identifier: Apache-2.0
"""How few programs are compiled: sizes that grow, equal layers, loops, several processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import torch_tpu.config
from torch_tpu import _C


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = torch_tpu.config.buckets
    torch_tpu.config.buckets = before  # forgets the buckets of other tests
    with torch.tpu.set_eager_mode("fused"):
        yield
    torch_tpu.config.buckets = before


def programs(run: Callable[[], object]) -> int:
    """How many programs `run` needed that the process did not have."""

    def count() -> int:
        counters = torch.tpu.counters()
        return counters["compilations"] + counters["disk_hits"]

    before = count()
    run()
    return count() - before


def grow(columns: int, sizes: Iterator[int]) -> None:
    for n in sizes:
        x = torch.randn(n, columns)
        got = (x.to("tpu").softmax(0) * 3 - 1).logsumexp(0).cpu()
        torch.testing.assert_close(got, (x.softmax(0) * 3 - 1).logsumexp(0), rtol=1e-4, atol=1e-4)


def test_growing_sizes_share_programs() -> None:
    # One for the first size, then 16, 32, 64.
    assert programs(lambda: grow(2, iter(range(9, 60)))) <= 4


def test_a_cache_that_grows_needs_one_program() -> None:
    # Halves of a head have as many elements as the cache has rows at first: what grows is what it is appended to.
    torch.manual_seed(0)
    weight = torch.randn(3, 32, 32) / 8

    def decode(cache: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = (x @ w for w in weight.to(x.device))
        turned = torch.cat([-k[..., 16:], k[..., :16]], dim=-1)
        cache = torch.cat([cache, (k.sin() + turned)], dim=-2)
        scores = (q @ cache.transpose(-1, -2) / 8).softmax(-1)
        return cache, (scores @ cache + v).tanh()

    def generate(device: str) -> torch.Tensor:
        torch.manual_seed(1)
        cache, x = torch.randn(1, 16, 32).to(device), torch.randn(1, 1, 32).to(device)
        for _ in range(40):
            cache, x = decode(cache, x)
            x.cpu()
        return torch.cat([cache, x], dim=-2).cpu()

    # A step for up to 64 rows (with the last cat in it when it comes), and what gives the first cache room.
    assert programs(lambda: torch.testing.assert_close(generate("tpu"), generate("cpu"), rtol=1e-4, atol=1e-4)) <= 3


def test_a_size_that_stays_gets_its_own_program() -> None:
    # It looks like a cache that gets a row, but is a column of times beside the features of a batch.
    weight = torch.randn(65, 64).to("tpu")
    x, t = torch.randn(8, 64).to("tpu"), torch.randn(8, 1).to("tpu")

    def step() -> None:
        y = torch.cat([x, t], dim=1) @ weight
        (y.softmax(1).std(1) + y.tanh().mean(1) - y.sin().logsumexp(1)).cpu()

    first = programs(step)
    assert programs(lambda: [step() for _ in range(200)]) == 0
    assert programs(lambda: [step() for _ in range(100)]) == 1
    assert first >= 1 and "its size stays" in torch.tpu.explain()


def test_buckets_can_be_chosen() -> None:
    torch_tpu.config.buckets = "24, 48"
    assert programs(lambda: grow(3, iter(range(9, 48)))) <= 3
    assert programs(lambda: grow(3, iter(range(49, 53)))) == 4  # no bucket is as large


def test_buckets_can_be_turned_off() -> None:
    torch_tpu.config.buckets = "off"
    assert programs(lambda: grow(4, iter(range(9, 19)))) == 10


@pytest.mark.parametrize("value", ["", "some", "0", "8,x", "-4"])
def test_bad_buckets(value: str) -> None:
    with pytest.raises(ValueError, match="expected auto, off, or sizes such as 128,256,512"):
        torch_tpu.config.buckets = value


def test_explain_says_why() -> None:
    grow(5, iter(range(70, 74)))
    text = torch.tpu.explain()
    assert "sizes up to 128" in text and "test_sharing.py" in text and "programs compiled in" in text


def test_one_size_that_comes_and_goes_is_exact() -> None:
    # A last, smaller batch: two sizes are two programs, without padding.
    before = torch.tpu.explain().count("sizes up to")
    layer = nn.Linear(7, 3).to("tpu")
    for _ in range(3):
        for n in (32, 9):
            assert layer(torch.ones(n, 7).to("tpu")).shape == (n, 3)
            torch.tpu.synchronize()
    assert torch.tpu.explain().count("sizes up to") == before


class Block(nn.Module):
    """A residual block of a dozen operators."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, width] -> [n, width]"""
        y = self.norm(x)
        y = torch.nn.functional.gelu(self.up(y)) * 2 - y.mean(-1, keepdim=True)
        return x + self.down(y.relu() + 1).tanh()


def test_equal_layers_share_programs() -> None:
    def run(depth: int, width: int) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(*[Block(width) for _ in range(depth)])
        x = torch.randn(4, width)
        expected = model(x)
        torch.testing.assert_close(model.to("tpu")(x.to("tpu")).cpu(), expected, rtol=1e-4, atol=1e-5)

    few, many = programs(lambda: run(12, 8)), programs(lambda: run(60, 10))
    assert many <= few + 2, (few, many)


def test_a_loop_without_waits_reuses_programs() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[Block(6) for _ in range(3)]).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(4, 6, device="tpu")

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    steps(8)
    assert programs(lambda: steps(12)) <= 1


def test_programs_that_were_dropped_come_back(counted: Callable[[], dict[str, int]], eager_mode: str) -> None:
    x = torch.arange(12.0, device="tpu").view(3, 4)
    graph = _C.CompiledFunction(lambda x: [x.softmax(0) @ x.t()])
    results = []
    for again in (False, True):
        if again:
            before = counted()
            _C.forget_programs()
        results.append([graph([x])[0].cpu(), (x.exp() - x[:, :1]).cpu()])
    torch.testing.assert_close(*results, rtol=0, atol=0)
    after = counted()
    assert after["compilations"] == before["compilations"] and after["disk_hits"] > before["disk_hits"]


CHILD = """
import sys, torch
sys.stdin.read(1)
x = torch.arange(12.0, device="tpu").view(3, 4)
(x.softmax(0) @ x.t()).exp().cpu()
print(torch.tpu.counters()["compilations"])
"""


def test_processes_wait_for_one_compilation(tmp_path: os.PathLike[str]) -> None:
    environment = {**os.environ, "TORCH_TPU_CACHE_DIR": os.path.join(tmp_path, "cache")}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            cwd=tmp_path,
        )
        for _ in range(3)
    ]
    compiled = [int(child.communicate("x", timeout=120)[0]) for child in children]
    programs = [name for name in os.listdir(os.path.join(tmp_path, "cache")) if name.endswith(".tpuexe")]
    assert sum(compiled) == len(programs) > 0, compiled  # each by one of them
