"""A small world to talk to: one partition, driven in a plain loop.

    world = make_world(tree(queue("a")), nodes=[node("n1", vcore=1000)])
    world.send(app("app-1", "root.a"), ask("t1", "app-1", vcore=1000))
    world.expect("app-1 New", "app-1 Accepted", "app-1 Starting", "t1 on n1")

``send`` says something at a virtual second, ``expect`` compares everything that was decided since the last time.
Quantities are base units.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import convert, to_builtins

from ykactor.access.view import View
from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.inspection.invariants import violations
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.inspection.pending_asks import waiting_asks
from ykactor.core.inspection.snapshot import final_state, partition_state
from ykactor.core.messages import facts as fact
from ykactor.core.messages.acts import (
    Administration,
    CancelTask,
    HoldApplication,
    HoldQueue,
    MoveApplication,
    Operator,
    SetPriority,
    TerminateApplication,
)
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.states import JobReport, Outcome, TaskOutcome, TaskRecord
from ykactor.core.messages.submissions import (
    AddApplication,
    AnswerPredicate,
    ApplyConfig,
    ForgetPredicates,
    RecordTask,
    ReleaseAllocations,
    RemoveApplication,
    ReportJob,
    Reset,
    SetPredicateService,
    Submission,
    UpdateNode,
)
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.parts import finished
from ykactor.sim.direct import DirectPartition
from ykactor.sim.simulator import Instant
from ykactor.wire import queuefile

S_NS = 10**9
#: More than any test needs.
PLENTY = 10**6

# ---- configurations


def tree(*queues: dict[str, Any], **root: Any) -> str:
    """A queue file with these queues below root; ``root`` holds keys of root itself and of the partition.

    Root is open to everybody unless it has a ``submitacl``.
    """
    partition: dict[str, Any] = {"name": "default"}
    for key in ("nodesortpolicy", "placementrules", "usergroupresolver", "preemption"):
        if key in root:
            partition[key] = root.pop(key)
    partition["queues"] = [queue("root", *queues, **{"submitacl": "*"} | root)]
    return json.dumps({"partitions": [partition]})


def queue(name: str, *children: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A queue of a queue file. ``max`` and ``guaranteed`` are in base units; properties are given as ``p={...}``."""
    entry: dict[str, Any] = {"name": name}
    resources = {limit: _quantities(keys.pop(limit)) for limit in ("max", "guaranteed") if limit in keys}
    if resources:
        entry["resources"] = resources
    if "p" in keys:
        entry["properties"] = {key: str(value) for key, value in keys.pop("p").items()}
    entry |= keys
    if children:
        entry["queues"] = list(children)
    return entry


def limit(*users: str, groups: tuple[str, ...] = (), applications: int = 0, **resource: int) -> dict[str, Any]:
    """One limit of a queue file: what each of these users and groups may use, in base units, and run."""
    entry: dict[str, Any] = {"users": list(users), "groups": list(groups), "maxapplications": applications}
    return entry | {"maxresources": _quantities(resource)}


def template(*, applications: int = 0, p: dict[str, object] | None = None, **limits: dict[str, int]) -> dict[str, Any]:
    """A child template of a queue file; ``max`` and ``guaranteed`` are in base units, properties are given as ``p={...}``."""
    properties = {key: str(value) for key, value in (p or {}).items()}
    resources = {name: _quantities(quantities) for name, quantities in limits.items()}
    return {"maxapplications": applications, "properties": properties, "resources": resources}


def _quantities(resource: dict[str, int]) -> dict[str, str]:
    return {name: f"{quantity}m" if name == "vcore" else str(quantity) for name, quantity in resource.items()}


def decoded(state: dict[str, Any]) -> PartitionStatus:
    """The state of a partition from a message."""
    return convert(state, PartitionStatus)


def seen(view: View, state: dict[str, Any]) -> dict[str, Any]:
    """The state of a partition as a view shows it, in a message."""
    found: dict[str, Any] = to_builtins(finished(view.of_state(decoded(state))))
    return found


def load(text: str) -> PartitionConfig:
    """The first partition of a queue file."""
    return queuefile.load(text).partitions[0]


def configure(text: str) -> Submission:
    """Another configuration."""
    return ApplyConfig(load(text))


