"""Requests of a resource manager to submissions for partitions.

An allocation, application or node that is wrong is rejected alone: what only the core knows (an unknown node, an empty resource)
there, everything else (a quantity, too long a text, list or mapping) here, so that it goes no further. Other entries have no
rejection. With too long a text they are ignored, because they name what does not exist; with another mistake, and without the
identifier that a rejection needs, the whole request is refused (AP-138, AP-143).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from sys import intern
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from ykactor.core.messages.asks import PREDICATE_CLASS_MAX, Ask
from ykactor.core.messages.facts import AllocationRejected, ApplicationRejected, Fact, NodeRejected
from ykactor.core.messages.kinds import NodeAction, RejectionCode, TerminationType
from ykactor.core.messages.states import SIGNAL_MAX, JobReport, Outcome, TaskOutcome, TaskRecord
from ykactor.core.messages.submissions import (
    PARTITION_ATTRIBUTE,
    TYPES_MAX,
    AddApplication,
    AnswerPredicate,
    ForgetPredicates,
    RecordTask,
    RefuseEntry,
    Rejected,
    ReleaseAllocations,
    RemoveApplication,
    ReportJob,
    Submission,
    UpdateNode,
)
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName
from ykactor.core.values.parts import PART_MAX, Steps, finished
from ykactor.core.values.quantities import QuantityError, parse_quantity
from ykactor.core.values.resources import Resource
from ykactor.wire.si import lengths
from ykactor.wire.si import messages as si
from ykactor.wire.si.protocol_error import ProtocolError

#: The work that is done without a pause, about 2 ms: an entry is as much as its bytes as MessagePack, and some more.
_STEP_WORK, _ENTRY_WORK = 2**17, 64

_encode = msgspec.msgpack.Encoder().encode

E = TypeVar("E", bound=StrEnum)

_DEFAULT = PartitionName("default")
#: Members by their values; a dictionary is several times faster than ``NodeAction(name)``.
_NODE_ACTIONS = {action.value: action for action in NodeAction}
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_TASK_OUTCOMES = {outcome.value: outcome for outcome in TaskOutcome}
_TERMINATION_TYPES = {kind.value: kind for kind in TerminationType}

#: Equal resources of asks are one object, as long as they are remembered here: it is made once, and takes memory once.
_RESOURCES: dict[tuple[tuple[str, si.Quantity], ...], Resource] = {}
_RESOURCES_MAX = 4096
#: Characters of a resource that is remembered.
_RESOURCE_TEXT_MAX = 512

#: The requests that ``submissions`` converts; the session carries out the others itself.
PartitionRequest = si.NodeRequest | si.ApplicationRequest | si.AllocationRequest | si.PredicatesResponse


def submissions(request: PartitionRequest) -> dict[PartitionName, list[Submission]]:
    """The submissions of a request for each partition, in the order of the message.

    ``new`` comes before ``remove``, ``allocations`` before ``releases``, ``forget`` before ``answers``. The codec has already
    checked types and integer ranges.

    Raises:
        ProtocolError with the path of the first mistake that cannot be told in a rejection; nothing is submitted then. TypeError
        for a request of another type.
    Cost: 0.8 us for each ask, also with quantities as text, if its resources are remembered; else 1.8 us.
    """
    return finished(submitting(request))


def submitting(request: PartitionRequest) -> Steps[dict[PartitionName, list[Submission]]]:
    """The submissions of a request, like ``submissions``, with a pause every few ms."""
    routed: dict[PartitionName, list[Submission]] = {}
    work = 0
    for field, entries, convert in _parts(request):
        for index, entry in enumerate(entries):
            size = len(_encode(entry))
            try:
                if size > lengths.TEXT_MAX and (error := lengths.too_long(entry)):
                    if not isinstance(entry, _Answered):
                        continue  # what has such a name does not exist (AP-132)
                    raise error
                partition, submission = convert(entry)
            except ProtocolError as mistake:
                partition, submission = _rejection(entry, mistake.below(f"{field}[{index}]", request.id))
            routed.setdefault(partition, []).append(submission)
            work += _ENTRY_WORK + size
            if work > _STEP_WORK:
                work = 0
                yield PART_MAX
    return routed


def freeing(request: PartitionRequest) -> Steps[None]:
    """Take the entries out of a request that nobody needs any more: to free many at once takes long."""
    for _, entries, _ in _parts(request):
        while len(entries) > PART_MAX:
            del entries[-PART_MAX:]  # type: ignore[attr-defined]  # decoders make lists
            yield PART_MAX


def addressed(
    work: dict[PartitionName, list[Submission]], known: Collection[PartitionName]
) -> dict[PartitionName, list[Submission]]:
    """The same work by the names of running partitions, which are compared without case (CF-64); it takes over the lists."""
    if work.keys() <= set(known):
        return work
    names = {name.lower(): name for name in known}
    routed: dict[PartitionName, list[Submission]] = {}
    for name, entries in work.items():
        known_name = names.get(name.lower(), name)
        if known_name in routed:
            routed[known_name] += entries
        else:
            routed[known_name] = entries
    return routed


def running(wanted: PartitionName, known: Iterable[PartitionName]) -> PartitionName:
    """The name of the running partition ``wanted``, compared without case; ProtocolError if there is none."""
    name = next((name for name in known if name.lower() == wanted.lower()), None)
    if name is None:
        raise ProtocolError("REFUSED", f"failed to find partition {wanted}", "partitionName")
    return name


def unknown_partition(submission: Submission, partition: PartitionName, at_ns: int) -> Fact | None:
    """The refusal of a submission to a partition that does not exist; None if the SI has no response for it.

    Source:  AP-10, AP-100, AP-132, SC-153.
    """
    match submission:
        case RefuseEntry(rejected):
            return structs.replace(rejected, at_ns=at_ns)
        case Ask(key, application_id):
            reason = f"Failed to find partition {partition}, for application {application_id} and allocation {key}"
            return AllocationRejected(at_ns, key, application_id, reason, RejectionCode.NO_PARTITION)
        case AddApplication(application_id):
            reason = f"Failed to add application {application_id} to partition {partition}, partition doesn't exist"
            return ApplicationRejected(at_ns, application_id, reason, RejectionCode.NO_PARTITION)
        case UpdateNode(node_id, NodeAction.CREATE | NodeAction.CREATE_DRAIN):
            reason = f"failed to find partition {partition} for new node {node_id}"
            return NodeRejected(at_ns, node_id, reason, RejectionCode.NO_PARTITION)
        case _:
            return None


_Routed = tuple[PartitionName, Submission]

#: Entries that have a response when they are rejected.
_Answered = si.Allocation | si.AddApplicationRequest | si.NodeInfo


def _rejection(entry: Any, mistake: ProtocolError) -> _Routed:
    """The rejection of an entry that is wrong. Raises the mistake if there is no entry of a response to say it in."""
    rejected: Rejected
    reason = str(mistake)
    match entry:
        case si.Allocation(allocation_key=key, application_id=owner, partition_name=partition) if key:
            key, owner = map(lengths.shortened, (key, owner))
            rejected = AllocationRejected(0, AllocationKey(key), ApplicationID(owner), reason, RejectionCode(mistake.code))
        case si.AddApplicationRequest(application_id=name, partition_name=partition) if name:
            rejected = ApplicationRejected(0, ApplicationID(lengths.shortened(name)), reason, RejectionCode(mistake.code))
        case si.NodeInfo(node_id=name, attributes=attributes) if name:
            partition = attributes.get(PARTITION_ATTRIBUTE, "")
            rejected = NodeRejected(0, NodeID(lengths.shortened(name)), reason, RejectionCode(mistake.code))
        case _:
            raise mistake
    return partition_named(lengths.shortened(partition)), RefuseEntry(rejected)


def _parts(request: PartitionRequest) -> list[tuple[str, Sequence[Any], Callable[[Any], _Routed]]]:
    """The lists of a request: the path of each list, its entries, and the function that converts an entry."""
    match request:
        case si.NodeRequest():
            return [("nodes", request.nodes, _node)]
        case si.ApplicationRequest():
            return [
                ("new", request.new, _application),
                ("jobs", request.jobs, _job),
                ("records", request.records, _record),
                ("remove", request.remove, _removal),
            ]
        case si.AllocationRequest():
            releases = request.releases.allocations_to_release
            return [
                ("allocations", request.allocations, _allocation),
                ("releases.allocationsToRelease", releases, _release),
            ]
        case si.PredicatesResponse():
            partition = partition_named(request.partition_name)
            return [
                ("forget", request.forget, lambda scope: (partition, ForgetPredicates(scope.predicate, scope.node_id))),
                ("answers", request.answers, partial(_answer, partition)),
            ]
        case _:
            raise TypeError(f"a {type(request).__name__} has no submissions")


def _node(wire: si.NodeInfo) -> _Routed:
    require(wire.node_id, "nodeID")
    action = _named(_NODE_ACTIONS, wire.action, "action")
    capacity = None if wire.schedulable_resource is None else _resource(wire.schedulable_resource, "schedulableResource")
    return partition_named(wire.attributes.get(PARTITION_ATTRIBUTE, "")), UpdateNode(
        node_id=NodeID(wire.node_id),
        action=action,
        capacity=capacity,
        attributes=wire.attributes,  # type: ignore[arg-type]  # decoders make dicts
    )


def _application(wire: si.AddApplicationRequest) -> _Routed:
    require(wire.application_id, "applicationID")
    placeholder_ask = wire.placeholder_ask
    return partition_named(wire.partition_name), AddApplication(
        application_id=ApplicationID(wire.application_id),
        queue_name=wire.queue_name,
        user=wire.ugi.user,
        groups=tuple(wire.ugi.groups),
        tags=wire.tags,  # type: ignore[arg-type]  # decoders make dicts
        execution_timeout_ms=wire.execution_timeout_milli_seconds,
        placeholder_ask=None if placeholder_ask is None else _resource(placeholder_ask, "placeholderAsk"),
        gang_scheduling_style=wire.gang_scheduling_style,
    )


def _job(wire: si.JobReport) -> _Routed:
    require(wire.application_id, "applicationID")
    if (ended := wire.completed + wire.failed + wire.cancelled) > wire.tasks:
        raise ProtocolError("OUT_OF_RANGE", f"found {ended} that have ended, expected at most {wire.tasks}", "tasks")
    job = JobReport(wire.name, wire.tasks, wire.completed, wire.failed, wire.cancelled)
    return partition_named(wire.partition_name), ReportJob(ApplicationID(wire.application_id), job)


def _record(wire: si.TaskRecord) -> _Routed:
    require(wire.application_id, "applicationID")
    require(wire.allocation_key, "allocationKey")
    if len(wire.signal) > SIGNAL_MAX:
        raise ProtocolError("OUT_OF_RANGE", f"found {len(wire.signal)} characters, expected at most {SIGNAL_MAX}", "signal")
    record = TaskRecord(
        allocation_key=AllocationKey(wire.allocation_key),
        state=_named(_TASK_OUTCOMES, wire.state, "state"),
        exit_code=wire.exit_code,
        signal=wire.signal,
        started_ns=wire.start_time,
        finished_ns=wire.finished_time,
        peak_memory=wire.peak_memory,
        eligible_ns=wire.eligible_time,
        cpu_ns=wire.cpu_time,
        message=wire.message,
    )
    return partition_named(wire.partition_name), RecordTask(ApplicationID(wire.application_id), record)


def _removal(wire: si.RemoveApplicationRequest) -> _Routed:
    require(wire.application_id, "applicationID")
    outcome = _named(_OUTCOMES, wire.outcome, "outcome") if wire.outcome else None
    removal = RemoveApplication(ApplicationID(wire.application_id), outcome, wire.message if outcome is not None else "")
    return partition_named(wire.partition_name), removal


def _allocation(wire: si.Allocation) -> _Routed:
    """A foreign allocation has no ``applicationID``; the core refuses other allocations without one (AP-103)."""
    if not wire.allocation_key:
        require(wire.allocation_key, "allocationKey")
    policy = wire.preemption_policy or _NO_POLICY
    resource = _RESOURCES.get(tuple(wire.resource_per_alloc.items()))
    ask = Ask(
        allocation_key=AllocationKey(wire.allocation_key),
        # asks are many: equal parts of them are kept once
        application_id=ApplicationID(intern(wire.application_id)),
        resource=resource or _resource(wire.resource_per_alloc, "resourcePerAlloc"),
        priority=wire.priority,
        node_id=NodeID(intern(wire.node_id)) if wire.node_id else None,
        tags=wire.allocation_tags,  # type: ignore[arg-type]  # decoders make dicts
        task_group_name=wire.task_group_name,
        placeholder=wire.placeholder,
        originator=wire.originator,
        # AP-53: by default an ask may be preempted, and may not preempt others. Each field has its own default.
        allow_preempt_self=policy.allow_preempt_self is not False,
        allow_preempt_other=policy.allow_preempt_other is True,
        releasing=wire.releasing and bool(wire.node_id),
    )
    return partition_named(wire.partition_name) if wire.partition_name else _DEFAULT, ask


def _release(wire: si.AllocationRelease) -> _Routed:
    """Release one allocation; without a key all of the application; without an application a foreign one (AP-102, AP-126)."""
    if not wire.allocation_key:
        require(wire.application_id, "applicationID")
    termination_type = _named(_TERMINATION_TYPES, wire.termination_type, "terminationType")
    if termination_type is TerminationType.SCHEDULING_FAILED_ON_RM:
        require(wire.allocation_key, "allocationKey")
    return partition_named(wire.partition_name), ReleaseAllocations(
        application_id=ApplicationID(wire.application_id),
        allocation_key=AllocationKey(wire.allocation_key) if wire.allocation_key else None,
        termination_type=termination_type,
        node_id=NodeID(wire.node_id) if wire.node_id else None,
    )


def _answer(partition: PartitionName, wire: si.PredicateAnswer) -> _Routed:
    require(wire.predicate, "predicate")
    if len(wire.predicate) > PREDICATE_CLASS_MAX:
        text = f"found {len(wire.predicate)} characters, expected at most {PREDICATE_CLASS_MAX}"
        raise ProtocolError("OUT_OF_RANGE", text, "predicate")
    require(wire.node_id, "nodeID")
    if wire.uses is not None and wire.uses < 1:
        raise ProtocolError("OUT_OF_RANGE", f"found {wire.uses}, expected at least 1; what may not run has an error", "uses")
    error = lengths.shortened(wire.error)
    return partition, AnswerPredicate(wire.predicate, NodeID(wire.node_id), wire.allocate, error, wire.uses)


_NO_POLICY = si.PreemptionPolicy()


def partition_named(name: str) -> PartitionName:
    """An empty name and ``default`` in any case mean the partition ``default`` (SC-143)."""
    return _DEFAULT if not name or name.lower() == _DEFAULT else PartitionName(name)


def _resource(wire: si.WireResource, field: str) -> Resource:
    """Integers are base units; text is parsed as in the queue file. The core refuses empty and negative ones (AP-105, AP-106)."""
    if len(wire) > TYPES_MAX:
        raise ProtocolError("OUT_OF_RANGE", f"found {len(wire)} resource types, expected at most {TYPES_MAX}", field)
    items = tuple(wire.items())
    return _RESOURCES.get(items) or _new_resource(items, field)


def _new_resource(items: tuple[tuple[str, si.Quantity], ...], field: str) -> Resource:
    resource: Resource = {}
    for name, quantity in items:
        if isinstance(quantity, str):
            try:
                quantity = parse_quantity(name, quantity)
            except QuantityError as error:
                raise ProtocolError("BAD_QUANTITY", str(error), f"{field}.{name}") from None
        resource[name] = quantity
    if len(str(items)) <= _RESOURCE_TEXT_MAX:
        if len(_RESOURCES) == _RESOURCES_MAX:
            _RESOURCES.clear()
        _RESOURCES[items] = resource
    return resource


def require(identifier: str, field: str) -> None:
    if not identifier:
        raise ProtocolError("EMPTY_ID", "found an empty text, expected an identifier", field)


def _named(members: Mapping[str, E], name: str, field: str) -> E:
    member = members.get(name)
    if member is None:
        raise ProtocolError("UNKNOWN_NAME", f"found {name!r}, expected one of {', '.join(members)}", field)
    return member
