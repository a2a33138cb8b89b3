"""Histories with a resource manager that answers, late, never, one way and then the other: what must hold whatever it says."""

from itertools import product
from math import inf
from random import Random

import pytest
import trio
import trio.testing
from checked import LARGE, ONE_BY_ONE, SMALL
from seeds import seeds
from world import S_NS, answer, answering, app, ask, forget, load, node, queue, release, tree

from ykactor.actors.clock import Clock
from ykactor.actors.commands import Awaited, Intake, Publication, Quiesce
from ykactor.actors.partition import Cycling, PartitionActor
from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.asks import PREDICATE_TAG
from ykactor.core.messages.facts import (
    Allocated,
    AskCondition,
    NodeAttributesChanged,
    NodeCapacityChanged,
    NodeRemoved,
    PredicateAnswered,
    PredicatesAsked,
    PredicatesForgotten,
)
from ykactor.core.messages.submissions import AnswerPredicate
from ykactor.sim.direct import DirectPartition

TEXT = tree(queue("a"), queue("b", p={"application.sort.policy": "fair"}), queue("g"))
NODES = [f"n{number}" for number in range(12)]
CLASSES = ("red", "green", "blue")
STEPS = 60


class Talk:
    """The messages of a resource manager, drawn at random: the times and all words of a history."""

    def __init__(self, seed):
        self.rng = Random(seed)
        self.keys = 0

    def history(self):
        at_s = 0
        yield (
            at_s,
            [
                *(node(name, vcore=4) for name in NODES[:6]),
                app("app-1", "root.a"),
                app("app-2", "root.b"),
                app("gang", "root.g", placeholders={"vcore": 3}),
            ],
        )
        for _ in range(STEPS):
            at_s += self.rng.choice((0, 1, 1, 2, 9, 11, 40))
            yield at_s, [said for _ in range(self.rng.randint(1, 4)) for said in self.word()]

    def word(self):
        rng, name = self.rng, self.rng.choice(NODES)
        predicate = rng.choice(CLASSES)
        match rng.randint(0, 15):
            case 0 | 1 | 2 | 3:
                return [self.ask("app-1"), self.ask("app-2")]
            case 4:
                return [self.ask("gang", group="g", placeholder=True, predicate="", vcore=3) for _ in range(2)]
            case 5:
                return [self.ask("gang", group="g") for _ in range(2)]
            case 6 | 7 | 8 | 9:
                verdict = rng.choice(("", "", "no"))
                uses = None if verdict else rng.choice((None, 1, 2))
                return answer(predicate, *rng.sample(NODES, 4), no=verdict, allocate=rng.random() < 0.6, uses=uses)
            case 10:
                return [forget(rng.choice(("", *CLASSES)), rng.choice(("", name)))]
            case 11:
                return [answering(rng.random() < 0.7)]
            case 12:
                return [node(name, rng.choice(("CREATE", "DECOMISSION", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE")), vcore=4)]
            case 13:
                return [node(name, "UPDATE", vcore=rng.randint(1, 6))]
        return [release(f"t{rng.randint(1, self.keys + 1)}", rng.choice(("app-1", "app-2", "gang")))]

    def ask(self, application_id, predicate=None, **more):
        self.keys += 1
        drawn = self.rng.choice(("", *CLASSES)) if predicate is None else predicate
        requires = self.rng.choice(NODES) if self.rng.random() < 0.1 else None
        resource = {"vcore": self.rng.randint(1, 3)} | more
        return ask(f"t{self.keys}", application_id, predicate=drawn, requires=requires, **resource)


class Law:
    """A task of a class begins only where the last word on its class is that it may, and that so many more may."""

    def __init__(self):
        self.facts = []
        #: By class, ``allocate`` and node: how many placements.
        self.allowed = {}

    def see(self, facts):
        self.facts += facts
        for decision in facts:
            match decision:
                case PredicateAnswered():
                    place = decision.predicate, decision.allocate, decision.node_id
                    self.allowed.pop(place, None)
                    if not decision.error:
                        self.allowed[place] = inf if decision.uses is None else decision.uses
                case PredicatesForgotten(_, predicate, node_id):
                    self.forget(lambda place: predicate in ("", place[0]) and node_id in ("", place[2]))
                case NodeRemoved(_, node_id) | NodeCapacityChanged(_, node_id) | NodeAttributesChanged(_, node_id):
                    self.forget(lambda place: place[2] == node_id)
                case Allocated(_, ask_, _, node_id, False) if ask_.tags.get(PREDICATE_TAG) and not ask_.task_group_name:
                    self.use(ask_.tags[PREDICATE_TAG], node_id)

    def forget(self, is_covered):
        self.allowed = {place: uses for place, uses in self.allowed.items() if not is_covered(place)}

    def use(self, predicate, node_id):
        assert (predicate, True, node_id) in self.allowed
        for place in product([predicate], (True, False), [node_id]):
            if place in self.allowed:
                self.allowed[place] -= 1
                if not self.allowed[place]:
                    del self.allowed[place]


def checked(core, scheduler):
    assert violations(core, scheduler) == []


def played(seed, budget=LARGE):
    """A partition after a history, with what it reported."""
    law = Law()
    direct = DirectPartition(load(TEXT), budget, law.see, checked)
    for at_s, said in Talk(seed).history():
        direct.intake(at_s * S_NS, said)
    return direct, law


@pytest.mark.parametrize("seed", seeds(30))
def test_only_where_it_may_and_at_once(seed):
    """Nothing runs where it may not; and looking at everything anew finds nothing to do: no answer and no silence is missed."""
    direct, law = played(seed, (LARGE, SMALL, ONE_BY_ONE)[seed % 3])
    now_ns = max(fact.at_ns for fact in law.facts)
    look_anew(direct, law, now_ns)
    direct.intake(now_ns, [AnswerPredicate(*place, "") for place in product(CLASSES, NODES, (True, False))])
    look_anew(direct, law, now_ns)
    asked = {(fact.predicate, fact.allocate) for fact in law.facts if isinstance(fact, PredicatesAsked)}
    assert len(asked) > 2


def look_anew(direct, law, now_ns):
    """Nothing changes; that an ask which requires its node still cannot run there may be reported once more (EV-16)."""
    before = len(law.facts)
    direct.scheduler.state.capacity_grew()
    direct.schedule(now_ns)
    assert [fact for fact in law.facts[before:] if not isinstance(fact, AskCondition)] == []


@pytest.mark.parametrize("seed", seeds(6))
def test_actors_decide_the_same(seed):
    """Decisions depend on what was said and when, not on how tasks run: the questions are the same, too."""
    _, law = played(seed)
    told = []

    async def play():
        async def publish(command):
            assert isinstance(command, Publication)
            told.extend(command.facts)

        clock = Clock(0)
        actor = PartitionActor(load(TEXT), clock, publish, Cycling(confirms=True, wakes=False, budget=LARGE))
        async with trio.open_nursery() as nursery:
            await nursery.start(actor.run)
            for at_s, said in Talk(seed).history():
                await trio.sleep_until(clock.to_trio(at_s * S_NS))
                for command in (lambda done: Quiesce(done, True), lambda done, said=said: Intake(said, done), Quiesce):
                    done = Awaited()
                    await actor.inbox.put(command(done))
                    await done.wait()
            nursery.cancel_scope.cancel()

    trio._core._run._r.seed(seed)
    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))
    assert told == law.facts
