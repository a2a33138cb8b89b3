"""The health of the daemon: that it serves, and the invariants of every partition (SC-131), checked on the live state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

import trio
from msgspec import Struct

from ykactor.actors.commands import PartitionCommand, read_partition
from ykactor.actors.mailbox import Mailbox
from ykactor.core.inspection.invariants import checks
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps
from ykactor.core.values.times import S_NS

#: A clock that is ahead by less is taken for right.
AHEAD_NS = 60 * S_NS
#: How long the checks are shown.
FRESH_S = 30.0
#: A partition that has not answered then has failed a check.
ANSWER_S = 30.0
#: Violations of one subject that are kept.
_KEPT_MAX = 10
#: A comparison takes as long as so many other items: 20 us.
_COMPARISON_ITEMS = 5

_SERVES = "Scheduling errors"
_OWN = "Invariants"
#: A clock that was right all the time is not mentioned.
_AHEAD = "times are ahead of the clock of this machine by {}, because it was ahead at an earlier start"
#: Subjects of the invariants under the names that Apache YuniKorn gives to such a check; the others have one of their own.
_NAMES = {
    "amounts of nodes": ("Consistency of data", "on each node capacity = allocated + occupied + available"),
    "queues": ("Consistency of data", "the capacity of a partition is the sum of its nodes, and its queues are configured"),
    "reservations": ("Reservation check", "reservations are of pending asks, on nodes that are large enough"),
    "allocations": ("Orphan allocation check", "nodes and applications know the same allocations"),
}
_ORDER = (_SERVES, "Consistency of data", "Reservation check", "Orphan allocation check", _OWN)


class Check(Struct, frozen=True):
    """One check; ``problem`` is "" if it has succeeded."""

    name: str
    description: str
    problem: str


class HealthChecks:
    """Checks a daemon, for all who ask.

    Args:
        partitions: the inboxes of the running ones.
        problems: what keeps the daemon from serving, a sentence each.
        ahead_ns: how far the times of the daemon are ahead of the machine's clock.
        others: further checks, of what surrounds the daemon.
    """

    def __init__(
        self,
        partitions: Mapping[PartitionName, Mailbox[PartitionCommand]],
        problems: Callable[[], Sequence[str]],
        ahead_ns: Callable[[], int] = lambda: 0,
        others: Callable[[], Sequence[Check]] = tuple,
    ) -> None:
        self.problems = problems
        self._others = others
        self._ahead_ns = ahead_ns
        self._partitions = partitions
        self._turn = trio.Lock()
        self._last: list[Check] = []
        self._fresh_until_s = -inf

    async def checks(self) -> list[Check]:
        """All checks: whether the daemon serves at present, and the invariants of the last ``FRESH_S`` at most."""
        async with self._turn:
            if trio.current_time() >= self._fresh_until_s:
                self._last = await self._checked()
                self._fresh_until_s = trio.current_time() + FRESH_S
        serves = Check(_SERVES, "every partition runs, and the journal can be written", "; ".join(self.problems()))
        return [serves, *self._last, *self.surroundings()]

    def surroundings(self) -> list[Check]:
        """The checks of what is beside the partitions, at present."""
        ahead_ns = self._ahead_ns()
        clock = [] if ahead_ns < AHEAD_NS else [Check("Clock", _AHEAD.format(_days(ahead_ns)), "")]
        return [*self._others(), *clock]

    async def _checked(self) -> list[Check]:
        found: list[Check] = []
        for name, inbox in list(self._partitions.items()):
            found += await _checks_of(name, inbox)
        return sorted(found, key=lambda check: _ORDER.index(check.name))


async def _checks_of(partition: PartitionName, inbox: Mailbox[PartitionCommand]) -> list[Check]:
    with trio.move_on_after(ANSWER_S):
        try:
            found = await read_partition(inbox, _violations)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return []  # it was removed, or has failed, which is a problem
        return [_check(partition, subject, "; ".join(broken)) for subject, broken in found.items()]
    return [Check(_SERVES, f"{partition}: it answers", f"no answer within {ANSWER_S:g} s")]


def _days(ns: int) -> str:
    hours, minutes = divmod(ns // (60 * S_NS), 60)
    return f"{hours // 24} d {hours % 24} h {minutes} min"


def _check(partition: PartitionName, subject: str, problem: str) -> Check:
    name, description = _NAMES.get(subject, (_OWN, subject))
    return Check(name, f"{partition}: {description}", problem)


def _violations(core: PartitionCore, state: SchedulerState, _: int) -> Steps[dict[str, list[str]]]:
    """The first violations by subject; there should be none."""
    broken: dict[str, list[str]] = {}
    for subject, check in checks(core, state).items():
        found = broken[subject] = []
        for violation in check:
            if violation and len(found) < _KEPT_MAX:
                found.append(violation)
            yield _COMPARISON_ITEMS
    return broken
