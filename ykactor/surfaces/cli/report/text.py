"""A comparison as tables of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ykactor.core.values.printable import printable
from ykactor.core.values.words import plural
from ykactor.sim.comparison import Applications, Compared, Comparison, Moved
from ykactor.sim.trial import Group
from ykactor.surfaces.cli.cells import NONE, number, outages_text
from ykactor.surfaces.cli.report.figures import Line, Text, both_text, causes_text, change_text, count, headline, percent, seconds
from ykactor.surfaces.cli.views.listing import Column, Row, field, table

#: The width of lines where there is no terminal.
_WIDTH = 80
#: The rows of a table; JSON has all.
ROWS_MAX = 10
#: The meaning of the cells of groups.
PAIRS = "base -> other, or one value if both have the same"
#: The codes that are shown of a wait.
CAUSES_MAX, CAUSES_OF_GROUP_MAX = 3, 2

#: The columns of the tables: of all, of queues, users and so on, and of applications.
HEADLINE = [
    Column("", field("name")),
    *(Column(name.upper(), field(name), is_number=True) for name in ("base", "other", "change")),
    Column("DUE TO", field("due"), is_sentence=True),
]
#: By column, the figure of a group and its text.
FIGURES: dict[str, tuple[Callable[[Group[Compared]], Compared], Text]] = {
    "ASKS": (lambda group: group.asks, count),
    "WAIT MEAN": (lambda group: group.wait_seconds.mean, seconds),
    "P50": (lambda group: group.wait_seconds.p50, seconds),
    "P95": (lambda group: group.wait_seconds.p95, seconds),
    "MAX": (lambda group: group.wait_seconds.max, seconds),
    "SLOWDOWN P95": (lambda group: group.slowdown.p95, number),
    "USED": (lambda group: most_used(group.used_percent), percent),
}
GROUPS = [
    Column("NAME", field("name")),
    *(Column(name, field(name), is_number=True) for name in FIGURES),
    Column("WAITED FOR", field("due"), is_sentence=True),
]
APPLICATIONS = [
    Column("APPLICATION", field("name")),
    *(Column(name.upper(), field(name), is_number=True) for name in ("base", "other", "change")),
]


def most_used(used: Mapping[str, Compared]) -> Compared:
    """The use of the type of which most is used, in each run."""
    bases = [figure.base for figure in used.values() if figure.base is not None]
    others = [figure.other for figure in used.values() if figure.other is not None]
    return Compared(max(bases, default=None), max(others, default=None), None)


def lines(comparison: Comparison) -> Iterator[str]:
    """The lines of a comparison."""
    yield printable(title(comparison))
    if comparison.jitter:
        yield f"{plural(comparison.jitter, 'more run')} of each with other arrivals: values have ranges"
    if outages := outages_text(comparison.outages):
        yield outages
    yield ""
    yield from table(HEADLINE, [headline_row(line) for line in headline(comparison)], width=_WIDTH)
    for kind, groups in groups_of(comparison).items():
        yield from _group_lines(kind, groups)
    yield from _application_lines(comparison.applications)


def title(comparison: Comparison) -> str:
    """``day: a.yaml (base) and b.yaml (other)``."""
    return f"{comparison.name}: {comparison.base} (base) and {comparison.other} (other)"


def groups_of(comparison: Comparison) -> dict[str, dict[str, Group[Compared]]]:
    """The figures of queues, users, groups and priorities, by the noun and then by name."""
    report = comparison.report
    queues: dict[str, Group[Compared]] = {**report.queues}
    return {"queue": queues, "user": report.users, "group": report.groups, "priority": report.priorities}


def headline_row(line: Line) -> Row:
    """The name of a figure, its values, and whom and what they are due to."""
    return {
        "name": line.name,
        "base": line.base,
        "other": line.other,
        "change": line.change,
        "due": _due(line),
    }


def _due(line: Line) -> str:
    """``most lost: user eve +41m; most won: root.ml -12m; QUOTA 18m -> 1m, NODES 3m -> 33m``."""
    extremes = {"most lost": line.extreme(1), "most won": line.extreme(-1)}
    told = [f"{name}: {owner}" for name, owner in extremes.items() if owner]
    return "; ".join(filter(None, [*told, causes_text(line.causes, CAUSES_MAX)]))


def _group_lines(kind: str, groups: Mapping[str, Group[Compared]]) -> Iterator[str]:
    """A table of those whose mean wait changes most, in the order of their names; nothing if there is only one of its kind."""
    if len(groups) < 2:
        return
    rows = [group_row(name, groups[name]) for name in most_changed(groups, ROWS_MAX)]
    yield ""
    yield f"By {kind}, {PAIRS}{_more(len(groups) - len(rows))}:"
    yield from table(GROUPS, rows, width=_WIDTH)


def most_changed(groups: Mapping[str, Group[Compared]], most: int) -> list[str]:
    """The names of those whose mean wait changes most, in their order."""
    ranked = set(sorted(groups, key=lambda name: -abs(groups[name].wait_seconds.mean.change or 0))[:most])
    return [name for name in groups if name in ranked]


def group_row(name: str, group: Group[Compared]) -> Row:
    """The name and the figures, as in the table."""
    texts = {column: both_text(of(group), text) for column, (of, text) in FIGURES.items()}
    preempted = both_text(group.preempted, count)
    causes = causes_text(group.waited_for.mean, CAUSES_OF_GROUP_MAX)
    return {
        "name": name or NONE,
        **texts,
        "due": "; ".join(filter(None, [causes, *([f"preempted {preempted}"] * (preempted != count(0)))])),
    }


def _application_lines(applications: Applications) -> Iterator[str]:
    yield ""
    yield pairs(applications)
    for title, moved, all_of_them in (
        ("Lost most", applications.losses, applications.longer),
        ("Won most", applications.gains, applications.shorter),
    ):
        if moved:
            yield f"{title}, mean wait of a task{_more(all_of_them - len(moved))}:"
            yield from table(APPLICATIONS, [application_row(application) for application in moved], width=_WIDTH)


def pairs(applications: Applications) -> str:
    """``3 of 20 applications wait longer, 5 less long, 1 only with base``."""
    longer = f"{applications.longer} of {plural(applications.paired, 'application')} wait longer"
    only = {"base": applications.only_base, "other": applications.only_other}
    unpaired = [f"{number} only with {name}" for name, number in only.items() if number]
    return ", ".join([longer, f"{applications.shorter} less long", *unpaired])


def application_row(moved: Moved) -> Row:
    """The name and the mean waits, as in the table."""
    change = Compared(moved.base_seconds, moved.other_seconds, moved.change_seconds)
    return {
        "name": moved.application_id,
        "base": seconds(moved.base_seconds),
        "other": seconds(moved.other_seconds),
        "change": change_text(change, seconds),
    }


def _more(number_left: int) -> str:
    return f" ({number_left} more: -o json has all)" if number_left > 0 else ""
