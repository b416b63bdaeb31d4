# SPDX-License-Identifier: Apache-2.0
"""What a new process pays."""

import os
import time
from collections.abc import Iterator

from harness import Bar, row
from sides import Side


@row(
    "start",
    "a new process",
    {"import": "s", "first result": "s", "first result, empty cache": "s"},
    ("ours", "cpu eager", "peer"),
    [Bar(0.3, "import", side="ours", minus="cpu eager"), Bar(0.5, "first result", side="ours")],
    recorded={"peer": {"import": 3.6, "first result": 0.01}},
    phases=("empty cache", "warm"),
    rounds=7,
    note="`import torch` with the backend, then (torch.ones(4, device) + 1).cpu(). For cpu: PyTorch alone.",
)
def start(side: Side) -> Iterator[dict[str, float]]:
    """The time until a user sees something."""
    begin = time.perf_counter()
    torch = side.torch
    imported = time.perf_counter() - begin
    begin = time.perf_counter()
    (torch.ones(4, device=side.device) + 1).cpu()
    first = time.perf_counter() - begin
    if side.phase == "warm":
        yield {"import": imported, "first result": first}
    yield {"first result, empty cache": first}
    os._exit(0)
