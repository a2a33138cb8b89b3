"""Actors against the oracle: whatever order trio runs its tasks in, the decision log is the same, byte for byte."""

from functools import cache
from heapq import merge
from pathlib import Path
from random import Random

import msgspec
import pytest
import trio
import yaml
from generate import generate
from msgspec import structs
from seeds import IS_NIGHT, seeds
from simulated import simulate, simulate_with_actors

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.messages.asks import ask_id
from ykactor.core.messages.facts import Allocated, AskRemoved
from ykactor.core.messages.planned import Budget
from ykactor.wire import scenario
from ykactor.wire.decision_log import decision_log
from ykactor.wire.si import messages as si

ORDERS = seeds(6)
#: Sessions of ``preempting`` in which tasks are preempted.
PREEMPTING = (0, 3, 4, 6, 8) if IS_NIGHT else (0, 3)
#: Sessions of ``together``, which hold what they should from the first ones on.
TOGETHER = seeds(20)
RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "conformance"
FAMILIES = ("a-", "b-", "c-", "d-", "e-", "k-", "n-")
#: The two shortest of each family.
RECORDED = [
    path
    for family in FAMILIES
    for path in sorted(RECORDINGS.glob(f"{family}*/*/scenario.json"), key=lambda path: (path.stat().st_size, path))[:2]
]


def assert_same_bytes(story, budget=CYCLE_BUDGET):
    """Several task orders and the plain loop agree on every decision and on the final state; the decision log."""
    expected = simulate(story, budget=budget)
    log = decision_log(expected.facts)
    assert log
    for order in ORDERS:
        trio._core._run._r.seed(order)
        outcome = simulate_with_actors(story, budget=budget)
        assert decision_log(outcome.facts) == log, f"task order {order}"
        assert waits_of(outcome.facts) == waits_of(expected.facts), f"task order {order}"
        assert (outcome.final, outcome.waiting, outcome.refused) == (expected.final, expected.waiting, expected.refused)
    return log


def waits_of(facts):
    """AP-154: what each ask waited for that waits no more."""
    return [(ask_id(fact.ask), fact.waited) for fact in facts if isinstance(fact, Allocated | AskRemoved)]


@pytest.mark.parametrize("number", seeds(40))
def test_generated_workloads(number):
    """Random trees and sessions, mistakes, churn and reloads included."""
    assert_same_bytes(generate(number, queues=4 + number, applications=6, asks=60, reloads=number % 3))


@pytest.mark.parametrize("number", seeds(10))
def test_many_small_cycles(number):
    """A budget that is used up all the time: the order of cycles, timers and input holds as well."""
    assert_same_bytes(generate(100 + number, nodes=12, applications=10, asks=100, churn=1.0), Budget(2, 5))


@pytest.mark.parametrize("number", seeds(12))
def test_tasks_that_end_by_themselves(number):
    """Ends between the messages, together with preemption, timers, reloads and releases by the resource manager."""
    assert_same_bytes(ending(number, preempting(number, confirms=True)))


@pytest.mark.parametrize("number", seeds(24))
def test_tasks_that_end_with_mistakes(number):
    """Ends at the time of messages, some of which no partition can carry out."""
    assert_same_bytes(ending(number, generate(number, applications=6, asks=60, mistakes=1.0)))


def ending(number, story):
    """The same session with asks that say how long they run."""
    rng = Random(number)
    messages = []
    for timed in story.messages:
        asks = getattr(timed.request, "allocations", [])
        run_seconds = {index: rng.choice([0.5, 1, rng.uniform(0.1, 60)]) for index in range(len(asks)) if rng.random() < 0.8}
        messages.append(scenario.TimedRequest(timed.at, timed.request, run_seconds))
    return structs.replace(story, messages=messages)


def preempting(number, *, confirms):
    """A generated session in which most asks may preempt after a second, on half the nodes; some require their node."""
    rng = Random(number)
    story = generate(3000 + number, queues=5, nodes=3, applications=8, asks=150, churn=0.3, mistakes=0.0, reloads=number % 2)
    messages = []
    for timed in story.messages:
        said = msgspec.to_builtins(timed.request)
        if "config" in said:
            said["config"] = impatient(said["config"])
        for entry in said.get("allocations", []):
            entry["preemptionPolicy"] = {"allowPreemptSelf": rng.random() < 0.8, "allowPreemptOther": rng.random() < 0.8}
            if rng.random() < 0.03:
                entry.setdefault("allocationTags", {})["yunikorn.apache.org/requiredNode"] = "node-1"
        messages.append(scenario.TimedRequest(timed.at, msgspec.convert(said, type(timed.request))))
    return scenario.Scenario(story.name, impatient(story.config), story.until, confirms, messages)


