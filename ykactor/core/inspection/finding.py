"""Finds what a name means in a partition: a task, an application, a queue or a node; else the names that are most like it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice, takewhile
from typing import Literal, NamedTuple

from ykactor.core.inspection.explaining import Sight
from ykactor.core.messages.acts import full_path
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.quantities import brief

Kind = Literal["ask", "application", "queue", "node"]
#: Names that are told when there is none, and the number of names that are compared for it.
NEAREST_MAX = 3
_COMPARED_MAX = 20_000
#: Names that begin or end alike, which are compared letter by letter, and the letters of each; one counts as so many items.
_ALIKE_MAX = 50
_LETTERS_MAX = 64
_COMPARISON_ITEMS = 50
#: The unlikeness above which a name is no help.
_UNLIKENESS_MAX = 0.5


class Match(NamedTuple):
    """One meaning of a name.

    Attributes:
        key: of a task.
    """

    partition: PartitionName
    kind: Kind
    name: str
    key: str = ""

    @property
    def words(self) -> str:
        """``application app-1 in partition default``."""
        what = f"ask {self.name}/{self.key}" if self.key else f"{self.kind} {self.name}"
        return f"{what} in partition {self.partition}"


def matches(core: PartitionCore, state: SchedulerState, name: str, kind: Kind | None, sight: Sight | None) -> Steps[list[Match]]:
    """All meanings of a name in a partition, as far as a reader sees them; of tasks only if it has no other.

    Args:
        kind: None: any.
        sight: of a limited reader, which sees no nodes, and of other queues and their applications nothing; None sees all.
    """
    registry, found = core.registry, list[Match]()
    if kind in (None, "application") and (yield from _has_application(core, name, sight)):
        found.append(Match(core.name, "application", name))
    path = full_path(name)
    is_path = kind == "queue" or path == name.lower()
    if kind in (None, "queue") and is_path and path in registry.queues and _shows(sight, path):
        found.append(Match(core.name, "queue", path))
    if kind in (None, "node") and sight is None and NodeID(name) in registry.nodes:
        found.append(Match(core.name, "node", name))
    if kind == "ask" or (kind is None and not found):
        found += yield from _tasks(core, state, AllocationKey(name), sight)
    return found


def _shows(sight: Sight | None, path: str) -> bool:
    return sight is None or sight.shows_queue(path)


def _has_application(core: PartitionCore, name: str, sight: Sight | None) -> Steps[bool]:
    """True if an application lives, or is remembered."""
    application_id = ApplicationID(name)
    if application_id in core.registry.applications:
        return _shows(sight, core.registry.applications[application_id])
    if sight is None and application_id in core.timers.rejected:
        return True
    for ended in reversed(core.timers.ended.values()):
        if ended.application_id == name and _shows(sight, ended.queue):
            return True
        yield 1
    return False


def _tasks(core: PartitionCore, state: SchedulerState, key: AllocationKey, sight: Sight | None) -> Steps[list[Match]]:
    """The applications with a task of this key that waits or runs."""
    found = []
    for application in state.applications.values():
        yield 1
        if _shows(sight, application.leaf.path):
            name = application.application_id
            tasks = core.registry.leaf_of(name).applications[name].tasks
            if key in application.asks or key in tasks.allocations:
                found.append(Match(core.name, "ask", name, key))
    return found


def names_like(core: PartitionCore, name: str, kind: Kind | None, sight: Sight | None) -> Steps[list[str]]:
    """The names in a partition that are most like a name, best first; of very many only some are compared."""
    alike: list[tuple[int, str]] = []
    for part in in_parts(islice(_names(core, kind, sight), _COMPARED_MAX)):
        alike = nlargest(_ALIKE_MAX, [*alike, *((_ends_alike(name, other), other) for other in part)])
        yield 2 * len(part)
    compared = list[tuple[float, str]]()
    for other in {other for _, other in alike}:
        compared.append((_unlikeness(name, other), other))
        yield _COMPARISON_ITEMS
    return _best(compared)


def _names(core: PartitionCore, kind: Kind | None, sight: Sight | None) -> Iterator[str]:
    registry = core.registry
    if kind in (None, "queue"):
        yield from (path for path in registry.queues if _shows(sight, path))
    if kind in (None, "node") and sight is None:
        yield from registry.nodes
    if kind in (None, "application", "ask"):
        yield from (name for name, path in registry.applications.items() if _shows(sight, path))


def _ends_alike(one: str, other: str) -> int:
    """The number of letters that two names have in common at their begins and their ends."""
    pairs = list(zip(one, other, strict=False)), list(zip(reversed(one), reversed(other), strict=False))
    return sum(len(list(takewhile(lambda pair: pair[0] == pair[1], each))) for each in pairs)


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The names that are most like one, best first."""
    return _best((_unlikeness(name, other), other) for other in set(names))


def _unlikeness(one: str, other: str) -> float:
    """The unlikeness of two names, 0 to 1. Only the ends of long ones count: the time grows with the product of the lengths."""
    return 1 - SequenceMatcher(None, _ends(one), _ends(other)).ratio()


def _ends(name: str) -> str:
    half = _LETTERS_MAX // 2
    return (name if len(name) <= _LETTERS_MAX else name[:half] + name[-half:]).lower()


def _best(compared: Iterable[tuple[float, str]]) -> list[str]:
    return [other for unlikeness, other in sorted(compared)[:NEAREST_MAX] if unlikeness <= _UNLIKENESS_MAX]


def nothing(name: str, kind: Kind | None, like: Sequence[str]) -> str:
    """A sentence: there is nothing of this name."""
    what = kind or "application, task, queue or node"
    near = f"; the nearest names are {', '.join(like)}" if like else ""
    return f"there is no {what} {brief(name) or 'without a name'}{near}"


def nothing_remembered(name: str, kind: Kind | None, like: Sequence[str]) -> str:
    """The same by a daemon, which has forgotten what ended long ago (AP-73)."""
    unknown = nothing(name, kind, like)
    if kind in ("queue", "node"):
        return unknown
    return f"{unknown}; the 10,000 applications that ended last are remembered for 72 h; see also explain --on STATE_DIR"


def several(name: str, found: Sequence[Match]) -> str:
    """A sentence: a name has several meanings."""
    named = "; ".join(match.words for match in found[:NEAREST_MAX])
    more = f"; and {len(found) - NEAREST_MAX} more" if len(found) > NEAREST_MAX else ""
    return f"{brief(name)} may be {named}{more}: name the partition, the kind, or APP/ASK"
