"""Random input with random limits (SE-48): there is never too much, and nothing is refused for which there is room."""

from __future__ import annotations

import json
import random

import msgspec
import pytest
from seeds import seeds
from world import app, ask, foreign, load, node, queue, release, remove, tree

from ykactor.access.limits import IdentityLimits
from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.facts import AllocationRejected, ApplicationRejected, Fact, NodeRejected
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import HeldLimits, Submission
from ykactor.core.objects.holdings import Kind
from ykactor.core.records.base import decode_base, encode_base, partition_from
from ykactor.core.turn.turn import Cause, Input, TurnResult
from ykactor.core.values.parts import finished
from ykactor.sim.direct import DirectPartition, run_turn
from ykactor.wire.history import decode_cause, encode_cause

S_NS = 10**9
CONFIG = tree(queue("a", max={"tpu": 9}), placementrules=[{"name": "provided", "create": True}])
KINDS: tuple[Kind, ...] = ("applications", "asks", "nodes", "queues")
#: What identifies each refused entry.
Refused = list[tuple[str, str]]
#: A placement that is refused is kept for people to see it, and so are the groups of its user (AP-22, QU-94).
SEEN = (b'"rejected"', b'"user"')


class Partition(DirectPartition):
    """A partition that takes input within limits, and remembers its facts."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        super().__init__(load(CONFIG), Budget(100, 10**6), self.facts.extend, confirms=False)

    def take(self, at_ns: int, cause: Cause) -> tuple[TurnResult, list[Fact]]:
        """Take input and schedule; returns the facts of the input."""
        self.advance(at_ns)
        before = len(self.facts)
        result = self.run_turn(at_ns, cause)
        caused = self.facts[before:]
        self.schedule(at_ns)
        assert violations(self.core, self.scheduler) == []
        return result, caused

    def is_eligible(self, now_ns: int) -> bool:
        """A cycle follows on all input, also on what was refused as a whole: so the numbers of turns are equal."""
        return True

    def state(self) -> list[tuple[bytes, bytes]]:
        """All rows but those that are for people only."""
        rows = msgspec.json.decode(finished(encode_base(self.core, self.scheduler.state)))["rows"]
        encoded = [(msgspec.json.encode(key), msgspec.json.encode(row)) for key, row in rows]
        return sorted((key, row) for key, row in encoded if not any(kind in key for kind in SEEN))


def refused_by(facts: list[Fact]) -> Refused:
    """The entries that a limit refuses."""
    refusals = (fact for fact in facts if isinstance(fact, ApplicationRejected | AllocationRejected | NodeRejected))
    return [_name(fact) for fact in refusals if "limit " in fact.reason]


def _name(fact: ApplicationRejected | AllocationRejected | NodeRejected) -> tuple[str, str]:
    match fact:
        case ApplicationRejected(_, application_id):
            return "application", application_id
        case NodeRejected(_, node_id):
            return "node", node_id
        case AllocationRejected(_, key, application_id):
            return application_id, key


def entry(rng: random.Random) -> Submission:
    """About one of few names, so that much is there already, has gone again, or is of something that is not there."""
    name, node_id, key = f"app-{rng.randrange(5)}", f"n{rng.randrange(4)}", f"t{rng.randrange(6)}"
    return rng.choice(
        (
            app(name, f"root.{rng.choice(('a', 'b', 'b.c.d', 'e.f'))}"),
            remove(name),
            ask(key, name, vcore=rng.choice((-1, 1, 2, 3))),
            ask(key, name, vcore=1, on=node_id),
            release(rng.choice((key, key, None)), name),
            foreign(key, node_id, vcore=1),
            release(key, ""),
            node(node_id, vcore=rng.randrange(1, 9)),
            node(node_id, "DECOMISSION"),
            *typed(rng, name, node_id, key),
        )
    )


def typed(rng: random.Random, name: str, node_id: str, key: str) -> list[Submission]:
    """One submission of each kind that can name resource types; the configuration names tpu."""
    amounts = {each: rng.randrange(3) for each in rng.sample(("gpu", "fpga", "disk", "vcore", "tpu"), 2)}
    quota = json.dumps({"resources": {each: {"value": 1} for each in amounts}})
    return [
        ask(key, name, **amounts),
        ask(key, name, on=node_id, **amounts),
        foreign(key, node_id, **amounts),
        app(name, placeholders=amounts),
        app(name, "root.b", **{rng.choice(("Namespace.ResourceQuota", "namespace.resourceguaranteed")): quota}),
        node(node_id, **amounts),
        node(node_id, "UPDATE", **amounts),
    ]


def one_by_one(partition: Partition, at_ns: int, batch: list[Submission], limits: HeldLimits) -> tuple[list[Submission], Refused]:
    """The entries that a partition with the same state takes, and those that it refuses, if each entry comes alone."""
    cores = finished(partition_from(decode_base(finished(encode_base(partition.core, partition.scheduler.state)))))
    taken, refused = list[Submission](), Refused()
    for each in batch:
        facts: list[Fact] = []
        run_turn(cores, at_ns, Input([each], limits), facts.extend)
        found = refused_by(facts)
        refused += found
        taken += [] if found else [each]
    return taken, refused


@pytest.mark.parametrize("seed", seeds(30))
def test_never_too_much_and_never_too_little(seed: int) -> None:
    """Refused is what is refused if the entries come one by one, it changes nothing, and a replay decides the same."""
    rng = random.Random(seed)
    limits = HeldLimits("ci", *(rng.randrange(1, 4) for _ in KINDS), rng.choice((None, 1, 2)))
    together, replayed, without = Partition(), Partition(), Partition()
    refused_count = 0
    for at_ns in range(S_NS, 40 * S_NS, 2 * S_NS):
        together.advance(at_ns)
        batch = [entry(rng) for _ in range(rng.randrange(1, 25))]
        taken, expected = one_by_one(together, at_ns, batch, limits)
        cause = Input(batch, limits)
        result, facts = together.take(at_ns, cause)
        counts = together.core.holdings.count()
        assert all(counts[kind] <= getattr(limits, kind) for kind in KINDS)
        assert limits.resource_types is None or together.core.registry.books.types.found() <= limits.resource_types
        refused = refused_by(facts)
        refused_count += len(refused)
        assert sorted(refused) == sorted(expected)
        assert bool(refused) == bool(result.exceeded)
        assert replayed.take(at_ns, decode_cause(encode_cause(cause)))[1] == facts
        without.take(at_ns, Input(taken))
        assert without.state() == together.state() == replayed.state()
    assert refused_count


def test_a_limit_of_one() -> None:
    """One is allowed, the next one is refused, its neighbours are not; what has gone makes room within the same input."""
    limits = HeldLimits("ci", 1, 1, 1, 1)
    partition = Partition()
    both = [node("n1", vcore=1), node("n2", vcore=1), app("app-1"), app("app-2"), ask("t1", "app-1", vcore=1)]
    result, facts = partition.take(S_NS, Input([*both, ask("t2", "app-1", vcore=1), ask("t1", "app-1", vcore=2)], limits))
    assert refused_by(facts) == [("node", "n2"), ("application", "app-2"), ("app-1", "t2")]
    assert result.exceeded[-1] == "limit asks = 1 of identity ci: found 1, no room for 1 more"
    again = [
        release("t1"),
        ask("t2", "app-1", vcore=1),
        remove("app-1"),
        app("app-2"),
        node("n1", "DECOMISSION"),
        node("n2", vcore=1),
    ]
    assert partition.take(2 * S_NS, Input(again, limits))[0].exceeded == []
    assert partition.core.holdings.count() == {"applications": 1, "asks": 0, "nodes": 1, "queues": 0}


def test_queues_that_placement_creates() -> None:
    """All that a placement needs, or none of them; queues of the configuration do not count."""
    partition = Partition()
    limits = HeldLimits("ci", 9, 9, 9, 2)
    result, facts = partition.take(
        S_NS, Input([app("app-1", "root.b.c.d"), app("app-2", "root.b.c"), app("app-3", "root.b.d")], limits)
    )
    assert refused_by(facts) == [("application", "app-1"), ("application", "app-3")]
    assert result.exceeded == ["limit queues = 2 of identity ci: found 0, no room for 3 more"]
    assert partition.take(2 * S_NS, Input([app("app-4"), app("app-5", "root.b.c")], limits))[0].exceeded == []


def test_less_is_allowed_than_there_is() -> None:
    """A lowered limit takes nothing away; entries for what is there go on."""
    partition = Partition()
    partition.take(S_NS, Input([app("app-1"), *(ask(f"t{number}", "app-1", vcore=1) for number in range(3))]))
    limits = HeldLimits("ci", 1, 1, 1, 1)
    result, _ = partition.take(2 * S_NS, Input([ask("t1", "app-1", vcore=2), ask("t9", "app-1", vcore=1)], limits))
    assert result.exceeded == ["limit asks = 1 of identity ci: found 3, no room for 1 more"]


def test_types_of_resources() -> None:
    """An entry with too many new types is rejected alone; those of the configuration, vcore and memory are always allowed."""
    partition = Partition()
    limits = HeldLimits("ci", 9, 9, 9, 9, resource_types=2)
    taken = [node("n1", vcore=9, memory=9, tpu=9, gpu=1), app("app-1"), ask("t1", "app-1", vcore=1, gpu=1, fpga=0)]
    result, facts = partition.take(S_NS, Input([*taken, node("n2", disk=1, net=1), ask("t2", "app-1", disk=1)], limits))
    assert refused_by(facts) == [("node", "n2"), ("app-1", "t2")]
    assert result.exceeded == ["limit resourceTypes = 2 of identity ci: found 2, no room for 2 more, such as 'disk'"]
    later = [release("t1"), ask("t2", "app-1", disk=1), ask("t2", "app-1", tpu=1), ask("t3", "app-1", net=1)]
    assert partition.take(2 * S_NS, Input(later, limits))[0].exceeded == []
    assert partition.core.registry.books.types.counts == {"gpu": 1, "tpu": 2, "net": 1}


def test_more_types_than_are_allowed() -> None:
    """A state of an older release has them, and its journal no limit: both are taken as they are, and nothing is added."""
    partition = Partition()
    many = {f"t{number}": 1 for number in range(300)}
    old = decode_cause(encode_cause(Input([node("n1", vcore=1, **many), app("app-1")], HeldLimits("ci", 9, 9, 9, 9))))
    assert partition.take(S_NS, old)[0].exceeded == []
    restored = finished(partition_from(decode_base(finished(encode_base(partition.core, partition.scheduler.state)))))
    facts: list[Fact] = []
    limits = IdentityLimits().held("ci")
    run_turn(restored, 2 * S_NS, Input([ask("t1", "app-1", t1=1), ask("t2", "app-1", gpu=1)], limits), facts.extend)
    assert refused_by(facts) == [("app-1", "t2")]


def test_fewer_types_are_allowed_than_there_are() -> None:
    """A lowered limit takes nothing away; what has gone does not come back, also within one input."""
    partition = Partition()
    types = ("gpu", "fpga", "disk")
    partition.take(S_NS, Input([app("app-1"), *(ask(name, "app-1", **{name: 1}) for name in types)]))
    limits = HeldLimits("ci", 9, 9, 9, 9, resource_types=1)
    again = [ask("fpga", "app-1", fpga=2), release("gpu"), ask("again", "app-1", gpu=1), ask("more", "app-1", disk=1)]
    result, facts = partition.take(2 * S_NS, Input(again, limits))
    assert refused_by(facts) == [("app-1", "again")]
    assert result.exceeded == ["limit resourceTypes = 1 of identity ci: found 2, no room for 1 more, such as 'gpu'"]
