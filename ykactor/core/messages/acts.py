"""The acts of administrators and operators, and their words: each is carried out as a whole, or refused with a reason.

``target`` names what an act is about, for the audit: ``root.a``, ``app-1``, or ``app-1/t1`` for a task. ``words`` may follow "the
operator wants to". What an act does to an application is in ``objects.acts``, to queues and between two leaves in
``partition.administration``. The journal has the class of an act and its fields, so their names never change.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from ykactor.core.config.access import UserGroups
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath


class Hold(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The hold of an application, or of a queue with all below it: it gets nothing new (OP-1). ``by`` names the operator."""

    by: str
    since_ns: int


class Act(StrEnum):
    """The acts on the daemon that are audited (SE-72).

    ``CONNECT`` and ``SEND`` are only refused: a connection, and a message that is no other act.
    """

    REGISTER = "REGISTER"
    RESUME = "RESUME"
    DEREGISTER = "DEREGISTER"
    RELEASE = "RELEASE"
    CONFIGURE = "CONFIGURE"
    DRAIN = "DRAIN"
    UNDRAIN = "UNDRAIN"
    TERMINATE = "TERMINATE"
    MOVE = "MOVE"
    HOLD = "HOLD"
    UNHOLD = "UNHOLD"
    CANCEL = "CANCEL"
    PRIORITY = "PRIORITY"
    ACCESS = "ACCESS"
    CERTIFICATE = "CERTIFICATE"
    STANDBY = "STANDBY"
    CONNECT = "CONNECT"
    SEND = "SEND"


def full_path(name: str) -> QueuePath:
    """The path of a queue that is named in any case, with or without ``root.``."""
    path = name.lower()
    return QueuePath(path if path == "root" or path.startswith("root.") else f"root.{path}")


#: Stands for the name of an operator who has none, or whose name is not shown (SE-84); no identity has such a name (SE-41).
AN_OPERATOR = "an operator"


class Operator(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An operator of the daemon.

    Attributes:
        name: the name of the identity; ``AN_OPERATOR`` where nobody has one, without an access file.
        queues: the queues, in lower case, below which it sees applications; empty: all (SE-26).
    """

    name: str
    queues: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """``the operator ops``."""
        return self.name if self.name == AN_OPERATOR else f"the operator {self.name}"

    def may_operate(self, path: QueuePath) -> bool:
        """True if the queue is among those that the operator is limited to."""
        return not self.queues or any(f"{path}.".startswith(f"{queue}.") for queue in self.queues)


class _ApplicationAct(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An act on an application."""

    application_id: ApplicationID

    @property
    def target(self) -> str:
        return self.application_id


class _QueueAct(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An act on a queue, which is named in any case, with or without ``root.``."""

    queue_name: str

    @property
    def target(self) -> str:
        return full_path(self.queue_name)


class TerminateApplication(_ApplicationAct, frozen=True, gc=False):
    """End an application.

    Attributes:
        who: the administrator who requests it. None: the resource manager or an operator, who may do so.
        operator: the operator who requests it, or None.
    """

    who: UserGroups | None = None
    operator: Operator | None = None

    @property
    def words(self) -> str:
        return f"end application {self.application_id}"


class MoveApplication(_ApplicationAct, frozen=True, gc=False):
    """Move an application to another leaf with its asks and allocations; ``who`` and ``operator`` as above."""

    queue_name: str
    who: UserGroups | None = None
    operator: Operator | None = None

    @property
    def words(self) -> str:
        return f"move application {self.application_id} to {self.queue_name}"


class SetQueueQuotas(_QueueAct, frozen=True, gc=False):
    """Set quotas of a dynamic leaf (QU-107).

    Attributes:
        tags: quota tags of applications (QU-100); an empty value removes the quota.
    """

    tags: dict[str, str]

    @property
    def words(self) -> str:
        return f"set the quotas of queue {self.queue_name}"


class HoldApplication(_ApplicationAct, frozen=True, gc=False):
    """Hold an application, or end its hold (OP-1)."""

    is_held: bool
    operator: Operator

    @property
    def words(self) -> str:
        return f"{'hold' if self.is_held else 'end the hold of'} application {self.application_id}"


class HoldQueue(_QueueAct, frozen=True, gc=False):
    """Hold a queue with all below it, or end its hold (OP-2)."""

    is_held: bool
    operator: Operator

    @property
    def words(self) -> str:
        return f"{'hold' if self.is_held else 'end the hold of'} queue {self.queue_name}"


class CancelTask(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Remove a pending ask, or release an allocation (OP-10)."""

    application_id: ApplicationID
    allocation_key: AllocationKey
    operator: Operator

    @property
    def target(self) -> str:
        return f"{self.application_id}/{self.allocation_key}"

    @property
    def words(self) -> str:
        return f"cancel {self.allocation_key} of {self.application_id}"


class SetPriority(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Give a pending ask another priority, or all pending asks of an application (OP-12).

    Attributes:
        allocation_key: None for all.
        priority: int32.
    """

    application_id: ApplicationID
    allocation_key: AllocationKey | None
    priority: int
    operator: Operator

    @property
    def target(self) -> str:
        return self.application_id if self.allocation_key is None else f"{self.application_id}/{self.allocation_key}"

    @property
    def words(self) -> str:
        which = "the pending asks" if self.allocation_key is None else self.allocation_key
        return f"give {which} of {self.application_id} the priority {self.priority}"


#: What its leaf does to an application (``objects.acts``).
ApplicationAct = TerminateApplication | HoldApplication | CancelTask | SetPriority
#: What operators do to applications and queues.
OperatorAct = ApplicationAct | MoveApplication | HoldQueue
#: Carried out as a whole or refused with a reason; never part of a batch of submissions.
Administration = OperatorAct | SetQueueQuotas