# ---- what a resource manager says


def node(node_id: str, action: str = "CREATE", /, **capacity: int) -> Submission:
    """A node's action; without quantities it says nothing about the capacity."""
    return UpdateNode(node_id, NodeAction(action), capacity or None)  # type: ignore[arg-type]


def app(
    application_id: str,
    queue_name: str = "root.a",
    *,
    user: str = "alice",
    groups: tuple[str, ...] = (),
    timeout_ms: int = 0,
    placeholders: dict[str, int] | None = None,
    style: str = "",
    **tags: str,
) -> Submission:
    """A new application; a tag's dots are written as ``__``. With ``placeholders`` a gang of that total."""
    named = {name.replace("__", "."): value for name, value in tags.items()}
    return AddApplication(application_id, queue_name, user, groups, named, timeout_ms, placeholders, style)  # type: ignore[arg-type]


def ask(
    key: str,
    application_id: str,
    /,
    *,
    priority: int = 0,
    created: int | None = None,
    on: str | None = None,
    requires: str | None = None,
    group: str = "",
    placeholder: bool = False,
    predicate: str = "",
    originator: bool = False,
    preempt_self: bool = True,
    preempt_other: bool = False,
    releasing: bool = False,
    **resource: int,
) -> Submission:
    """An ask; ``created`` in Unix seconds; ``on`` a node it runs there already; ``requires`` the only node it may run on.

    About the class ``predicate`` the resource manager decides. The ask lets itself be preempted, and may have others preempted.
    """
    tags = {} if created is None else {"creationTime": str(created)}
    if predicate:
        tags["ykactor.io/predicate"] = predicate
    if requires is not None:
        tags["yunikorn.apache.org/requiredNode"] = requires
    flags = placeholder, originator, preempt_self, preempt_other, releasing
    return Ask(key, application_id, resource, priority, on, tags, group, *flags)  # type: ignore[arg-type]


def foreign(key: str, on: str | None, **resource: int) -> Submission:
    """A task that somebody else placed."""
    return Ask(key, "", resource, 0, on, {"foreign": "default"})  # type: ignore[arg-type]


def hand_back(key: str, on: str | None = None, application_id: str = "app-1") -> Submission:
    """A task could not start on a node; None: wherever it is."""
    return ReleaseAllocations(application_id, key, TerminationType.SCHEDULING_FAILED_ON_RM, on)  # type: ignore[arg-type]


def release(key: str | None, application_id: str = "app-1", termination_type: str = "STOPPED_BY_RM") -> Submission:
    """The end of an ask or allocation, of all of the application's (None), or of a foreign one (no application)."""
    return ReleaseAllocations(application_id, key, TerminationType(termination_type))  # type: ignore[arg-type]


def remove(application_id: str, outcome: Outcome | None = None, message: str = "") -> Submission:
    """The application is to be forgotten; with an outcome, kept among those that have ended."""
    return RemoveApplication(application_id, outcome, message)  # type: ignore[arg-type]


def record(key: str, application_id: str = "app-1", state: str = "Completed", **known: Any) -> Submission:
    """A task has ended like that."""
    return RecordTask(application_id, TaskRecord(key, TaskOutcome(state), **known))  # type: ignore[arg-type]


def report(application_id: str = "app-1", name: str = "", **numbers: int) -> Submission:
    """The application is this job."""
    return ReportJob(application_id, JobReport(name, **numbers))  # type: ignore[arg-type]


def terminate(application_id: str, who: UserGroups | None = None) -> Administration:
    """The application is to fail."""
    return TerminateApplication(application_id, who)  # type: ignore[arg-type]


def move(application_id: str, queue_name: str, who: UserGroups | None = None) -> Administration:
    """The application is to be moved to another leaf."""
    return MoveApplication(application_id, queue_name, who)  # type: ignore[arg-type]


OPS = Operator("ops")


def hold(name: str, *, ends: bool = False, operator: Operator = OPS) -> Administration:
    """An operator holds a queue (``root.a``) or an application; or the hold ends."""
    if name.startswith("root"):
        return HoldQueue(name, not ends, operator)
    return HoldApplication(name, not ends, operator)  # type: ignore[arg-type]


def cancel(application_id: str, key: str) -> Administration:
    """An operator cancels a task."""
    return CancelTask(application_id, key, OPS)  # type: ignore[arg-type]


