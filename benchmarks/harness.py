# SPDX-License-Identifier: Apache-2.0
"""What a row of the benchmark is, and how it is measured: each side in a process of its own, rounds interleaved.

A row is a generator over a `Side`: what comes before the first `yield` is set-up, each `yield` gives the figures of a
round.

    @row("add", "x + y on 16 elements", {"": "µs"}, sides=("ours strict", "cpu eager", "bare"),
         bars=[Bar(7), Bar(2.5, over="bare")])
    def add(side):
        x = side.torch.ones(16, device=side.device)
        while True:
            yield {"": side.per_call(lambda: x + x, 1000) * 1e6}
"""

import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROWS: dict[str, "Row"] = {}


@dataclass(frozen=True)
class Bar:
    """What a figure has to reach: `figure` of `side`, over (or less) another side's or figure's, at most (or least) `limit`."""

    limit: float
    figure: str = ""
    side: str = "ours"  # "ours": the default eager mode
    over: str | None = None  # a side, whose figure of the same name divides
    over_figure: str | None = None  # or another figure of the same side
    minus: str | None = None  # a side, whose figure of the same name is taken away
    least: bool = False

    def value(self, figures: dict[str, dict[str, float]], default: str) -> float | None:
        """The number to compare with `limit`, or None where a side was not measured."""

        def of(side: str, figure: str) -> float | None:
            named = f"ours {default}" if side == "ours" and "ours" not in figures else side
            return figures.get(named, {}).get(figure)

        value = of(self.side, self.figure)
        if self.over is not None or self.over_figure is not None:
            base = of(self.over or self.side, self.figure if self.over_figure is None else self.over_figure)
            return value / base if value is not None and base else None
        if self.minus is not None:
            base = of(self.minus, self.figure)
            return value - base if value is not None and base is not None else None
        return value

    def words(self, unit: str) -> str:
        """The bar as a reader wants it: "first: ours ≤ 0.2 peer"."""
        sign = "≥" if self.least else "≤"
        name = f"{self.figure}: " if self.figure else ""
        limit = f"{self.limit:g}"
        if self.over is not None or self.over_figure is not None:
            return f"{name}{self.side} {sign} {limit} * {self.over or self.over_figure}"
        if self.minus is not None:
            return f"{name}{self.side} - {self.minus} {sign} {limit} {unit}".rstrip()
        return f"{name}{self.side} {sign} {limit} {unit}".rstrip()


@dataclass(frozen=True)
class Row:
    """One benchmark. `figures` is name -> unit; `recorded` holds figures of sides that are seldom installed."""

    name: str
    title: str
    figures: dict[str, str]
    sides: tuple[str, ...]
    measure: Callable[[Any], Iterator[dict[str, float]]]
    bars: tuple[Bar, ...] = ()
    recorded: dict[str, dict[str, float]] = field(default_factory=dict)
    phases: tuple[str, ...] = ()  # not empty: each round runs a new process per phase
    shared_cache: bool = True  # the phases of a round share their cache folder
    rounds: int = 5
    note: str = ""


