"""Invariants of order: queues, applications and classes are sorted as the rules say."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.core.config.properties import SORT_POLICIES
from ykactor.core.inspection.checks import differs
from ykactor.core.messages.states import ApplicationState
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.queueing.equivalence import ClassKey
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.priorities import sort_rank
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.queueing.waiting_classes import WaitingGroup
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID

_BEGINNING = frozenset({ApplicationState.ACCEPTED, ApplicationState.STARTING})


def orders(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Check that children and applications are sorted by their keys, without those that have nothing pending (PR-29)."""
    for path, queue in state.tree.nodes.items():
        if queue.parent is not None:
            rank, place = sort_rank(queue.priority), queue.place
            key = (rank, queue.share) if queue.parent.config.properties.sort_by_priority else (queue.share,)
            yield from differs(f"queue {path}", "the place", place.group_key, None if queue.priority is None else key)
            if place.bucket is not None:
                yield from differs(f"queue {path}", "the pending resource of its place", place.bucket.pending, queue.pending)
        leaf = registry.queues.get(path)
        if isinstance(leaf, LeafCore):
            there = [name for name in leaf.applications if name in state.applications]
            yield from _leaf_order(queue, [state.applications[name] for name in there])
            for ask_class in queue.applications.waiting.missed(state.nodes.opened, state.nodes.in_order()):
                yield f"queue {path}: ask_class {ask_class.key} waits, expected an offer because a node is open to it"


def watched_classes(state: SchedulerState) -> Iterator[str]:
    """Check that classes watched for reports are current classes of their leaves, or empty and about to be forgotten."""
    for ask_class, leaf in state.quota_reports.watched():
        if isinstance(ask_class, WaitingGroup):
            if ask_class and ask_class not in leaf.applications.waiting.groups.values():
                yield f"queue {leaf.path}: a group of waiting classes is watched, expected none that is over"
            continue
        is_current = leaf.applications.classes.get(ask_class.key) is ask_class and state.tree.nodes.get(leaf.path) is leaf
        if ask_class and not is_current:
            yield f"queue {leaf.path}: ask_class {ask_class.key} is watched, expected none that is over"


def _leaf_order(leaf: QueueNode, applications: list[PendingApplication]) -> Iterator[str]:
    order = leaf.applications
    keys = {application: order.sort_key(application) for application in applications}
    if SORT_POLICIES[leaf.config.properties.sort_policy].one_starts:  # at most one application that starts (PR-75)
        starting = any(application.state is ApplicationState.STARTING for application in applications)
        beginner = ApplicationState.STARTING if starting else ApplicationState.ACCEPTED
        placed = [(key, application) for application, key in keys.items() if key is not None]
        candidates = [(key, application) for key, application in placed if application.state is beginner]
        chosen = min(candidates, default=(None, None), key=lambda candidate: candidate[0])[1]
        for application in applications:
            if application.state in _BEGINNING and application is not chosen:
                keys[application] = None
    expected_in: dict[ClassKey, set[ApplicationID]] = {}
    for application, key in keys.items():
        where = f"pending application {application.application_id}"
        yield from differs(where, "the place", application.sort_key, key)
        for shape, queue in application.queues.items():
            class_key = order.class_key(application, queue, application.slots_needed())
            is_member = key is not None and not application.backoff_ns
            expected = order.classes.get(class_key) if is_member else None
            yield from differs(where, f"its class for {shape}", queue.ask_class, expected)
            if is_member:
                expected_in.setdefault(class_key, set()).add(application.application_id)
    yield from differs(f"queue {leaf.path}", "the set of classes", set(order.classes), set(expected_in))
    for class_key, ask_class in order.classes.items():
        places = ask_class.places()
        members = {application.application_id for application in places}
        yield from differs(f"queue {leaf.path}", f"who stands in ask_class {class_key}", members, expected_in.get(class_key))
        for application, place in places.items():
            if application.sort_key is not None and place > application.sort_key:
                yield f"pending application {application.application_id}: stands at {place}, expected {application.sort_key}"
        offered = None if ask_class.parked else ask_class.head().queues[class_key[0]]
        yield from differs(f"queue {leaf.path}", f"what ask_class {class_key} offers", ask_class.offered, offered)
    for application in applications:
        for shape, queue in application.queues.items():
            is_offered = queue.ask_class is not None and queue.ask_class.offered is queue
            where = f"pending application {application.application_id}"
            yield from differs(where, f"whether its asks of {shape} are parked", queue.parked, not is_offered)
