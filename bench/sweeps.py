"""``python -m bench.sweeps``: what a decision costs as one number of a mix grows; draws ``bench/cost-*.svg``.

Each picture has a line for an empty cluster, on which everything is placed, and one for a full cluster, on which each release
makes room for asks that wait. A point is the cheapest of some runs, each in a process of its own.
"""

from collections.abc import Callable
from math import log10
from pathlib import Path

import click
from msgspec import Struct, structs

from bench import drawing
from bench.drawing import line, polyline, text, ticks
from bench.mixes import Mix
from bench.search import in_fresh_process
from bench.table import number

FOLDER = Path(__file__).parent
RUNS = 2

_EMPTY = Mix(nodes=1_000, applications=100, leaves=10)
_FULL = structs.replace(_EMPTY, full=100, waiting=1_000, releases=50)
#: The lines, and the classes of their style.
LINES = {"empty cluster": ("empty", _EMPTY), "full cluster": ("full", _FULL)}

_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 56, 46

_STYLE = """
  text { font: 12px sans-serif; fill: #222 } .title { font-size: 15px; font-weight: bold } .faint { fill: #666 }
  .axis { stroke: #ddd; stroke-width: 1 } .empty { stroke: #3572a5; fill: #3572a5; stroke-width: 2 }
  .full { stroke: #c0392b; fill: #c0392b; stroke-width: 2 }
"""


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
        path.write_text(picture(axis, measured(axis, in_fresh_process)))
        click.echo(path)


def measured(axis: Axis, cost_us: Callable[[Mix], float]) -> Points:
    """The points of an axis."""
    points: Points = {name: [] for name in axis.lines}
    for value in axis.values:
        for name in axis.lines:
            mix = structs.replace(LINES[name][1], **{axis.field: value})
            points[name].append((value, min(cost_us(mix) for _ in range(RUNS))))
    return points


def picture(axis: Axis, points: Points) -> str:
    """The lines of an axis; the axis has a logarithmic scale."""
    marks = ticks(max(cost for line_points in points.values() for _, cost in line_points))
    bottom = _HEIGHT - _BOTTOM
    parts = [text(_LEFT, 24, f"CPU time of a decision (us) by number of {axis.title}", "title")]
    for mark in marks:
        y = _y(mark, marks[-1])
        parts += [line(_LEFT, y, _WIDTH - _RIGHT, y, "axis"), text(_LEFT - 6, y + 4, number(mark), "faint", "end")]
    for value in axis.values:
        parts.append(text(_x(value, axis), bottom + 18, number(value), "faint", "middle"))
    for place, (name, line_points) in enumerate(points.items()):
        kind, x = LINES[name][0], _LEFT + 140 * place
        parts += [line(x, 40, x + 20, 40, kind), text(x + 26, 44, name)]
        parts.append(polyline([(_x(value, axis), _y(cost, marks[-1])) for value, cost in line_points], kind))
    return drawing.svg(_WIDTH, _HEIGHT, _STYLE, parts)


def _x(value: int, axis: Axis) -> float:
    first, last = axis.values[0], axis.values[-1]
    share = (log10(value) - log10(first)) / (log10(last) - log10(first))
    return _LEFT + 20 + share * (_WIDTH - _LEFT - _RIGHT - 40)


def _y(cost: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - cost / top * (_HEIGHT - _BOTTOM - _TOP)


if __name__ == "__main__":
    main()
