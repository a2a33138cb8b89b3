"""``python -m bench.sweeps``: what a decision costs as one number of a mix grows; draws ``bench/cost-*.svg``.

Each picture has a line for an empty cluster, on which everything is placed, and one for a full cluster, on which each release
makes room for asks that wait. A point is the cheapest of some runs, each in a process of its own.
"""

from collections.abc import Callable
from pathlib import Path

import click
from msgspec import Struct, structs

from bench.chart import chart
from bench.mixes import Mix
from bench.search import in_fresh_process

FOLDER = Path(__file__).parent
RUNS = 2

_EMPTY = Mix(nodes=1_000, applications=100, leaves=10)
_FULL = structs.replace(_EMPTY, full=100, waiting=1_000, releases=50)
#: The lines, and their colours.
LINES = {"empty cluster": ("blue", _EMPTY), "full cluster": ("red", _FULL)}


class Axis(Struct, frozen=True):
    """The number of a mix that grows.

    Attributes:
        field: its name in ``Mix``.
        title: what people call it.
        lines: some of ``LINES``.
    """

    field: str
    title: str
    values: tuple[int, ...]
    lines: tuple[str, ...] = tuple(LINES)


AXES = (
    Axis("nodes", "nodes", (100, 1_000, 3_000, 10_000)),
    Axis("leaves", "leaf queues", (1, 10, 100, 1_000)),
    Axis("applications", "applications", (1, 10, 100, 1_000, 5_000)),
    Axis("waiting", "waiting asks", (100, 1_000, 10_000, 30_000), ("full cluster",)),
    Axis("ask_sizes", "shapes (sizes of asks)", (1, 10, 100, 1_000)),
)

#: For each line of an axis: (value, CPU microseconds of a decision).
Points = dict[str, list[tuple[int, float]]]


@click.command()
def main() -> None:
    """Measure all points and draw the pictures."""
    for axis in AXES:
        path = FOLDER / f"cost-{axis.field.replace('_', '-')}.svg"
        points = measured(axis, in_fresh_process)
        lines = {name: (LINES[name][0], points[name]) for name in points}
        path.write_text(chart(f"CPU time of a decision (us) by number of {axis.title}", lines))
        click.echo(path)


def measured(axis: Axis, cost_us: Callable[[Mix], float]) -> Points:
    """The points of an axis."""
    points: Points = {name: [] for name in axis.lines}
    for value in axis.values:
        for name in axis.lines:
            mix = structs.replace(LINES[name][1], **{axis.field: value})
            points[name].append((value, min(cost_us(mix) for _ in range(RUNS))))
    return points


if __name__ == "__main__":
    main()
