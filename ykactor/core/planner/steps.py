"""What a plan is made of, and the charging of it: the indexes are as if every step were done the moment it is planned."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, Decision
from ykactor.core.messages.planned import Cancellation, Eviction, Replacement
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState, after_allocation
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.queueing.task_groups import Holder
from ykactor.core.quota.ledger import Account
from ykactor.core.state.state import Indexes


class Placement(Struct, gc=False):
    """One decision of a plan, with what is needed to take it back."""

    allocated: Allocated
    leaf: Account
    application: WaitingApplication
    node: IndexedNode
    #: Whether user and group count the application from here on (QU-74).
    is_first: bool


class GangStep(Struct, gc=False):
    """A real ask that takes the place of a placeholder, or a placeholder that is too small and has to go."""

    decision: Replacement | Cancellation
    leaf: Account
    application: WaitingApplication
    #: The placeholder and its node.
    holder: Holder
    #: Where the real ask has its place if that is another node: it is charged at once.
    node: IndexedNode | None = None

    def take_back(self, indexes: Indexes) -> None:
        """The other node does not take the real ask: it waits again, and the placeholder may be replaced (GA-23)."""
        ask, gang = self.decision.ask, self.application.gang
        assert gang is not None
        gang.offer(*self.holder)
        self.application.add(ask)
        indexes.ledger.change_pending(self.leaf, ask.spec.resource)
        indexes.requeue(self.leaf, self.application)


class EvictionStep(Struct, gc=False):
    """A task that has to go for another one."""

    decision: Eviction
    leaf: Account


#: What a plan decides, or only has to tell.
Step = Placement | GangStep | EvictionStep | Decision


class PlanEnds(Exception):
    """What is next has to be decided in a plan of its own."""


def place(
    indexes: Indexes, now_ns: int, leaf: Account, application: WaitingApplication, ask: Ask, node: IndexedNode
) -> Placement:
    """Charge everything that a placement changes (AP-130)."""
    is_first = not application.counted
    indexes.remarks.is_stale = True
    application.discard(ask)
    indexes.preemptions.forget(ask)
    application.begin(ask)
    indexes.nodes.charge(node, ask.spec.resource)
    indexes.ledger.charge(leaf, ask.spec.resource)
    if ask.spec.placeholder:
        indexes.place_placeholder(leaf, application, ask, node.node_id)
    if application.state is not ApplicationState.RUNNING:
        _predict_state(indexes, leaf, application, ask)
    indexes.requeue(leaf, application)
    allocated = Allocated(now_ns, ask, leaf.path, node.node_id, False, application.payer)
    return Placement(allocated, leaf, application, node, is_first)


def _predict_state(indexes: Indexes, leaf: Account, application: WaitingApplication, ask: Ask) -> None:
    """The leaf will move the application when it settles; later steps of this plan already build on it."""
    if ask.spec.placeholder and not application.completes_gang():
        return
    entered = after_allocation(application.state, stateaware=application.stateaware)
    if entered:
        application.enter(entered[-1])
        indexes.remarks.note(leaf, application)  # its asks stand in other lines from now on
        if application.state in COUNTED_AS_RUNNING:
            indexes.ledger.take_slot(leaf, application.application_id)
