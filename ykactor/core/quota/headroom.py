"""Headroom: running slots and amounts that queues, users and groups have left for an ask, on whatever node (QU-36 to QU-40)."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.messages.kinds import PendingCode
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import Tracker, TrackerTuple
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.resources import Resource, min_union

#: Running slots that an application must find before it may start, as bits: in its queues, and for its user and group.
QUEUE_SLOT, USER_SLOT = 1, 2

#: Types of an ask with their amounts, in the order of their names.
Amounts = tuple[tuple[str, int], ...]
#: A queue, or the limit of a user or group in it.
Place = QueueUsage | Tracker
#: The queue or limit that is short, and the type; "" is a running slot.
Shortage = tuple[Place, str]


def shortage_code(short: Shortage) -> PendingCode:
    """The code of asks for which there is a shortage (AP-150)."""
    place, name = short
    if not name:
        return PendingCode.MAX_APPLICATIONS
    return PendingCode.LIMIT if isinstance(place, Tracker) else PendingCode.QUOTA


def limits_slots(path_up: Iterable[QueueUsage], trackers: TrackerTuple) -> bool:
    """True if a queue or tracker limits the number of running applications."""
    places: list[Place] = [*path_up, *trackers]
    for place in places:
        if place.max_applications:
            return True
    return False


def slot_shortage(
    path_up: Iterable[QueueUsage], trackers: TrackerTuple, application_id: ApplicationID, slots_needed: int
) -> Shortage | None:
    """The first queue or tracker without a slot that the application needs (QU-51, QU-73); None when there are all."""
    places: list[Place] = [*(path_up if slots_needed & QUEUE_SLOT else ()), *(trackers if slots_needed & USER_SLOT else ())]
    for place in places:
        if place.lacks_slot(application_id):
            return place, ""
    return None


def queue_shortage(path_up: Iterable[QueueUsage], needs: Amounts) -> tuple[QueueUsage, str] | None:
    """The first queue in which ``needs`` do not fit, and the type; None when they fit in all.

    One check serves headroom and commit (QU-36, QU-40): only the types of the ask count; a type that a queue's max does not
    list is unlimited there, except at root, where it is 0.
    """
    for queue in path_up:
        limit = queue.max
        if limit is None:
            if queue.parent is None:
                return queue, needs[0][0]
            continue
        allocated = queue.allocated
        for name, quantity in needs:
            if name in limit:
                if allocated.get(name, 0) + quantity > limit[name]:
                    return queue, name
            elif queue.parent is None and allocated.get(name, 0) + quantity > 0:
                return queue, name
    return None


def shortage(path_up: tuple[QueueUsage, ...], trackers: TrackerTuple, needs: Amounts, *, is_pinned: bool) -> Shortage | None:
    """The first tracker or queue that has too little left for an ask; users and groups come before queues (QU-39).

    Args:
        is_pinned: True if the ask requires its node; then root, the size of the cluster, is not checked (SC-73).
    """
    for tracker in trackers:
        name = tracker.shortage(needs)
        if name is not None:
            return tracker, name
    return queue_shortage(path_up[:-1] if is_pinned else path_up, needs)


def never_fits(places: Iterable[Place], needs: Amounts) -> Shortage | None:
    """The first queue or tracker whose limit is below what one ask wants, and the type; root does not count: nodes may come."""
    for place in places:
        limit = place.max
        if limit and (isinstance(place, Tracker) or place.parent is not None):
            for name, quantity in needs:
                if quantity > limit.get(name, quantity):
                    return place, name
    return None


def left_to(places: tuple[Place, ...], *, is_pinned: bool = False) -> Resource | None:
    """The headroom of a leaf with the queues above it (QU-36, QU-37; ``is_pinned`` as above), or of a user and its group (QU-72).

    Never below zero; None is no limit.
    """
    room: Resource | None = None
    for place in places[:-1] if is_pinned else places:
        room = min_union(room, left_of(place.max, place.allocated))
    return room


def left_of(limit: Resource | None, allocated: Resource) -> Resource | None:
    """The amounts left by one limit, never below zero; None is no limit."""
    return None if limit is None else {name: max(0, value - allocated.get(name, 0)) for name, value in limit.items()}
