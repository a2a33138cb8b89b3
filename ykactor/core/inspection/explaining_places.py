"""Explains a queue by what waits in it, and a node by what could run there (AP-156). Nothing changes by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import UNSET

from ykactor.core.inspection.explaining import Everything, Sight
from ykactor.core.inspection.explanation import (
    FittingStatus,
    NodeExplanation,
    OldestStatus,
    QueueExplanation,
    ShortStatus,
    UserShare,
)
from ykactor.core.inspection.node_status import node_status
from ykactor.core.inspection.queue_status import QueueStatus, parent_path, queue_status
from ykactor.core.messages.asks import Ask, Shape, shape_of
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue, EquivalenceClass
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import NodeID, QueuePath
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.resources import saturated
from ykactor.core.waiting.causes import PendingCauses
from ykactor.core.waiting.reasons import HAS_ROOM, PendingCause, Place

#: Users, and groups of asks, that are named.
NAMED_MAX = 5
#: A group of asks takes as long as so many items: 10 us.
_GROUP_ITEMS = 5
_SHORT = (PendingCode.QUOTA, PendingCode.LIMIT, PendingCode.MAX_APPLICATIONS)


class _Group(NamedTuple):
    """Pending asks of one application with one cause."""

    cause: PendingCause
    shape: Shape
    asks: Iterable[Ask]
    size: int


class _Causes:
    """The pending asks of applications with their causes; those of one equivalence class have one."""

    def __init__(self, state: SchedulerState) -> None:
        self._state, self._causes = state, PendingCauses(state)
        self._of_class: dict[EquivalenceClass[PendingApplication], PendingCause] = {}

    def groups(self, application: PendingApplication) -> Iterator[_Group]:
        """The pending asks of an application, in groups."""
        for queue in application.queues.values():
            if queue.key[1] == HAS_NODE:
                continue
            known = queue.ask_class if application.hold is None else None
            cause = None if known is None else self._of_class.get(known)
            if cause is None:
                cause = self._causes.of(application, queue)
                if known is not None:
                    self._of_class[known] = cause
            yield _Group(cause, queue.shape, queue, len(queue))
        for ask in application.gang.held if application.gang is not None else ():
            yield _Group(self._causes.of_held(application, ask), shape_of(ask), [ask], 1)
        for ask in application.reserving.values():
            cause = self._causes.of_reserved(self._state.reservations.of(ask))
            yield _Group(cause, shape_of(ask), [ask], 1)

    def why_not(self, shape: Shape, node_id: NodeID) -> str:
        """The reason why a node cannot take an ask of a shape; ``HAS_ROOM`` if it can."""
        return self._causes.why_not(shape, self._state.nodes.nodes[node_id])


# ---- queues


def explain_queue(
    core: PartitionCore, state: SchedulerState, path: QueuePath, sight: Sight | None = None
) -> Steps[QueueExplanation | None]:
    """Explain a queue; None if there is none, or a limited reader does not see it.

    Cost: O(applications + pending asks below it).
    """
    sees = sight or Everything()
    if path not in state.tree.nodes or not sees.shows_queue(path):
        return None
    causes, counted = _Causes(state), _Counted()
    oldest: tuple[Ask, PendingCause] | None = None
    for application in state.applications.values():
        yield 1
        if not application.asks or not _is_below(application.leaf.path, path):
            continue
        for group in causes.groups(application):
            counted.add(group)
            first = yield from _first(group.asks)
            if oldest is None or _age(first) < _age(oldest[0]):
                oldest = first, group.cause
            yield 1
    pending, places = counted.by_code(), counted.by_place()
    short = max(places, key=places.__getitem__, default=None)
    shares = [] if short is None else (yield from _shares(state, short, path, sees))
    return QueueExplanation(
        partition_name=core.name,
        queue_name=path,
        status=_status(core, state, path, sees),
        pending=dict(pending.most_common()),
        oldest=UNSET if oldest is None else _oldest(*oldest, sees),
        short=UNSET if short is None else _short(short, places[short], sees),
        users=shares[:NAMED_MAX],
        other_users=len(shares[NAMED_MAX:]),
        others_use=sum(share.amount for share in shares[NAMED_MAX:]),
    )


class _Counted:
    """The number of asks by their cause; those of one equivalence class share the cause."""

    def __init__(self) -> None:
        self._causes: dict[int, tuple[PendingCause, int]] = {}

    def add(self, group: _Group) -> None:
        """Count a group of asks."""
        known = self._causes.get(id(group.cause))
        self._causes[id(group.cause)] = group.cause, group.size + (0 if known is None else known[1])

    def by_code(self) -> Counter[str]:
        """The number of asks by the code of their cause."""
        found = Counter[str]()
        for cause, count in self._causes.values():
            found[cause.code.value] += count
        return found

    def by_place(self) -> Counter[Place]:
        """The number of asks by the quota, limit or number of applications that keeps them back."""
        found = Counter[Place]()
        for cause, count in self._causes.values():
            if cause.code in _SHORT and cause.place is not None:
                found[cause.place] += count
        return found


def _is_below(leaf: str, path: str) -> bool:
    """True if a leaf is a queue or below it."""
    return leaf == path or leaf.startswith(f"{path}.")


def _first(asks: Iterable[Ask]) -> Steps[Ask]:
    """The ask that has been pending for the longest; there must be one."""
    if isinstance(asks, AskQueue) and asks.is_by_age:
        return asks.first()
    oldest: list[Ask] = []
    for part in in_parts(asks):
        oldest = [min([*oldest, *part], key=_age)]
        yield len(part)
    return oldest[0]


def _age(ask: Ask) -> tuple[int, int]:
    """The order of asks by how long they have been pending."""
    return ask.since_ns, ask.arrival


def _status(core: PartitionCore, state: SchedulerState, path: QueuePath, sees: Sight) -> QueueStatus:
    """The status of a queue, with the queues above it that are shown."""
    known: dict[str, QueueStatus] = {}
    for queue in reversed(state.tree.nodes[path].path_up):
        if sees.shows_queue(queue.path):
            status = queue_status(core.registry, state, state.tree.nodes[queue.path], known)
            known[queue.path] = sees.queue(status, parent_path(queue.path), known)
    return known[path]


def _oldest(ask: Ask, cause: PendingCause, sees: Sight) -> OldestStatus:
    return OldestStatus(
        application_id=ask.application_id,
        allocation_key=ask.allocation_key,
        creation_time=ask.created_ns,
        code=cause.code.value,
        reason=sees.reason(cause, ask.resource),
    )


def _short(place: Place, count: int, sees: Sight) -> ShortStatus:
    shown = sees.shows_queue(place.queue_name)
    return ShortStatus(
        queue_name=place.queue_name,
        whose=place.whose,
        resource=place.resource,
        used=place.used if shown and place.used is not None else UNSET,
        max=place.max if shown and place.max is not None else UNSET,
        asks=count,
    )


def _shares(state: SchedulerState, short: Place, path: QueuePath, sees: Sight) -> Steps[list[UserShare]]:
    """The users of what is short, where it is short, or if that is not shown in the queue itself; most first."""
    where = short.queue_name if sees.shows_queue(short.queue_name) else path
    running, amounts = state.tree.nodes[where].running, Counter[str]()
    for application in state.applications.values():
        yield 1
        if _is_below(application.leaf.path, where):
            slots = int(application.application_id in running)
            amounts[application.who.user] += application.allocated.get(short.resource, 0) if short.resource else slots
    ranked = sorted(amounts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [UserShare(user=user, amount=amount) for user, amount in ranked if amount > 0]


# ---- nodes


def explain_node(core: PartitionCore, state: SchedulerState, node_id: NodeID) -> Steps[NodeExplanation | None]:
    """Explain a node; None if there is none.

    Cost: O(applications + groups of pending asks).
    """
    if node_id not in state.nodes.nodes:
        return None
    causes, pending, kept_back = _Causes(state), Counter[str](), Counter[str]()
    reasons: dict[Shape, str] = {}
    fitting: dict[tuple[str, Shape, str], FittingStatus] = {}
    for application in state.applications.values():
        yield 1
        for group in causes.groups(application) if application.asks else ():
            if group.shape not in reasons:
                reasons[group.shape] = causes.why_not(group.shape, node_id)
            why, code = reasons[group.shape], group.cause.code.value
            pending[why] += group.size
            if why == HAS_ROOM:
                kept_back[code] += group.size
                alike = application.leaf.path, group.shape, code
                fitting[alike] = _fitting(fitting.get(alike), application, group)
            yield _GROUP_ITEMS
    most = sorted(fitting.values(), key=lambda each: (-each.asks, each.queue_name, each.application_id))
    return NodeExplanation(
        partition_name=core.name,
        node_id=node_id,
        status=node_status(core.registry.nodes[node_id], state.reservations),
        pending=dict(pending.most_common()),
        kept_back=dict(kept_back.most_common()),
        fitting=most[:NAMED_MAX],
        fitting_count=len(most),
    )


def _fitting(known: FittingStatus | None, application: PendingApplication, group: _Group) -> FittingStatus:
    """The entry of asks of one leaf, shape and code, with those of one more group."""
    if known is not None:
        return FittingStatus(
            queue_name=known.queue_name,
            application_id=known.application_id,
            asks=known.asks + group.size,
            resource=known.resource,
            code=known.code,
            reason=known.reason,
        )
    return FittingStatus(
        queue_name=application.leaf.path,
        application_id=application.application_id,
        asks=group.size,
        resource=saturated(dict(group.shape[0])),
        code=group.cause.code.value,
        reason=group.cause.text,
    )
