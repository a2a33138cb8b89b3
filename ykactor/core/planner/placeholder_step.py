"""Step 2 of a pass: real asks take the places of the placeholders of their task groups (GA-74)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop

from ykactor.core.messages.asks import Ask, Shape, shape_of
from ykactor.core.messages.facts import AskRemark
from ykactor.core.messages.planned import Cancellation, Replacement
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.inquiry import Inquiry
from ykactor.core.planner.steps import GangStep, Step
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.queueing.task_groups import Holder
from ykactor.core.quota.ledger import Account
from ykactor.core.state.state import Indexes
from ykactor.core.values.resources import fits, text

#: What looking at one application costs, in looks at a node, and one for each ask that waits in it and each placeholder.
LOOK_WORK = 20


class PlaceholderStep:
    """Replaces placeholders, at most one in a pass, and cancels too small ones on the way.

    Args:
        spend: is told what an application costs before it is looked at, in looks at a node; may raise to stop.
    """

    def __init__(self, indexes: Indexes, inquiry: Inquiry, spend: Callable[[int], None]) -> None:
        self._indexes = indexes
        self._inquiry = inquiry
        self._spend = spend
        self._steps: list[Step] = []

    def run(self, now_ns: int, steps: list[Step], steps_max: int) -> None:
        """Add to ``steps`` what one pass decides, as far as it comes before there are about ``steps_max`` or ``spend`` raises.

        The applications in which there is nothing to be done at present are set aside, the others are left for the next plan.
        """
        self._steps = steps
        for leaf, application in self._in_order():
            if len(steps) >= steps_max:
                return
            assert application.gang is not None
            self._spend(LOOK_WORK + application.gang.parts_count())
            found = self._replace_in(now_ns, leaf, application)
            steps += self._inquiry.take()
            self._indexes.requeue(leaf, application)
            if found:
                return
            self._indexes.set_aside(leaf, application)

    def _in_order(self) -> Iterator[tuple[Account, WaitingApplication]]:
        """The applications with something to replace as the walk comes to them; most often only the first is looked at."""
        replaceable = self._indexes.replaceable
        for leaf in self._indexes.ledger.in_order(list(replaceable)) if replaceable else ():
            waiting = [(leaf.applications.sort_key(it) or (), it) for it in replaceable[leaf]]
            heapify(waiting)
            while waiting:
                yield leaf, heappop(waiting)[1]

    def _replace_in(self, now_ns: int, leaf: Account, application: WaitingApplication) -> bool:
        """GA-75 to GA-77: the first real ask that may run where a placeholder of its group does, or else the first that may not,
        on another node. Nothing is moved to another node while it is not known who may stay.
        """
        assert application.gang is not None
        gang, tried, moving, is_known = application.gang, set(), None, True
        for ask in list(gang.held.items()):
            kind = ask.spec.task_group_name, shape_of(ask.spec)
            if kind in tried:  # fares as the one before
                continue
            tried.add(kind)
            unknown, refused = [], False
            for holder in gang.holders(ask):
                placeholder, node_id = holder
                if not fits(placeholder.spec.resource, ask.spec.resource):
                    gang.withdraw(placeholder.spec.allocation_key)
                    cancellation = Cancellation(ask, placeholder.spec.allocation_key)
                    remark = _too_small(placeholder, ask)
                    self._steps.append(AskRemark(now_ns, placeholder, leaf.path, remark, ask.spec.resource))
                    self._steps.append(GangStep(cancellation, leaf, application, holder))
                    continue
                may_run = self._inquiry.may_run(ask, node_id, allocate=False)
                if may_run is None:
                    unknown.append(node_id)
                elif may_run and not unknown:
                    self._replace(leaf, application, ask, holder)
                    return True
                elif not may_run:
                    moving, refused = moving or (ask, holder), True
            if unknown or refused:
                self._inquiry.about(now_ns, ask, unknown, allocate=False)
            is_known = is_known and not unknown
        return moving is not None and is_known and self._replace_elsewhere(now_ns, leaf, application, *moving)

    def _replace_elsewhere(self, now_ns: int, leaf: Account, application: WaitingApplication, ask: Ask, holder: Holder) -> bool:
        shape = shape_of(ask.spec)
        node = self._find(shape)
        if node is None:
            self._inquiry.refusal(now_ns, ask, leaf.path, shape)
            return False
        if self._inquiry.may_run(ask, node.node_id, allocate=True) is None:
            self._inquiry.about_first(now_ns, ask, shape, node.node_id)
            return False
        if node.node_id == holder[1]:  # it may, now that it is asked for in earnest
            self._replace(leaf, application, ask, holder)
        else:
            self._indexes.nodes.charge(node, ask.spec.resource)
            self._replace(leaf, application, ask, holder, node)
        return True

    def _find(self, shape: Shape) -> IndexedNode | None:
        nodes, (needs, required, selector, predicate) = self._indexes.nodes, shape
        if required is None:
            return nodes.first_fit(shape)
        node = nodes.nodes.get(required)
        is_open = node is not None and node.fits(needs, selector) and not node.reserved
        return node if is_open and nodes.predicates.verdict((predicate, True), required) is not False else None

    def _replace(
        self, leaf: Account, application: WaitingApplication, ask: Ask, holder: Holder, node: IndexedNode | None = None
    ) -> None:
        assert application.gang is not None
        key = holder[0].spec.allocation_key
        application.gang.withdraw(key)
        application.discard(ask)
        self._indexes.preemptions.forget(ask)
        self._indexes.ledger.change_pending(leaf, {name: -quantity for name, quantity in ask.spec.resource.items()})
        replacement = Replacement(ask, key, holder[1] if node is None else node.node_id)
        self._steps.append(GangStep(replacement, leaf, application, holder, node))


def _too_small(holder: Ask, ask: Ask) -> str:
    """Why a placeholder is cancelled (EV-71)."""
    spec = ask.spec
    return (
        f"Task group '{spec.task_group_name}' in application '{spec.application_id}': allocation resources "
        f"'{text(spec.resource)}' are not matching placeholder '{text(holder.spec.resource)}' allocation with ID "
        f"'{holder.spec.allocation_key}'"
    )
