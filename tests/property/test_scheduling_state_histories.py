"""Random histories in which the resource manager wants to know why its asks wait: it is told the truth, which decides nothing."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest
from checked import LARGE, ONE_BY_ONE, SMALL, World
from histories import S_NS, Batch, draw_history
from queuetree import STATE, Queue, total
from reference import Step, applications_in_order, can_run, fits_undefined, name_of, required_node
from seeds import seeds

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import AskAdded, AskReturned, SchedulingStateChanged
from ykactor.core.messages.submissions import WantSchedulingStates
from ykactor.core.objects.application import Application
from ykactor.core.values.ids import QueuePath
from ykactor.core.waiting import scheduling_states

Told = dict[tuple[str, str, int], list[SchedulingStateChanged]]


@pytest.mark.parametrize("seed", seeds(10))
def test_what_was_told_is_true(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """AP-146 to AP-148: when all is calm every ask that waits was told what holds, before that not oftener than every 15 s.

    Nothing is decided otherwise than without the wish, and how much a cycle may do changes nothing of it.
    """
    # no round falls on the instant of a batch: what time allows at that instant would be decided before the batch
    monkeypatch.setattr(scheduling_states, "ROUND_MIN_NS", S_NS + 1)
    monkeypatch.setattr(scheduling_states, "APART_NS", 15 * S_NS + 1)
    history = draw_history(seed)
    batches = [*history.batches, Batch(history.batches[-1].at_ns + 40 * S_NS, [])]
    compared = World(history.config, ONE_BY_ONE, compare=True)
    compared.tell(WantSchedulingStates(True))
    log = decisions(compared.play(batches))
    for budget in (SMALL, LARGE):
        world, unasked = World(history.config, budget), World(history.config, budget)
        world.tell(WantSchedulingStates(True))
        assert decisions(world.play(batches)) == decisions(unasked.play(batches)) == log
        assert not [fact for fact in unasked.facts if isinstance(fact, SchedulingStateChanged)]
        check(compared, everything_told(world))
    check(compared, everything_told(compared))


def decisions(log: bytes) -> list[bytes]:
    """The lines of a decision log, but for what is told of asks that wait."""
    return [line for line in log.splitlines() if b'"decision":"waiting"' not in line]


def check(world: World, told: Told) -> None:
    """``told`` to asks that are as in ``world``."""
    for entries in told.values():
        assert all(after.at_ns - before.at_ns >= 15 * S_NS for before, after in pairwise(entries))
    for leaf, application, ask in pending(world):
        last, expected = told[(*name_of(ask), ask.arrival)][-1], cause_of(world, leaf, application, ask)
        assert last.cause == expected, f"{name_of(ask)} was told {last}, expected {expected}"
        assert (last.state == "FAILED") == (expected in ("nodes", "reserved") and required_node(ask) is None)


def everything_told(world: World) -> Told:
    """The entries of each ask since it is pending."""
    arrivals = {name_of(ask): ask.arrival for _, _, ask in pending(world)}
    told: Told = defaultdict(list)
    for fact in world.facts:
        if isinstance(fact, AskAdded | AskReturned):
            told.pop((*name_of(fact.ask), fact.ask.arrival), None)
        elif isinstance(fact, SchedulingStateChanged):
            for key in fact.allocation_keys:
                name = fact.application_id, key
                if name in arrivals:
                    told[(*name, arrivals[name])].append(fact)
    return told


def pending(world: World) -> Iterator[tuple[Queue, Application, Ask]]:
    """Every pending ask with its application and leaf, as the reference sees them."""
    assert world.reference is not None
    world.reference.hear(world.facts)
    root = Queue(world.core, QueuePath("root"), None, world.reference.keeping.slots)
    root.max = total(node.capacity for node in world.core.registry.nodes.values())
    world.reference.people.choose_groups(root)
    ahead = [root]
    while ahead:
        queue = ahead.pop()
        ahead += queue.children
        for application in queue.applications:
            for ask in application.tasks.asks.values():
                yield queue, application, ask


def cause_of(world: World, leaf: Queue, application: Application, ask: Ask) -> str:
    """The reason code that the rules give for an ask that waits."""
    assert world.reference is not None
    reference, registry = world.reference, world.core.registry
    if application.state is STATE.FAILING or application not in applications_in_order(leaf):
        return "application"
    people = reference.people
    if application.state is STATE.ACCEPTED and not (can_run(leaf, application) and people.can_run(leaf, application)):
        return "maxapps"
    if not fits_undefined(people.headroom(leaf, application), ask):
        return "user"
    if not fits_undefined(leaf.headroom(beyond_cluster=True) or {}, ask):
        return "queue"
    if name_of(ask) in reference.keeping.kept:
        return "reserved"
    step = Step(world.now_ns, list(registry.nodes.values()), registry.config.node_sort_policy, people, reference.keeping)
    is_pinned = required_node(ask) is not None
    has_room = not is_pinned and step.has_room(leaf, application, ask)
    assert not has_room or not [node for node in step.candidates(ask) if step.accepts(node, ask)]
    return "nodes"
