"""The present reasons of pending asks: a code and a sentence for people, a ``WaitingCause`` for programs, counts of nodes.

Everything is read from the scheduler's state when it is needed, so no number is outdated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, Protocol

from msgspec import structs

from ykactor.core.messages.asks import PREDICATE_TAG, Ask, Shape, ask_id
from ykactor.core.messages.conditions import NO_PREDICATE_SERVICE
from ykactor.core.messages.kinds import PendingCode, WaitingCause
from ykactor.core.messages.states import ApplicationState
from ykactor.core.nodes.index import IndexedNode, NodeIndex
from ykactor.core.nodes.reservations import Reservation, Reservations
from ykactor.core.preemption.attempts import PreemptionAttempts
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.quota.headroom import Amounts, Shortage, never_fits, queue_shortage, shortage_code
from ykactor.core.quota.limits import Tracker
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import QUANTITY_MAX, Resource
from ykactor.core.values.selector import Selector, left_out_of, selects
from ykactor.core.waiting import reasons
from ykactor.core.waiting.reasons import PendingCause, Place

#: Reasons that ``count_nodes`` counts on their own, the most frequent ones; the others are counted together.
REASONS_MAX = 8


class SchedulerView(Protocol):
    """The parts of the scheduler's state that say why asks are pending."""

    applications: dict[ApplicationID, PendingApplication]
    nodes: NodeIndex
    preemptions: PreemptionAttempts
    reservations: Reservations
    tree: QueueTree


class Pending(NamedTuple):
    """The reason code of pending asks, without a sentence.

    Attributes:
        queue: the queue with the maximum or limit that has too little left; else their own.
        has_failed: True if no node can take them, but another node could.
    """

    cause: WaitingCause
    queue: QueuePath
    has_failed: bool = False


