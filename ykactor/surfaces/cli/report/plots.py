"""The plots of an HTML report: lines of both runs, and bars; each with a title, units and a table of what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import log10

from msgspec import Struct

from ykactor.core.values.printable import printable
from ykactor.surfaces.cli.cells import NONE
from ykactor.surfaces.cli.report import drawing
from ykactor.surfaces.cli.report.drawing import line, polyline, rect, text, ticks

#: Pixels.
_WIDTH, _HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 30, 44
_LABELS, _ROW, _BAR = 220, 40, 14
#: Characters of a name beside a bar.
_NAME_MAX = 34

Text = Callable[[float], str]
#: The runs, which are also the classes of their lines and bars.
RUNS = ("base", "other")


class Axis(Struct, frozen=True):
    """The values of one axis.

    Attributes:
        title: with the unit.
        text: of a value.
        marks: the values that are labelled, ascending; the axis ends at the last one.
        is_log: the logarithm of 1 + the value is what counts.
    """

    title: str
    text: Text
    marks: Sequence[float]
    is_log: bool = False

    def place(self, value: float) -> float:
        """The place of a value between the first mark, 0, and the last, 1."""
        low, at, high = (log10(1 + each) if self.is_log else each for each in (self.marks[0], value, self.marks[-1]))
        return (at - low) / (high - low) if high > low else 0.0


def reaching(values: Sequence[float]) -> list[float]:
    """Marks of an axis from zero to the largest of these values."""
    reach = max(values, default=0.0)
    if reach <= 0:
        return [0.0, 1.0]
    factor = 1.0
    while reach * factor < 1:  # parts of a percent, for example
        factor *= 10
    return [mark / factor for mark in ticks(reach * factor)]


def lines(title: str, x: Axis, y: Axis, places: Sequence[float], both: tuple[Sequence[float], Sequence[float]]) -> str:
    """A line for each run that has values."""
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(place: float, value: float) -> tuple[float, float]:
        return _LEFT + x.place(place) * inner_width, _HEIGHT - _BOTTOM - y.place(value) * inner_height

    parts = _legend()
    for mark in y.marks:
        _, height = at(x.marks[0], mark)
        parts += [line(_LEFT, height, _WIDTH - _RIGHT, height, "axis"), text(_LEFT - 6, height + 4, y.text(mark), "faint", "end")]
    for mark in x.marks:
        across, _ = at(mark, y.marks[0])
        parts.append(text(across, _HEIGHT - _BOTTOM + 16, x.text(mark), "faint", "middle"))
    parts.append(text(_WIDTH - _RIGHT, _HEIGHT - 8, x.title, "faint", "end"))
    parts.append(text(_LEFT, 18, y.title, "faint"))
    for run, values in zip(RUNS, both, strict=True):
        if values:
            parts.append(polyline([at(place, value) for place, value in zip(places, values, strict=True)], run))
    columns = [list(map(y.text, values)) or [NONE] * len(places) for values in both]
    rows = [[x.text(place), *cells] for place, *cells in zip(places, *columns, strict=True)]
    return figure(title, drawing.inline(_WIDTH, _HEIGHT, title, parts), table([x.title, *RUNS], rows))


def bars(title: str, axis: Axis, rows: Sequence[tuple[str, float, float]]) -> str:
    """Two bars for each name."""
    height = _TOP + _ROW * len(rows) + _BOTTOM
    inner = _WIDTH - _LABELS - _RIGHT - 40
    parts = _legend()
    for mark in axis.marks:
        across = _LABELS + axis.place(mark) * inner
        parts += [line(across, _TOP, across, height - _BOTTOM, "axis")]
        parts.append(text(across, height - _BOTTOM + 16, axis.text(mark), "faint", "middle"))
    parts.append(text(_WIDTH - _RIGHT, height - 8, axis.title, "faint", "end"))
    for number, (name, *values) in enumerate(rows):
        top = _TOP + _ROW * number + 4
        parts.append(text(_LABELS - 8, top + _BAR + 4, shortened(name), "", "end"))
        for place, (run, value) in enumerate(zip(RUNS, values, strict=True)):
            parts.append(rect(_LABELS, top + place * _BAR, axis.place(value) * inner, _BAR - 2, run))
    cells = [[name, *map(axis.text, values)] for name, *values in rows]
    return figure(title, drawing.inline(_WIDTH, height, title, parts), table(["", *RUNS], cells))


def shortened(name: str) -> str:
    """The end of a long name, which tells most of a queue."""
    name = printable(name)
    return name if len(name) <= _NAME_MAX else f"...{name[3 - _NAME_MAX :]}"


def _legend() -> list[str]:
    parts = []
    for place, run in enumerate(RUNS):
        across = _WIDTH - _RIGHT - 150 + 75 * place
        parts += [rect(across, 9, 12, 10, run), text(across + 17, 18, run)]
    return parts


def figure(title: str, picture: str, numbers: str) -> str:
    """A plot with its title and the table of its values."""
    values = f"<details><summary>Table</summary>\n{numbers}\n</details>"
    return f"<figure>\n<figcaption>{shown(title)}</figcaption>\n{picture}\n{values}\n</figure>"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column has names; the others are aligned on the right."""
    head = "".join(f"<th>{shown(header)}</th>" for header in headers)
    body = [f"<tr><th>{shown(name)}</th>{''.join(f'<td>{shown(cell)}</td>' for cell in cells)}</tr>" for name, *cells in rows]
    return "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody>", "</table>"])


def shown(content: str) -> str:
    """A text of others in HTML."""
    return escape(printable(content))
