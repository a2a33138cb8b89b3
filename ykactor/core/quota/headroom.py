"""Whether something may run at all, wherever it would: slots and amounts of users, groups and queues (SC-148)."""

from __future__ import annotations

from ykactor.core.messages.asks import Shape
from ykactor.core.queueing.pending import QUEUE_SLOT, USER_SLOT, WaitingApplication
from ykactor.core.quota.ledger import Account, Ledger
from ykactor.core.quota.limits import Tracker
from ykactor.core.values.resources import Resource, min_union

#: Who is short, and of which type; of a running slot when the type is "".
Shortage = tuple[Account | Tracker, str]


def lacks_slot(ledger: Ledger, leaf: Account, application: WaitingApplication) -> Shortage | None:
    """Where an application finds no running slot, of those that it needs (QU-51 and QU-73)."""
    needed = application.slots_needed()
    full = ledger.lacks_slot(leaf, application.application_id) if needed & QUEUE_SLOT else None
    if full is not None:
        return full, ""
    for tracker in application.trackers if needed & USER_SLOT else ():
        if tracker.lacks_slot(application.application_id):
            return tracker, ""
    return None


def lacks(ledger: Ledger, leaf: Account, application: WaitingApplication, shape: Shape) -> Shortage | None:
    """Where there is not enough for an ask of this shape; users and groups come before queues (QU-39).

    For one that requires its node it does not count what the whole cluster has free (SC-73).
    """
    needs, required_node, _, _ = shape
    for tracker in application.trackers:
        name = tracker.shortage(needs)
        if name is not None:
            return tracker, name
    return ledger.shortage(leaf.path_up if required_node is None else leaf.path_up[:-1], needs)


def lacks_anything(ledger: Ledger, leaf: Account, application: WaitingApplication, shape: Shape) -> Shortage | None:
    """Where an ask of this shape of an application is held back, whatever nodes there are."""
    full = lacks_slot(ledger, leaf, application) if application.slots_needed() else None
    return full or lacks(ledger, leaf, application, shape)


def of_queue(leaf: Account, *, is_pinned: bool = False) -> Resource | None:
    """What ``leaf`` and the queues above it leave, never below zero; None is no limit (QU-36, QU-37; ``is_pinned`` as above)."""
    room: Resource | None = None
    for account in leaf.path_up[:-1] if is_pinned else leaf.path_up:
        room = min_union(room, left_of(account.max, account.allocated))
    return room


def of_payer(application: WaitingApplication) -> Resource | None:
    """What the limits of its user and group leave to an application (QU-72)."""
    room: Resource | None = None
    for tracker in application.trackers:
        room = min_union(room, left_of(tracker.limit, tracker.allocated))
    return room


def left_of(limit: Resource | None, allocated: Resource) -> Resource | None:
    """What one limit leaves; None where there is none."""
    return None if limit is None else {name: max(0, value - allocated.get(name, 0)) for name, value in limit.items()}
