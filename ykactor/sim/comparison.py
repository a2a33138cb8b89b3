"""The comparison of two configurations by runs of one scenario: every figure of both, and which applications wait longer.

With jitter there are more runs of each, whose arrivals are shifted a little: a figure has ranges then, and two of them whose
ranges overlap are not distinguishable. The keys of the JSON are in ``README.md`` beside this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from ykactor.sim.series import SPANS
from ykactor.sim.trial import QUANTILES, Number, Report, RunReport
from ykactor.wire.scenario.recording import Outage

#: The applications that gain and lose most.
TOP = 10


class Range(Struct, frozen=True):
    """The least and the greatest value over all runs."""

    least: int | float
    most: int | float


class Compared(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One figure of both runs.

    Attributes:
        change: other minus base; None if one of them is.
        base_range, other_range: the values of all runs, if there are jittered ones.
        distinguishable: False if these ranges overlap; None without jitter, or where there is nothing to measure.
    """

    base: Number
    other: Number
    change: Number
    base_range: Range | None = None
    other_range: Range | None = None
    distinguishable: bool | None = None


class Moved(Struct, frozen=True, rename="camel"):
    """An application in both runs: for how long one of its asks waited on average, and the difference."""

    application_id: str = field(name="applicationID")
    base_seconds: float
    other_seconds: float
    change_seconds: float


class Applications(Struct, frozen=True, rename="camel"):
    """The applications of both runs, paired by id.

    Attributes:
        paired: how many have asks in both.
        longer, shorter: how many of them wait longer, and less long, in the other run.
        only_base, only_other: how many have asks in one run only.
        losses, gains: those that wait longer and less long, by how much; the first ``TOP``.
    """

    paired: int
    longer: int
    shorter: int
    only_base: int
    only_other: int
    losses: list[Moved]
    gains: list[Moved]


class Both(Struct, frozen=True):
    """Values of both runs in the same order; none of a run without them."""

    base: list[float]
    other: list[float]


class Comparison(Struct, frozen=True, rename="camel"):
    """Two configurations and the runs of a scenario with them.

    Attributes:
        name: of the scenario.
        base, other: the names of the configurations.
        seconds: the length of the runs.
        jitter: how many more runs there are of each.
        refused: messages without any effect, by the name of the run.
        span_seconds: of the values over time.
        used: by type, the part of what all nodes offer that is used, over time.
        shares: by queue with a guarantee, the part of it that is used, over time (PR-70); above 1 it uses more.
        wait_percents, wait_quantiles: seconds that asks wait at most, for so many percent of them.
        outages: the times in which no daemon ran when the scenario was recorded, and nothing was decided in both runs.
    """

    name: str
    base: str
    other: str
    seconds: float
    jitter: int
    refused: dict[str, list[str]]
    report: Report[Compared]
    applications: Applications
    span_seconds: float
    used: dict[str, Both]
    shares: dict[str, Both]
    wait_percents: list[int]
    wait_quantiles: Both
    outages: tuple[Outage, ...] = ()


class Names(Struct, frozen=True):
    """The names of the scenario and of the two configurations."""

    scenario: str
    base: str
    other: str


def compare(names: Names, bases: Sequence[RunReport], others: Sequence[RunReport]) -> Comparison:
    """Compare runs; the first of each is without jitter, and those behind it are jittered in the same way."""
    base, other = bases[0], others[0]
    figures = _compared([msgspec.to_builtins(run.report) for run in bases], [msgspec.to_builtins(run.report) for run in others])
    seconds = max(base.seconds, other.seconds)
    return Comparison(
        names.scenario,
        names.base,
        names.other,
        seconds,
        len(bases) - 1,
        {"base": base.refused, "other": other.refused},
        msgspec.convert(figures, Report[Compared]),
        paired(base.applications, other.applications),
        seconds / SPANS,
        _both(base.used, other.used),
        _both(base.shares, other.shares),
        list(QUANTILES),
        Both(base.quantiles, other.quantiles),
    )


def _compared(bases: list[Any], others: list[Any]) -> Any:
    """The same trees of figures with pairs as their leaves.

    What one run does not have at all is None there; of amounts by type, the types that it does not name are 0.
    """
    every = [*bases, *others]
    if not any(isinstance(found, dict) for found in every):
        return _pair(bases, others)
    keys = dict.fromkeys(key for found in every if found is not None for key in found)
    sides = bases, others
    return {key: _compared(*[[_below(found, key, every) for found in side] for side in sides]) for key in keys}


def _below(found: Any, key: str, every: list[Any]) -> Any:
    if found is None or key in found:
        return found and found[key]
    is_amount = not any(isinstance(other.get(key), dict) for other in every if other is not None)
    return 0 if is_amount else None


def _pair(bases: list[Any], others: list[Any]) -> dict[str, Any]:
    base, other = bases[0], others[0]
    pair = {"base": base, "other": other, "change": None if base is None or other is None else other - base}
    measured = [[value for value in values if value is not None] for values in (bases, others)]
    if len(bases) > 1 and all(measured):
        first, second = [Range(min(values), max(values)) for values in measured]
        is_apart = first.most < second.least or second.most < first.least
        pair |= {"baseRange": first, "otherRange": second, "distinguishable": is_apart}
    return pair


def paired(base: dict[str, float], other: dict[str, float]) -> Applications:
    """The applications of two runs, by how long an ask of theirs has waited on average."""
    both = [Moved(name, waited, other[name], other[name] - waited) for name, waited in base.items() if name in other]
    ordered = sorted(both, key=lambda moved: (moved.change_seconds, moved.application_id))
    gains = [moved for moved in ordered if moved.change_seconds < 0]
    losses = [moved for moved in reversed(ordered) if moved.change_seconds > 0]
    return Applications(
        len(both), len(losses), len(gains), len(base) - len(both), len(other) - len(both), losses[:TOP], gains[:TOP]
    )


def _both(base: dict[str, list[float]], other: dict[str, list[float]]) -> dict[str, Both]:
    return {name: Both(base.get(name, []), other.get(name, [])) for name in sorted(base.keys() | other.keys())}


def json_schema() -> dict[str, Any]:
    """The JSON schema of a comparison."""
    (found,), definitions = msgspec.json.schema_components([Comparison], ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "$defs": definitions}
