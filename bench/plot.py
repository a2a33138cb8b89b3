"""A report as a chart: allocations per second of each case, with the target and YuniKorn's figure."""

from xml.sax.saxutils import escape

from bench.runs import Figure, Report
from bench.table import number
from bench.targets import target, yunikorn_here

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
    ticks = _ticks(max((_reach(name, figure) for name, figure in rates), default=1.0))
    scale = (_WIDTH - _LABELS - 2 * _MARGIN) / ticks[-1]
    height = _TOP + _ROW * len(rates) + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(_MARGIN, 24, "Allocations a second", "title"),
        *_legend(report),
        *_axis(ticks, scale, height - _BOTTOM),
    ]
    for row, (name, figure) in enumerate(rates):
        parts += _bar(name, figure, _TOP + _ROW * row, scale, report.calibration)
    return "\n".join([*parts, "</svg>\n"])


def _reach(name: str, figure: Figure) -> float:
    return max(figure.max, target(name, _RATE).bound or 0)


def _ticks(reach: float) -> list[float]:
    """Four to ten round numbers from zero to the first one that is not below ``reach``."""
    step = 10.0 ** (len(str(int(reach))) - 1)
    while reach / step < 4:
        step /= 2
    return [step * i for i in range(int(-(-reach // step)) + 1)]


def _axis(ticks: list[float], scale: float, bottom: int) -> list[str]:
    parts = []
    for tick in ticks:
        x = _LABELS + _MARGIN + tick * scale
        parts.append(_line(x, _TOP, x, bottom, "axis"))
        parts.append(_text(x, bottom + 16, number(tick), "faint", "middle"))
    return parts


def _bar(name: str, figure: Figure, y: float, scale: float, calibration: float) -> list[str]:
    left, top, middle = _LABELS + _MARGIN, y + (_ROW - _BAR) / 2, y + _ROW / 2
    goal = target(name, _RATE)
    parts = [
        _text(_LABELS + _MARGIN - 8, middle + 4, name, anchor="end"),
        _rect(left, top, figure.median * scale, _BAR, "ours"),
    ]
    if goal.yunikorn is not None:
        parts.append(_rect(left, top + _BAR - 6, yunikorn_here(_RATE, goal.yunikorn, calibration) * scale, 6, "theirs"))
    if goal.bound is not None:
        parts.append(_line(left + goal.bound * scale, top - 4, left + goal.bound * scale, top + _BAR + 4, "target"))
    parts.append(_line(left + figure.min * scale, middle, left + figure.max * scale, middle, "spread"))
    return parts


def _legend(report: Report) -> list[str]:
    x, y = _MARGIN, 40
    return [
        _rect(x, y, 14, 10, "ours"),
        _text(x + 20, y + 9, f"median of {report.runs} runs, black: worst to best"),
        _rect(x + 270, y, 14, 10, "theirs"),
        _text(x + 290, y + 9, "YuniKorn, scaled to this machine"),
        _line(x + 507, y - 1, x + 507, y + 11, "target"),
        _text(x + 517, y + 9, "target"),
        _text(_WIDTH - _MARGIN, 24, f"{report.at}, Python {report.python}", "faint", "end"),
    ]


def _text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="{kind}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
