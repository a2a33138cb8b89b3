"""The events that a subscriber wants: the part of an event that the feed reads, and the filter."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

#: Encodes one event record.
Encode = Callable[[Any], bytes]


class EventRecordLike(Protocol):
    """The fields of an event that filters read."""

    @property
    def type(self) -> str: ...
    @property
    def object_id(self) -> str: ...
    @property
    def reference_id(self) -> str: ...
    @property
    def event_change_detail(self) -> str: ...
    @property
    def partition(self) -> str: ...
    @property
    def queue_name(self) -> str: ...


class EventFilter(Struct, frozen=True):
    """The events that a subscriber wants; an empty field matches all. ``queues`` are paths and include all queues below."""

    partitions: frozenset[str] = frozenset()
    queues: tuple[str, ...] = ()
    applications: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    def wants(self, event: EventRecordLike) -> bool:
        """Whether the event matches every field."""
        return (
            (not self.partitions or event.partition in self.partitions)
            and (not self.kinds or event.type in self.kinds or event.event_change_detail in self.kinds)
            and (not self.applications or _application_of(event) in self.applications)
            and (not self.queues or self._in_queues(event))
        )

    def _in_queues(self, event: EventRecordLike) -> bool:
        path = event.queue_name or (event.object_id if event.type == "QUEUE" else "")
        return any(path == queue or path.startswith(queue + ".") for queue in self.queues)


def _application_of(event: EventRecordLike) -> str:
    """The application ID of an event, or ""; its field depends on the type (EV-1)."""
    if event.type == "APP":
        return event.object_id
    return "" if event.type == "NODE" else event.reference_id
