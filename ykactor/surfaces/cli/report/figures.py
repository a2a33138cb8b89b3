"""The figures of a comparison in words, the same for text and HTML: durations, percentages, hours of resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from ykactor.sim.comparison import Compared, Comparison, Range
from ykactor.sim.trial import Group, Number
from ykactor.surfaces.cli.cells import NONE, exact_age, hour_of, in_order, number

#: What the change is of a figure whose ranges overlap.
SAME = "not distinguishable"
#: The queues whose debt is shown among the most important figures.
DEBTS_MAX = 5

Text = Callable[[int | float], str]


class Line(Struct, frozen=True):
    """One figure with its texts.

    Attributes:
        text: of a value.
        owners: the same figure of queues, users and groups, by their names.
        causes: of a wait, its parts by code.
    """

    name: str
    figure: Compared
    text: Text
    owners: Mapping[str, Compared] = {}
    causes: Mapping[str, Compared] = {}

    @property
    def base(self) -> str:
        """The value of the base, with its range."""
        return _value(self.figure.base, self.figure.base_range, self.text)

    @property
    def other(self) -> str:
        """The value of the other, with its range."""
        return _value(self.figure.other, self.figure.other_range, self.text)

    @property
    def change(self) -> str:
        """The difference, if it can be told."""
        return change_text(self.figure, self.text)

    def extreme(self, sign: int) -> str:
        """The owner for which this figure rises most (1) or falls most (-1): ``user eve +41m``; "" if it does for none."""
        changes = {name: figure for name, figure in self.owners.items() if (figure.change or 0) * sign > 0}
        told = {name: figure for name, figure in changes.items() if figure.distinguishable is not False}
        if not told:
            return ""
        name = max(told, key=lambda name: (told[name].change or 0) * sign)  # of equal ones the first: a queue
        return f"{name} {change_text(told[name], self.text)}"


def both_text(figure: Compared, text: Text) -> str:
    """``4s -> 3s``, or one text if they are the same."""
    base, other = [NONE if value is None else text(value) for value in (figure.base, figure.other)]
    return base if base == other else f"{base} -> {other}"


def causes_text(causes: Mapping[str, Compared], most: int) -> str:
    """The largest parts of a wait: ``QUOTA 18m -> 1m, NODES 3m -> 33m``; "" without any."""
    largest = sorted(causes, key=lambda code: -max(causes[code].base or 0, causes[code].other or 0))[:most]
    told = [(code, both_text(causes[code], seconds)) for code in largest]
    return ", ".join(f"{code} {text}" for code, text in told if text != seconds(0))


def _value(value: Number, bounds: Range | None, text: Text) -> str:
    if value is None:
        return NONE
    if bounds is None or text(bounds.least) == text(bounds.most):
        return text(value)
    return f"{text(value)} ({text(bounds.least)} to {text(bounds.most)})"


def change_text(figure: Compared, text: Text) -> str:
    """A difference with its sign: ``+41m``, ``-12m``, ``0``; ``-`` if one of the values is missing."""
    if figure.change is None:
        return NONE
    if figure.distinguishable is False:
        return SAME
    shown = text(abs(figure.change))
    if not figure.change or shown == text(0):
        return "0"
    return f"{'+' if figure.change > 0 else '-'}{shown}"


# ---- units


def seconds(value: float) -> str:
    """``0s``, ``4.25s``, ``21m``."""
    return exact_age(round(value * 1e9)) if value >= 0.005 else "0s"


def count(value: float) -> str:
    """A whole number."""
    return f"{value:.0f}"


def percent(value: float) -> str:
    """``71.2 %``."""
    return f"{value:.1f} %"


#: The parts of an hour.
_PARTS = ((1, "h"), (60, "min"), (3600, "s"))


def work_unit(kind: str, most: float) -> tuple[str, float]:
    """The unit in which work with a resource type is shown, and how many base units times seconds it is.

    Args:
        most: the largest amount, of which there is at least one whole unit, if it is not less than a second.
    """
    hours, factor = hour_of(kind)
    part, name = next((each for each in _PARTS if most * each[0] >= factor), _PARTS[-1])
    return hours.removesuffix("h") + name, factor / part


def work_of(kind: str) -> Text:
    """The text of base units times seconds of a resource type: ``140 core h``, ``3.5 GiB min``; less than 0.005 s is ``0``."""

    def text(value: float) -> str:
        unit, factor = work_unit(kind, value)
        return f"{number(value / factor)} {unit}" if value / factor >= 0.005 else "0"

    return text


# ---- the most important figures


def _wait(comparison: Comparison, name: str) -> Line:
    def of(group: Group[Compared]) -> Compared:
        found: Compared = getattr(group.wait_seconds, name)
        return found

    total = comparison.report.total
    return Line(f"wait {name}", of(total), seconds, _owners(comparison, of), getattr(total.waited_for, name))


def headline(comparison: Comparison) -> Iterator[Line]:
    """The most important figures; those that are nothing in both runs are left out, but for waits."""
    report, total = comparison.report, comparison.report.total
    for name in ("mean", "p50", "p95", "max"):
        yield _wait(comparison, name)
    yield Line("slowdown p95", total.slowdown.p95, number, _owners(comparison, lambda group: group.slowdown.p95))
    for kind, figure in in_order_of_types(total.used_percent):
        yield Line(f"utilisation {kind}", figure, percent)
    rare = [
        Line("waiting at the end", total.waiting, count, _owners(comparison, lambda group: group.waiting)),
        Line("rejected", report.rejected, count),
        Line("preempted", total.preempted, count, _owners(comparison, lambda group: group.preempted)),
        Line("preempted in vain", report.in_vain, count),
        *(Line(f"lost {kind}", figure, work_of(kind)) for kind, figure in in_order_of_types(total.lost)),
    ]
    yield from (line for line in rare if line.figure.base or line.figure.other)
    yield from _debts(comparison)


def _owners(comparison: Comparison, of: Callable[[Group[Compared]], Compared]) -> dict[str, Compared]:
    """A figure of all queues but root, users and groups, by their names."""
    report = comparison.report
    found = {name: of(group) for name, group in report.queues.items() if "." in name}
    found |= {f"user {name}": of(group) for name, group in report.users.items()}
    return found | {f"group {name}": of(group) for name, group in report.groups.items() if name}


def _debts(comparison: Comparison) -> Iterator[Line]:
    """The debts that differ most, as parts of what all nodes offer."""
    lines = [
        (_weight(comparison, kind, figure), Line(f"debt {name} {kind}", figure, work_of(kind)))
        for name, group in comparison.report.queues.items()
        if "." in name
        for kind, figure in group.debt.items()
    ]
    told = [(weight, line) for weight, line in lines if weight and {line.base, line.other} != {"0"}]
    told.sort(key=lambda entry: -entry[0])
    yield from (line for _, line in told[:DEBTS_MAX])


def _weight(comparison: Comparison, kind: str, figure: Compared) -> float:
    """The size of a difference of debts, in parts of the debt of all queues of this type; with equal debts 0."""
    every = [group.debt[kind] for group in comparison.report.queues.values() if kind in group.debt]
    whole = sum((debt.base or 0) + (debt.other or 0) for debt in every)
    return abs(figure.change or 0) / whole if whole else 0.0


def in_order_of_types(amounts: Mapping[str, Compared]) -> list[tuple[str, Compared]]:
    """vcore, memory, then the others by name."""
    return [(kind, amounts[kind]) for kind, _ in in_order(dict.fromkeys(amounts, 0))]
