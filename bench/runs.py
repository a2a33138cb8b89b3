"""Runs cases several times, each time in a new process, and combines the samples."""

import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from statistics import median
from time import process_time

import msgspec
import trio
from msgspec import Struct

from bench.cases import CASES, COST_RATIO, COST_RATIO_OF, GROUPS, Measured
from ykactor.actors.clock import Clock

#: The calibration loop: its duration is the scale for comparing figures of different machines.
_CALIBRATION = compile("x = 0\nfor i in range(10_000_000): x += i\n", "calibration", "exec")


class Figure(Struct, frozen=True):
    """One figure of a case over all runs."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, samples: list[float]) -> "Figure":
        """Median, minimum and maximum of the samples."""
        return cls(median(samples), min(samples), max(samples))


class Result(Struct, frozen=True):
    """One case over all runs; ``rss_mib`` is the median of the processes' peaks, 0 for a computed case."""

    name: str
    nodes: int
    asks: int
    figures: dict[str, Figure]
    rss_mib: float

    def row(self) -> dict[str, object]:
        """The case in the format of ``--json``."""
        figures = {name: float(f"{figure.median:.6g}") for name, figure in self.figures.items()}
        rss = {"rss_mib": round(self.rss_mib, 1)} if self.rss_mib else {}
        return {"name": self.name, "nodes": self.nodes, "asks": self.asks, **figures, **rss}


class Report(Struct, frozen=True):
    """The results of all cases, and the machine.

    Attributes:
        at: time of the report, UTC, ISO 8601.
        calibration: seconds, see ``calibrate``.
        runs: number of runs of each case.
    """

    at: str
    machine: str
    python: str
    calibration: float
    runs: int
    results: list[Result]

    def for_scripts(self) -> dict[str, object]:
        """The object that ``--json`` prints."""
        return {"cases": [result.row() for result in self.results], "calibration": round(self.calibration, 4)}


def calibrate() -> float:
    """CPU seconds of ``for i in range(10_000_000): x += i`` at module level (``x`` and ``i`` are globals), best of 5."""
    return min(_timed() for _ in range(5))


def _timed() -> float:
    module: dict[str, object] = {}
    began_s = process_time()
    exec(_CALIBRATION, module)
    return process_time() - began_s


def in_fresh_process(name: str) -> Measured:
    """Run the case once in a new process."""
    command = [sys.executable, "-m", "bench", "--case", name, "--json"]
    completed = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(completed.stdout, type=Measured)


def measure_all(
    groups: Iterable[str],
    runs: int,
    run: Callable[[str], Measured] = in_fresh_process,
    on_run: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run all cases of the groups in rounds, so that a temporarily slow machine affects all cases equally.

    Args:
        runs: number of rounds.
        run: runs a case once.
        on_run: called with the name of each case before it runs.
    """
    names = [name for group in GROUPS if group in groups for name in CASES if CASES[name].group == group]
    extra = [name for name in COST_RATIO_OF if name not in names] if "latency" in groups else []
    calibration = calibrate()
    measured: dict[str, list[Measured]] = {name: [] for name in names + extra}
    for _ in range(runs):
        for name, rounds in measured.items():
            on_run(name)
            rounds.append(run(name))
    results = [_result(measured[name]) for name in names]
    if "latency" in groups:
        results.append(_cost_ratio(*(measured[name] for name in COST_RATIO_OF)))
    return Report(trio.run(_now), _machine(), platform.python_version(), calibration, runs, results)


def _result(rounds: list[Measured]) -> Result:
    """The figures over the samples of all rounds."""
    first = rounds[0]
    figures = {name: Figure.of([sample for measured in rounds for sample in measured.samples[name]]) for name in first.samples}
    return Result(first.name, first.nodes, first.asks, figures, median(measured.rss_mib for measured in rounds))


def _cost_ratio(small: list[Measured], large: list[Measured]) -> Result:
    """The ratio is taken within each round, because the speed of the machine may differ between rounds."""
    ratios = [b.samples["cpu_us"][0] / a.samples["cpu_us"][0] for a, b in zip(small, large, strict=True)]
    return Result(COST_RATIO, large[0].nodes, large[0].asks, {"ratio": Figure.of(ratios)}, 0.0)


async def _now() -> str:
    seconds = Clock.of_the_system().now_ns() // 1_000_000_000
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}"
