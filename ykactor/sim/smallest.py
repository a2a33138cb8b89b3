"""The smallest changes with which a pending ask is placed (AP-155), each tried.

The search knows tries only by their outcomes: a change is a result if the ask is placed with it, and not with one step less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ykactor.core.inspection.changes import (
    AddNode,
    Change,
    DropTerm,
    EndHold,
    Found,
    Free,
    Prioritise,
    Raise,
    Resize,
    Search,
    Undrain,
    Wait,
)
from ykactor.core.messages.asks import AskID
from ykactor.core.values.ids import NodeID
from ykactor.sim.candidates import Family, Part

#: Results, tries of all and of one, changes that are made together, and how often an added amount is doubled.
RESULTS_MAX, TRIES_MAX, TRIES_OF_ONE, TOGETHER_MAX, DOUBLINGS_MAX = 5, 200, 60, 4, 10
#: Amounts above the lower bound that are tried one after the other; of more only some.
_EACH_MAX = 8


class Outcome(Struct, frozen=True):
    """The outcome of a try.

    Attributes:
        node_id: where the ask is placed; "" if it is not.
        at_ns: the Unix time at which it begins to run.
        reason: why it still waits, or why a change is refused.
        next_part: the change of what binds first now, if it was asked for.
        ended: after a wait the task of which the end has let it begin, and its node.
    """

    node_id: str = ""
    at_ns: int = 0
    reason: str = ""
    next_part: Part | None = None
    ended: tuple[AskID, NodeID] | None = None


class EndedError(Exception):
    """The search is over: there were too many tries, or they took too long."""


#: Tries changes on a copy of the present state; with True it tells the next part. Raises ``EndedError`` when its time is over.
Attempt = Callable[[Sequence[Change], bool], Outcome]


class _Tries:
    """Counts tries.

    Attributes:
        count: of all. of_one: since ``begin``.
        reason: why the ask waited in the last one.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.count = self.of_one = 0
        self.reason = ""
        self._attempt = attempt

    def begin(self) -> None:
        """Begin with another change."""
        self.of_one = 0

    def __call__(self, parts: Sequence[Part], *, explains: bool = False) -> Outcome:
        """Make these changes on a copy.

        Raises:
            EndedError: there were too many.
        """
        if self.count >= TRIES_MAX:
            raise EndedError
        self.count += 1
        self.of_one += 1
        outcome = self._attempt([part.change for part in parts], explains)
        self.reason = outcome.reason
        return outcome

    @property
    def are_left(self) -> bool:
        """True if the present change may be tried again."""
        return self.of_one < TRIES_OF_ONE


def search(families: Iterable[Family], attempt: Attempt, wait: Callable[[], Found | None]) -> Search:
    """The smallest changes: of each family one, else several together; and waiting, if that helps.

    Args:
        families: as ``candidates.families`` yields them.
        wait: tries at the end whether time alone helps; raises as an attempt.
    """
    tries, found, waits, is_ended = _Tries(attempt), list[Found](), list[Found](), False
    try:
        for family in families:
            for part in family:
                tries.begin()
                if _alone(part, tries, found):
                    break
        if not found:
            tries.begin()
            _together(tries, found)
        waits += filter(None, [wait()])
    except EndedError:
        is_ended = True
    shown = sorted([*sorted(found, key=_order)[: RESULTS_MAX - len(waits)], *waits], key=_order)
    return Search(shown, is_ended, tries.count, "" if shown else tries.reason)


# ---- one change


def _alone(part: Part, tries: _Tries, found: list[Found]) -> bool:
    """Add a change that suffices alone, with the smallest amount; False if it does not suffice."""
    reached = _reached(part, tries) if part.step else _tried(part, tries)
    if reached is None:
        return False
    part, outcome, failed = reached
    found.append(Found([part.change], outcome.node_id, outcome.at_ns, is_least=not part.step))
    if part.step:  # the search may be ended meanwhile
        part, outcome, least = _least(part, outcome, failed, tries)
        smaller = _smaller(part) if least else None
        too_little = None if smaller is None else _amounts(smaller)[1]
        found[-1] = Found([part.change], outcome.node_id, outcome.at_ns, least, too_little)
    return True


def _tried(part: Part, tries: _Tries) -> tuple[Part, Outcome, int] | None:
    outcome = tries([part])
    return (part, outcome, 0) if outcome.node_id else None


def _reached(part: Part, tries: _Tries) -> tuple[Part, Outcome, int] | None:
    """The change with an amount that suffices, its outcome, and the largest one that was tried before and does not.

    The added amount is doubled from the lower bound on.
    """
    before, bound = _amounts(part)
    failed, amount = bound - _sign(part) * part.step, bound
    for _ in range(1 + DOUBLINGS_MAX):
        outcome = tries([part.at(amount)])
        if outcome.node_id:
            return part.at(amount), outcome, failed
        if amount == part.most:
            return None
        failed, amount = amount, _doubled(part, before, amount)
    return None


def _doubled(part: Part, before: int, amount: int) -> int:
    """Twice as much more, or less, but not beyond the most."""
    wanted = before + 2 * (amount - before)
    return min(wanted, part.most) if _sign(part) > 0 else max(wanted, part.most)


