"""The wire vocabulary: the messages of YuniKorn's scheduler interface (SI) as tagged structs.

Field names on the wire are the SI's; in Python they are snake case, and ``_si_name`` converts them. A field is optional if
the SI lets a sender leave it out. The structs are plain data: ``wire.si.requests`` and ``wire.si.responses`` convert them.

Requests are strict: an unknown field is an error, because it is probably a typo. Messages that only the daemon sends are not,
so that older clients can read new fields. For the same reason a field whose text is of an enum (``NodeAction``,
``TerminationType``, ``ApplicationState``, ``RejectionCode``, ``PreemptionKind``, ``SchedulingState``, ``WaitingCause``) is a
string: members of the enums are strings, and compare equal to it. A field with its default value is not encoded (``codec``
relies on it).

This package has all of them under one name. ``base`` is what they have in common; ``requests`` come from resource managers and
operators, ``responses`` go to them, and ``feed`` is between followers and the daemon.
"""

from ykactor.core.inspection.partition_status import PartitionStatus as PartitionStatus
from ykactor.core.messages.kinds import NodeAction as NodeAction
from ykactor.core.messages.kinds import PreemptionKind as PreemptionKind
from ykactor.core.messages.kinds import RejectionCode as RejectionCode
from ykactor.core.messages.kinds import SchedulingState as SchedulingState
from ykactor.core.messages.kinds import TerminationType as TerminationType
from ykactor.core.messages.kinds import WaitingCause as WaitingCause
from ykactor.core.messages.states import ApplicationState as ApplicationState
from ykactor.core.messages.states import Outcome as Outcome
from ykactor.core.messages.states import TaskOutcome as TaskOutcome
from ykactor.wire.si.messages.base import *
from ykactor.wire.si.messages.feed import *
from ykactor.wire.si.messages.requests import *
from ykactor.wire.si.messages.responses import *
