"""Keeps the scheduler's state up to date with the facts that the owners report.

``observe`` is called between cycles with all facts that were reported. A change of the scheduler's own state by a fact may be a
fact too: ``observe`` returns the facts with such consequences in their places.

It is a generator that yields to other tasks, so that thousands of queues or facts do not keep sockets waiting. The state must not
be read before the generator has ended.
"""

from __future__ import annotations

from ykactor.core.messages.fact_order import in_order
from ykactor.core.messages.facts import Allocated, AskAdded, AskRemoved, ConfigurationChanged, Fact, NodeRemoved, RecheckDue
from ykactor.core.preemption.attempts import OUTSIDE
from ykactor.core.state import allocation_facts, application_facts, ask_facts, enrolment, node_facts, queue_facts
from ykactor.core.state.state import Handler, SchedulerState, Worklist
from ykactor.core.values.parts import PART_MAX, Steps, in_parts

#: The number of facts after which all changed objects are brought up to date.
YIELD_EVERY = 1000
#: Facts processed, or applications or queues brought up to date, in one part (up to 40 us each).
PAUSE_EVERY = 150
#: An application or a queue takes as long as so many items; and so many amounts, or groups of a user, as one.
_ITEMS, _AMOUNTS, _GROUPS = PART_MAX // PAUSE_EVERY, 50, 50
#: Applications, or changes of pending amounts, in one step: each step is resumed through several generators.
_TOGETHER = 5


class Observer:
    """Observes the facts of one partition."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._work = Worklist()
        self._handlers: dict[type, Handler] = {
            **ask_facts.HANDLERS,
            **application_facts.HANDLERS,
            **allocation_facts.HANDLERS,
            **node_facts.HANDLERS,
            **queue_facts.HANDLERS,
        }

    def observe(self, facts: list[Fact]) -> Steps[list[Fact]]:
        """Process facts, which must be in order. Returns them with their consequences."""
        state, work, observed = self._state, self._work, list[Fact]()
        work.is_out_of_order = False
        if facts:
            state.tree.waits.now_ns = facts[0].at_ns
        if any(type(fact) is not RecheckDue for fact in facts):
            state.scheduling_states.has_changed = True
        for start in range(0, len(facts), YIELD_EVERY):
            for number, fact in enumerate(facts[start : start + YIELD_EVERY]):
                if number and number % PAUSE_EVERY == 0:
                    yield PART_MAX
                if type(fact) is NodeRemoved:
                    work.is_out_of_order = True
                    node_facts.cancel(state, work, fact.at_ns, state.reservations.on(fact.node_id))
                    observed += work.take_consequences()
                elif type(fact) is Allocated:
                    fact = allocation_facts.as_one_fact(state, fact, observed[-1] if observed else None)
                elif type(fact) is AskRemoved:
                    fact = ask_facts.with_wait(state, fact)
                observed.append(fact)
                if type(fact) is AskAdded:  # by far the most frequent
                    ask_facts.ask_added(state, work, fact.ask)
                elif type(fact) is ConfigurationChanged:
                    yield from queue_facts.configuration_changed(state, work, fact)
                else:
                    self._observe(fact)
                if work.consequences:
                    observed += work.take_consequences()
            yield from self._bring_up_to_date(facts[start].at_ns)
            observed += work.take_consequences()
        if not work.is_out_of_order:
            return observed
        ordered: list[Fact] = []
        for some in in_order(observed):
            ordered += some
            yield len(some)
        return ordered

    def adopt_all(self) -> Steps[None]:
        """Bring every restored application and queue up to date."""
        for application in self._state.applications.values():
            self._work.touch(self._state.leaf_of(application), application)
        self._work.leaves.update(dict.fromkeys(queue for queue in self._state.tree.nodes.values() if queue.is_leaf))
        yield from self._bring_up_to_date(0)

    def _observe(self, fact: Fact) -> None:
        if type(fact) in OUTSIDE:
            self._state.preemptions.cycle_guard.reset()
        handler = self._handlers.get(type(fact))
        if handler is not None:
            handler(self._state, self._work, fact)

    def _bring_up_to_date(self, at_ns: int) -> Steps[None]:
        state, work = self._state, self._work
        if work.tree_changed:
            yield from queue_facts.rebuild(state, work, at_ns)
        for changes in in_parts(work.pending.items(), _TOGETHER):
            for usage, change in changes:
                state.ledger.change_pending(usage, change)
            yield sum([len(usage.path_up) * len(change) for usage, change in changes]) // _AMOUNTS
        work.pending.clear()
        for application in work.woken:
            work.consequences += enrolment.wake(state, at_ns, application)
        work.woken.clear()
        yield from state.tree.refresh_shares()
        for applications in in_parts(work.applications, _TOGETHER):
            items = _ITEMS * len(applications)
            for application in applications:
                if not application.enrolled:
                    work.consequences += enrolment.enrol(state, at_ns, application)
                    items += len(application.who.groups) // _GROUPS
                leaf = state.tree.leaf_of(application)
                state.update_position(leaf, application)
                if application.queues:
                    state.quota_reports.note(leaf, application)
            yield items
        work.applications.clear()
        for node_id in work.nodes:
            state.nodes.sync(state.registry.nodes[node_id])
        work.nodes.clear()
        for leaf in work.leaves:
            state.tree.refresh_priority(leaf)
            if leaf.applications.has_ready():
                state.tree.wake(leaf)
            yield _ITEMS
        queues = list(dict.fromkeys(queue for leaf in work.leaves for queue in leaf.path_up))  # leaves share their parents
        for start in range(0, len(queues), PAUSE_EVERY):
            some = queues[start : start + PAUSE_EVERY]
            state.tree.update_places(some)
            yield _ITEMS * len(some)
        work.leaves.clear()
        if state.tree.waits.is_rebuilding:
            state.tree.waits.end_rebuilding()
