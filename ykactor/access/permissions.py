"""The table of permissions: the rights that each message needs (SE-20).

A message without an entry for the role of its door is refused, and so is every message of a role that the identity does not have.
The table stands here because both it and the messages are plain data: sessions ask it when a message arrives. Right before its
effect they only ask whether its sender is still let in: rights never shrink before that (SE-68). What only a turn knows is asked
of the identity there: the resolved groups of an application (``check_application``), the queue of one that an operator acts
on (``Identity.may_act_on``), and the partitions that a registration serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, get_args

from msgspec import Struct, structs

from ykactor.access.model import Identity, Role, normal_queue
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.submissions import PARTITION_ATTRIBUTE
from ykactor.core.placement.rules import is_forced
from ykactor.core.values.quantities import shown
from ykactor.wire.si import messages as si
from ykactor.wire.si.acts import ACTS

#: The acts on a node that the role operator has.
DRAINS = (NodeAction.DRAIN_NODE, NodeAction.DRAIN_TO_SCHEDULABLE)
#: The same sentence whether the name exists or not: it must not tell (SE-26).
_UNSEEN = "found a name that does not exist or that you may not see"


class Refusal(Struct, frozen=True):
    """The refusal of a message, and the path of the field, with the names of the wire; "" for the whole message."""

    path: str
    message: str


#: Why the value of a field is refused, with the path below it; None if it is not.
Need = Callable[[Identity, Any], Refusal | None]


class Asked(Struct, frozen=True):
    """The rights that a message, or a part of one, needs, by field.

    Attributes:
        free: fields of which nothing is asked. A field is here or in ``needs``, so that nobody forgets a new one.
    """

    kind: type[Struct]
    free: frozenset[str]
    needs: dict[str, Need]

    def __call__(self, identity: Identity, found: Struct) -> Refusal | None:
        for field, need in self.needs.items():
            refusal = need(identity, getattr(found, field))
            if refusal is not None:
                path = _wire_name(self.kind, field)
                return Refusal(path + ("." if refusal.path[:1] not in ("", "[") else "") + refusal.path, refusal.message)
        return None


class Each(Struct, frozen=True):
    """The same need for every item of a list."""

    need: Need

    def __call__(self, identity: Identity, items: Sequence[Any]) -> Refusal | None:
        for index, item in enumerate(items):
            refusal = self.need(identity, item)
            if refusal is not None:
                return _at(index, refusal)
        return None


def _at(index: int, refusal: Refusal) -> Refusal:
    return Refusal(f"[{index}]" + ("." if refusal.path else "") + refusal.path, refusal.message)


class EachPartition(Struct, frozen=True):
    """Asks each partition in a long list once, like ``Each``: items of which only the partition matters name few of them."""

    asked: Asked
    partition: Callable[[Any], str] = attrgetter("partition_name")

    def __call__(self, identity: Identity, items: Sequence[Any]) -> Refusal | None:
        if identity.partitions.is_any:
            return None
        named = list(map(self.partition, items))
        refused = {name for name in set(named) if not identity.may_act_in(name)}
        if not refused:
            return None
        index = next(index for index, name in enumerate(named) if name in refused)
        refusal = self.asked(identity, items[index])
        return None if refusal is None else _at(index, refusal)


class Gate(Struct, frozen=True):
    """Asked of the identity whatever the value is, then of the value as ``need`` says.

    Attributes:
        why: why the identity is refused, as it goes on behind its name; "" if it is not.
    """

    why: Callable[[Identity], str]
    need: Need | None = None

    def __call__(self, identity: Identity, value: Any) -> Refusal | None:
        why = self.why(identity)
        if why:
            return Refusal("", f"{identity.name} {why}")
        return None if self.need is None else self.need(identity, value)


def check(identity: Identity, role: Role, message: Struct) -> Refusal | None:
    """The refusal of a message that the identity sends as ``role``, the one of its path; None if it may send it.

    Cost: 2 us for a small message; if the identity is limited to partitions, 4 ms for 100,000 asks and 10 ms for 100,000 nodes.
    """
    if role not in identity.roles:
        return Refusal("", f"{identity.name} does not have the role {role}")
    asked = TABLE.get(type(message), {}).get(role)
    if asked is None:
        return Refusal("", f"{type(message).__name__} is not a message for the role {role}")
    return asked(identity, message)


def check_application(identity: Identity, who: UserGroups, tags: dict[str, str]) -> str | None:
    """The refusal of an application; None if the identity may submit it. Asked in the turn, with its groups (SE-23, SE-24)."""
    if is_forced(tags) and not identity.may_force:
        return f"{identity.name} may not force the creation of applications"
    if not identity.may_claim(who.user, ()):
        return f"{identity.name} may not submit for user {shown(who.user)}"
    refused = [shown(group) for group in who.groups if not identity.may_claim(who.user, (group,))]
    return f"{identity.name} may not submit for user {shown(who.user)} with groups {', '.join(refused)}" if refused else None


def messages_of(identity: Identity, role: Role) -> list[str]:
    """The names of the messages that the identity may send as ``role``, at least with some content."""
    if role not in identity.roles:
        return []
    return [kind.__name__ for kind, by_role in TABLE.items() if role in by_role and _may_pass(identity, by_role[role])]


def _may_pass(identity: Identity, need: Need) -> bool:
    """True if no gate refuses the identity."""
    match need:
        case Gate():
            return not need.why(identity)
        case Asked():
            return all(_may_pass(identity, inner) for inner in need.needs.values())
        case _:
            return True


def _registers(identity: Identity, rm_id: str) -> Refusal | None:
    if identity.may_register_as(rm_id):
        return None
    return Refusal("", f"{identity.name} may not register as {shown(rm_id)}, expected one of: {identity.rm_ids}")


def _limit_of_configuring(identity: Identity) -> str:
    return "" if identity.configure else "may not change the configuration"


_CONFIGURES = Gate(_limit_of_configuring)


def _configures_if_set(identity: Identity, value: object) -> Refusal | None:
    return _CONFIGURES(identity, value) if value else None


def _acts_in(identity: Identity, partition: str) -> Refusal | None:
    if identity.may_act_in(partition):
        return None
    return Refusal("", f"{identity.name} may not act in partition {shown(partition or 'default')}")


def _partition_of(node: si.NodeInfo) -> str:
    return node.attributes.get(PARTITION_ATTRIBUTE, "")


def _node_is_in(identity: Identity, attributes: dict[str, str]) -> Refusal | None:
    refusal = _acts_in(identity, attributes.get(PARTITION_ATTRIBUTE, ""))
    return None if refusal is None else Refusal(PARTITION_ATTRIBUTE, refusal.message)


def _claims(identity: Identity, ugi: si.UserGroupInformation | None) -> Refusal | None:
    """The groups as they were sent; the turn asks about those that it resolves."""
    if ugi is None or identity.may_claim(ugi.user, ugi.groups):
        return None
    return Refusal("", f"{identity.name} may not act for user {shown(ugi.user)} with these groups")


def _is_absent(identity: Identity, value: object) -> Refusal | None:
    return None if value is None else Refusal("", f"{identity.name} acts for itself, expected nothing")


def _operates(identity: Identity, queue: str) -> Refusal | None:
    if identity.may_act_on(normal_queue(queue)):
        return None
    return Refusal("", f"{identity.name} may not operate queue {shown(queue)}")


def _limit_of_queues(identity: Identity) -> str:
    """A node is in no queue, but serves all; so is a registration."""
    return "" if identity.queues is None else "is limited to queues, and this affects others too"


def _drains(identity: Identity, action: str) -> Refusal | None:
    if action in DRAINS:
        return None
    return Refusal("", f"found {shown(action)}, an operator may only {' or '.join(DRAINS)}")


def _sees_partition(identity: Identity, partition: str) -> Refusal | None:
    return None if identity.may_act_in(partition) else Refusal("", _UNSEEN)


def _sees_some_partition(identity: Identity, partition: str) -> Refusal | None:
    """The reader sees a partition; without a name the answer is about those that it sees."""
    return _sees_partition(identity, partition) if partition else None


def _sees_queue(identity: Identity, queue: str) -> Refusal | None:
    return None if identity.sees(normal_queue(queue)) else Refusal("", _UNSEEN)


def _limit_of_sight(identity: Identity) -> str:
    """The answer is about all partitions and queues (SE-88)."""
    if identity.partitions.is_any and identity.queues is None:
        return ""
    return "is limited to partitions or queues, and the answer is about all of them"


def _asked(kind: type[Struct], free: str = "", **needs: Need) -> Asked:
    return Asked(kind, frozenset(free.split()), needs)


def _wire_name(kind: type[Struct], field: str) -> str:
    return next(found.encode_name for found in structs.fields(kind) if found.name == field)


def _message_of(row: Asked | Gate) -> type[Struct]:
    """The message that a row is about."""
    match row:
        case Asked(kind=kind) | Gate(need=Asked(kind=kind)):
            return kind
    raise AssertionError("a gate has its message")


#: The rights that acts of an operator need, by field; a turn asks about the queue of the application (SE-26).
_ACT_NEEDS: dict[str, Need] = {"partition_name": _acts_in, "queue_name": _operates, "ugi": _is_absent}


def _operator_act(kind: type[si.OperatorAct]) -> Asked:
    """A field that needs no right is declared with the act, so that nobody forgets a new one."""
    fields = {field.name for field in structs.fields(kind)}
    free = fields & {"id", "application_id", *ACTS[kind].settings}
    assert fields == free | (fields & _ACT_NEEDS.keys()), f"{kind.__name__}: found {fields}, expected rights or settings"
    return Asked(kind, frozenset(free), {name: need for name, need in _ACT_NEEDS.items() if name in fields})


#: ``ugi`` and ``tags`` are asked in the turn: an application that may not be is rejected alone.
_NEW_APPLICATION = _asked(
    si.AddApplicationRequest,
    "application_id queue_name ugi tags execution_timeout_milli_seconds placeholder_ask gang_scheduling_style",
    partition_name=_acts_in,
)
_ASK = _asked(
    si.Allocation,
    "allocation_key application_id resource_per_alloc priority allocation_tags task_group_name placeholder originator "
    "preemption_policy node_id releasing",
    partition_name=_acts_in,
)
_RELEASE = _asked(si.AllocationRelease, "application_id allocation_key termination_type message node_id", partition_name=_acts_in)
_REMOVAL = _asked(si.RemoveApplicationRequest, "application_id outcome message", partition_name=_acts_in)
_RECORD = _asked(
    si.TaskRecord,
    "application_id allocation_key state exit_code signal start_time finished_time peak_memory eligible_time cpu_time message",
    partition_name=_acts_in,
)
_JOB = _asked(si.JobReport, "application_id name tasks completed failed cancelled", partition_name=_acts_in)
_NODE = _asked(si.NodeInfo, "node_id action schedulable_resource", attributes=_node_is_in)
_DRAINED_NODE = _asked(si.NodeInfo, "node_id", action=_drains, attributes=_node_is_in, schedulable_resource=_is_absent)
_CONFIGURATION = _asked(
    si.UpdateConfigurationRequest,
    "id extra_config if_checksum confirm_within_seconds waits_for_confirmation",
    config=_CONFIGURES,
)

#: The rights that are asked of each role, a row for each message that it may send.
_RIGHTS: dict[Role, tuple[Asked | Gate, ...]] = {
    Role.RM: (
        _asked(
            si.RegisterResourceManagerRequest,
            "id version policy_group build_info resume_from term answers_predicates wants_scheduling_states epoch",
            rm_id=_registers,
            config=_configures_if_set,
            extra_config=_configures_if_set,
        ),
        _asked(si.DeregisterResourceManagerRequest, "id"),
        _asked(si.NodeRequest, "id", nodes=EachPartition(_NODE, _partition_of)),
        _asked(
            si.ApplicationRequest,
            "id",
            new=EachPartition(_NEW_APPLICATION),
            jobs=EachPartition(_JOB),
            records=EachPartition(_RECORD),
            remove=EachPartition(_REMOVAL),
        ),
        _asked(
            si.AllocationRequest,
            "id",
            allocations=EachPartition(_ASK),
            releases=_asked(si.AllocationReleasesRequest, allocations_to_release=EachPartition(_RELEASE)),
        ),
        _CONFIGURATION,
        _asked(si.TerminateApplication, "id application_id", partition_name=_acts_in, ugi=_claims),
        _asked(si.MoveApplication, "id application_id queue_name", partition_name=_acts_in, ugi=_claims),
        _asked(si.SetQueueQuotas, "id queue_name tags", partition_name=_acts_in),
        _asked(si.PredicatesResponse, "id forget answers", partition_name=_acts_in),
        _asked(si.ScheduleRequest, "id steps"),
    ),
    Role.OPERATOR: (
        _asked(si.NodeRequest, "id", nodes=Gate(_limit_of_queues, Each(_DRAINED_NODE))),
        _CONFIGURATION,
        *map(_operator_act, get_args(si.OperatorAct)),
        _asked(si.ExpectNoAllocations, "id allocation_keys", partition_name=_acts_in),
        Gate(_limit_of_sight, _asked(si.ReloadConfiguration, "id")),
        Gate(_limit_of_configuring, _asked(si.ConfirmConfiguration, "id if_checksum")),
        Gate(_limit_of_configuring, _asked(si.RollBackConfiguration, "id")),
        _asked(si.ReleaseResourceManager, "id forget_epoch", rm_id=Gate(_limit_of_queues)),
    ),
    Role.READER: (
        _asked(
            si.Subscribe,
            "from_ term turns instance in_parts pending_asks applications kinds",
            partitions=Each(_sees_partition),
            queues=Each(_sees_queue),
        ),
        Gate(_limit_of_sight, _asked(si.ReadConfiguration, "term turns")),
        Gate(_limit_of_sight, _asked(si.CheckHealth, "term turns")),
        _asked(si.ReadUsage, "by first_day last_day term turns", partitions=Each(_sees_partition)),
        _asked(si.Explain, "name kind allocation_key changes preempt term turns", partition_name=_sees_some_partition),
    ),
}
#: The same by message and role.
TABLE: dict[type[Struct], dict[Role, Need]] = {}
for _role, _rows in _RIGHTS.items():
    for _row in _rows:
        TABLE.setdefault(_message_of(_row), {})[_role] = _row
