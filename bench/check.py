"""``python -m bench.check``: fails if a decision costs much more than ``ranges.yaml`` says; ``--rewrite`` writes that file.

A cost is CPU time divided by that of the calibration loop, so that machines compare. Other processes make both larger, never
smaller: so the smallest of some rounds counts, of each of them, and a case that seems too expensive is measured again before the
check fails.
"""

import sys
from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path

import click
import yaml

from bench.runs import calibrate, in_fresh_process

RANGES = Path(__file__).parent / "ranges.yaml"
#: The cases, of which each uses other features; their figure is ``cpu_us``.
CHECKED = (
    "own-1000",
    "mix-applications",
    "mix-leaves",
    "mix-zones",
    "mix-waiting",
    "mix-gangs",
    "mix-limits",
    "mix-predicates",
    "mix-preemption",
    "worst-found",
)
#: A case may cost so many times what is in the file.
FACTOR_MAX = 1.25
ROUNDS = 3
#: Rounds for cases that seem too expensive.
AGAIN_MAX = 5

_HEAD = """\
# What a decision costs: its CPU microseconds divided by the CPU seconds of the calibration loop. Written by `make bench-ranges`;
# `make bench-check` fails if a case costs more than {:g} times as much.
"""


@click.command()
@click.option("--rewrite", is_flag=True, help="Write ranges.yaml instead.")
def main(rewrite: bool) -> None:
    """Compare what a decision costs with ranges.yaml."""
    lowest = Lowest(in_one_run, calibrate)
    lowest.measure(CHECKED, ROUNDS)
    if rewrite:
        RANGES.write_text(_HEAD.format(FACTOR_MAX) + yaml.safe_dump(lowest.costs(), sort_keys=False))
        return
    ranges: dict[str, float] = yaml.safe_load(RANGES.read_text())
    lowest.measure_again(ranges)
    costs = lowest.costs()
    for name, cost in costs.items():
        click.echo(f"{name:20} {cost:10.4g} {cost / ranges.get(name, cost):6.2f} times its range")
    found = mistakes(costs, ranges)
    for mistake in found:
        click.echo(mistake, err=True)
    sys.exit(bool(found))


def in_one_run(name: str) -> float:
    """CPU microseconds of a decision of this case, in a new process."""
    return in_fresh_process(name).samples["cpu_us"][0]


class Lowest:
    """The smallest values of all rounds.

    Args:
        measure: measures the figure of a case.
        calibrate: measures the calibration loop.
    """

    def __init__(self, measure: Callable[[str], float], calibrate: Callable[[], float]) -> None:
        self._measure = measure
        self._calibrate = calibrate
        self._figures: dict[str, float] = {}
        self._loop_s = inf

    def measure(self, names: Iterable[str], rounds: int) -> None:
        """Measure these cases and the loop so many times."""
        for _ in range(rounds):
            self._loop_s = min(self._loop_s, self._calibrate())
            for name in names:
                self._figures[name] = min(self._figures.get(name, inf), self._measure(name))

    def measure_again(self, ranges: dict[str, float]) -> None:
        """Measure the cases that seem too expensive again, at most ``AGAIN_MAX`` times."""
        for _ in range(AGAIN_MAX):
            if names := too_expensive(self.costs(), ranges):
                self.measure(names, 1)

    def costs(self) -> dict[str, float]:
        """The costs of each case."""
        return {name: float(f"{figure / self._loop_s:.4g}") for name, figure in self._figures.items()}


def too_expensive(costs: dict[str, float], ranges: dict[str, float]) -> list[str]:
    """The cases that cost more than they may."""
    return [name for name, cost in costs.items() if name in ranges and cost > FACTOR_MAX * ranges[name]]


def mistakes(costs: dict[str, float], ranges: dict[str, float]) -> list[str]:
    """The mistakes, a sentence for each case."""
    found = [
        f"{name}: found {costs[name]:g}, expected at most {FACTOR_MAX * ranges[name]:g}, {FACTOR_MAX:g} times its range"
        for name in too_expensive(costs, ranges)
    ]
    if costs.keys() != ranges.keys():
        names = ", ".join(sorted(costs.keys() ^ ranges.keys()))
        found.append(f"ranges.yaml: found other cases than expected ({names}): run make bench-ranges")
    return found


if __name__ == "__main__":
    main()