def prioritise(application_id: str, priority: int, key: str | None = None) -> Administration:
    """An operator changes the priority of one pending ask, or of all of an application."""
    return SetPriority(application_id, key, priority, OPS)  # type: ignore[arg-type]


def answer(predicate: str, *nodes: str, no: str = "", allocate: bool = True, uses: int | None = None) -> list[Submission]:
    """An answer about asks of this class on these nodes: they may run there, or may not because of ``no``."""
    return [AnswerPredicate(predicate, node_id, allocate, no, uses) for node_id in nodes]  # type: ignore[arg-type]


def forget(predicate: str = "", node_id: str = "") -> Submission:
    """Withdraw the answer about a class on a node."""
    return ForgetPredicates(predicate, node_id)


def answering(is_there: bool) -> Submission:
    """A registration that answers predicates, or does not."""
    return SetPredicateService(is_there)


def reset() -> Submission:
    """The resource manager registers afresh."""
    return Reset()


def told(instant: Instant) -> list[Submission]:
    """The submissions of an instant of a scenario to its only partition."""
    said: list[Submission] = []
    for step in instant.steps:
        if isinstance(step, SchedulerConfig):
            said.append(ApplyConfig(step.partitions[0]))
        else:
            said += [submission for submissions in step.values() for submission in submissions]
    return said


# ---- what it hears


def spoken(decision: fact.Fact) -> str | None:
    """One decision in a few words; None for facts that are not decisions."""
    match decision:
        case fact.NodeAdded():
            return f"{decision.node_id} accepted"
        case fact.NodeRejected():
            return f"{decision.node_id} rejected: {decision.reason}"
        case fact.ApplicationAdded():
            return f"{decision.application_id} New"
        case fact.ApplicationRejected():
            return f"{decision.application_id} Rejected: {decision.reason}"
        case fact.ApplicationChanged():
            return f"{decision.application_id} {decision.state}"
        case fact.ApplicationMoved():
            return f"{decision.application_id} moved to {decision.to_queue}"
        case fact.ApplicationHeld():
            return f"{decision.application_id} {'held' if decision.is_held else 'released'}"
        case fact.QueueHeld():
            return f"{decision.queue} {'held' if decision.is_held else 'released'}"
        case fact.AskPriorityChanged():
            return f"{decision.after.allocation_key} has priority {decision.after.priority}"
        case fact.Allocated():
            return f"{decision.ask.allocation_key} on {decision.node_id}"
        case fact.Reserved():
            return f"{decision.ask.allocation_key} reserves {decision.node_id}"
        case fact.Unreserved():
            return f"{decision.ask.allocation_key} leaves {decision.node_id}"
        case fact.Released() if not decision.message:  # reported when it was started
            return None
        case fact.Released():
            return f"{decision.ask.allocation_key} released {decision.termination_type} ({decision.message})"
        case fact.ReleaseStarted():
            return f"{decision.ask.allocation_key} releasing {decision.termination_type} ({decision.message})"
        case fact.PredicatesAsked():
            return f"{decision.predicate}{'' if decision.allocate else ' instead'} on {' '.join(decision.nodes)}?"
        case fact.AllocationRejected():
            return f"{decision.allocation_key} rejected: {decision.reason}"
        case fact.ConfigurationChanged():
            return "configuration accepted" if decision.is_accepted else f"configuration rejected: {decision.reason}"
    return None


RELEASED = "released STOPPED_BY_RM (allocation remove as per RM request)"


