"""A comparison as one HTML file, which loads nothing and runs no script."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from ykactor.core.values.words import plural
from ykactor.sim.comparison import Applications, Both, Compared, Comparison
from ykactor.sim.series import SPANS
from ykactor.sim.trial import Group
from ykactor.surfaces.cli.cells import number, outages_text
from ykactor.surfaces.cli.report import text
from ykactor.surfaces.cli.report.figures import headline, percent, seconds, work_unit
from ykactor.surfaces.cli.report.plots import Axis, bars, lines, reaching, shown, table
from ykactor.surfaces.cli.views.listing import Column

#: The queues of plots that have one for each, and of the bars; JSON has all.
PLOTS_MAX, BARS_MAX = 12, 12
#: The rows of tables.
ROWS_MAX = 100
#: Waits that are labelled on a logarithmic axis, and the spans between two of them on a linear one.
_SECONDS = (0, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000, 8_640_000, 86_400_000, 864_000_000, 8_640_000_000)
_STEPS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 432_000, 864_000, 2_592_000)
_MARKS_MAX = 6

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
body { color: #222; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
figure { margin: 1.5rem 0; overflow-x: auto } figcaption { font-weight: 600 } svg { max-width: 45rem; width: 100%; height: auto }
table { border-collapse: collapse; font-size: 0.85rem; margin: 0.5rem 0; font-variant-numeric: tabular-nums }
th, td { padding: 0.15rem 0.7rem; text-align: right; border-bottom: 1px solid #8883; font-weight: 400; white-space: nowrap }
th:first-child { text-align: left } thead th { font-weight: 600 } .wide { overflow-x: auto } summary { cursor: pointer }
text { font: 12px system-ui, sans-serif; fill: #222 } .faint { fill: #666 } .axis { stroke: #8884; stroke-width: 1 }
.base { stroke: #7a8896; fill: #7a8896; stroke-width: 1.6 } .other { stroke: #c2571a; fill: #c2571a; stroke-width: 1.6 }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #16191d } text { fill: #ddd } .faint { fill: #9aa } .base { stroke: #8fa3b8; fill: #8fa3b8 }
}
""".strip()
#: A browser that knows this loads nothing, whatever a name in the report contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(comparison: Comparison) -> str:
    """The page; each plot has a title, units and a table."""
    title = shown(text.title(comparison))
    head = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8"/>',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>',
        '<meta name="viewport" content="width=device-width"/>',
        f"<title>{title}</title>",
        f"<style>\n{_STYLE}\n</style>",
        "</head>",
        "<body>",
        f"<h1>{title}</h1>",
    ]
    return "\n".join([*head, *_body(comparison), "</body>", "</html>", ""])


def _body(comparison: Comparison) -> Iterator[str]:
    yield f"<p>{shown(_about(comparison))}</p>"
    rows = [list(text.headline_row(line).values()) for line in headline(comparison)]
    yield _wide(table(_headers(text.HEADLINE), rows))
    yield "<h2>Waits</h2>"
    yield from _waits(comparison)
    yield "<h2>Use and guarantees</h2>"
    yield from _over_time(comparison)
    yield "<h2>Fairness</h2>"
    yield from _accounts(comparison)
    for kind, groups in text.groups_of(comparison).items():
        yield from _groups(kind, groups)
    yield from _applications(comparison.applications)


def _about(comparison: Comparison) -> str:
    """The length of the runs, how many there were, and for how long no daemon ran."""
    runs = f", and {plural(comparison.jitter, 'more run')} of each with other arrivals" if comparison.jitter else ""
    outages = outages_text(comparison.outages)
    return f"One run of {seconds(comparison.seconds)} of each{runs}{f'; {outages}' if outages else ''}."


def _headers(columns: Sequence[Column]) -> list[str]:
    return [column.header.lower() for column in columns]


def _wide(content: str) -> str:
    return f'<div class="wide">{content}</div>'


# ---- plots


def _waits(comparison: Comparison) -> Iterator[str]:
    both = comparison.wait_quantiles
    if both.base and both.other:
        x = Axis("asks, percent", lambda value: f"{value:.0f} %", range(0, 101, 20))
        most = max(*both.base, *both.other)
        above = sum(mark < most for mark in _SECONDS)
        y = Axis("wait at most, logarithmic", seconds, _SECONDS[: max(2, above + 1)], is_log=True)
        yield lines("How long asks wait", x, y, comparison.wait_percents, (both.base, both.other))
    causes = comparison.report.total.waited_for.mean
    yield from _bars("What asks wait for, on average", causes, Unit("part of the mean wait", seconds, _time_marks))
    queues = {name: group.wait_seconds.mean for name, group in comparison.report.queues.items() if "." in name}
    yield from _bars("Mean wait by queue", queues, Unit("mean wait", seconds, _time_marks))


