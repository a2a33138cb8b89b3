"""The requests about applications and queues that operators send, as submissions."""

from msgspec import structs

from ykactor.core.messages.submissions import (
    CancelTask,
    HoldApplication,
    HoldQueue,
    Operator,
    OperatorAct,
    SetPriority,
)
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName
from ykactor.wire.si import messages as si
from ykactor.wire.si.requests import administration, partition_named, require


def operation(request: si.OperatorAct, operator: Operator) -> tuple[PartitionName, OperatorAct]:
    """An operator's request as a submission, with its partition.

    Raises:
        ProtocolError with the path of the first mistake.
    """
    if isinstance(request, si.TerminateApplication | si.MoveApplication):
        partition, wanted = administration(request)
        return partition, structs.replace(wanted, operator=operator)
    return partition_named(request.partition_name), _operation(request, operator)


def _operation(
    request: si.HoldApplication | si.HoldQueue | si.CancelAllocation | si.SetPriority, operator: Operator
) -> OperatorAct:
    if isinstance(request, si.HoldQueue):
        require(request.queue_name, "queueName")
        return HoldQueue(request.queue_name, request.held, operator)
    require(request.application_id, "applicationID")
    name = ApplicationID(request.application_id)
    match request:
        case si.HoldApplication(held=is_held):
            return HoldApplication(name, is_held, operator)
        case si.CancelAllocation(allocation_key=key):
            require(key, "allocationKey")
            return CancelTask(name, AllocationKey(key), operator)
        case si.SetPriority(allocation_key=key, priority=priority):
            return SetPriority(name, AllocationKey(key) if key else None, priority, operator)
