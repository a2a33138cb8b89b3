"""A chart of lines over a number that grows, on a logarithmic scale."""

from math import log10

from bench.table import number
from ykactor.surfaces.cli.report import drawing
from ykactor.surfaces.cli.report.drawing import dotted, line, text, ticks

_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 56, 46

_STYLE = """
  text { font: 12px sans-serif; fill: #222 } .title { font-size: 15px; font-weight: bold } .faint { fill: #666 }
  .axis { stroke: #ddd; stroke-width: 1 } .blue { stroke: #3572a5; fill: #3572a5; stroke-width: 2 }
  .red { stroke: #c0392b; fill: #c0392b; stroke-width: 2 }
"""

#: A colour, blue or red, and points from left to right.
Line = tuple[str, list[tuple[int, float]]]


def chart(title: str, lines: dict[str, Line]) -> str:
    """An SVG picture of some lines with their names."""
    points = [point for _, line_points in lines.values() for point in line_points]
    values = sorted({value for value, _ in points})
    marks = ticks(max(height for _, height in points))
    parts = [text(_LEFT, 24, title, "title")]
    for mark in marks:
        y = _y(mark, marks[-1])
        parts += [line(_LEFT, y, _WIDTH - _RIGHT, y, "axis"), text(_LEFT - 6, y + 4, number(mark), "faint", "end")]
    for value in values:
        parts.append(text(_x(value, values), _HEIGHT - _BOTTOM + 18, number(value), "faint", "middle"))
    for place, (name, (colour, line_points)) in enumerate(lines.items()):
        x = _LEFT + 140 * place
        parts += [line(x, 40, x + 20, 40, colour), text(x + 26, 44, name)]
        parts.append(dotted([(_x(value, values), _y(height, marks[-1])) for value, height in line_points], colour))
    return drawing.svg(_WIDTH, _HEIGHT, _STYLE, parts)


def _x(value: int, values: list[int]) -> float:
    first, last = values[0], values[-1]
    share = (log10(value) - log10(first)) / (log10(last) - log10(first))
    return _LEFT + 20 + share * (_WIDTH - _LEFT - _RIGHT - 40)


def _y(height: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - height / top * (_HEIGHT - _BOTTOM - _TOP)
