"""Why asks are pending: which of the codes, and of the sentences of ``messages.reasons``, hold at present.

Everything is read from the scheduler's state when it is asked for, so no number is outdated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from msgspec import structs

from ykactor.core.messages import reasons
from ykactor.core.messages.asks import PREDICATE_TAG, Ask, Shape, ask_id
from ykactor.core.messages.pending_causes import PendingCause, PendingCode, Place
from ykactor.core.messages.states import ApplicationState
from ykactor.core.nodes.indexed_node import IndexedNode
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import Amounts, Shortage, queue_shortage
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.resources import QUANTITY_MAX, Resource
from ykactor.core.values.selector import Selector, left_out_of, selects


class PendingCauses:
    """The causes of one partition's pending asks, for one look: nothing may change meanwhile.

    Cost: O(nodes) for each selector, and for each shape that no node can take although it has enough of each type.
    """

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._blocks: dict[Shape, PendingCause | None] = {}
        self._by_shape: dict[Shape, PendingCause] = {}
        self._selected: dict[Selector, list[IndexedNode]] = {}
        self._freest: dict[tuple[Selector, str], IndexedNode] = {}

    @cached_property
    def _all_nodes(self) -> list[IndexedNode]:
        """In order; made when something is pending."""
        return [node for _, node in sorted(self._state.nodes.nodes.items())]

    def of(self, application: PendingApplication, queue: AskQueue) -> PendingCause:
        """Why the asks of one queue of an application are pending, of those without a node."""
        block, ask = self._block(queue.shape), queue.first()
        hold = _hold(application)
        if hold is not None or queue.ask_class is None:
            return _with_left_out(_joined(hold or _kept_back(application), "" if block is None else block.text), ask)
        return _joined(_with_left_out(self._shortage(application, queue.shape, block), ask), self._failure(ask))

    def of_reserved(self, reservation: Reservation) -> PendingCause:
        """Why an ask with a reservation is pending."""
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
            missing = _missing(reservation.shape, short).text
        elif not (node.schedulable or reservation.is_pinned()):
            missing = reasons.NODE_DRAINED
        else:
            missing = self._missing_on(node, reservation.shape, "there").text
        cause = _with_left_out(_joined(PendingCause(PendingCode.RESERVED, text, place), missing), ask)
        return _joined(cause, self._failure(ask))

    def of_held(self, application: PendingApplication, ask: Ask) -> PendingCause:
        """Why a real ask of a task group that has placeholders is pending."""
        waits = reasons.waits_for_placeholder(ask.spec.task_group_name, ask.spec.tags.get(PREDICATE_TAG, ""))
        hold = _hold(application)
        cause = PendingCause(PendingCode.PLACEHOLDER, waits) if hold is None else _joined(hold, waits)
        return _with_left_out(cause, ask)

    def _failure(self, ask: Ask) -> str:
        last = self._state.preemptions.last_attempt(ask)
        return "" if last is None else last.why

    # ---- running slots, quotas and limits

    def _shortage(self, application: PendingApplication, shape: Shape, block: PendingCause | None) -> PendingCause:
        short = application.slot_shortage()
        if short is None and self._state.tree.root_max:
            short = application.shortage(shape)
        if short is None:
            return block or self._on_nodes(shape)
        queue, name = short
        is_cluster = bool(name) and not isinstance(queue, Tracker) and queue.parent is None
        missing = _missing(shape, short)
        if block is None:
            return missing
        if not is_cluster:
            return _joined(missing, block.text)
        if block.text in (reasons.NO_NODE, reasons.ALL_DRAINED):
            return block
        return structs.replace(block, text=f"{missing.text}; {block.text}")

    # ---- nodes

    def _block(self, shape: Shape) -> PendingCause | None:
        """Why no node could run asks of the shape even if it were empty, or that all that could are drained; else None."""
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
        """Why no node has room at present; quotas have room, and nodes that are large enough are there."""
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
        """The nodes that are not drained and have the attributes that are selected."""
        found = self._selected.get(selector)
        if found is None:
            nodes = (node for node in self._all_nodes if node.schedulable)
            found = self._selected[selector] = [node for node in nodes if not selector or selects(selector, node.attributes)]
        return found

    def _too_full(self, needs: Amounts, selector: Selector) -> str:
        """Which type no usable node has enough of; "" if of each type some node has."""
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

    def most_free(self, shape: Shape) -> Resource:
        """Of each type in a shape the most that is free on a node that may be used, base units."""
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
        """What the predicate service says of nodes with room, in order; the first that it has not refused counts."""
        predicates, question = self._state.nodes.predicates, (shape[3], True)
        refusals: Counter[str] = Counter()
        for node in nodes:
            verdict = predicates.verdict(question, node.node_id)
            if verdict is not False:
                if verdict:
                    return PendingCause(PendingCode.NEXT, reasons.FITS)
                return PendingCause(PendingCode.PREDICATE, reasons.PREDICATE_UNKNOWN)
            refusals[predicates.refusals(question).get(node.node_id, reasons.NO_PREDICATE_SERVICE)] += 1
        return PendingCause(PendingCode.PREDICATE, reasons.refused(refusals))


def _hold(application: PendingApplication) -> PendingCause | None:
    """Who holds the application, or the nearest queue that is held; None if nobody does."""
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
    until = {failure.node_id: failure.until_ns for failure in ask.spec.failures if failure.until_ns}
    return structs.replace(_joined(cause, reasons.left_out(until)), left_out=until) if until else cause


def _kept_back(application: PendingApplication) -> PendingCause:
    """Why an application has no place in the order of its leaf."""
    if application.state is ApplicationState.FAILING:
        return PendingCause(PendingCode.FAILING, reasons.FAILING)
    if application.backoff_ns:
        return PendingCause(PendingCode.BACKOFF, reasons.BACKOFF)
    return PendingCause(PendingCode.ORDER, reasons.OTHER_STARTS_FIRST)


def _missing(shape: Shape, short: Shortage) -> PendingCause:
    """Which running slot is missing, or of which type too little is left."""
    found, name = short
    if isinstance(found, Tracker):
        whose, slots, limit = str(found.whose), (len(found.applications), found.max_applications), found.limit
    else:
        whose, slots, limit = "", (len(found.running) + len(found.accepted), found.config.max_applications), found.max
    used, most = (found.allocated.get(name, 0), (limit or {}).get(name, 0)) if name else slots
    place = Place(queue_name=found.path, whose=whose, resource=name, used=min(used, QUANTITY_MAX), max=min(most, QUANTITY_MAX))
    code = PendingCode.MAX_APPLICATIONS if not name else PendingCode.LIMIT if whose else PendingCode.QUOTA
    return PendingCause(code, reasons.no_room(place, dict(shape[0])), place)


def _too_small(needs: Amounts, nodes: list[IndexedNode], what: str) -> str:
    """Why none of the nodes could run the ask even if it were empty."""
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
