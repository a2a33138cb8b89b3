"""Step 2 of a pass: real asks replace placeholders of their task groups (GA-74)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop

from ykactor.core.messages.asks import Ask, Shape, left_out, shape_of
from ykactor.core.messages.facts import AskCondition
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.predicate_client import PredicateClient
from ykactor.core.planner.plan import Plan
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.pending_gang import PlacedPlaceholder
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.resources import fits, text

#: Work units of one application (1 is a look at a node); each of its pending asks and placeholders costs 1 more.
LOOK_WORK = 20


class PlaceholderStep:
    """Replaces placeholders, at most one in a pass, and cancels placeholders that are too small."""

    def __init__(self, state: SchedulerState, predicate_client: PredicateClient) -> None:
        self._state = state
        self._predicate_client = predicate_client

    def run(self, plan: Plan) -> None:
        """Add the decisions of one pass to ``plan``, within its budget.

        An application without a possible replacement is set aside. The others stay for the next plan.

        Raises:
            OutOfWork: the budget is used up.
        """
        for leaf, application in self._in_order():
            if plan.is_full():
                return
            assert application.gang is not None
            plan.search(LOOK_WORK + application.gang.parts_count())
            found = self._replace_in(plan, leaf, application)
            plan.report(*self._predicate_client.take())
            self._state.requeue(application)
            if found:
                return
            self._state.pairs.set_aside(leaf, application)

    def _in_order(self) -> Iterator[tuple[QueueNode, PendingApplication]]:
        """The applications with placeholders to replace, in the order of the walk. Lazy: usually only the first is needed."""
        pairs = self._state.pairs.by_leaf
        for leaf in self._state.tree.in_order(list(pairs)) if pairs else ():
            waiting = [(leaf.applications.sort_key(application) or (), application) for application in pairs[leaf]]
            heapify(waiting)
            while waiting:
                yield leaf, heappop(waiting)[1]

    def _replace_in(self, plan: Plan, leaf: QueueNode, application: PendingApplication) -> bool:
        """Replace one placeholder of an application (GA-75 to GA-77); returns whether a replacement was decided.

        The first real ask that may run on the node of a placeholder of its group replaces it there. If there is none, the first
        ask that may not run there is placed on another node; not while predicate replies for the application are missing.
        """
        assert application.gang is not None
        gang, tried, moving, is_known = application.gang, set(), None, True
        for ask in gang.held:
            kind = ask.task_group_name, shape_of(ask)
            if kind in tried:  # an equal ask would give the same result
                continue
            tried.add(kind)
            unknown, refused = [], False
            for placed in gang.placeholders_for(ask):
                placeholder, node_id = placed
                if node_id in left_out(ask):
                    continue
                if not fits(placeholder.resource, ask.resource):
                    message = _too_small(placeholder, ask)
                    plan.report(AskCondition(plan.now_ns, placeholder, leaf.path, message, ask.resource))
                    plan.cancel(application, ask, placeholder)
                    continue
                may_run = self._predicate_client.may_run(ask, node_id, allocate=False)
                if may_run is None:
                    unknown.append(node_id)
                elif may_run and not unknown:
                    plan.replace(application, ask, placed)
                    return True
                elif not may_run:
                    moving, refused = moving or (ask, placed), True
            if unknown or refused:
                self._predicate_client.about(plan.now_ns, ask, unknown, allocate=False)
            is_known = is_known and not unknown
        return moving is not None and is_known and self._replace_elsewhere(plan, leaf, application, *moving)

    def _replace_elsewhere(
        self, plan: Plan, leaf: QueueNode, application: PendingApplication, ask: Ask, placed: PlacedPlaceholder
    ) -> bool:
        shape = shape_of(ask)
        node = self._find(shape)
        if node is None:
            self._predicate_client.report_refusals(plan.now_ns, ask, leaf.path, shape)
            return False
        if self._predicate_client.may_run(ask, node.node_id, allocate=True) is None:
            self._predicate_client.about_first(plan.now_ns, ask, shape, node.node_id)
            return False
        # the node found may be the placeholder's: the predicate for a new allocation can differ from that for a replacement
        plan.replace(application, ask, placed, elsewhere=None if node.node_id == placed[1] else node)
        return True

    def _find(self, shape: Shape) -> IndexedNode | None:
        nodes, (needs, required, selector, predicate) = self._state.nodes, shape
        if required is None:
            return nodes.first_fit(shape)
        node = nodes.nodes.get(required)
        is_open = node is not None and node.fits(needs, selector) and not node.reserved
        return node if is_open and nodes.predicates.verdict((predicate, True), required) is not False else None


def _too_small(placed: Ask, ask: Ask) -> str:
    """The message about a cancelled placeholder (EV-71)."""
    return (
        f"Task group '{ask.task_group_name}' in application '{ask.application_id}': allocation resources "
        f"'{text(ask.resource)}' are not matching placeholder '{text(placed.resource)}' allocation with ID "
        f"'{placed.allocation_key}'"
    )
