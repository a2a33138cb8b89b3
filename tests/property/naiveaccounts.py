"""Reference of accounts and pasts (AP-90, AP-140, AP-141), from nothing but the facts: intervals, added up by day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from ykactor.core.accounting.accounts import ALL_DAYS
from ykactor.core.inspection.accounting import Column, sums
from ykactor.core.messages.facts import (
    Allocated,
    AllocationResized,
    ApplicationAdded,
    ApplicationChanged,
    ApplicationLeft,
    ApplicationMoved,
    AskAdded,
    AskRemoved,
    AskResized,
    Fact,
    NodeAdded,
    NodeAttributesChanged,
    Released,
    ReleaseStarted,
)
from ykactor.core.objects.registry import Registry
from ykactor.core.values.parts import finished

S_NS, DAY_S = 10**9, 24 * 3600
Amounts = dict[str, int]
Task = tuple[str, str]


class Interval(NamedTuple):
    """One task from ``began_ns`` until ``ended_ns``, with one size in one queue; ``what``: it waits, runs, or was preempted."""

    what: str
    whose: tuple[str, str, str, str]
    resource: Amounts
    began_ns: int
    ended_ns: int


class Known(Struct):
    """An application."""

    queue: str
    user: str
    group: str
    since_ns: int
    states: list[tuple[int, str]]
    used: Amounts
    max_used: Amounts
    history: dict[tuple[str, str], Amounts]


class NaiveAccounts:
    """Hears all facts."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        self.applications: dict[str, Known] = {}
        #: Those that have ended and were not removed, in order.
        self.ended: list[tuple[str, Known]] = []
        #: What waits and what runs: its size, and since when it is counted.
        self.waiting: dict[Task, tuple[Amounts, int]] = {}
        self.running: dict[Task, tuple[Amounts, int, str, bool]] = {}
        #: When each present size began, whatever queue it was in.
        self.sized: dict[Task, int] = {}
        self.preempted: set[Task] = set()
        self.types: dict[str, str] = {}
        self.heard = 0

    def hear(self, facts: list[Fact]) -> None:
        for fact in facts[self.heard :]:
            self.hear_one(fact)
        self.heard = len(facts)

    def hear_one(self, fact: Fact) -> None:
        match fact:
            case NodeAdded(_, node_id, _, _, attributes) | NodeAttributesChanged(_, node_id, attributes):
                self.types[node_id] = attributes.get("si/instance-type", "UNKNOWN")
            case ApplicationAdded(at_ns, name, queue, user):
                group = fact.groups[0] if fact.groups else ""
                self.applications[name] = Known(queue, user, group, at_ns, [], {}, {}, {})
            case ApplicationChanged(at_ns, name, _, state) if state != "Expired":
                self.applications[name].states.append((at_ns, str(state)))
            case ApplicationMoved(at_ns, name, _, to_queue):
                self.move(at_ns, name, to_queue)
            case ApplicationLeft(_, name, _, is_removed):
                known = self.applications.pop(name)
                if not is_removed:
                    self.ended.append((name, known))
            case AskAdded(at_ns, ask):
                self.waiting[task_of(ask)] = dict(ask.resource), max(ask.since_ns, self.of(task_of(ask)).since_ns)
            case AskResized(at_ns, before, after):
                self.resize_ask(at_ns, task_of(before), after.resource)
            case AskRemoved(at_ns, ask):
                self.end_wait(at_ns, task_of(ask))
            case Allocated(at_ns, ask, _, node_id):
                self.end_wait(at_ns, task_of(ask))
                self.begin(at_ns, task_of(ask), ask.resource, node_id, is_placeholder=ask.placeholder)
            case AllocationResized(at_ns, before, after):
                _, _, node_id, is_placeholder = self.running[task_of(after)]
                self.end(at_ns, task_of(before))
                self.begin(at_ns, task_of(after), after.resource, node_id, is_placeholder=is_placeholder)
            case ReleaseStarted(_, ask, _, node_id, "PREEMPTED_BY_SCHEDULER") if node_id is not None:
                self.preempted.add(task_of(ask))
            case Released(at_ns, ask):
                self.end(at_ns, task_of(ask))
                self.preempted.discard(task_of(ask))
                if fact.termination_type == "SCHEDULING_FAILED_ON_RM":  # AP-144
                    self.waiting[task_of(ask)] = dict(ask.resource), at_ns

    def of(self, task: Task) -> Known:
        return self.applications[task[0]]

    def whose(self, task: Task) -> tuple[str, str, str, str]:
        known = self.of(task)
        return known.queue, known.user, known.group, task[0]

    # ---- waiting

    def end_wait(self, at_ns: int, task: Task) -> None:
        if task in self.waiting:
            resource, since_ns = self.waiting.pop(task)
            self.intervals.append(Interval("waits", self.whose(task), resource, since_ns, at_ns))

    def resize_ask(self, at_ns: int, task: Task, resource: Amounts) -> None:
        self.end_wait(at_ns, task)
        self.waiting[task] = dict(resource), at_ns

    def look_at_replacements(self, at_ns: int, registry: Registry) -> None:
        """A real ask that waits for the end of its placeholder may be resized, and no fact says it."""
        for name, path in registry.applications.items():
            for real, _ in registry.leaf(path).applications[name].tasks.replacing.values():
                if self.waiting[task_of(real)][0] != real.resource:
                    self.resize_ask(at_ns, task_of(real), real.resource)

    # ---- running

    def begin(self, at_ns: int, task: Task, resource: Amounts, node_id: str, *, is_placeholder: bool) -> None:
        self.running[task] = dict(resource), at_ns, node_id, is_placeholder
        self.sized[task] = at_ns
        known = self.of(task)
        for name, quantity in resource.items():
            known.used[name] = known.used.get(name, 0) + quantity
            known.max_used[name] = max(known.max_used.get(name, 0), known.used[name])

    def end(self, at_ns: int, task: Task) -> None:
        resource, since_ns, node_id, is_placeholder = self.running.pop(task)
        is_preempted = task in self.preempted
        self.intervals.append(Interval("lost" if is_preempted else "runs", self.whose(task), resource, since_ns, at_ns))
        known, kind = self.of(task), "preempted" if is_preempted else "placeholders" if is_placeholder else "used"
        seconds = at_ns // S_NS - self.sized.pop(task) // S_NS
        for name, quantity in resource.items():
            known.used[name] -= quantity
            if seconds and quantity:
                history = known.history.setdefault((kind, self.types[node_id]), {})
                history[name] = history.get(name, 0) + quantity * seconds

    def move(self, at_ns: int, name: str, to_queue: str) -> None:
        self.intervals += [interval for interval in self.open(at_ns) if interval.whose[3] == name]
        self.applications[name].queue = to_queue
        self.applications[name].since_ns = at_ns
        self.waiting |= {task: (entry[0], at_ns) for task, entry in self.waiting.items() if task[0] == name}
        self.running |= {task: (entry[0], at_ns, *entry[2:]) for task, entry in self.running.items() if task[0] == name}

    # ---- the sums

    def open(self, now_ns: int) -> list[Interval]:
        waiting = [Interval("waits", self.whose(task), *entry, now_ns) for task, entry in self.waiting.items()]
        return waiting + [
            Interval("lost" if task in self.preempted else "runs", self.whose(task), entry[0], entry[1], now_ns)
            for task, entry in self.running.items()
        ]

    def sums(self, now_ns: int) -> dict[tuple[object, ...], Amounts]:
        """The sums by column, day, queue, user, group and application; what was lost counts as allocated too."""
        found: dict[tuple[object, ...], Amounts] = defaultdict(lambda: defaultdict(int))
        for interval in self.intervals + self.open(now_ns):
            begin, end = interval.began_ns // S_NS, interval.ended_ns // S_NS
            for day in range(begin // DAY_S, end // DAY_S + 1):
                seconds = min(end, (day + 1) * DAY_S) - max(begin, day * DAY_S)
                names = {"waits": ("waited",), "runs": ("allocated",), "lost": ("allocated", "lost")}[interval.what]
                for name in names:
                    for kind, quantity in interval.resource.items():
                        if seconds > 0 and quantity:
                            found[name, day, *interval.whose][kind] += seconds * quantity
        return {key: dict(amounts) for key, amounts in found.items()}


def task_of(ask: object) -> Task:
    return ask.application_id, ask.allocation_key


def found_sums(registry: Registry, now_ns: int, columns: Iterable[Column] = tuple(Column)) -> dict[tuple[object, ...], Amounts]:
    """The same as the partition has it."""
    found: dict[tuple[object, ...], Amounts] = {}
    for values, account in finished(sums(registry, now_ns, [*columns], ALL_DAYS)).items():
        for name in ("allocated", "waited", "lost"):
            if getattr(account, name):
                found[name, *values] = getattr(account, name)
    return found