class PendingCauses:
    """Finds the causes of one partition's pending asks. To be used while nothing changes: it remembers what it has found.

    Cost: O(nodes) for each selector, and for each shape that no node can take although it has enough of each type.

    Attributes:
        counts: by shape, the number of nodes that cannot take its asks, by reason; filled by ``count_nodes``.
    """

    def __init__(self, state: SchedulerView) -> None:
        self.counts: dict[Shape, dict[str, int]] = {}
        self._state = state
        self._blocks: dict[Shape, PendingCause | None] = {}
        self._by_shape: dict[Shape, PendingCause] = {}
        self._by_queue: dict[AskQueue, PendingCause] = {}
        self._selected: dict[Selector, list[IndexedNode]] = {}
        self._freest: dict[tuple[Selector, str], IndexedNode] = {}

    @cached_property
    def _all_nodes(self) -> list[IndexedNode]:
        """All nodes, by name; made when something is pending."""
        return [node for _, node in sorted(self._state.nodes.nodes.items())]

    def of_ask(self, application: PendingApplication, key: AllocationKey) -> PendingCause:
        """The cause of a pending ask."""
        ask, queue = application.asks[key]
        if key in application.reserving:
            return self.of_reserved(self._state.reservations.of(ask))
        if queue is None:
            return self.of_held(application, ask)
        found = self._by_queue.get(queue)
        if found is None:
            found = self._by_queue[queue] = self.of(application, queue)
        return found

    def of(self, application: PendingApplication, queue: AskQueue) -> PendingCause:
        """The cause of the asks in one queue of an application, which need a node."""
        block, ask, hold = self._block(queue.shape), queue.first(), _hold(application)
        if hold is not None:
            return _with_left_out(_joined(hold, "" if block is None else block.text), ask)
        cause = _with_left_out(self._of_tried(application, queue, block), ask)
        return cause if queue.ask_class is None else _joined(cause, self._failure(ask))

    def of_reserved(self, reservation: Reservation) -> PendingCause:
        """The cause of an ask with a reservation."""
        ask, node, application = reservation.ask, reservation.node, reservation.application
        text, place = reasons.reserved(node.node_id), Place(node_id=node.node_id)
        attempt = self._state.preemptions.by_ask.get(ask_id(ask))
        if attempt is not None:
            left = list(attempt.waits_for)
            progress = reasons.waits_for_victims(attempt.victims_count - len(left), attempt.victims_count, left)
            return _with_left_out(_joined(PendingCause(PendingCode.PREEMPTING, text, place), progress), ask)
        short = application.slot_shortage() or application.shortage(reservation.shape)
        if short is None and reservation.is_pinned():  # not checked before the node is reserved (SC-43)
            short = queue_shortage(application.leaf.path_up, reservation.shape[0])
        if application.sort_key is None:
            missing = _kept_back(application).text
        elif short is not None:
            missing = shortage_cause(reservation.shape, short).text
        elif not (node.schedulable or reservation.is_pinned()):
            missing = reasons.NODE_DRAINED
        else:
            missing = self._missing_on(node, reservation.shape, "there").text
        cause = _with_left_out(_joined(PendingCause(PendingCode.RESERVED, text, place), missing), ask)
        return _joined(cause, self._failure(ask))

    def of_held(self, application: PendingApplication, ask: Ask) -> PendingCause:
        """The cause of a real ask that waits for a placeholder of its task group."""
        waits = reasons.waits_for_placeholder(ask.task_group_name, ask.tags.get(PREDICATE_TAG, ""))
        hold = _hold(application)
        cause = PendingCause(PendingCode.PLACEHOLDER, waits) if hold is None else _joined(hold, waits)
        return _with_left_out(cause, ask)

    def _failure(self, ask: Ask) -> str:
        last = self._state.preemptions.last_attempt(ask)
        return "" if last is None else last.why

    # ---- running slots, quotas and limits

    def _of_tried(self, application: PendingApplication, queue: AskQueue, block: PendingCause | None) -> PendingCause:
        """The cause where nothing is held: what waiting never changes comes first, then the application, quotas, and nodes."""
        assert isinstance(application.leaf, QueueNode)
        never = never_fits((*application.trackers, *application.leaf.path_up), queue.shape[0])
        if never is not None:
            return _joined(shortage_cause(queue.shape, never), "" if block is None else block.text)
        missing = _kept_back(application) if queue.ask_class is None else self._shortage(application, queue.shape)
        if missing is None:
            return block or self._on_nodes(queue.shape)
        if block is None:
            return missing
        is_cluster = missing.code is PendingCode.QUOTA and missing.place is not None and missing.place.queue_name == "root"
        if is_cluster and block.text in (reasons.NO_NODE, reasons.ALL_DRAINED):
            return block
        first, other = (block, missing) if is_cluster or block.code in _NO_NODE_EVER else (missing, block)
        return _joined(first, other.text)

    def _shortage(self, application: PendingApplication, shape: Shape) -> PendingCause | None:
        short = application.slot_shortage()
        if short is None and self._state.tree.root_max:
            short = application.shortage(shape)
        return None if short is None else shortage_cause(shape, short)

    # ---- nodes

    def _block(self, shape: Shape) -> PendingCause | None:
        """The cause if no node could run asks of the shape even when empty, or if all such nodes are drained; else None."""
        if shape not in self._blocks:
            self._blocks[shape] = self._find_block(shape)
        return self._blocks[shape]

    def _find_block(self, shape: Shape) -> PendingCause | None:
        needs, required, selector, _ = shape
        nodes, what = self._all_nodes, "the largest node"
        if required is not None:
            nodes, what = [node for node in nodes if node.node_id == required], f"its required node {required}"
            if not nodes:
                return PendingCause(PendingCode.UNKNOWN_NODE, reasons.unknown_node(required))
        elif any(node.schedulable and node.could_fit(needs, selector) for node in nodes):  # usually the first
            return None
        if not nodes:
            return PendingCause(PendingCode.NO_NODE, reasons.NO_NODE)
        if selector:
            wanted = selector[:-1] if left_out_of(selector) else selector
            if not any(selects(wanted, node.attributes) for node in nodes):
                text = reasons.NONE_SELECTED if required is None else reasons.not_selected(required)
                return PendingCause(PendingCode.NOT_SELECTED, text)
            nodes = [node for node in nodes if selects(selector, node.attributes)]
            if not nodes:  # the back-off says so
                return PendingCause(PendingCode.LEFT_OUT, reasons.NO_OTHER_NODE)
            if required is None:
                what = "the largest node that it selects" if wanted is selector else "the largest node that it may use"
        large = [node for node in nodes if node.could_fit(needs, ())]
        if not large:
            return PendingCause(PendingCode.TOO_LARGE, _too_small(needs, nodes, what))
        if required is not None:
            return None
        if not any(node.schedulable for node in self._all_nodes):
            return PendingCause(PendingCode.DRAINED, reasons.ALL_DRAINED)
        return PendingCause(PendingCode.DRAINED, reasons.large_are_drained([node.node_id for node in large]))

    def _on_nodes(self, shape: Shape) -> PendingCause:
        """The cause where quotas have room and nodes are large enough, but no node has room at present."""
        found = self._by_shape.get(shape)
        if found is None:
            found = self._by_shape[shape] = self._find_on_nodes(shape)
        return found

    def _find_on_nodes(self, shape: Shape) -> PendingCause:
        needs, required, selector, _ = shape
        if required is not None:
            return self._missing_on(self._state.nodes.nodes[required], shape, f"on its required node {required}")
        shortage = self._too_full(needs, selector)
        with_room = [] if shortage else [node for node in self._usable(selector) if node.fits(needs, ())]
        if not with_room:
            names = [name for name, wanted in needs if wanted > 0]
            reserved = [node.node_id for node in self._usable(selector) if node.reserved and node.could_fit(needs, ())]
            full = PendingCause(PendingCode.NODES, shortage or reasons.not_together(names))
            return _joined(full, reasons.also_reserved(reserved) if reserved else "")
        if all(node.reserved for node in with_room):
            return PendingCause(PendingCode.NODES, reasons.all_reserved([node.node_id for node in with_room]))
        return self._predicates(shape, (node for node in self._state.nodes.in_order() if node.fits(needs, selector)))

    def _usable(self, selector: Selector) -> list[IndexedNode]:
        """The schedulable nodes with the selected attributes."""
        found = self._selected.get(selector)
        if found is None:
            nodes = (node for node in self._all_nodes if node.schedulable)
            found = self._selected[selector] = [node for node in nodes if not selector or selects(selector, node.attributes)]
        return found

    def _too_full(self, needs: Amounts, selector: Selector) -> str:
        """A sentence about the first type that no usable node has enough of; "" if there is none."""
        for name, wanted in needs:
            freest = self._freest_of(selector, name)
            if wanted > max(0, freest.available.get(name, 0)):
                is_any = len(self._usable(selector)) == len(self._all_nodes)
                which = "the freest node" if is_any else "the freest node that it can use"
                return _on(freest, name, wanted, f"on {which}, {freest.node_id}")
        return ""

    def _freest_of(self, selector: Selector, name: str) -> IndexedNode:
        """The usable node with the most of a type; there must be one."""
        freest = self._freest.get((selector, name))
        if freest is None:
            nodes = self._usable(selector)
            freest = self._freest[selector, name] = max(nodes, key=lambda node: node.available.get(name, 0))
        return freest

    def nodes(self, shape: Shape) -> PendingCause:
        """The cause for which no node takes an ask of a shape, whatever quotas say; ``NEXT`` if one does."""
        return self._block(shape) or self._on_nodes(shape)

    def most_free(self, shape: Shape) -> Resource:
        """Per type of a shape, the most that is free on any usable node, in base units."""
        needs, required, selector, _ = shape
        if required is not None:
            node = self._state.nodes.nodes.get(required)
            return {name: 0 if node is None else max(0, node.available.get(name, 0)) for name, _ in needs}
        if not self._usable(selector):
            return {name: 0 for name, _ in needs}
        return {name: max(0, self._freest_of(selector, name).available.get(name, 0)) for name, _ in needs}

    def _missing_on(self, node: IndexedNode, shape: Shape, where: str) -> PendingCause:
        for name, wanted in shape[0]:
            if wanted > 0 and wanted > node.available.get(name, 0):
                return PendingCause(PendingCode.NODES, _on(node, name, wanted, where))
        return self._predicates(shape, [node])

    def _predicates(self, shape: Shape, nodes: Iterable[IndexedNode]) -> PendingCause:
        """The answers of the predicate service about nodes with room, in order; the first one that is no refusal decides."""
        predicates, question = self._state.nodes.predicates, (shape[3], True)
        refusals: Counter[str] = Counter()
        for node in nodes:
            verdict = predicates.verdict(question, node.node_id)
            if verdict is not False:
                if verdict:
                    return PendingCause(PendingCode.NEXT, reasons.FITS)
                return PendingCause(PendingCode.PREDICATE, reasons.PREDICATE_UNKNOWN)
            refusals[predicates.refusals(question).get(node.node_id, NO_PREDICATE_SERVICE)] += 1
        return PendingCause(PendingCode.PREDICATE, reasons.refused(refusals))

    # ---- nodes by reason

    def count_nodes(self, shape: Shape) -> Steps[dict[str, int]]:
        """Count the nodes that cannot take an ask of the shape, by the first check that each fails.

        Cost: O(nodes) at the first call for a shape, O(1) if it requires its node.
        """
        if shape in self.counts:
            return self.counts[shape]
        required, counts, known = shape[1], Counter[str](), self._state.nodes.nodes
        for node in known.values() if required is None else [known.get(required)]:
            if node is not None:
                counts[self.why_not(shape, node)] += 1
            yield 1
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        found = self.counts[shape] = dict(ranked[:REASONS_MAX])
        if len(ranked) > REASONS_MAX:
            found[reasons.OTHERS] = found.get(reasons.OTHERS, 0) + sum(count for _, count in ranked[REASONS_MAX:])
        return found

    def why_not(self, shape: Shape, node: IndexedNode) -> str:
        """The reason why a node cannot take an ask of the shape at present."""
        needs, required, selector, predicate = shape
        if required is None and not node.schedulable:
            return reasons.DRAINED
        if selector and not selects(selector, node.attributes):
            return reasons.LEFT_OUT if node.node_id in left_out_of(selector) else reasons.NOT_SELECTED
        for name, wanted in needs:
            if wanted > 0 and wanted > node.capacity.get(name, 0):
                return reasons.too_small(name)
        if required is None and node.reserved:
            return reasons.RESERVED_FOR_OTHERS
        for name, wanted in needs:
            if wanted > 0 and wanted > node.available.get(name, 0):
                return reasons.too_full(name)
        predicates, question = self._state.nodes.predicates, (predicate, True)
        verdict = predicates.verdict(question, node.node_id)
        if verdict is False:
            return predicates.refusals(question).get(node.node_id, NO_PREDICATE_SERVICE)
        return reasons.HAS_ROOM if verdict else reasons.PREDICATE_UNKNOWN