def row(
    name: str, title: str, figures: dict[str, str], sides: tuple[str, ...], bars: list[Bar] | None = None, **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a generator into the list of rows."""

    def add(measure: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in ROWS, name
        for bar in bars or ():
            assert bar.figure in figures and (bar.over_figure is None or bar.over_figure in figures), bar
            named = {bar.side, *(side for side in (bar.over, bar.minus) if side)}
            assert named <= {*sides, "ours"}, bar
        ROWS[name] = Row(name, title, figures, sides, measure, tuple(bars or ()), **more)
        return measure

    return add


class Failed(Exception):
    """A side could not be measured; the text says why."""


@dataclass(frozen=True)
class Settings:
    """Of a whole run."""

    quick: bool = False
    rounds: int | None = None
    timeout: float = 900
    peer: str = ""  # the Python of a virtual environment that has the peer
    plugin: str = ""  # what ours, bare and jax run on
    bare: str = ""  # the compiled bare.cpp


def environment(side: str, settings: Settings, folder: str) -> dict[str, str]:
    """The environment of a side's process: the same for all but what chooses the side."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH_TPU_", "JAX_"))}
    kind, _, way = side.partition(" ")
    env |= {"HF_HUB_OFFLINE": "1", "BENCH_PLUGIN": settings.plugin, "BENCH_BARE": settings.bare}
    env |= {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TF_CPP_MIN_LOG_LEVEL": "3"}
    if kind == "ours":
        env |= {"TORCH_TPU_CACHE_DIR": f"{folder}/programs", "TORCH_TPU_PLUGIN": settings.plugin}
        if way in ("strict", "fused"):
            env["TORCH_TPU_EAGER_MODE"] = way
    else:
        env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    if side == "jax":  # on the same plugin, as JAX finds plugins
        chip = Path(folder) / "plugin.json"
        chip.write_text(json.dumps({"library_path": settings.plugin, "create_option": {"cpu_device_count": 1}}))
        env |= {"JAX_PLATFORMS": "virtual", "PJRT_NAMES_AND_LIBRARY_PATHS": f"virtual:{chip}"}
    elif side == "jaxlib":  # on the CPU client that comes with it
        env["JAX_PLATFORMS"] = "cpu"
    return env


class Worker:
    """The process of one side of one row."""

    def __init__(self, row: Row, side: str, settings: Settings, folder: str, phase: str = "") -> None:
        python = settings.peer if side.startswith("peer") else sys.executable
        command = [python, str(HERE / "worker.py"), row.name, side, phase, "quick" if settings.quick else ""]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close()
        self._timeout = settings.timeout
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(side, settings, folder),
            cwd=folder,  # not the repository: its torch_tpu folder may hold only sources
        )

    def round(self) -> dict[str, float]:
        """The figures of one round."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        if not select.select([self._process.stdout], [], [], self._timeout)[0]:
            self._process.kill()
            raise Failed(f"nothing after {self._timeout:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise Failed(_reason(self._log.read()) or f"exit {self._process.returncode}")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _reason(log: str) -> str:
    """The line of a traceback that names the error, else the last one."""
    lines = log.strip().splitlines()
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Unsupported|Failed|Exit)\b", line)]
    return (errors or lines or [""])[-1][:300]


def busy_cores(seconds: float = 0.3) -> float:
    """How many cores anyone uses while this process sleeps."""

    def read() -> tuple[int, int]:
        numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        return sum(numbers) - numbers[3] - numbers[4], sum(numbers)

    if not Path("/proc/stat").exists():
        return 0.0
    before = read()
    time.sleep(seconds)
    after = read()
    return (after[0] - before[0]) / max(1, after[1] - before[1]) * (os.cpu_count() or 1)


def measure(row: Row, sides: list[str], settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Figures of each side: medians over the rounds, and all rounds."""
    rounds = settings.rounds or (1 if settings.quick else row.rounds)
    samples: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    failed: dict[str, str] = {}
    busy = []
    with tempfile.TemporaryDirectory() as folder:
        workers: dict[str, Worker] = {}
        try:
            for index in range(rounds):
                busy.append(busy_cores())
                turn = index % len(sides) if sides else 0
                for side in sides[turn:] + sides[:turn]:
                    if side in failed:
                        continue
                    say(f"{row.name}: round {index + 1} of {rounds}, {side}")
                    try:
                        figures = _round(row, side, settings, folder, workers)
                    except Failed as error:
                        failed[side] = str(error)
                        continue
                    for name, value in figures.items():
                        samples[side].setdefault(name, []).append(value)
        finally:
            for worker in workers.values():
                worker.close()
    figures = {
        side: {name: statistics.median(values) for name, values in by_name.items()}
        for side, by_name in samples.items()
        if by_name
    }
    return {"figures": figures, "samples": samples, "failed": failed, "busy_cores_before": [round(b, 2) for b in busy]}


def _round(row: Row, side: str, settings: Settings, folder: str, workers: dict[str, Worker]) -> dict[str, float]:
    if not row.phases:
        if side not in workers:
            own = tempfile.mkdtemp(dir=folder)
            workers[side] = Worker(row, side, settings, own)
        return workers[side].round()
    figures: dict[str, float] = {}
    own = tempfile.mkdtemp(dir=folder)
    for phase in row.phases:
        worker = Worker(row, side, settings, own, phase)
        try:
            figures |= worker.round()
        finally:
            worker.close()
        if not row.shared_cache:
            shutil.rmtree(own)
            os.mkdir(own)
    shutil.rmtree(own, ignore_errors=True)
    return figures
