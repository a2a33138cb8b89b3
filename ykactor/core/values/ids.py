"""Identifiers as distinct types, so that swapping two strings is a type error."""

from typing import NewType

ApplicationID = NewType("ApplicationID", str)
AllocationKey = NewType("AllocationKey", str)
NodeID = NewType("NodeID", str)
#: Fully qualified and lower case, for example ``root.tenants.a`` (QU-6).
QueuePath = NewType("QueuePath", str)
PartitionName = NewType("PartitionName", str)