def _hold(application: PendingApplication) -> PendingCause | None:
    """The cause if the application or a queue above it is held, the nearest one; else None."""
    if application.hold is not None:
        return PendingCause(PendingCode.HELD, reasons.held(application.hold))
    assert isinstance(application.leaf, QueueNode)
    for queue in application.leaf.path_up:
        if queue.hold is not None:
            text = reasons.held_with_queue(queue.hold, queue.path)
            return PendingCause(PendingCode.HELD, text, Place(queue_name=queue.path))
    return None


def _with_left_out(cause: PendingCause, ask: Ask) -> PendingCause:
    """The cause with the nodes that are left out for the ask."""
    until = {failure.node_id: failure.until_ns for failure in ask.failures if failure.until_ns}
    return structs.replace(_joined(cause, reasons.left_out(until)), left_out=until) if until else cause


#: What keeps an application that is not held out of the order of its leaf.
_KEPT_BACK = {
    PendingCode.FAILING: reasons.FAILING,
    PendingCode.BACKOFF: reasons.BACKOFF,
    PendingCode.ORDER: reasons.OTHER_STARTS_FIRST,
}


def _kept_back(application: PendingApplication) -> PendingCause:
    """The cause of an application that has no place in the order of its leaf."""
    code = application.kept_back_by()
    return PendingCause(code, _KEPT_BACK[code])


