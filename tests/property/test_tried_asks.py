"""Dry runs: what is told of an ask then happens, if the scenario is sent at rest."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from generate import generate
from msgspec import structs, to_builtins
from seeds import seeds
from test_what_if import halves, made, played
from triedwork import QUEUES, allocation, applications

from ykactor.access.view import View
from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.facts import Allocated, Fact, Preempted
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.names import ANY
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.dry_run import Tried, dry_run
from ykactor.sim.simulator import Record, run_directly, to_ns
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si


def happened(bases: dict[PartitionName, bytes], story: Scenario, begin_ns: int) -> list[Fact]:
    """The facts of a scheduler that goes on from a state with a story."""
    facts: list[Fact] = []
    record = Record(lambda _, fact: facts.append(fact), begin_ns)
    record.is_open = True

    def make(config: PartitionConfig, now_ns: int, cores: Cores | None = None) -> DirectPartition:
        publish = partial(record.add, config.name)
        confirms = story.confirm_releases
        return DirectPartition(config, CYCLE_BUDGET, publish, now_ns=now_ns, confirms=confirms, wakes=True, cores=cores)

    direct = DirectPartitions(make, {name: make(each[0].registry.config, begin_ns, each) for name, each in made(bases).items()})
    run_directly(story, direct, record, begin_ns)
    record.flush()
    return facts


@pytest.mark.parametrize("seed", seeds(60))
def test_what_is_told_then_happens(seed: int) -> None:
    """Each ask that runs has its node, its time and its victims; the others never run. The state does not change."""
    first, rest = halves(generate(seed, applications=6, asks=40))
    bases, begin_ns = played(first), to_ns(first.until)
    before = dict(bases)
    found = dry_run(lambda: made(bases), rest, begin_ns, reserves=True).asks
    facts = happened(bases, rest, begin_ns)
    assert found
    for each in found:
        own = [
            fact for fact in facts if isinstance(fact, Allocated | Preempted) and fact.ask.allocation_key == each.allocation_key
        ]
        placed = [(fact.node_id, fact.at_ns) for fact in own if isinstance(fact, Allocated)]
        victims = [victim for fact in own if isinstance(fact, Preempted) for _, _, victim in fact.victims]
        assert (each.outcome == "runs", each.preempts) == (bool(placed), victims)
        if placed:
            assert each.after_seconds is not None
            assert (each.node_id, begin_ns + to_ns(each.after_seconds)) == placed[0]
    assert bases == before


def keys_of(bases: dict[PartitionName, bytes]) -> list[tuple[str, str]]:
    """The application and key of each task that waits or runs."""
    found = []
    for core, _ in made(bases).values():
        for name in core.registry.applications:
            tasks = core.registry.leaf_of(name).applications[name].tasks
            replacing = [ask.allocation_key for ask, _ in tasks.replacing.values()]
            found += [(name, key) for key in (*tasks.asks, *tasks.allocations, *replacing)]
    return found


@pytest.mark.parametrize("seed", seeds(40))
def test_no_reason_is_empty(seed: int) -> None:
    """Only an ask that runs as soon as it is sent has no reason, whatever has its key, also if nothing has what it names."""
    bases, rng = played(halves(generate(seed, applications=6, asks=40))[0]), Random(seed)
    known = keys_of(bases)
    long = "k" * 5000
    names = [*rng.sample(known, min(20, len(known))), ("nobody", "k"), (long, "k"), *[(name, "new") for name, _ in known[:3]]]
    asks = [
        si.Allocation(key, name, rng.choice(["", "Default", "other"]), {"vcore": rng.choice([0, 1, "x", -5, 10**6])})
        for name, key in names
    ]
    asks += [structs.replace(each, partition_name="") for each in asks]
    messages = [TimedRequest(0, si.AllocationRequest(allocations=asks))]
    messages.append(TimedRequest(1, si.AllocationRequest(allocations=[si.Allocation("", "a", resource_per_alloc={})])))
    found = dry_run(lambda: made(bases), Scenario("", "", 60, messages=messages), 10**12, reserves=True).asks
    assert len(found) == len(asks) + 1
    empty = [each for each in found if not each.reason and not (each.outcome == "runs" and each.after_seconds == 0)]
    assert empty == []


def test_a_key_that_has_a_task_already() -> None:
    """The task goes on where it is: the entry changes its size at most (AP-111)."""
    bases = played(Scenario("w", QUEUES, 1, messages=filled()))
    sent = TimedRequest(0, si.AllocationRequest(allocations=[allocation("o-1", "old")]))
    (each,) = dry_run(lambda: made(bases), Scenario("", "", 60, messages=[sent]), 100 * 10**9, reserves=True).asks
    assert (each.outcome, each.node_id, each.after_seconds, each.reason) == ("runs", "n1", 0, "it runs there already")


def test_an_entry_that_is_refused() -> None:
    """An entry with a mistake is refused although a task has its key, as if it was sent (AP-139); the task goes on."""
    bases = played(Scenario("w", QUEUES, 1, messages=filled()))
    asks = [si.Allocation("o-1", "old", resource_per_alloc={"vcore": "x"}), allocation("o-2", "old")]
    sent = TimedRequest(0, si.AllocationRequest(allocations=asks))
    one, other = dry_run(lambda: made(bases), Scenario("", "", 60, messages=[sent]), 100 * 10**9, reserves=True).asks
    assert (one.outcome, one.node_id) == ("refused", "")
    assert one.reason.startswith("allocations[0].resourcePerAlloc.vcore: found 'x', expected a whole number")
    assert (other.outcome, other.reason) == ("runs", "it runs there already")


def filled() -> list[TimedRequest]:
    """A node of two cores on which an application of root.a has a task on each."""
    node = si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": 2000})
    tasks = si.AllocationRequest(allocations=[allocation("o-1", "old"), allocation("o-2", "old")])
    return [TimedRequest(0, each) for each in (si.NodeRequest(nodes=[node]), applications("old", "root.a"), tasks)]


def tried(*asks: si.Allocation, run_seconds: dict[int, float] | None = None) -> dict[str, Tried]:
    """The asks of a queue of two cores, beside a task that has one of them and ends at a time that nobody knows."""
    new = si.ApplicationRequest(new=[si.AddApplicationRequest("x", "root.a", ugi=si.UserGroupInformation("al"))])
    node = si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": 4000})
    messages = [TimedRequest(0, si.NodeRequest(nodes=[node])), TimedRequest(0, new)]
    messages.append(TimedRequest(0, si.AllocationRequest(allocations=[allocation("x-1", "x")])))
    bases = played(Scenario("w", QUEUES, 100, messages=messages))
    others = si.ApplicationRequest(new=[si.AddApplicationRequest("y", "root.a", ugi=si.UserGroupInformation("al"))])
    sent = TimedRequest(0, si.AllocationRequest(allocations=list(asks)), run_seconds=run_seconds or {})
    scenario = Scenario("", "", 60, messages=[TimedRequest(0, others), sent])
    found = dry_run(lambda: made(bases), scenario, 100 * 10**9, reserves=True)
    assert found.refused == []
    return {each.allocation_key: each for each in found.asks}


def test_a_known_end_is_named() -> None:
    """The task whose end makes room, at its time, and why there was none before."""
    found = tried(allocation("y-1", "y"), allocation("y-2", "y"), run_seconds={0: 6.0})
    assert (found["y-1"].outcome, found["y-1"].after_seconds, found["y-1"].ends) == ("runs", 0, [])
    assert (found["y-2"].outcome, found["y-2"].after_seconds, found["y-2"].ends, found["y-2"].code) == (
        "runs",
        6,
        ["y-1"],
        "QUOTA",
    )


def test_a_run_time_that_was_told_with_a_task() -> None:
    """AP-157: tasks that run end as they were told, also after the scenario, while an ask waits that may begin."""
    messages = [*filled()[:2], TimedRequest(0, si.AllocationRequest(allocations=[allocation("o-1", "old"), told("o-2", "600")]))]
    bases = played(Scenario("w", QUEUES, 100, messages=messages))
    for asks, seconds, outcomes in (
        ([allocation("o-3", "old")], 500, [("runs", ["o-2"], 500)]),
        ([allocation("o-3", "old"), allocation("o-4", "old", 3)], 500, [("runs", ["o-2"], 500), ("never", [], None)]),
        ([allocation("o-4", "old", 3)], 60, [("never", [], None)]),
    ):
        sent = TimedRequest(0, si.AllocationRequest(allocations=asks))
        found = dry_run(lambda: made(bases), Scenario("", "", 60, messages=[sent]), 100 * 10**9, reserves=True)
        assert found.seconds == seconds
        assert [(each.outcome, each.ends, each.after_seconds) for each in found.asks] == outcomes


def told(key: str, run_s: str) -> si.Allocation:
    return structs.replace(allocation(key, "old"), allocation_tags={"runSeconds": run_s})


def test_an_unknown_end() -> None:
    """The ask waits for tasks of which nobody told when they end. One that is too large for its queue never runs."""
    found = tried(allocation("y-1", "y"), allocation("y-2", "y"), allocation("y-3", "y", 3))
    assert [(each.outcome, each.code) for each in found.values()] == [("runs", ""), ("waits", "QUOTA"), ("never", "QUOTA")]


def test_an_application_that_is_rejected() -> None:
    """Asks of it have the reason of the rejection, not that there is no application."""
    bases = played(Scenario("w", QUEUES, 1))
    new = [si.AddApplicationRequest("z", "root.none", ugi=si.UserGroupInformation("al"))]
    messages = [
        TimedRequest(0, si.ApplicationRequest(new=new)),
        TimedRequest(0, si.AllocationRequest(allocations=[allocation("z-1", "z")])),
    ]
    found = dry_run(lambda: made(bases), Scenario("", "", 60, messages=messages), 100 * 10**9, reserves=True)
    (each,) = found.asks
    assert each.outcome == "refused"
    assert "root.none" in each.reason


def test_the_law_and_what_is_lost() -> None:
    """A preemption has what allows it, and what its victims have used."""
    bases = played(Scenario("w", QUEUES, 100, messages=filled()))
    messages = [
        TimedRequest(0, applications("z", "root.b")),
        TimedRequest(0, si.AllocationRequest(allocations=[allocation("z-1", "z")])),
    ]
    found = dry_run(lambda: made(bases), Scenario("", "", 60, messages=messages), 100 * 10**9, reserves=True)
    (each,) = found.asks
    assert (each.outcome, each.node_id, len(each.preempts), each.ends) == ("runs", "n1", 1, [])
    assert "(law 4)" in each.why
    assert each.work_lost["vcore"] >= 100 * 1000


def test_what_is_hidden_is_counted() -> None:
    """A limited reader is not told the victims in other queues, what they have used, and what names them (SE-84)."""
    bases = played(Scenario("w", QUEUES, 100, messages=filled()))
    asks = si.AllocationRequest(allocations=[allocation("x-1", "x"), allocation("x-2", "x", 9)])
    scenario = Scenario("", "", 60, messages=[TimedRequest(0, applications("x", "root.b")), TimedRequest(0, asks)])
    sights = None, View(ANY, frozenset(["root.b"]))
    found = [dry_run(lambda: made(bases), scenario, 100 * 10**9, sight, reserves=True).asks for sight in sights]
    (one, other), (seen, seen_other) = ([to_builtins(each) for each in asks] for asks in found)
    assert (len(one["preempts"]), one["others"], "law 4" in one["why"], one["workLost"] != {}) == (1, 0, True, True)
    assert (seen["preempts"], seen["others"], seen["why"], seen["workLost"]) == ([], 1, "", {})
    assert (seen["outcome"], seen["nodeID"]) == (one["outcome"], one["nodeID"])
    assert "largest node" in other["reason"]
    assert "largest node" not in seen_other["reason"]
