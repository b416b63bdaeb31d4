# SPDX-License-Identifier: Apache-2.0
"""What ran where, for the examples: the chip, the time, the programs compiled, the operators that ran on the CPU."""

import contextlib
import time
from collections.abc import Iterator

import torch
from rich.console import Console

console = Console(highlight=False)


def chip() -> str:
    """The chip in words."""
    found = torch.tpu.get_device_properties()
    kind = "virtual chip" if found.virtual else "TPU"
    return f"{found.name} ({kind}; plugin platform {found.platform}, PJRT {found.pjrt_version})"


@contextlib.contextmanager
def measured(what: str) -> Iterator[None]:
    """Prints what the block took: seconds, and programs by where they came from."""
    before = torch.tpu.counters()
    start = time.perf_counter()
    yield
    torch.tpu.synchronize()
    seconds = time.perf_counter() - start
    after = torch.tpu.counters()
    compiled, loaded, launches = (after[k] - before[k] for k in ("compilations", "disk_hits", "launches"))
    console.print(f"  {what}: {seconds:.2f} s, {compiled} compiled, {loaded} from disk, {launches} launches")


def summary() -> None:
    """Prints the totals of the process."""
    counts = torch.tpu.counters()
    fallbacks = counts["fallbacks"]
    console.print(
        f"compilations reported: {counts['compilations']} ({counts['compile_seconds']:.1f} s); "
        f"programs from disk: {counts['disk_hits']}; launches: {counts['launches']}"
    )
    console.print(f"fallbacks to the CPU: {sum(fallbacks.values())} {fallbacks or ''}")


def check(claim: str, holds: bool) -> None:
    """Prints a claim with a mark; a claim that does not hold ends the program."""
    console.print(f"  [{'green' if holds else 'red'}]{'✓' if holds else '✗'}[/] {claim}")
    if not holds:
        raise SystemExit(1)