def shortage_cause(shape: Shape, short: Shortage) -> PendingCause:
    """The cause: a missing running slot, or a type of which too little is left."""
    found, name = short
    whose = str(found.whose) if isinstance(found, Tracker) else ""
    used, most = found.slots_used(), found.max_applications
    if name:
        used, most = found.allocated.get(name, 0), (found.max or {}).get(name, 0)
    place = Place(queue_name=found.path, whose=whose, resource=name, used=min(used, QUANTITY_MAX), max=min(most, QUANTITY_MAX))
    return PendingCause(shortage_code(short), reasons.no_room(place, dict(shape[0])), place)


#: Codes of asks that no node could ever run, as the nodes are.
_NO_NODE_EVER = frozenset((PendingCode.NO_NODE, PendingCode.UNKNOWN_NODE, PendingCode.NOT_SELECTED, PendingCode.TOO_LARGE))


def can_never_run(code: PendingCode, queue: QueuePath, most: int | None, wanted: int) -> bool:
    """True if waiting does not help: no node could run the ask, or a ``max`` or limit in a queue is below what it wants.

    The size of the cluster is no such limit: it changes with the nodes.
    """
    is_limit = code in (PendingCode.QUOTA, PendingCode.LIMIT) and queue != "root"
    return code in _NO_NODE_EVER or (is_limit and most is not None and wanted > most)


