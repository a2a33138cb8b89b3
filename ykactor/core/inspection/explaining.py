"""Explains one pending ask: the levels that it has to pass, the nodes that cannot take it, and what comes before it.

The reason of a pending ask (AP-150) is one sentence about one level; here are all of them (AP-153). Nothing changes by it.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import UNSET, Struct, structs

from ykactor.core.inspection.explanation import AheadStatus, AskExplanation, LevelStatus
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.messages.asks import Ask, AskID, Shape, order_of, shape_of
from ykactor.core.messages.kinds import OF_NODES, PendingCode
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import Place as Limited
from ykactor.core.quota.headroom import never_fits, queue_shortage
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import AllocationKey
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.resources import Resource, ahead, saturated
from ykactor.core.values.resources import text as resource_text
from ykactor.core.values.times import MS_NS, S_NS, utc_text
from ykactor.core.waiting import reasons
from ykactor.core.waiting.causes import PendingCauses, shortage_cause
from ykactor.core.waiting.reasons import PendingCause

#: What comes before an ask is named up to this number.
AHEAD_MAX = 5
#: Sibling queues with the same priority and share are compared pair by pair up to this number.
_PAIRS_MAX = 100
_ELSEWHERE, _OWN = "not the node that it requires", "reserved for it"

_OF_APPLICATIONS = (PendingCode.FAILING, PendingCode.BACKOFF, PendingCode.ORDER, PendingCode.PLACEHOLDER)


class Sight(Protocol):
    """The part of the state that a reader may see (``access.view.View``)."""

    def reason(self, cause: PendingCause, wanted: Resource) -> str:
        """The sentence of a cause for asks that want so much."""

    def shows_queue(self, queue: str) -> bool:
        """True if a queue is shown."""

    def queue(self, status: QueueStatus, above: str, queues: Mapping[str, QueueStatus]) -> QueueStatus:
        """The part of the status of a queue that is shown, below the queues that are shown."""


class Everything:
    """The sight of a reader that is not limited."""

    def reason(self, cause: PendingCause, _: Resource) -> str:
        """The whole sentence."""
        return cause.text

    def shows_queue(self, _: str) -> bool:
        """True."""
        return True

    def queue(self, status: QueueStatus, _above: str, _queues: Mapping[str, QueueStatus]) -> QueueStatus:
        """All of it."""
        return status


def first_ask(application: PendingApplication) -> Steps[AllocationKey | None]:
    """The ask of an application that comes first; None if none is pending."""
    first: Ask | None = None
    for asks in in_parts(ask for ask, _ in application.asks.values()):
        first = min([*asks, first or asks[0]], key=order_of)
        yield len(asks)
    return None if first is None else first.allocation_key


def explain(
    core: PartitionCore,
    state: SchedulerState,
    identity: AskID,
    now_ns: int,
    sight: Sight | None = None,
) -> Steps[AskExplanation | None]:
    """Explain a pending ask; None if it is not pending.

    Args:
        now_ns: the Unix time.
        sight: of a limited reader, which sees no nodes, times in whole milliseconds, and of queues out of its view only which one
            keeps an ask back.

    Cost: O(nodes + applications + queues), and sibling queues with the same share pair by pair, up to ``_PAIRS_MAX``.
    """
    application_id, key = identity
    application = state.applications.get(application_id)
    if application is None or key not in application.asks:
        return None
    sees, causes = sight or Everything(), PendingCauses(state)
    ask, leaf = application.asks[key][0], state.tree.leaf_of(application)
    waits_for, exact_ns = application.waits_since(ask), 1 if sight is None else MS_NS
    shape, cause = shape_of(ask), causes.of_ask(application, key)
    yield len(state.nodes.nodes)
    blocked = [
        each
        for each in _levels(application, leaf, shape, cause, causes)
        if each.cause is not None or not each.level.queue_name or sees.shows_queue(each.level.queue_name)
    ]
    yield len(state.nodes.nodes)
    nodes = yield from _nodes(state, shape, causes, is_reserving=key in application.reserving)
    order = yield from _order_in_leaf(state, application)
    queues = [found for found in (yield from _queues_ahead(state, leaf)) if sees.shows_queue(found.queue_name)]
    named = [*queues[:AHEAD_MAX], *(_application_ahead(other, application, leaf) for other in order.first)]
    own = yield from _count_before(application, ask)
    return AskExplanation(
        partition_name=core.name,
        application_id=application_id,
        allocation_key=key,
        user=application.who.user,
        queue_name=leaf.path,
        code=cause.code.value,
        reason=sees.reason(cause, ask.resource),
        time=now_ns // exact_ns * exact_ns,
        creation_time=ask.created_ns,
        waited={code.value: ns // exact_ns * exact_ns for code, ns in application.waited(ask, now_ns).items()},
        priority=ask.priority,
        resource=saturated(ask.resource),
        position=order.asks_before + own + 1,
        waiting=order.asks_before + len(application.asks) + order.asks_behind,
        levels=[_since(_shown(each, sees, ask), waits_for, exact_ns) for each in blocked],
        binding=next((index for index, each in enumerate(blocked) if _is_same(each.cause, cause)), UNSET),
        nodes=nodes if sight is None else UNSET,
        ahead=named[:AHEAD_MAX],
        ahead_count=len(queues) + order.before,
    )


def _nodes(state: SchedulerState, shape: Shape, causes: PendingCauses, *, is_reserving: bool) -> Steps[dict[str, int]]:
    """The number of nodes by what keeps them from taking the ask; one may be reserved for it."""
    counts = Counter((yield from causes.count_nodes(shape)))
    if is_reserving and counts[reasons.RESERVED_FOR_OTHERS]:
        counts += Counter({reasons.RESERVED_FOR_OTHERS: -1, _OWN: 1})
    if others := len(state.nodes.nodes) - sum(counts.values()):
        counts[_ELSEWHERE] = others
    return dict(counts)


# ---- levels


class _Blocked(NamedTuple):
    """A level, and the cause if it has no room."""

    level: LevelStatus
    cause: PendingCause | None


def _is_same(found: PendingCause | None, cause: PendingCause) -> bool:
    """True if a level is where a cause keeps the ask back."""
    return found is not None and (found.code, found.place) == (cause.code, cause.place)


def _shown(blocked: _Blocked, sees: Sight, ask: Ask) -> LevelStatus:
    """A level as a reader is shown it; the numbers of a queue out of its view are of others."""
    level, cause = blocked
    if cause is None:
        return level
    shown = structs.replace(level, code=cause.code.value, reason=sees.reason(cause, ask.resource))
    is_seen = not level.queue_name or sees.shows_queue(level.queue_name)
    return shown if is_seen else structs.replace(shown, used=UNSET, max=UNSET)


def _since(level: LevelStatus, waits_for: tuple[PendingCode, int], exact_ns: int) -> LevelStatus:
    """A level with the time since when the ask has waited for it, if it waits for such a one."""
    code, since_ns = waits_for
    found = PendingCode.NODES if level.code in OF_NODES else level.code
    return structs.replace(level, since=since_ns // exact_ns * exact_ns) if found == code else level


def _levels(
    application: PendingApplication, leaf: QueueNode, shape: Shape, cause: PendingCause, causes: PendingCauses
) -> Iterator[_Blocked]:
    for queue in reversed(leaf.path_up):
        if queue.hold is not None:
            text = reasons.held_with_queue(queue.hold, queue.path)
            held = PendingCause(PendingCode.HELD, text, reasons.Place(queue_name=queue.path))
            yield _Blocked(LevelStatus(queue_name=queue.path), held)
        places: list[Limited] = [queue, *(tracker for tracker in application.trackers if tracker.path == queue.path)]
        for place in places:
            yield from _slots(application, place, shape)
            if place is not queue or queue.parent is not None or shape[1] is None:  # root is not checked for a required node
                yield from _amounts(place, shape)
    own = LevelStatus(whose=f"application {application.application_id}")
    if application.hold is not None:
        yield _Blocked(own, PendingCause(PendingCode.HELD, reasons.held(application.hold)))
    elif cause.code in _OF_APPLICATIONS:
        yield _Blocked(own, cause)
    if cause.code in (PendingCode.RESERVED, PendingCode.PREEMPTING):
        yield _Blocked(LevelStatus(whose="reservation"), cause)
        return
    on_nodes = causes.nodes(shape)
    yield _Blocked(LevelStatus(whose="nodes"), None if on_nodes.code is PendingCode.NEXT else on_nodes)


def _slots(application: PendingApplication, place: Limited, shape: Shape) -> Iterator[_Blocked]:
    """The running slots of a queue, a user or a group, if they are limited and the application has none yet."""
    if place.max_applications and application.slots_needed():
        lacks = place.lacks_slot(application.application_id)
        yield _Blocked(_level(place, "", place.slots_used(), 1), shortage_cause(shape, (place, "")) if lacks else None)


def _amounts(place: Limited, shape: Shape) -> Iterator[_Blocked]:
    """One type that a queue, a user or a group limits: the one that never fits, else one that is short, else the scarcest.

    Units differ by type, so the scarcest is the one of which the smallest part of the limit is left after the ask.
    """
    needs, limit, used = shape[0], place.max or {}, place.allocated
    short = place.shortage(needs) if isinstance(place, Tracker) else (queue_shortage((place,), needs) or (place, None))[1]
    if short is not None:
        _, name = never_fits((place,), needs) or (place, short)
        yield _Blocked(_level(place, name, used.get(name, 0), dict(needs)[name]), shortage_cause(shape, (place, name)))
        return
    left = [((limit[name] - used.get(name, 0) - wanted) / (limit[name] or 1), name) for name, wanted in needs if name in limit]
    if left:
        name = min(left)[1]
        yield _Blocked(_level(place, name, used.get(name, 0), dict(needs)[name]), None)


def _level(place: Limited, resource: str, used: int, wants: int) -> LevelStatus:
    return LevelStatus(
        queue_name=place.path,
        whose=str(place.whose) if isinstance(place, Tracker) else "",
        resource=resource,
        used=used,
        max=(place.max or {}).get(resource, 0) if resource else place.max_applications,
        wants=wants,
    )


# ---- what comes before


class _Order(Struct):
    """The other applications of a leaf with pending asks.

    Attributes:
        first: those that come first of all, in their order, up to ``AHEAD_MAX``, if they come before the application.
        before: how many come before it.
        asks_before, asks_behind: how many asks these and those behind it have.
    """

    first: list[PendingApplication] = []
    before: int = 0
    asks_before: int = 0
    asks_behind: int = 0


def _order_in_leaf(state: SchedulerState, application: PendingApplication) -> Steps[_Order]:
    found, own = _Order(), application.sort_key
    for other in state.applications.values():
        yield 1
        if other.leaf is not application.leaf or not other.asks or other is application:
            continue
        if other.sort_key is not None and (own is None or other.sort_key < own):
            insort(found.first, other, key=lambda each: each.sort_key or ())
            del found.first[AHEAD_MAX:]
            found.before += 1
            found.asks_before += len(other.asks)
        else:
            found.asks_behind += len(other.asks)
    return found


def _count_before(application: PendingApplication, ask: Ask) -> Steps[int]:
    """The number of asks of an application that come before one of them."""
    count, own = 0, order_of(ask)
    for asks in in_parts(other for other, _ in application.asks.values()):
        count += sum(order_of(other) < own for other in asks)
        yield len(asks)
    return count


def _application_ahead(other: PendingApplication, application: PendingApplication, leaf: QueueNode) -> AheadStatus:
    theirs, own = other.sort_key, application.sort_key
    by, values = "state", (other.state.value, application.state.value)
    if theirs is not None and own is not None:
        names = [*(["usage"] if any(isinstance(part, tuple) for part in own) else []), "age", "arrival"]
        names.insert(0 if leaf.config.properties.sort_by_priority else 1, "priority")
        index = next(index for index, (one, another) in enumerate(zip(theirs, own, strict=True)) if one != another)
        by = names[index]
        values = _text(by, theirs[index]), _text(by, own[index])
    return AheadStatus(queue_name=leaf.path, application_id=other.application_id, by=by, value=values[0], own=values[1])


def _text(by: str, part: Any) -> str:
    """A part of a sort key as text: the rank of a priority, shares of usage with the largest first, a Unix time, or a number."""
    match by:
        case "priority":
            return str(-part)
        case "usage":
            return " ".join(f"{share:.6g}" for share in part)
        case "age":
            return f"{utc_text(part).removesuffix('Z')}.{part % S_NS:09}Z"
        case _:
            return str(part)


def _queues_ahead(state: SchedulerState, leaf: QueueNode) -> Steps[list[AheadStatus]]:
    """The sibling queues that come before the queues of a path, from root down."""
    on_path = {queue.parent.path: queue for queue in leaf.path_up if queue.parent is not None}
    siblings: dict[QueueNode, list[QueueNode]] = {queue: [] for queue in on_path.values()}
    for other in state.tree.nodes.values():
        yield 1
        own = on_path.get(other.parent.path) if other.parent is not None else None
        if own is not None and own is not other and other.priority is not None:
            siblings[own].append(other)
    found: list[AheadStatus] = []
    for own in reversed(leaf.path_up):
        alike = _alike(own, siblings.get(own, []))
        for other in siblings.get(own, ()):
            yield 1
            if (status := _queue_ahead(other, own, alike)) is not None:
                found.append(status)
    return found


def _sorts_by_priority(queue: QueueNode) -> bool:
    """True if the priority of a queue and its siblings decides before their shares."""
    assert queue.parent is not None
    return queue.parent.config.properties.sort_by_priority


def _alike(own: QueueNode, siblings: list[QueueNode]) -> list[QueueNode]:
    """A queue and the siblings of which what is pending may decide; none if they are more than ``_PAIRS_MAX``."""
    if not siblings:
        return []
    by_priority = _sorts_by_priority(own)
    alike = [each for each in siblings if each.share == own.share and (not by_priority or each.priority == own.priority)]
    return [own, *alike] if len(alike) <= _PAIRS_MAX else []


def _queue_ahead(other: QueueNode, own: QueueNode, alike: list[QueueNode]) -> AheadStatus | None:
    """The difference that lets a queue come before its sibling (PR-71); None if it comes behind."""
    if own.priority is None:
        return None
    for by, theirs, ours, difference in _differences(other, own, alike):
        if difference:
            is_before = difference < 0
            return AheadStatus(queue_name=other.path, by=by, value=theirs, own=ours) if is_before else None
    return None


def _differences(other: QueueNode, own: QueueNode, alike: list[QueueNode]) -> Iterator[tuple[str, str, str, float]]:
    """Differences of two queues, the one that decides first: name, both values, and a number below 0 if the first is before."""
    higher = (own.priority or 0) - (other.priority or 0)
    priorities = "priority", str(other.priority), str(own.priority), higher
    if _sorts_by_priority(own):
        yield priorities
    yield "share", f"{other.share:.4g}", f"{own.share:.4g}", other.share - own.share
    yield "pending", resource_text(other.pending), resource_text(own.pending), _with_more(other, alike) - _with_more(own, alike)
    yield priorities
    yield "name", other.path, own.path, -1 if other.path < own.path else 1


def _with_more(queue: QueueNode, others: list[QueueNode]) -> int:
    """The number of queues with strictly more pending (PR-36)."""
    return sum(1 for other in others if ahead(other.pending, queue.pending))
