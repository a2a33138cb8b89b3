"""A report as a chart: allocations per second of each case, with the target and YuniKorn's figure."""

from bench.runs import Figure, Report
from bench.table import number
from bench.targets import target, yunikorn_here
from ykactor.surfaces.cli.report import drawing
from ykactor.surfaces.cli.report.drawing import line, rect, text, ticks

_RATE = "allocations_per_second"

#: Pixels.
_WIDTH, _LABELS, _MARGIN = 760, 130, 20
_ROW, _BAR = 36, 18
_TOP, _BOTTOM = 64, 40

_STYLE = """
  text { font: 12px sans-serif; fill: #222 } .title { font-size: 15px; font-weight: bold } .faint { fill: #666 }
  .ours { fill: #3572a5 } .theirs { fill: #c9c9c9 } .target { stroke: #c0392b; stroke-width: 2 }
  .spread { stroke: #222; stroke-width: 1.5 } .axis { stroke: #bbb; stroke-width: 1 }
"""


def svg(report: Report) -> str:
    """One bar for each case with a rate: the median, a line from the worst run to the best, the target, YuniKorn's figure."""
    rates = [(result.name, result.figures[_RATE]) for result in report.results if _RATE in result.figures]
    marks = ticks(max((_reach(name, figure) for name, figure in rates), default=1.0))
    scale = (_WIDTH - _LABELS - 2 * _MARGIN) / marks[-1]
    height = _TOP + _ROW * len(rates) + _BOTTOM
    parts = [
        text(_MARGIN, 24, "Allocations a second", "title"),
        *_legend(report),
        *_axis(marks, scale, height - _BOTTOM),
    ]
    for row, (name, figure) in enumerate(rates):
        parts += _bar(name, figure, _TOP + _ROW * row, scale, report.calibration)
    return drawing.svg(_WIDTH, height, _STYLE, parts)


def _reach(name: str, figure: Figure) -> float:
    return max(figure.max, target(name, _RATE).bound or 0)


def _axis(marks: list[float], scale: float, bottom: int) -> list[str]:
    parts = []
    for mark in marks:
        x = _LABELS + _MARGIN + mark * scale
        parts.append(line(x, _TOP, x, bottom, "axis"))
        parts.append(text(x, bottom + 16, number(mark), "faint", "middle"))
    return parts


def _bar(name: str, figure: Figure, y: float, scale: float, calibration: float) -> list[str]:
    left, top, middle = _LABELS + _MARGIN, y + (_ROW - _BAR) / 2, y + _ROW / 2
    goal = target(name, _RATE)
    parts = [
        text(_LABELS + _MARGIN - 8, middle + 4, name, anchor="end"),
        rect(left, top, figure.median * scale, _BAR, "ours"),
    ]
    if goal.yunikorn is not None:
        parts.append(rect(left, top + _BAR - 6, yunikorn_here(_RATE, goal.yunikorn, calibration) * scale, 6, "theirs"))
    if goal.bound is not None:
        parts.append(line(left + goal.bound * scale, top - 4, left + goal.bound * scale, top + _BAR + 4, "target"))
    parts.append(line(left + figure.min * scale, middle, left + figure.max * scale, middle, "spread"))
    return parts


def _legend(report: Report) -> list[str]:
    x, y = _MARGIN, 40
    return [
        rect(x, y, 14, 10, "ours"),
        text(x + 20, y + 9, f"median of {report.runs} runs, black: worst to best"),
        rect(x + 270, y, 14, 10, "theirs"),
        text(x + 290, y + 9, "YuniKorn, scaled to this machine"),
        line(x + 507, y - 1, x + 507, y + 11, "target"),
        text(x + 517, y + 9, "target"),
        text(_WIDTH - _MARGIN, 24, f"{report.at}, Python {report.python}", "faint", "end"),
    ]
