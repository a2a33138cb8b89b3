"""Sums of what each ask waits for, turn by turn: the code at the end of a turn holds until the next one."""

from __future__ import annotations

from collections import Counter

from ykactor.core.messages.asks import Ask, AskID, ask_id
from ykactor.core.messages.facts import Allocated, AskAdded, AskRemoved, AskReturned, Fact
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.state.state import SchedulerState

Sums = dict[PendingCode, int]


def code_of(state: SchedulerState, application: PendingApplication, ask: Ask) -> PendingCode:
    """The code of one ask that waits."""
    key = ask.allocation_key
    if key in application.reserving:
        return PendingCode.PREEMPTING if ask_id(ask) in state.preemptions.by_ask else PendingCode.RESERVED
    queue = application.asks[key][1] if key in application.asks else None
    if queue is None:
        return PendingCode.PLACEHOLDER
    if application.hold is not None or state.leaf_of(application).is_held():
        return PendingCode.HELD
    if queue.ask_class is None:
        return application.kept_back_by()
    return queue.ask_class.history.code if state.tree.root_max else PendingCode.NODES


def waiting(core: PartitionCore, state: SchedulerState) -> dict[AskID, tuple[PendingApplication, Ask]]:
    """All asks that wait: pending ones, and those that replace a placeholder."""
    found = {}
    for name, path in core.registry.applications.items():
        tasks = core.registry.leaf(path).applications[name].tasks
        for ask in (*tasks.asks.values(), *(real for real, _ in tasks.replacing.values())):
            found[ask_id(ask)] = state.applications[name], ask
    return found


def without_zeros(sums: Sums) -> Sums:
    return {code: ns for code, ns in sums.items() if ns}


class NaiveWaits:
    """The sums of one partition.

    Args:
        is_exact: False: histories are short, so only the sums over all codes are compared.

    Attributes:
        waited: for how long asks waited, by code.
    """

    def __init__(self, *, is_exact: bool) -> None:
        self.is_exact = is_exact
        self.waited: Counter[PendingCode] = Counter()
        self.seen_ns = 0
        self.codes: dict[AskID, PendingCode] = {}
        #: None until the end of the turn in which an ask came: before, it waited as its class did.
        self.sums: dict[AskID, Sums | None] = {}
        #: For how long each has waited when it came.
        self.since: dict[AskID, int] = {}

    def pass_time(self, now_ns: int) -> None:
        """Nothing has changed up to now."""
        for name, code in self.codes.items():
            sums = self.sums[name]
            assert sums is not None
            sums[code] = sums.get(code, 0) + now_ns - self.seen_ns
            self.waited[code] += now_ns - self.seen_ns
        self.seen_ns = now_ns

    def hear(self, facts: list[Fact]) -> None:
        """Compare what ends."""
        for fact in facts:
            match fact:
                case AskAdded(at_ns, ask):
                    self.begin(ask_id(ask), ask.since_ns)
                case AskReturned(at_ns, ask) if ask_id(ask) not in self.since:
                    self.begin(ask_id(ask), at_ns)
                case Allocated(at_ns, ask) | AskRemoved(at_ns, ask):
                    name, waited = ask_id(ask), fact.waited
                    if name in self.since:
                        self.end(name, at_ns, waited or {PendingCode.NEXT: at_ns - ask.since_ns})
                    else:
                        assert not waited

    def begin(self, name: AskID, since_ns: int) -> None:
        self.since[name], self.sums[name] = since_ns, None

    def end(self, name: AskID, at_ns: int, waited: Sums) -> None:
        sums, since_ns = self.sums.pop(name), self.since.pop(name)
        self.codes.pop(name, None)
        self.compare(name, at_ns - since_ns, waited, sums)

    def compare(self, name: AskID, whole_ns: int, found: Sums, expected: Sums | None) -> None:
        assert sum(found.values()) == whole_ns, f"{name}: {found}, expected {whole_ns} in all"
        assert all(ns >= 0 for ns in found.values())
        if self.is_exact and expected is not None:
            assert without_zeros(found) == without_zeros(expected), name

    def look(self, core: PartitionCore, state: SchedulerState) -> None:
        """Compare what waits, at the end of a turn."""
        here = waiting(core, state)
        assert here.keys() == self.since.keys()
        self.codes = {name: code_of(state, application, ask) for name, (application, ask) in here.items()}
        for name, (application, ask) in here.items():
            found, expected = application.waited(ask, self.seen_ns), self.sums[name]
            self.compare(name, self.seen_ns - self.since[name], found, expected)
            if expected is None:
                self.sums[name] = found
