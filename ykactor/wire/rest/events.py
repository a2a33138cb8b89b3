"""Events of the feed as Apache YuniKorn's REST API shows them: numbers for kinds, and amounts as in the scheduler interface."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Raw, field

from ykactor.wire.rest.codec import encode_part
from ykactor.wire.rest.types import Payload
from ykactor.wire.si.kinds import KINDS
from ykactor.wire.si.messages import EventRecord


class Quantity(Payload, frozen=True, kw_only=True):
    """An amount of a type."""

    value: int = 0


class Amounts(Payload, frozen=True, kw_only=True):
    """Amounts by type."""

    resources: dict[str, Quantity] = {}


class Event(Payload, frozen=True, kw_only=True):
    """An event, with the numbers of the scheduler interface for its kind (RE-9).

    Attributes:
        object_id, reference_id: what it is about.
    """

    type: int = 0
    object_id: str = field(name="objectID", default="")
    reference_id: str = field(name="referenceID", default="")
    message: str = ""
    timestamp_nano: int = 0
    event_change_type: int = 0
    event_change_detail: int = 0
    resource: Amounts


class Events(Payload, frozen=True, kw_only=True):
    """Events in order, the first of which has the id that was asked for; None if that one is not kept.

    Attributes:
        instance_uuid: with another one the ids have begun anew.
        lowest_id, highest_id: of the events that are kept.
        event_records: those that are encoded already as such.
    """

    instance_uuid: str = field(name="InstanceUUID")
    lowest_id: int = field(name="LowestID")
    highest_id: int = field(name="HighestID")
    event_records: Sequence[Event | Raw] | None = field(name="EventRecords")


class StreamHead(Payload, frozen=True, kw_only=True):
    """The first line of a stream of events."""

    instance_uuid: str = field(name="InstanceUUID")


#: The last one is our own, far from those that Apache YuniKorn may add; 0 would be a type that nobody knows.
_TYPES = {"REQUEST": 1, "APP": 2, "NODE": 3, "QUEUE": 4, "USERGROUP": 5, "AUDIT": 1000}
_CHANGES = {"SET": 1, "ADD": 2, "REMOVE": 3}
_NUMBERS = {kind.detail: kind.number for kind in KINDS if kind.number}
_NO_DETAIL = "DETAILS_NONE"


def encode_events(events: Iterable[EventRecord]) -> list[bytes]:
    """Each event as JSON. Cost: 3 us for each."""
    return [encode_part(event_of(event)) for event in events]


def event_of(event: EventRecord) -> Event:
    """An event; of a kind that Apache YuniKorn does not have the message begins with the name of the kind."""
    detail = event.event_change_detail
    is_known = event.type in _TYPES and (detail in _NUMBERS or detail == _NO_DETAIL)
    return Event(
        type=_TYPES.get(event.type, 0),
        object_id=event.object_id,
        reference_id=event.reference_id,
        message=event.message if is_known else f"{detail}: {event.message}".removesuffix(": "),
        timestamp_nano=event.timestamp_nano,
        event_change_type=_CHANGES.get(event.event_change_type, 0),
        event_change_detail=_NUMBERS.get(detail, 0),
        resource=Amounts(resources={name: Quantity(value=value) for name, value in (event.resource or {}).items()}),
    )
