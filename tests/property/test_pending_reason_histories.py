"""After random histories everybody who waits has been told the truth about quotas."""

import pytest
from checked import LARGE, SMALL, World
from histories import draw_history
from seeds import seeds

from ykactor.core.planner.planner import Budget
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.notified import HELD_BY_LIMIT, HELD_BY_QUEUE, OVER_LIMIT, OVER_QUOTA
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.quota import headroom
from ykactor.core.quota.ledger import Account
from ykactor.core.quota.limits import Tracker


@pytest.mark.parametrize("budget", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("seed", seeds(150))
def test_what_was_told_last_is_true(seed: int, budget: Budget) -> None:
    """At rest each application and ask that is tried has been told what a look at its quotas now says (EV-12)."""
    history = draw_history(seed)
    world = World(history.config, budget)
    for batch in history.batches:
        world.play([batch])
        indexes = world.scheduler.indexes
        if not indexes.ledger.root_max:
            continue  # nobody is tried (step 0 of SC)
        assert not indexes.remarks
        for leaf, application in indexes.waiting.values():
            for queue in application.queues.values():
                if queue.line is not None:
                    check(world, leaf, application, queue)


def check(world: World, leaf: Account, application: WaitingApplication, queue: AskQueue) -> None:
    ledger, name = world.scheduler.indexes.ledger, application.application_id
    held = 0
    if application.slots_needed():
        held |= HELD_BY_QUEUE * (ledger.lacks_slot(leaf, name) is not None)
        held |= HELD_BY_LIMIT * any(tracker.lacks_slot(name) for tracker in application.trackers)
    assert application.held == held, f"{application} was told {application.held}, expected {held}"
    if held:
        return  # its asks are not looked at
    short = headroom.lacks(ledger, leaf, application, queue.shape)
    expected = 0 if short is None else OVER_LIMIT if isinstance(short[0], Tracker) else OVER_QUOTA
    told = {bits for bits, asks in enumerate(queue.told.asks) if asks} if queue.told is not None else {0}
    if expected == OVER_LIMIT:  # not measured against the queue: what it was told of that stays
        told = {bits & OVER_LIMIT for bits in told}
    assert told == {expected}, f"asks {queue.shape} of {application} were told {told}, expected {expected}"
