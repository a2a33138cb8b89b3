"""The effect of another configuration on the present state: two runs of it, with the present configuration and with the other.

What is different as soon as nothing more can be decided is "at once"; the rest comes within a while. Nothing else arrives in
either run, and tasks end where it was told how long they run at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field, structs

from ykactor.core.accounting.accounts import ALL_DAYS
from ykactor.core.config.access import UserGroups, may_submit
from ykactor.core.config.model import QueueConfig
from ykactor.core.inspection.accounting import sums
from ykactor.core.messages.kinds import AboveMaxCause, TerminationType
from ykactor.core.quota.headroom import Place
from ykactor.core.state.above_max import above_max
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import finished
from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.times import S_NS
from ykactor.sim.direct import DirectPartition
from ykactor.sim.what_if import (
    Difference,
    Fork,
    Run,
    Statuses,
    Subject,
    Watcher,
    differences,
    is_for_ever,
    run_from,
    waiting,
    with_config,
)
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si


class Effective(Struct, frozen=True, rename="camel"):
    """An amount that holds for a queue, because of itself or of one above it, and that the configuration changes.

    Attributes:
        limit: ``max`` or ``guaranteed``.
        before, after: base units; None is no limit.
        by: the queue whose configuration decides afterwards; before, if there is no limit afterwards.
    """

    partition_name: str
    queue_name: str
    limit: str
    resource: str
    before: int | None
    after: int | None
    by: str


class AboveLimit(Struct, frozen=True, rename="camel"):
    """More in use than a limit allows, when nothing more can be decided; without the configuration not, or not so much.

    Attributes:
        whose: ``user NAME`` or ``group NAME``; "" is the queue itself.
        resource: "" is ``maxapplications``.
        used, max: base units of the type, or running applications.
        cause: why the queue stays above its ``max`` (PE-98); None of other limits, for which nothing is preempted.
        reason: the same as a sentence, and whether quota preemption takes something.
    """

    partition_name: str
    queue_name: str
    whose: str
    resource: str
    used: int
    max: int
    cause: AboveMaxCause | None
    reason: str


class Never(Struct, frozen=True, rename="camel"):
    """Asks of an application that can never run with the configuration, and could without it."""

    partition_name: str
    application_id: str = field(name="applicationID")
    count: int
    reason: str


class NoAccess(Struct, frozen=True, rename="camel"):
    """A user who has applications in a queue, and may no longer submit to it."""

    partition_name: str
    user: str
    queue_name: str
    applications: int


class Drains(Struct, frozen=True, rename="camel"):
    """A leaf that is no longer configured, and still has applications."""

    partition_name: str
    queue_name: str
    applications: int


class ConfigPlan(Struct, frozen=True, rename="camel"):
    """The effect of a configuration.

    Attributes:
        begin_ns: the Unix time of the state.
        seconds: how long ``later`` is.
        changes: a sentence for each partition, queue or setting that changes.
        refused: why the configuration cannot be put into force; then nothing else is told.
        at_once: the tasks and applications that are different when nothing more can be decided: what starts, then what ends or is
            refused, then the others; the last are those of which the reason alone has other words.
        later: those that are different at the end, and were not at once; in the same order.
        preempted: the number of tasks that are preempted because of it.
        work_lost: by them, in base units times seconds.
    """

    begin_ns: int
    seconds: float
    changes: list[str]
    refused: list[str]
    effective: list[Effective]
    above_max: list[AboveLimit]
    at_once: list[Difference]
    later: list[Difference]
    preempted: int
    work_lost: Resource
    never: list[Never]
    drains: list[Drains]
    access: list[NoAccess]


#: The states of applications for which ``reject`` fails; they fail with a partition that is removed.
_REJECTED = ("Rejected", "Failed")
#: Partition, queue, ``max`` or ``guaranteed``, and type.
_Limit = tuple[PartitionName, QueuePath, str, str]
#: Partition, queue, ``AboveLimit.whose``, and type.
_Use = tuple[str, str, str, str]
_LIMITS_TAKE_NOTHING = "nothing is taken for a limit of a user or group"
_APPLICATIONS_GO_ON = "applications that run go on"
#: Partition, user with groups, and queue of an application.
_Owner = tuple[PartitionName, UserGroups, QueuePath]


class _Look(Watcher):
    """One run, at rest after its first moment and at its end.

    Attributes:
        statuses, end: of all tasks and applications, at rest and at the end.
        never: the asks that can never run, with the reasons.
        limits: what holds for each queue, with the queue that decides.
        above_max: what is above its limit, at rest.
        users: the number of applications by who has them, and in which queue.
        allowed: those of ``users`` who may submit there.
        partitions: their names.
        configured: the queues that the configuration names.
        lost: by preemption, in base units times seconds, since the accounts were begun.
    """

    def __init__(self, begin_ns: int) -> None:
        self._begin_ns = begin_ns
        self.statuses: Statuses = {}
        self.end: Statuses = {}
        self.never: dict[Subject, str] = {}
        self.limits: dict[_Limit, tuple[int, QueuePath]] = {}
        self.above_max: dict[_Use, AboveLimit] = {}
        self.users: Counter[_Owner] = Counter()
        self.allowed: set[_Owner] = set()
        self.partitions: set[PartitionName] = set()
        self.configured: set[tuple[PartitionName, QueuePath]] = set()
        self.lost: Resource = {}

    def look(self, run: Run, at_ns: int) -> None:
        """Look at the run when it is at rest for the first time."""
        if at_ns != self._begin_ns:
            return
        self.statuses = run.statuses()
        self.partitions = set(run.partitions)
        for name, partition in run.partitions.items():
            self.never |= {subject: cause.text for subject, cause, ask in waiting(name, partition) if is_for_ever(cause, ask)}
            _look_at_queues(self, name, partition)
            self.above_max |= {
                (each.partition_name, each.queue_name, each.whose, each.resource): each for each in _above(name, partition)
            }
            _look_at_users(self, name, partition)


def plan(fork: Fork, text: str, begin_ns: int, seconds: float, *, reserves: bool) -> ConfigPlan:
    """Put a configuration into force in a fork, and compare it with another fork.

    Args:
        text: of the configuration.
        begin_ns: the Unix time at which both runs begin, in whole microseconds.
        seconds: the length of both runs.
        reserves: whether asks reserve nodes in partitions that the configuration adds.
    """
    # A request without content at second 0, after which both are looked at.
    quiet = Scenario("", "", seconds, messages=[TimedRequest(0, si.NodeRequest(nodes=[]))])
    before, _ = _looked(fork, quiet, begin_ns, reserves=reserves)
    after, run = _looked(fork, with_config(quiet, text), begin_ns, reserves=reserves)
    ends = [_preempted(look.statuses | look.end) for look in (before, after)]
    return ConfigPlan(
        begin_ns,
        seconds,
        run.changes,
        [*run.refused, *run.rejected],
        list(_effective(before, after)),
        list(_above_max(before, after)),
        sorted(differences(before.statuses, after.statuses), key=_rank),
        sorted(_later(before, after), key=_rank),
        len(ends[1] - ends[0]),
        {name: much for name, amount in after.lost.items() if (much := amount - before.lost.get(name, 0)) > 0},
        list(_never(before, after)),
        list(_drains(before, after)),
        list(_access(before, after)),
    )


def _looked(fork: Fork, scenario: Scenario, begin_ns: int, *, reserves: bool) -> tuple[_Look, Run]:
    look = _Look(begin_ns)
    run = run_from(fork, scenario, begin_ns, look, reserves=reserves)
    look.end = run.statuses()
    end_ns = begin_ns + round(scenario.until * S_NS)
    for partition in run.partitions.values():
        for account in finished(sums(partition.core.registry, end_ns, [], ALL_DAYS)).values():
            add_to(look.lost, account.lost)
    return look, run


def _look_at_queues(look: _Look, name: PartitionName, partition: DirectPartition) -> None:
    look.configured |= {(name, queue.path) for queue in _tree(partition.core.registry.config.root)}
    configs = _configs(partition)
    for path in configs:
        for above, each in _lineage(path, configs):
            for limit, amounts in (("max", each.max), ("guaranteed", each.guaranteed)):
                for resource, amount in (amounts or {}).items():
                    key = name, path, limit, resource
                    if key not in look.limits or amount < look.limits[key][0]:
                        look.limits[key] = amount, above


def _above(name: PartitionName, partition: DirectPartition) -> Iterator[AboveLimit]:
    """The queues, users and groups that use more than they may, of each type and of running applications."""
    state = partition.scheduler.state
    for path, queue in state.tree.nodes.items():
        if (found := above_max(state, queue)) is not None:
            for resource in found.amounts:
                used, most = queue.allocated[resource], (queue.config.max or {})[resource]
                yield AboveLimit(name, path, "", resource, used, most, found.cause, found.why)
        yield from _above_slots(name, queue, path, "")
    for (path, whose), tracker in state.trackers.in_use.items():
        for resource, most in (tracker.max or {}).items():
            if (used := tracker.allocated.get(resource, 0)) > most:
                yield AboveLimit(name, path, str(whose), resource, used, most, None, _LIMITS_TAKE_NOTHING)
        yield from _above_slots(name, tracker, path, str(whose))


def _above_slots(name: PartitionName, place: Place, path: QueuePath, whose: str) -> Iterator[AboveLimit]:
    used, most = place.slots_used(), place.max_applications
    if 0 < most < used:
        yield AboveLimit(name, path, whose, "", used, most, None, _APPLICATIONS_GO_ON)


def _look_at_users(look: _Look, name: PartitionName, partition: DirectPartition) -> None:
    configs = _configs(partition)
    for application in partition.scheduler.state.applications.values():
        owner = name, application.who, application.leaf.path
        look.users[owner] += 1
        if may_submit([config for _, config in _lineage(application.leaf.path, configs)], application.who):
            look.allowed.add(owner)


def _tree(queue: QueueConfig) -> Iterator[QueueConfig]:
    """A queue of a configuration, and all below it."""
    yield queue
    for child in queue.children:
        yield from _tree(child)


def _configs(partition: DirectPartition) -> dict[QueuePath, QueueConfig]:
    return {path: node.config for path, node in partition.scheduler.state.tree.nodes.items()}


def _lineage(path: QueuePath, configs: Mapping[QueuePath, QueueConfig]) -> Iterator[tuple[QueuePath, QueueConfig]]:
    """A queue and those above it, with their configurations; root limits nothing by itself."""
    while path:
        if path in configs:
            yield path, configs[path]
        path = QueuePath(path.rpartition(".")[0])


# ---- comparing


def _effective(before: _Look, after: _Look) -> Iterator[Effective]:
    """The limits of queues that both runs have."""
    queues = [{(partition, path) for partition, path, *_ in look.limits} for look in (before, after)]
    known = (queues[0] | before.configured) & (queues[1] | after.configured)
    for key in sorted(before.limits.keys() | after.limits.keys()):
        old, new = before.limits.get(key), after.limits.get(key)
        amounts = [None if found is None else found[0] for found in (old, new)]
        if key[:2] in known and amounts[0] != amounts[1]:
            by = (new or old or (0, key[1]))[1]
            yield Effective(*key, amounts[0], amounts[1], by)


def _above_max(before: _Look, after: _Look) -> Iterator[AboveLimit]:
    for key, found in sorted(after.above_max.items()):
        known = before.above_max.get(key)
        if known is None or found.used - found.max > known.used - known.max:
            yield found


def _never(before: _Look, after: _Look) -> Iterator[Never]:
    found: Counter[tuple[str, str, str]] = Counter()
    for subject, reason in after.never.items():
        if subject not in before.never:
            found[subject.partition, subject.application_id, reason] += 1
    for (partition, application_id, reason), count in sorted(found.items()):
        yield Never(partition, application_id, count, reason)


def _drains(before: _Look, after: _Look) -> Iterator[Drains]:
    found: Counter[tuple[PartitionName, QueuePath]] = Counter()
    for (partition, _, path), count in before.users.items():
        if partition in after.partitions and _leaves(partition, path, before, after):
            found[partition, path] += count
    for (partition, path), count in sorted(found.items()):
        yield Drains(partition, path, count)


def _leaves(partition: PartitionName, path: QueuePath, before: _Look, after: _Look) -> bool:
    """True if the configuration no longer names a queue."""
    queue = partition, path
    return queue in before.configured and queue not in after.configured


def _access(before: _Look, after: _Look) -> Iterator[NoAccess]:
    found: Counter[tuple[str, str, str]] = Counter()
    for owner in before.allowed - after.allowed:
        partition, who, path = owner
        if not _leaves(partition, path, before, after):
            found[partition, who.user, path] += before.users[owner]
    for (name, user, queue), count in sorted(found.items()):
        yield NoAccess(name, user, queue, count)


def _preempted(statuses: Statuses) -> set[Subject]:
    kind = TerminationType.PREEMPTED_BY_SCHEDULER.value
    return {subject for subject, status in statuses.items() if status.state == "ended" and status.reason == kind}


def _later(before: _Look, after: _Look) -> Iterator[Difference]:
    """The differences at the end of tasks and applications that were not different in the same way at once."""
    same = {
        subject
        for subject in before.end.keys() | after.end.keys()
        if all(look.statuses.get(subject) == look.end.get(subject) for look in (before, after))
    }
    ends = [{subject: status for subject, status in look.end.items() if subject not in same} for look in (before, after)]
    return differences(*ends)


#: The order of what happens to tasks and applications; everything else comes behind.
_RANKS = {"runs": 0, "ended": 1, "refused": 1, "Rejected": 1, "Failed": 1}


def _rank(each: Difference) -> int:
    if is_reason_only(each):
        return 3
    return 2 if each.what_if is None else _RANKS.get(each.what_if.state, 2)


def is_reason_only(each: Difference) -> bool:
    """True if the sentence is all that is different, as of tasks that wait in both runs."""
    one, other = each.as_it_is, each.what_if
    return one is not None and other is not None and structs.replace(one, reason="") == structs.replace(other, reason="")


def fails_on(found: ConfigPlan) -> dict[str, bool]:
    """The effects for which a plan may fail, by their names on the command line."""
    rejected = [each for each in [*found.at_once, *found.later] if each.what_if is not None and each.what_if.state in _REJECTED]
    return {
        "never": bool(found.never),
        "preempt": found.preempted > 0,
        "reject": bool(found.refused or rejected),
        "drain": bool(found.drains),
    }