def impatient(text):
    """The configuration with a short delay in every leaf."""
    config = yaml.safe_load(text)
    queues = list(config["partitions"][0]["queues"])
    for queue in queues:
        queue.setdefault("properties", {})["preemption.delay"] = "1s"
        queues += queue.get("queues", [])
    return yaml.safe_dump(config, sort_keys=False)


@pytest.mark.parametrize("number", PREEMPTING)
@pytest.mark.parametrize("confirms", [True, False])
def test_preemption(number, confirms):
    """Asks of queues below their guarantees preempt, and so do those that require their node."""
    assert b"PREEMPTED_BY_SCHEDULER" in assert_same_bytes(preempting(number, confirms=confirms))


@pytest.mark.parametrize("number", [*PREEMPTING, 7])
def test_preemption_by_the_step(number):
    """The release of a victim is confirmed before anything else is decided, so the budget of a cycle changes nothing."""
    story = preempting(number, confirms=True)
    logs = [decision_log(simulate(story, budget=Budget(most, 10**6)).facts) for most in (1, 7, 256)]
    assert logs[0] == logs[1] == logs[2]


def test_preemption_in_small_cycles():
    """A search that goes on in the next cycle."""
    assert_same_bytes(preempting(0, confirms=True), Budget(2, 5))


def addressed(request, partition):
    """The same request to another partition."""
    said = msgspec.to_builtins(request)
    for entry in said.get("nodes", []):
        entry.setdefault("attributes", {})["si/node-partition"] = partition
    entries = [*said.get("new", []), *said.get("remove", []), *said.get("allocations", [])]
    for entry in entries + said.get("releases", {}).get("allocationsToRelease", []):
        entry["partitionName"] = partition
    return msgspec.convert(said, si.WorkRequest)


def together(number):
    """Three generated sessions, one for each partition; every configuration has another choice of partitions, one of them as new.

    Queues of one text may be parents in another: some configurations are refused.
    """
    rng = Random(number)
    names = ("default", "gpu", "arm")
    parts = [generate(1000 * number + n, queues=5 + n, applications=5, asks=40, reloads=4) for n in range(len(names))]
    latest = {}
    for name, part in zip(names, parts, strict=True):
        latest[name] = yaml.safe_load(part.config)["partitions"][0] | {"name": name}
    config = yaml.safe_dump({"partitions": list(latest.values())})
    messages = []
    tagged = [[(timed.at, n, timed.request) for timed in part.messages] for n, part in enumerate(parts)]
    for at, n, request in merge(*tagged, key=lambda entry: entry[:2]):
        if isinstance(request, si.UpdateConfigurationRequest):
            other = yaml.safe_load(generate(rng.randrange(10**6), queues=5, asks=1).config) if rng.random() < 0.4 else None
            latest[names[n]] = (other or yaml.safe_load(request.config))["partitions"][0] | {"name": names[n]}
            chosen = [latest[name] for name in names if name == names[n] or rng.random() < 0.7]
            request = si.UpdateConfigurationRequest(config=yaml.safe_dump({"partitions": chosen}))
        else:
            request = addressed(request, names[n])
        messages.append(scenario.TimedRequest(at, request))
    return scenario.Scenario(f"together-{number}", config, max(part.until for part in parts), messages=messages)


@cache
def log_of_several(number):
    """The decision log of the session with this number, on which all agree."""
    return assert_same_bytes(together(number))


@pytest.mark.parametrize("number", TOGETHER)
def test_partitions_that_come_and_go(number):
    """Several partitions with reloads that change all of them or none, some accepted and some refused."""
    assert log_of_several(number)


def test_the_stories_hold_what_they_should():
    """The scenarios above have configurations that were refused, partitions that were removed, and work after both."""
    told = b"".join(log_of_several(number) for number in TOGETHER)
    assert b'"state":"accepted","reason":""' in told
    assert b"cannot become a parent" in told
    assert b'"state":"Failed"' in told
    assert b"partition doesn't exist" in told


@pytest.mark.skipif(not RECORDED, reason="no recordings beside the checkout")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_recorded_scenarios(path):
    """The sessions that decisions of Apache YuniKorn core were recorded for, as they were recorded and with wakes."""
    story = scenario.load(path)
    assert_same_bytes(structs.replace(story, wakes=False))
    assert_same_bytes(story)