def _over_time(comparison: Comparison) -> Iterator[str]:
    for kind, both in list(comparison.used.items())[:PLOTS_MAX]:
        yield _line_over_time(comparison, f"Use of {kind}", f"{kind}, percent of all nodes", both)
    for name in _most_different(comparison.shares):
        about = f"Use of the guarantee of {name}"
        yield _line_over_time(comparison, about, "largest used part of the guarantee, percent", comparison.shares[name])


def _line_over_time(comparison: Comparison, title: str, unit: str, both: Both) -> str:
    places = [comparison.span_seconds * (place + 0.5) for place in range(SPANS)]
    x = Axis("time since the begin", seconds, [comparison.seconds * part / 4 for part in range(5)])
    values = [[100 * value for value in run] for run in (both.base, both.other)]
    y = Axis(unit, percent, reaching([*values[0], *values[1]]))
    return lines(title, x, y, places, (values[0], values[1]))


def _most_different(shares: Mapping[str, Both]) -> list[str]:
    """The queues whose use of their guarantee differs most, by name."""
    nothing = [0.0] * SPANS
    runs = {name: (both.base or nothing, both.other or nothing) for name, both in shares.items()}
    apart = {name: sum(abs(a - b) for a, b in zip(*both, strict=True)) for name, both in runs.items()}
    return sorted(sorted(shares, key=lambda name: -apart[name])[:PLOTS_MAX])


def _accounts(comparison: Comparison) -> Iterator[str]:
    """Debt and credit by type."""
    queues = {name: group for name, group in comparison.report.queues.items() if "." in name}
    for kind in dict.fromkeys(kind for group in queues.values() for kind in (*group.debt, *group.credit)):
        debts = {name: group.debt[kind] for name, group in queues.items() if kind in group.debt}
        credit = {name: group.credit[kind] for name, group in queues.items() if kind in group.credit}
        for title, figures in (
            (f"Debt in {kind}: less used than a queue was entitled to", debts),
            (f"Credit in {kind}: more used than a queue was entitled to", credit),
        ):
            most = max((value or 0 for figure in figures.values() for value in (figure.base, figure.other)), default=0)
            unit, factor = work_unit(kind, most)
            if most >= 0.005 * factor:
                yield from _bars(title, figures, Unit(f"{kind}, {unit}", number, reaching, factor))


class Unit(Struct, frozen=True):
    """The unit of an axis.

    Attributes:
        text: of a value in this unit.
        marks: the marks of an axis up to the largest of some values.
        factor: how much of a figure is one of the unit.
    """

    title: str
    text: Callable[[float], str]
    marks: Callable[[Sequence[float]], Sequence[float]]
    factor: float = 1


def _bars(title: str, figures: Mapping[str, Compared], unit: Unit) -> Iterator[str]:
    """Bars of the queues that differ most, in the order of their names; nothing if all are 0."""
    known = {name: (figure.base or 0, figure.other or 0) for name, figure in figures.items() if figure.base or figure.other}
    if not known:
        return
    names = sorted(sorted(known, key=lambda name: -abs(known[name][1] - known[name][0]))[:BARS_MAX])
    rows = [(name, known[name][0] / unit.factor, known[name][1] / unit.factor) for name in names]
    marks = unit.marks([value for _, *values in rows for value in values])
    yield bars(title, Axis(unit.title, unit.text, marks), rows)


def _time_marks(values: Sequence[float]) -> list[float]:
    """Marks at whole minutes, hours or days."""
    most = max(values)
    step = next((step for step in _STEPS_S if most <= step * _MARKS_MAX), most / _MARKS_MAX)
    return [step * place for place in range(-int(-most // step) + 1)]


# ---- tables


def _groups(kind: str, groups: Mapping[str, Group[Compared]]) -> Iterator[str]:
    names = text.most_changed(groups, ROWS_MAX)
    if names:
        left = len(groups) - len(names)
        yield f"<h2>By {kind}</h2>"
        yield f"<p>{shown(text.PAIRS)}{f'; {left} more in JSON' if left else ''}</p>"
        rows = [list(text.group_row(name, groups[name]).values()) for name in names]
        yield _wide(table(_headers(text.GROUPS), rows))


def _applications(applications: Applications) -> Iterator[str]:
    yield "<h2>Applications</h2>"
    yield f"<p>{shown(text.pairs(applications))}.</p>"
    for title, moved in (("Lost most", applications.losses), ("Won most", applications.gains)):
        if moved:
            rows = [list(text.application_row(application).values()) for application in moved]
            yield _wide(table([f"{title}, mean wait of a task", *_headers(text.APPLICATIONS)[1:]], rows))
