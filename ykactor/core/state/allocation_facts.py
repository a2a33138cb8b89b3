"""Facts about allocations, and what they change in the state; placements of the scheduler itself are not among them."""

from __future__ import annotations

from ykactor.core.messages.asks import Ask, ask_id
from ykactor.core.messages.facts import Allocated, AllocationResized, NodeUseChanged, Released, ReleaseStarted
from ykactor.core.messages.kinds import Change
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.state import ask_facts, enrolment, node_facts
from ykactor.core.state.state import SchedulerState
from ykactor.core.state.worklist import Handler, Worklist
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import fits, positive, subtracted


def allocated(state: SchedulerState, work: Worklist, fact: Allocated) -> None:
    """An allocation was recovered, or was placed by the resource manager, or replaces a placeholder."""
    ask, application = fact.ask, state.applications[fact.ask.spec.application_id]
    if ask.spec.allocation_key in application.asks:  # it was pending until the resource manager placed it (AP-112)
        ask_facts.discard(state, work, fact.at_ns, ask)
    application.submission_ns = min(application.submission_ns, ask.created_ns)  # PR-40
    application.changed = True
    _change_usage(state, work, fact.at_ns, None, ask, fact.node_id)
    _note_growth(state, fact.at_ns, ask)


def allocation_resized(state: SchedulerState, work: Worklist, fact: AllocationResized) -> None:
    """An allocation uses more or less."""
    before, after = fact.before, fact.after
    _change_usage(state, work, fact.at_ns, before, after, fact.node_id)
    if not fits(before.spec.resource, after.spec.resource):
        _note_growth(state, fact.at_ns, after)
    if ask_id(after) in state.preemptions.victims:
        state.preemptions.resize_victim(state.owner_of(after)[0], after)


def released(state: SchedulerState, work: Worklist, fact: Released) -> None:
    """An allocation has ended."""
    state.preemptions.confirm(fact.at_ns, state.owner_of(fact.ask)[0], fact.ask)
    _change_usage(state, work, fact.at_ns, fact.ask, None, fact.node_id)
    ask_facts.uncount_idle(state, fact.ask)


def release_started(state: SchedulerState, work: Worklist, fact: ReleaseStarted) -> None:
    """An allocation is being released: a placeholder cannot be replaced any more."""
    leaf, application = state.owner_of(fact.ask)
    if application.gang is not None:
        application.gang.withdraw(fact.ask.spec.allocation_key)
        work.touch(leaf, application)


def _note_growth(state: SchedulerState, at_ns: int, task: Ask) -> None:
    if state.enforces_quotas():
        state.clocks.grow(at_ns, state.owner_of(task)[0])


def _change_usage(
    state: SchedulerState, work: Worklist, at_ns: int, ended: Ask | None, begun: Ask | None, node_id: NodeID
) -> None:
    either = ended or begun
    assert either is not None
    leaf, application = state.owner_of(either)
    _report_change(work, at_ns, application, ended, begun, node_id)
    if begun is not None:
        state.pending_reasons.usage_grew()
        state.ledger.use(leaf, begun.spec.resource)
        application.begin(begun)
        if begun.spec.placeholder and ended is None:
            state.place_placeholder(application, begun, node_id)
        elif application.gang is not None and ended is not None and begun.spec.placeholder:
            application.gang.resize(ended, begun)
    if ended is not None:
        state.ledger.free(leaf, ended.spec.resource)
        application.end(ended)
        if application.gang is not None and begun is None:
            application.gang.withdraw(ended.spec.allocation_key)
        state.capacity_grew()
    node_facts.touch_node(state, work, node_id)
    work.touch(leaf, application)


def _report_change(
    work: Worklist,
    at_ns: int,
    application: PendingApplication,
    ended: Ask | None,
    begun: Ask | None,
    node_id: NodeID,
) -> None:
    """Add the consequences for node and user; a resize does not change which allocations the node has."""
    leaf, charged_to, consequences = application.leaf, application.charged_to, work.consequences
    if ended is None or begun is None:
        work.is_out_of_order = True
        either, change = (ended, Change.REMOVE) if ended else (begun, Change.ADD)
        assert either is not None
        consequences.append(NodeUseChanged(at_ns, either, leaf.path, node_id, change))
        consequences += enrolment.usage_changed(at_ns, charged_to, leaf, change, either.spec.resource)
    else:
        before, after = ended.spec.resource, begun.spec.resource
        consequences += enrolment.usage_changed(at_ns, charged_to, leaf, Change.ADD, positive(subtracted(after, before)))
        consequences += enrolment.usage_changed(at_ns, charged_to, leaf, Change.REMOVE, positive(subtracted(before, after)))


#: By type of fact.
HANDLERS: dict[type, Handler] = {
    Allocated: allocated,
    AllocationResized: allocation_resized,
    Released: released,
    ReleaseStarted: release_started,
}
