"""Runs cases (``wire.scenario.cases``) through the plain loop, and says in which expectations they fail."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial

from msgspec import Struct

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.inspection.snapshot import FinalState, final_state
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    ApplicationRejected,
    AskAdded,
    AskRemoved,
    ConfigurationChanged,
    Fact,
    NodeRejected,
    Released,
)
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName
from ykactor.core.values.parts import finished
from ykactor.core.values.quantities import quantity_text
from ykactor.core.values.resources import Resource
from ykactor.core.values.words import some
from ykactor.core.waiting.causes import PendingCauses
from ykactor.core.waiting.reasons import PendingCause
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.simulator import Record, run_directly, to_ns
from ykactor.wire import queuefile
from ykactor.wire.queuefile.fields import Key
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.cases import Case, Expectation, amounts, expression
from ykactor.wire.si import messages as si

#: The configurations that are kept, because many cases have the same one.
_CONFIGS_MAX = 16


class Failure(Struct, frozen=True):
    """An expectation that is not met.

    Attributes:
        keys: that lead to it in the file.
        at_s: the virtual second.
        what: of the expectation, such as ``pending u-1``.
    """

    keys: tuple[Key, ...]
    at_s: float
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        """The failure in a sentence."""
        return f"at {self.at_s:g}: {self.what}: expected {self.expected}, found {self.found}"


def run_case(case: Case, *, reserves: bool) -> list[Failure]:
    """Run a case.

    Args:
        reserves: whether asks reserve nodes (SC-50).

    Raises:
        wire.queuefile.ConfigError: its configuration is invalid.
    """
    config = _config(case.config, case.config_name)
    course = _Course(case.applications)
    record = Record(course.observe)

    def make(config: PartitionConfig, now_ns: int) -> DirectPartition:
        publish = partial(record.add, config.name)
        return DirectPartition(config, CYCLE_BUDGET, publish, now_ns=now_ns, reserves=reserves, wakes=True)

    course.direct = DirectPartitions(make, {partition.name: make(partition, 0) for partition in config.partitions})
    record.is_open = True
    failures: list[Failure] = []
    expected: dict[int, list[tuple[float, int, Expectation]]] = {}
    for index, (second, each) in enumerate(case.expectations):
        expected.setdefault(to_ns(second), []).append((second, index, each))

    def check(at_ns: int) -> None:
        record.flush()
        course.changed()
        for second, index, each in expected.get(at_ns, ()):
            keys = (*case.keys, "expect", index)
            failures.extend(Failure((*keys, *place), second, *found) for place, *found in _failures(course, each))

    last_s = max(second for second, _ in case.expectations)
    looks = [TimedRequest(second, si.NodeRequest(nodes=[])) for second, _ in case.expectations]  # the scheduler runs then
    messages = sorted([*case.messages, *looks], key=lambda message: message.at)
    run_directly(Scenario(case.name, case.config, last_s, messages=messages), course.direct, record, after=check)
    refused = [Failure((*case.keys, "steps"), last_s, "steps", "none to be refused", reason) for reason in record.refused]
    return refused + failures


@lru_cache(_CONFIGS_MAX)
def _config(text: str, name: str) -> SchedulerConfig:
    return queuefile.load(text, name)


class _Course:
    """The course of a case so far.

    Args:
        applications: of each task that the case submits at any time.

    Attributes:
        order: the tasks that were placed, in the order of the decisions. placed: the nodes of each.
        ended: of each task that has ended, how. preempted: those that were preempted.
        rejected: of applications, tasks, nodes and configurations, with the reason.
        owners: the application of each task.
    """

    direct: DirectPartitions

    def __init__(self, applications: Mapping[str, str]) -> None:
        self.order: list[str] = []
        self.placed: dict[str, list[str]] = {}
        self.ended: dict[str, str] = {}
        self.preempted: set[str] = set()
        self.rejected: dict[str, str] = {}
        self.owners: dict[AllocationKey, ApplicationID] = {}
        self._applications = applications
        self._causes: dict[PartitionName, PendingCauses] = {}

    def changed(self) -> None:
        """Forget what was found about the present."""
        self._causes = {name: PendingCauses(each.scheduler.state) for name, each in self.direct.partitions.items()}

    def observe(self, _: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        match fact:
            case AskAdded(ask=ask):
                self.owners[ask.allocation_key] = ask.application_id
            case Allocated(ask=ask, node_id=node_id):
                self.owners[ask.allocation_key] = ask.application_id
                self.order.append(ask.allocation_key)
                self.placed.setdefault(ask.allocation_key, []).append(node_id)
            case Released(ask=ask, termination_type=kind, message=message):
                self.ended[ask.allocation_key] = f"{kind.value}: {message}" if message else kind.value
                if kind is TerminationType.PREEMPTED_BY_SCHEDULER:
                    self.preempted.add(ask.allocation_key)
            case AskRemoved(ask=ask, pending=True):
                self.ended[ask.allocation_key] = "it was withdrawn before it ran"
            case AllocationRejected(allocation_key=key, reason=reason):
                self.rejected[key] = reason
            case ApplicationRejected(application_id=key, reason=reason) | NodeRejected(node_id=key, reason=reason):
                self.rejected[key] = reason
            case ConfigurationChanged(is_accepted=False, reason=reason):
                self.rejected["configuration"] = reason

    # ---- the present

    def node_of(self, key: AllocationKey) -> str | None:
        """The node on which a task runs; None if it does not."""
        for partition in self.direct.partitions.values():
            registry, owner = partition.core.registry, self.owners.get(key)
            if owner is not None and owner in registry.applications:
                running = registry.leaf_of(owner).applications[owner].tasks.allocations.get(key)
                if running is not None:
                    return str(running[1])
        return None

    def cause_of(self, key: AllocationKey) -> PendingCause | None:
        """The cause of a task that waits; None if it does not."""
        owner = self.owners.get(key)
        for name, partition in self.direct.partitions.items():
            waiting = None if owner is None else partition.scheduler.state.applications.get(owner)
            if waiting is not None and key in waiting.asks:
                return self._causes[name].of_ask(waiting, key)
        return None

    def status(self, key: AllocationKey) -> str:
        """The present status of a task, for people."""
        if (node := self.node_of(key)) is not None:
            return f"it runs on {node}"
        if (cause := self.cause_of(key)) is not None:
            return f"it waits, {_shown(cause)}"
        if (application := self._applications.get(key)) in self.rejected:
            return f"its application {application} was rejected: {self.rejected[str(application)]}"
        if key in self.rejected:
            return f"it was rejected: {self.rejected[key]}"
        if key in self.ended:
            return f"it has ended: {self.ended[key]}"
        if application is not None:
            return "it was not submitted yet"
        near = difflib.get_close_matches(key, self.owners)
        return f"no task of this name{f', maybe {some(near)}' if near else ''}"

    def used(self) -> dict[str, Resource]:
        """The amounts that each queue uses."""
        return {path: queue.allocated for final in self._finals() for path, queue in final.queues.items()}

    def states(self) -> dict[str, str]:
        """The states of applications."""
        return {name: application.state for final in self._finals() for name, application in final.applications.items()}

    def _finals(self) -> Iterator[FinalState]:
        for partition in self.direct.partitions.values():
            yield finished(final_state(partition.core, partition.scheduler.state))


def _shown(cause: PendingCause) -> str:
    where = f" in {cause.place.queue_name}" if cause.place is not None and cause.place.queue_name else ""
    return f"{cause.code.value}{where}: {cause.text}"


# ---- comparing

#: The keys that lead from an expectation to a part of it, what it is about, what was expected, and what was found.
_Found = tuple[tuple[Key, ...], str, str, str]


def _failures(course: _Course, each: Expectation) -> Iterator[_Found]:
    """The parts of an expectation that are not met at present."""
    yield from _placed(course, each)
    yield from _pending(course, each)
    for index, key in _named(each.preempted):
        if key not in course.preempted:
            yield ("preempted", index), f"preempted {key}", "it to be preempted", course.status(key)
    for index, key in _named(each.ended):
        if key not in course.ended:
            yield ("ended", index), f"ended {key}", "it to have ended", course.status(key)
    yield from _rejected(course, each)
    yield from _order(course, each)
    yield from _used(course, each)
    states = course.states() if each.states else {}
    for name, state in each.states.items():
        if states.get(name) != state:
            found = states.get(name) or course.rejected.get(name, "no application of this name")
            yield ("states", name), f"state of {name}", state, found


def _named(names: list[str]) -> Iterable[tuple[int, AllocationKey]]:
    return enumerate(map(AllocationKey, names))


def _entries(given: dict[str, str] | list[str]) -> Iterator[tuple[Key, AllocationKey, str]]:
    """Each key with what is expected of it, "" for nothing more, and what leads to it."""
    if isinstance(given, dict):
        yield from ((key, AllocationKey(key), wanted) for key, wanted in given.items())
    else:
        yield from ((index, AllocationKey(key), "") for index, key in enumerate(given))


def _placed(course: _Course, each: Expectation) -> Iterator[_Found]:
    for place, key, node in _entries(each.placed):
        present = course.node_of(key)
        so_far = course.placed.get(key, []) if each.by is not None else []
        nodes = so_far or ([] if present is None else [present])
        if not nodes or (node and node not in nodes):
            found = f"it was placed on {some(so_far)}" if so_far else course.status(key)
            yield ("placed", place), f"placed {key}", node or "it to run", found


def _pending(course: _Course, each: Expectation) -> Iterator[_Found]:
    for place, key, wanted in _entries(each.pending):
        cause = course.cause_of(key)
        if cause is None or not _is(cause, wanted):
            yield ("pending", place), f"pending {key}", wanted or "it to wait", course.status(key)


def _is(cause: PendingCause, wanted: str) -> bool:
    """True if a cause is the one that is wanted: ``CODE``, ``CODE in QUEUE``, or a regular expression."""
    if (pattern := expression(wanted)) is not None:
        return pattern.search(cause.text) is not None
    code, _, queue = wanted.partition(" in ")
    return code in ("", cause.code.value) and (not queue or (cause.place is not None and cause.place.queue_name == queue))


def _rejected(course: _Course, each: Expectation) -> Iterator[_Found]:
    for place, name, wanted in _entries(each.rejected):
        reason, pattern = course.rejected.get(name), expression(wanted)
        if reason is None:
            yield ("rejected", place), f"rejected {name}", "it to be rejected", course.status(name)
        elif not (pattern.search(reason) if pattern is not None else wanted in reason):
            yield ("rejected", place), f"rejected {name}", wanted, reason


def _order(course: _Course, each: Expectation) -> Iterator[_Found]:
    wanted = set(each.order)
    found = [key for key in course.order if key in wanted] if wanted else []
    if found != each.order:
        yield ("order",), "order", ", ".join(each.order), ", ".join(found) or "none of them placed"


def _used(course: _Course, each: Expectation) -> Iterator[_Found]:
    used = course.used() if each.used else {}
    for queue, given in each.used.items():
        if queue not in used:
            yield ("used", queue), f"used in {queue}", "a queue", "no queue of this path"
            continue
        for name, wanted in amounts(given).items():
            if (found := used[queue].get(name, 0)) != wanted:
                expected = f"{quantity_text(name, wanted)} {name}"
                yield ("used", queue, name), f"used in {queue}", expected, f"{quantity_text(name, found)} {name}"