def _too_small(needs: Amounts, nodes: list[IndexedNode], what: str) -> str:
    """A sentence: none of the nodes could run the ask even when empty."""
    for name, wanted in needs:
        largest = max(node.capacity.get(name, 0) for node in nodes)
        if wanted > largest:
            return reasons.never_fits(name, wanted, largest, what)
    return reasons.never_fits_together([name for name, wanted in needs if wanted > 0])


def _on(node: IndexedNode, name: str, wanted: int, where: str) -> str:
    capacity = node.capacity.get(name, 0)
    return reasons.quota(name, wanted, capacity - node.available.get(name, 0), capacity, where)


def _joined(cause: PendingCause, *sentences: str) -> PendingCause:
    """The cause with more sentences behind its own."""
    more = list(filter(None, sentences))
    return structs.replace(cause, text="; ".join([cause.text, *more])) if more else cause


# ---- in one word


def is_held(state: SchedulerView, application: PendingApplication) -> bool:
    """True if an operator holds the application or a queue above it."""
    return application.hold is not None or state.tree.leaf_of(application).is_held()


def pending_of(state: SchedulerView, application: PendingApplication, queue: AskQueue) -> Pending:
    """The reason code of the asks in a queue of an application that is not held.

    It looks at no node beyond those with open questions, and holds for all applications of the equivalence class.
    """
    ask_class, own = queue.ask_class, application.leaf.path
    if ask_class is None:
        return Pending(_kept_back_for(application, queue), own)
    short = application.slot_shortage() or application.shortage(queue.shape)
    if short is not None:
        return Pending(WaitingCause.NODES, own, has_failed=True) if _is_cluster(short) else _of_shortage(short)
    if state.tree.root_max and not ask_class.parked:
        return Pending(WaitingCause.UNTRIED, own)
    return _on_nodes(state, queue, own)


def pending_of_reserved(state: SchedulerView, reservation: Reservation) -> Pending:
    """The reason code of an ask with a reservation, whose application is not held."""
    application = reservation.application
    short = application.slot_shortage() or application.shortage(reservation.shape)
    if short is not None and not _is_cluster(short):
        return _of_shortage(short)
    return Pending(WaitingCause.RESERVED, application.leaf.path, has_failed=not reservation.is_pinned())


def _kept_back_for(application: PendingApplication, queue: AskQueue) -> WaitingCause:
    """The reason code of asks in no class."""
    if application.state is ApplicationState.FAILING:
        return WaitingCause.APPLICATION
    if application.backoff_ns:
        return WaitingCause.BACKOFF
    return WaitingCause.UNTRIED if application.changed or queue in application.opened else WaitingCause.APPLICATION


def _is_cluster(short: Shortage) -> bool:
    """True if all nodes together have too little left."""
    place, name = short
    return bool(name) and not isinstance(place, Tracker) and place.parent is None


def _of_shortage(short: Shortage) -> Pending:
    place, name = short
    if not name:
        return Pending(WaitingCause.MAX_APPLICATIONS, place.path)
    return Pending(WaitingCause.USER if isinstance(place, Tracker) else WaitingCause.QUEUE, place.path)


def _on_nodes(state: SchedulerView, queue: AskQueue, own: QueuePath) -> Pending:
    """The reason code of asks for which quotas have room."""
    predicates, question = state.nodes.predicates, (queue.predicate, True)
    for node_id in predicates.awaited(question):
        node = state.nodes.nodes.get(node_id)
        if node is not None and node.fits(queue.needs, queue.selector):
            return Pending(WaitingCause.PREDICATE, own)
    return Pending(
        WaitingCause.PREDICATE if predicates.refuses(question) else WaitingCause.NODES,
        own,
        has_failed=queue.required_node is None,
    )
