"""After random histories the last reports about pending asks are true."""

from collections import Counter

import pytest
from checked import LARGE, SMALL, World
from histories import draw_history
from seeds import seeds

from ykactor.core.inspection.pending_asks import waiting_asks
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.messages.planned import Budget
from ykactor.core.queueing.equivalence import HELD_BY_LIMIT, HELD_BY_QUEUE, OVER_LIMIT, OVER_QUOTA, AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.limits import Tracker
from ykactor.core.values.parts import finished
from ykactor.core.waiting.reasons import FITS


@pytest.mark.parametrize("budget", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("seed", seeds(150))
def test_what_was_told_last_is_true(seed: int, budget: Budget) -> None:
    """The last report about each application and ask that is tried agrees with its quotas when nothing happens (EV-12)."""
    history = draw_history(seed)
    world = World(history.config, budget)
    for batch in history.batches:
        world.play([batch])
        state = world.scheduler.state
        if not state.tree.root_max:
            continue  # nobody is tried (PR-26)
        assert not state.quota_reports.has_news()
        assert [ask for ask in waiting_asks(state) if FITS in ask[2]] == []  # there is a reason that is true at present
        for application in state.applications.values():
            leaf = state.leaf_of(application)
            for queue in application.queues.values():
                if queue.ask_class is not None:
                    check(world, leaf, application, queue)
    check_counts(world)


def check_counts(world: World) -> None:
    """EV-62: each leaf has as many pending asks as have a reason."""
    state = world.scheduler.state
    queues = finished(partition_state(world.core, state)).queues
    reasons = Counter(path for _, path, _ in waiting_asks(state))
    assert {path: queue.pending_asks for path, queue in queues.items() if queue.is_leaf and queue.pending_asks} == reasons
    assert queues["root"].pending_asks == reasons.total()


def check(world: World, leaf: QueueNode, application: PendingApplication, queue: AskQueue) -> None:
    name = application.application_id
    held = 0
    if application.slots_needed():
        held |= HELD_BY_QUEUE * any(queue.lacks_slot(name) for queue in leaf.path_up)
        held |= HELD_BY_LIMIT * any(tracker.lacks_slot(name) for tracker in application.trackers)
    assert application.held == held, f"{application} was told {application.held}, expected {held}"
    if held:
        return  # its asks are not looked at
    short = application.shortage(queue.shape)
    expected = 0 if short is None else OVER_LIMIT if isinstance(short[0], Tracker) else OVER_QUOTA
    told = {bits for bits, asks in enumerate(queue.notified.asks) if asks} if queue.notified is not None else {0}
    if expected == OVER_LIMIT:  # not measured against the queue: what was reported of that stays
        told = {bits & OVER_LIMIT for bits in told}
    assert told == {expected}, f"asks {queue.shape} of {application} were told {told}, expected {expected}"