class World:
    """One partition and what was decided in it; its invariants are checked after every cycle unless it is too large for that."""

    def __init__(
        self,
        text: str,
        nodes: Iterable[Submission] = (),
        *,
        placements_max: int = PLENTY,
        work_max: int = PLENTY,
        checked: bool = True,
        after_step: Callable[[PartitionCore, SchedulerCore], None] | None = None,
        confirms: bool = True,
        reserves: bool = True,
    ) -> None:
        self.facts: list[fact.Fact] = []
        self._heard = 0
        self.now_ns = 0
        budget = Budget(placements_max, work_max)
        self._checked = checked
        self._after_step = after_step
        self.direct = DirectPartition(load(text), budget, self.facts.extend, self._check, confirms=confirms, reserves=reserves)
        self.given(*nodes)

    def _check(self, core: PartitionCore, scheduler: SchedulerCore) -> None:
        """Whatever a test is about, all invariants hold after each of its steps."""
        if self._checked:
            assert violations(core, scheduler) == []
        if self._after_step is not None:
            self._after_step(core, scheduler)

    def send(self, *submissions: Submission, at: float | None = None) -> None:
        """Say something, at the present virtual second unless ``at`` names a later one; all that follows is decided."""
        if at is not None:
            self.now_ns = round(at * S_NS)
        self.direct.intake(self.now_ns, submissions)

    def administer(self, request: Administration, at: float | None = None) -> str:
        """Ask for an application to be ended or moved; why it was refused, or ""."""
        if at is not None:
            self.now_ns = round(at * S_NS)
        self.direct.advance(self.now_ns)
        refusal = self.direct.administer(self.now_ns, request)
        self._check(self.direct.core, self.direct.scheduler)
        self.direct.schedule(self.now_ns)
        return refusal

    def given(self, *submissions: Submission, at: float | None = None) -> None:
        """Send without reporting the results."""
        self.send(*submissions, at=at)
        self.heard()

    def wait(self, until: float) -> None:
        """Let the clock run up to this virtual second."""
        self.send(at=until)

    def run(self, until: float) -> None:
        """Let the clock run as a daemon does: what time alone lets be decided is decided when it is time."""
        self.direct.wakes = True
        self.wait(until)
        self.direct.wakes = False

    def heard(self) -> list[str]:
        """The decisions since the last call."""
        heard = [line for decision in self.facts[self._heard :] if (line := spoken(decision)) is not None]
        self._heard = len(self.facts)
        return heard

    def expect(self, *lines: str) -> None:
        """Exactly this was decided since the last time."""
        heard = self.heard()
        assert heard == list(lines)

    def remarks(self) -> list[str]:
        """All messages of conditions of asks."""
        return [decision.message for decision in self.facts if isinstance(decision, fact.AskCondition)]

    def placed(self) -> list[str]:
        """The keys placed since the last time, in order."""
        return [line.split()[0] for line in self.heard() if " on " in line]

    # ---- the present state

    def state(self) -> dict[str, Any]:
        """The partition as people see it, decoded from a message."""
        found: dict[str, Any] = to_builtins(self.shown())
        return found

    def shown(self) -> PartitionStatus:
        """The partition as people see it (``snapshot.partition_state``)."""
        return finished(partition_state(self.direct.core, self.direct.scheduler.state))

    def final(self) -> dict[str, Any]:
        """The final state of a simulation."""
        found: dict[str, Any] = to_builtins(finished(final_state(self.direct.core, self.direct.scheduler.state)))
        return found

    def queue(self, path: str) -> dict[str, Any]:
        """One queue of ``state``."""
        found: dict[str, Any] = self.state()["queues"][path]
        return found

    def node(self, node_id: str) -> dict[str, Any]:
        """One node of ``state``."""
        found: dict[str, Any] = self.state()["nodes"][node_id]
        return found

    def state_of(self, application_id: str) -> str:
        """The state of an application."""
        found: str = self.state()["applications"][application_id]["state"]
        return found

    def priorities(self) -> dict[str, int | None]:
        """The priority that every queue shows to its parent; None is "nothing pending"."""
        return priorities_of(self.final())

    def waiting(self) -> list[str]:
        """The keys of all asks that wait, sorted."""
        return sorted(key for key, _, _ in waiting_asks(self.direct.scheduler.state))

    def why(self, key: str) -> str:
        """The reason of a pending ask."""
        (reason,) = [reason for waiting, _, reason in waiting_asks(self.direct.scheduler.state) if waiting == key]
        return reason


def priorities_of(final: dict[str, Any]) -> dict[str, int | None]:
    """Queue path -> priority, None instead of the lowest number. Not for tests that have asks of that priority."""
    return {path: None if found["priority"] == PRIORITY_MIN else found["priority"] for path, found in final["queues"].items()}


def make_world(text: str, nodes: Iterable[Submission] = (), **options: Any) -> World:
    """A world with this queue file; see ``World``."""
    return World(text, nodes, **options)
