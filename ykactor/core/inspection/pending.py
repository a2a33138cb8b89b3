"""Why asks are pending: which of the sentences of ``messages.reasons`` hold at present.

Everything is read from the scheduler's state when it is asked for, so no number is outdated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ykactor.core.messages import reasons
from ykactor.core.messages.asks import PREDICATE_TAG, Ask, Shape, ask_id
from ykactor.core.messages.states import ApplicationState
from ykactor.core.nodes.indexed_node import IndexedNode
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import Amounts, Shortage, queue_shortage
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.selector import Selector, selects


class PendingTexts:
    """The reasons of one partition's pending asks, for one look: nothing may change meanwhile.

    Cost: O(nodes) for each selector, and for each shape that no node can take although it has enough of each type.
    """

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._all_nodes = [node for _, node in sorted(state.nodes.nodes.items())]
        self._blocks: dict[Shape, str] = {}
        self._by_shape: dict[Shape, str] = {}
        self._selected: dict[Selector, list[IndexedNode]] = {}
        self._freest: dict[tuple[Selector, str], IndexedNode] = {}

    def of(self, application: PendingApplication, queue: AskQueue) -> str:
        """Why the asks of one queue of an application are pending, of those without a node."""
        block, hold = self._block(queue.shape), _hold(application)
        if hold or queue.ask_class is None:
            return _joined(hold or _kept_back(application), block)
        return _joined(self._shortage(application, queue.shape, block), self._failure(queue.first()))

    def of_reserved(self, reservation: Reservation) -> str:
        """Why an ask with a reservation is pending."""
        ask, node, application = reservation.ask, reservation.node, reservation.application
        attempt = self._state.preemptions.by_ask.get(ask_id(ask))
        if attempt is not None:
            left = list(attempt.waits_for)
            progress = reasons.waits_for_victims(attempt.victims_count - len(left), attempt.victims_count, left)
            return _joined(reasons.reserved(node.node_id), progress)
        short = application.slot_shortage() or application.shortage(reservation.shape)
        if short is None and reservation.is_pinned():  # not checked before the node is reserved (SC-43)
            short = queue_shortage(application.leaf.path_up, reservation.shape[0])
        if application.sort_key is None:
            missing = _kept_back(application)
        elif short is not None:
            missing = _missing(reservation.shape, short)
        elif not (node.schedulable or reservation.is_pinned()):
            missing = reasons.NODE_DRAINED
        else:
            missing = self._missing_on(node, reservation.shape, "there")
        return _joined(reasons.reserved(node.node_id), missing, self._failure(ask))

    def of_held(self, application: PendingApplication, ask: Ask) -> str:
        """Why a real ask of a task group that has placeholders is pending."""
        waits = reasons.waits_for_placeholder(ask.spec.task_group_name, ask.spec.tags.get(PREDICATE_TAG, ""))
        return _joined(_hold(application), waits)

    def _failure(self, ask: Ask) -> str:
        last = self._state.preemptions.last_attempt(ask)
        return "" if last is None else last.why

    # ---- running slots, quotas and limits

    def _shortage(self, application: PendingApplication, shape: Shape, block: str) -> str:
        short = application.slot_shortage()
        if short is None and self._state.tree.root_max:
            short = application.shortage(shape)
        if short is None:
            return block or self._on_nodes(shape)
        queue, name = short
        is_cluster = bool(name) and not isinstance(queue, Tracker) and queue.parent is None
        if is_cluster and block in (reasons.NO_NODE, reasons.ALL_DRAINED):
            return block
        return _joined(_missing(shape, short), block)

    # ---- nodes

    def _block(self, shape: Shape) -> str:
        """Why no node could run asks of the shape even if it were empty, or all that could are drained; "" if that is not so."""
        found = self._blocks.get(shape)
        if found is None:
            found = self._blocks[shape] = self._find_block(shape)
        return found

    def _find_block(self, shape: Shape) -> str:
        needs, required, selector, _ = shape
        nodes, what = self._all_nodes, "the largest node"
        if required is not None:
            nodes, what = [node for node in nodes if node.node_id == required], f"its required node {required}"
            if not nodes:
                return reasons.unknown_node(required)
        elif any(node.schedulable and node.could_fit(needs, selector) for node in nodes):  # usually the first
            return ""
        if not nodes:
            return reasons.NO_NODE
        if selector:
            nodes = [node for node in nodes if selects(selector, node.attributes)]
            if not nodes:
                return reasons.NONE_SELECTED if required is None else reasons.not_selected(required)
            what = "the largest node that it selects" if required is None else what
        large = [node for node in nodes if node.could_fit(needs, ())]
        if not large:
            return _too_small(needs, nodes, what)
        if required is not None:
            return ""
        if not any(node.schedulable for node in self._all_nodes):
            return reasons.ALL_DRAINED
        return reasons.large_are_drained([node.node_id for node in large])

    def _on_nodes(self, shape: Shape) -> str:
        """Why no node has room at present; quotas have room, and nodes that are large enough are there."""
        found = self._by_shape.get(shape)
        if found is None:
            found = self._by_shape[shape] = self._find_on_nodes(shape)
        return found

    def _find_on_nodes(self, shape: Shape) -> str:
        needs, required, selector, _ = shape
        if required is not None:
            return self._missing_on(self._state.nodes.nodes[required], shape, f"on its required node {required}")
        shortage = self._too_full(needs, selector)
        with_room = [] if shortage else [node for node in self._usable(selector) if node.fits(needs, ())]
        if not with_room:
            names = [name for name, wanted in needs if wanted > 0]
            reserved = [node.node_id for node in self._usable(selector) if node.reserved and node.could_fit(needs, ())]
            return _joined(shortage or reasons.not_together(names), reasons.also_reserved(reserved) if reserved else "")
        if all(node.reserved for node in with_room):
            return reasons.all_reserved([node.node_id for node in with_room])
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
            freest = self._freest.get((selector, name))
            if freest is None:
                nodes = self._usable(selector)
                freest = self._freest[selector, name] = max(nodes, key=lambda node: node.available.get(name, 0))
            if wanted > max(0, freest.available.get(name, 0)):
                is_any = len(self._usable(selector)) == len(self._all_nodes)
                which = "the freest node" if is_any else "the freest node that it can use"
                return _on(freest, name, wanted, f"on {which}, {freest.node_id}")
        return ""

    def _missing_on(self, node: IndexedNode, shape: Shape, where: str) -> str:
        for name, wanted in shape[0]:
            if wanted > 0 and wanted > node.available.get(name, 0):
                return _on(node, name, wanted, where)
        return self._predicates(shape, [node])

    def _predicates(self, shape: Shape, nodes: Iterable[IndexedNode]) -> str:
        """What the predicate service says of nodes with room, in order; the first that it has not refused counts."""
        predicates, question = self._state.nodes.predicates, (shape[3], True)
        refusals: Counter[str] = Counter()
        for node in nodes:
            verdict = predicates.verdict(question, node.node_id)
            if verdict is not False:
                return reasons.FITS if verdict else reasons.PREDICATE_UNKNOWN
            refusals[predicates.refusals(question).get(node.node_id, reasons.NO_PREDICATE_SERVICE)] += 1
        return reasons.refused(refusals)


def _hold(application: PendingApplication) -> str:
    """Who holds the application, or the nearest queue that is held; "" if nobody does."""
    if application.hold is not None:
        return reasons.held(application.hold)
    assert isinstance(application.leaf, QueueNode)
    held = ((queue.hold, queue.path) for queue in application.leaf.path_up)
    return next((reasons.held_with_queue(hold, path) for hold, path in held if hold is not None), "")


def _kept_back(application: PendingApplication) -> str:
    """Why an application has no place in the order of its leaf."""
    if application.state is ApplicationState.FAILING:
        return reasons.FAILING
    return reasons.BACKOFF if application.backoff_ns else reasons.OTHER_STARTS_FIRST


def _missing(shape: Shape, short: Shortage) -> str:
    """Which running slot is missing, or of which type too little is left."""
    place, name = short
    if isinstance(place, Tracker):
        if not name:
            return reasons.running(f"{place.whose} in queue {place.path}", len(place.applications), place.max_applications)
        limit, where = place.limit, reasons.of_limit(place.whose, place.path)
    else:
        if not name:
            count = len(place.running) + len(place.accepted)
            return reasons.running(f"queue {place.path}", count, place.config.max_applications)
        limit, where = place.max, "in the cluster" if place.parent is None else f"in queue {place.path}"
    wanted = dict(shape[0]).get(name, 0)
    return reasons.quota(name, wanted, place.allocated.get(name, 0), (limit or {}).get(name, 0), where)


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


def _joined(*sentences: str) -> str:
    return "; ".join(filter(None, sentences))
