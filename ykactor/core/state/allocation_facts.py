"""Handlers of facts about allocations, other than placements of the scheduler itself."""

from __future__ import annotations

from msgspec import structs

from ykactor.core.messages.asks import Ask, ask_id
from ykactor.core.messages.facts import (
    Allocated,
    AllocationResized,
    ApplicationChanged,
    AskRemoved,
    EndReported,
    Fact,
    NodeUseChanged,
    PreemptionPolicyChanged,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.kinds import Change, TerminationType
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.state import ask_facts, enrolment, node_facts
from ykactor.core.state.state import Handler, SchedulerState, Worklist
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import fits, positive, subtracted

#: Facts with which the step of an allocation may begin: a state change, and the end of the placeholder that it replaces.
_BEFORE_ALLOCATION = (ApplicationChanged, AskRemoved)


def as_one_fact(state: SchedulerState, fact: Allocated, before: Fact | None) -> Allocated:
    """The allocation as a fact that stands for its consequences too, if it is a step by itself: most recovered ones are.

    Of an ask that was pending, or replaces a placeholder, it has what the ask waited for (AP-154).

    Args:
        before: the fact before it, which may begin the step (EV-30).
    """
    ask = fact.ask
    application, key = state.applications[ask.application_id], ask.allocation_key
    if key in application.asks or key in application.own_waits:
        return structs.replace(fact, waited=application.finish(ask))
    if not fact.recovered or type(before) in _BEFORE_ALLOCATION:
        return fact
    return Allocated(fact.at_ns, fact.ask, fact.queue, fact.node_id, True, application.charged_to)


def allocated(state: SchedulerState, work: Worklist, fact: Allocated) -> None:
    """Count an allocation that was recovered, was placed by the resource manager, or replaces a placeholder."""
    ask = fact.ask
    leaf, application = state.owner_of(ask)
    if fact.recovered:
        work.begin(application)
    if ask.allocation_key in application.asks:  # it was pending until the resource manager placed it (AP-112)
        ask_facts.discard(state, work, fact.at_ns, ask)
    if ask.created_ns < application.submission_ns:  # PR-40
        application.submission_ns = ask.created_ns
        application.changed = True
    if fact.charged_to is None:
        _report_use(work, fact, application, Change.ADD)
    _begin(state, leaf, application, ask)
    if ask.placeholder:
        state.place_placeholder(application, ask, fact.node_id)
    if ask.releasing:
        state.count_as_going(leaf, ask)
    _touch(state, work, leaf, application, fact.node_id)
    _note_growth(state, fact.at_ns, leaf)


def allocation_resized(state: SchedulerState, work: Worklist, fact: AllocationResized) -> None:
    """Count the new size of an allocation."""
    before, after = fact.before, fact.after
    leaf, application = state.owner_of(after)
    _report_resize(work, fact, application)
    _begin(state, leaf, application, after)
    _end(state, leaf, application, before)
    if after.placeholder and application.gang is not None:
        application.gang.resize(before, after)
    _touch(state, work, leaf, application, fact.node_id)
    if not fits(before.resource, after.resource):
        _note_growth(state, fact.at_ns, leaf)
    if ask_id(after) in state.preemptions.victims:
        state.preemptions.resize_victim(leaf, after)


def preemption_policy_changed(state: SchedulerState, work: Worklist, fact: PreemptionPolicyChanged) -> None:
    """Keep the ask, pending or on a node, that is another kind of victim from now on."""
    if fact.node_id is None:
        ask_facts.renew(state, work, fact.before, fact.after)
        return
    application = state.applications[fact.after.application_id]
    if fact.after.placeholder and application.gang is not None:
        application.gang.resize(fact.before, fact.after)
    node_facts.touch_node(state, work, fact.node_id)


def end_reported(state: SchedulerState, work: Worklist, fact: EndReported) -> None:
    """Count an allocation that is ending already as if it were a victim of preemption."""
    leaf, application = state.owner_of(fact.ask)
    state.count_as_going(leaf, fact.ask)
    state.capacity_grew()
    work.touch(leaf, application)


def released(state: SchedulerState, work: Worklist, fact: Released) -> None:
    """Uncount an allocation that has ended, or was handed back (AP-144)."""
    ask, is_handed_back = fact.ask, fact.termination_type is TerminationType.SCHEDULING_FAILED_ON_RM
    leaf, application = state.owner_of(ask)
    state.preemptions.confirm(fact.at_ns, leaf, ask)
    _report_use(work, fact, application, Change.REMOVE)
    _end(state, leaf, application, ask)
    if application.gang is not None:
        application.gang.withdraw(ask.allocation_key)
        if is_handed_back and ask.placeholder:
            application.gang.hand_back(ask)
    _touch(state, work, leaf, application, fact.node_id)
    if not is_handed_back:
        ask_facts.uncount_idle(state, ask)
    elif ask.allow_preempt_other:  # else it would preempt on one node after the other as fast as it fails (PE-15)
        state.preemptions.note_attempt(fact.at_ns, ask)


def release_started(state: SchedulerState, work: Worklist, fact: ReleaseStarted) -> None:
    """Withdraw a placeholder whose release has started: it cannot be replaced any more."""
    leaf, application = state.owner_of(fact.ask)
    if application.gang is not None:
        application.gang.withdraw(fact.ask.allocation_key)
        work.touch(leaf, application)


def _begin(state: SchedulerState, leaf: QueueNode, application: PendingApplication, ask: Ask) -> None:
    """Count usage that begins, whatever the quotas are (QU-41)."""
    state.quota_reports.usage_grew()
    state.ledger.charge(leaf, ask.resource, was_pending=False)
    application.begin(ask)


def _end(state: SchedulerState, leaf: QueueNode, application: PendingApplication, ask: Ask) -> None:
    """Count usage that ends."""
    state.ledger.free(leaf, ask.resource)
    application.end(ask)
    state.capacity_grew()


def _touch(state: SchedulerState, work: Worklist, leaf: QueueNode, application: PendingApplication, node_id: NodeID) -> None:
    node_facts.touch_node(state, work, node_id)
    work.touch(leaf, application)


def _note_growth(state: SchedulerState, at_ns: int, leaf: QueueNode) -> None:
    if state.enforces_quotas():
        state.clocks.grow(at_ns, leaf)


def _report_use(work: Worklist, fact: Allocated | Released, application: PendingApplication, change: Change) -> None:
    """Add the consequences for node and user: an allocation begins or ends there."""
    leaf, ask = application.leaf, fact.ask
    work.is_out_of_order = True
    work.consequences.append(NodeUseChanged(fact.at_ns, ask, leaf.path, fact.node_id, change))
    work.consequences += enrolment.usage_changed(fact.at_ns, application.charged_to, leaf, change, ask.resource)


def _report_resize(work: Worklist, fact: AllocationResized, application: PendingApplication) -> None:
    """Add the consequences for the user; a resize does not change which allocations the node has."""
    at_ns, leaf, charged_to = fact.at_ns, application.leaf, application.charged_to
    before, after = fact.before.resource, fact.after.resource
    more, less = positive(subtracted(after, before)), positive(subtracted(before, after))
    work.consequences += enrolment.usage_changed(at_ns, charged_to, leaf, Change.ADD, more)
    work.consequences += enrolment.usage_changed(at_ns, charged_to, leaf, Change.REMOVE, less)


#: By type of fact.
HANDLERS: dict[type, Handler] = {
    Allocated: allocated,
    AllocationResized: allocation_resized,
    PreemptionPolicyChanged: preemption_policy_changed,
    EndReported: end_reported,
    Released: released,
    ReleaseStarted: release_started,
}
