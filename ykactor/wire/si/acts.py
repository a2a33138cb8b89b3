"""Messages of operators and administrators to acts of the core: one row of ``ACTS`` for each message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import structs

from ykactor.core.config.access import UserGroups
from ykactor.core.messages.acts import (
    Act,
    CancelTask,
    HoldApplication,
    HoldQueue,
    MoveApplication,
    Operator,
    OperatorAct,
    SetPriority,
    SetQueueQuotas,
    TerminateApplication,
)
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName
from ykactor.wire.si import messages as si
from ykactor.wire.si.requests import partition_named, require


class ActRow(NamedTuple):
    """A message of an operator.

    Attributes:
        act: as in the audit, which tells the end of a hold as ``UNHOLD``.
        about: the field that says what it is about.
        convert: the act that an operator wants. Raises ``ProtocolError`` with the path of the first mistake.
        settings: the other fields that need no right; those that name a partition, a queue or a user do (``access.permissions``).
    """

    act: Act
    about: str
    convert: Callable[[Any, Operator], OperatorAct]
    settings: tuple[str, ...] = ()


def administration(
    request: si.TerminateApplication | si.MoveApplication,
) -> tuple[PartitionName, TerminateApplication | MoveApplication]:
    """An administrator's request as an act, with its partition.

    Raises:
        ProtocolError with the path of the first mistake.
    """
    partition = partition_named(request.partition_name)
    application_id = _application(request)
    who = None
    if request.ugi is not None:
        require(request.ugi.user, "ugi.user")
        who = UserGroups(request.ugi.user, tuple(request.ugi.groups))
    if isinstance(request, si.TerminateApplication):
        return partition, TerminateApplication(application_id, who)
    require(request.queue_name, "queueName")
    return partition, MoveApplication(application_id, request.queue_name, who)


def quotas(request: si.SetQueueQuotas) -> tuple[PartitionName, SetQueueQuotas]:
    """The quotas of a queue as an act, with its partition.

    Raises:
        ProtocolError: no queue is named.
    """
    require(request.queue_name, "queueName")
    return partition_named(request.partition_name), SetQueueQuotas(request.queue_name, dict(request.tags))


def operation(request: si.OperatorAct, operator: Operator) -> tuple[PartitionName, OperatorAct]:
    """An operator's request as an act, with its partition.

    Raises:
        ProtocolError with the path of the first mistake.
    """
    return partition_named(request.partition_name), ACTS[type(request)].convert(request, operator)


def act_of(request: si.OperatorAct) -> Act:
    """The name of the request in the audit."""
    ends_hold = isinstance(request, si.HoldApplication | si.HoldQueue) and not request.held
    return Act.UNHOLD if ends_hold else ACTS[type(request)].act


def _application(request: Any) -> ApplicationID:
    require(request.application_id, "applicationID")
    return ApplicationID(request.application_id)


def _administered(request: si.TerminateApplication | si.MoveApplication, operator: Operator) -> OperatorAct:
    return structs.replace(administration(request)[1], operator=operator)


def _hold_application(request: si.HoldApplication, operator: Operator) -> HoldApplication:
    return HoldApplication(_application(request), request.held, operator)


def _hold_queue(request: si.HoldQueue, operator: Operator) -> HoldQueue:
    require(request.queue_name, "queueName")
    return HoldQueue(request.queue_name, request.held, operator)


def _cancel(request: si.CancelAllocation, operator: Operator) -> CancelTask:
    name = _application(request)
    require(request.allocation_key, "allocationKey")
    return CancelTask(name, AllocationKey(request.allocation_key), operator)


def _set_priority(request: si.SetPriority, operator: Operator) -> SetPriority:
    key = AllocationKey(request.allocation_key) if request.allocation_key else None
    return SetPriority(_application(request), key, request.priority, operator)


#: The messages of operators about applications and queues.
ACTS: dict[type[si.OperatorAct], ActRow] = {
    si.TerminateApplication: ActRow(Act.TERMINATE, "application_id", _administered),
    si.MoveApplication: ActRow(Act.MOVE, "application_id", _administered),
    si.HoldApplication: ActRow(Act.HOLD, "application_id", _hold_application, ("held",)),
    si.HoldQueue: ActRow(Act.HOLD, "queue_name", _hold_queue, ("held",)),
    si.CancelAllocation: ActRow(Act.CANCEL, "application_id", _cancel, ("allocation_key",)),
    si.SetPriority: ActRow(Act.PRIORITY, "application_id", _set_priority, ("allocation_key", "priority")),
}