def _least(part: Part, outcome: Outcome, failed: int, tries: _Tries) -> tuple[Part, Outcome, bool]:
    """The smallest amount between one that does not suffice and one that does; False if not all of it could be tried.

    Amounts next to one that fails are tried one by one, because more is not always better; others are halved.
    """
    part, outcome = _nearest(part, outcome, failed, tries)
    while tries.are_left:
        smaller = _smaller(part)
        if smaller is None or not (less := tries([smaller])).node_id:
            return part, outcome, True
        part, outcome = smaller, less
    return part, outcome, False


def _smaller(part: Part) -> Part | None:
    """The change with one step less; None if it would be none."""
    before, amount = _amounts(part)
    less = amount - _sign(part) * part.step
    return part.at(less) if (less - before) * _sign(part) > 0 else None


def _nearest(part: Part, outcome: Outcome, failed: int, tries: _Tries) -> tuple[Part, Outcome]:
    """The amount closest to ``failed`` that suffices, as far as steps or halves find it."""
    sign = _sign(part)
    while tries.are_left:
        _, amount = _amounts(part)
        steps = abs(amount - failed) // part.step
        if steps <= 1:
            break
        middle = failed + sign * part.step * (1 if steps <= _EACH_MAX else steps // 2)
        tried = tries([part.at(middle)])
        if tried.node_id:
            part, outcome = part.at(middle), tried
        else:
            failed = middle
    return part, outcome


def _amounts(part: Part) -> tuple[int, int]:
    """The amount as it is, and that of the change."""
    assert isinstance(part.change, Raise | Resize | Prioritise)
    return part.change.before, part.change.after


def _sign(part: Part) -> int:
    return -1 if isinstance(part.change, Resize) else 1


# ---- several changes


def _together(tries: _Tries, found: list[Found]) -> None:
    """Make changes of what binds, one after the other, until the ask is placed; then add those that are needed, each as small as
    possible.
    """
    parts, doublings = list[Part](), 0
    outcome = tries(parts, explains=True)
    while not outcome.node_id:
        part = outcome.next_part
        if part is None:
            return
        known = next((index for index, each in enumerate(parts) if _is_same(each, part)), None)
        if known is not None and part.step and doublings < DOUBLINGS_MAX:
            parts[known] = _larger(parts[known], part)
            doublings += 1
        elif known is None and len(parts) < TOGETHER_MAX:
            parts.append(part)
        else:
            return
        outcome = tries(parts, explains=True)
    found.append(Found([part.change for part in parts], outcome.node_id, outcome.at_ns, is_least=False))
    found[-1] = _needed(parts, outcome, tries)


def _is_same(one: Part, other: Part) -> bool:
    first, second = one.change, other.change
    return type(first) is type(second) and first.target == second.target and _resource(first) == _resource(second)


def _resource(change: Change) -> str:
    return change.resource if isinstance(change, Raise | Resize) else ""


def _larger(part: Part, wanted: Part) -> Part:
    """The change with the amount that is wanted now, or the added amount doubled, whichever is more."""
    before, amount = _amounts(part)
    doubled, now = _doubled(part, before, amount), _amounts(wanted)[1]
    return part.at(max(doubled, now) if _sign(part) > 0 else min(doubled, now))


def _needed(parts: list[Part], outcome: Outcome, tries: _Tries) -> Found:
    """The changes of several that are needed, each with the smallest amount."""
    while True:
        shown, least = list(parts), True
        for part in shown:
            rest = [each for each in parts if each is not part]
            if len(parts) > 1 and (without := tries(rest)).node_id:
                parts, outcome = rest, without
        for index, part in enumerate(parts):
            if part.step:
                parts[index], outcome, is_least = _least_of(parts, index, outcome, tries)
                least = least and is_least
        if parts == shown or not least:
            return Found([part.change for part in parts], outcome.node_id, outcome.at_ns, least)


def _least_of(parts: Sequence[Part], index: int, outcome: Outcome, tries: _Tries) -> tuple[Part, Outcome, bool]:
    """The smallest amount of one of several changes."""
    part, among = parts[index], _Among(tries, parts, index)
    smaller = _smaller(part)
    if smaller is None or not (less := among([smaller])).node_id:
        return part, outcome, True
    return _least(smaller, less, _amounts(part)[0], among)


class _Among(_Tries):
    """Tries one of several changes with the others as they are."""

    def __init__(self, tries: _Tries, parts: Sequence[Part], index: int) -> None:
        self._tries, self._before, self._behind = tries, parts[:index], parts[index + 1 :]

    def __call__(self, parts: Sequence[Part], *, explains: bool = False) -> Outcome:
        """Make these changes among the others."""
        return self._tries([*self._before, *parts, *self._behind], explains=explains)

    @property
    def are_left(self) -> bool:
        """True if the present change may be tried again."""
        return self._tries.are_left


# ---- the order


def _order(found: Found) -> tuple[int, float, str]:
    """Fewest objects first, then the least relative change, then the name."""
    objects = {target for change in found.changes for target in _objects(change)}
    return len(objects), sum(map(_relative, found.changes)), str(found.changes)


def _objects(change: Change) -> list[tuple[str, ...]]:
    return [("task", *task) for task in change.tasks] if isinstance(change, Free) else [change.target]


def _relative(change: Change) -> float:
    """The size of a change in parts of what it changes; what only undoes an act of an operator is small, waiting is no change."""
    match change:
        case EndHold() | Undrain():
            return 0.0
        case Raise(before=before, after=after) | Resize(before=before, after=after) | Prioritise(before=before, after=after):
            return abs(after - before) / max(1, abs(before))
        case Free() | AddNode() | DropTerm():
            return 1.0
        case Wait():
            return float("inf")
