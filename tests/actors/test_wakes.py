"""Decisions that time alone allows: the actors wake as in a daemon, the plain loop knows when; both decide the same (SC-5)."""

from random import Random

import msgspec
import pytest
import trio
import yaml
from generate import generate
from msgspec import structs
from seeds import seeds
from simulated import simulate, simulate_with_actors
from test_same_bytes import ORDERS, assert_same_bytes

from ykactor.core.messages.facts import Allocated, Released, ReleaseStarted, Reserved
from ykactor.core.messages.planned import Budget
from ykactor.sim.simulator import to_ns
from ykactor.wire import scenario
from ykactor.wire.si import messages as si

NUMBERS = seeds(40)
PROPERTIES = {
    "preemption.delay": ("1s", "1500ms", "4s", "30s"),
    "application.unschedasks.backoff": ("1", "3"),
    "application.unschedasks.backoff.delay": ("200ms", "3s", "20s"),
    "quota.preemption.delay": ("500ms", "3s", "15s"),
}


def waiting(number: int) -> scenario.Scenario:
    """A generated session with all kinds of delays, pauses between its messages, and tasks that end by themselves."""
    rng = Random(number)
    story = generate(4000 + number, queues=6, nodes=3, applications=8, asks=80, churn=0.3, mistakes=0.0, reloads=number % 4)
    messages, slower = [], rng.choice((1, 5, 20))
    for timed in story.messages:
        said = msgspec.to_builtins(timed.request)
        if "config" in said:
            said["config"] = delayed(rng, said["config"])
        asks = said.get("allocations", [])
        for entry in asks:
            entry["preemptionPolicy"] = {"allowPreemptSelf": rng.random() < 0.8, "allowPreemptOther": rng.random() < 0.6}
            if rng.random() < 0.05:
                entry.setdefault("allocationTags", {})["yunikorn.apache.org/requiredNode"] = "node-1"
        ends = {index: rng.choice((0.7, 5, 60, rng.uniform(0.1, 100))) for index in range(len(asks)) if rng.random() < 0.4}
        messages.append(scenario.TimedRequest(timed.at * slower, msgspec.convert(said, type(timed.request)), ends))
    config, until = delayed(rng, story.config), messages[-1].at + 100
    return scenario.Scenario(story.name, config, until, rng.random() < 0.8, messages)


def delayed(rng: Random, text: str) -> str:
    """The configuration with delays in all queues below root."""
    config = yaml.safe_load(text)
    (partition,) = config["partitions"]
    partition["preemption"] = {"quotapreemptionenabled": True}
    queues = list(partition["queues"][0].get("queues", []))
    for queue in queues:
        drawn = {name: rng.choice(values) for name, values in PROPERTIES.items() if rng.random() < 0.7}
        queue.setdefault("properties", {}).update(drawn)
        queues += queue.get("queues", [])
    return yaml.safe_dump(config, sort_keys=False)


@pytest.mark.parametrize("number", NUMBERS)
def test_actors_and_the_plain_loop_wake_alike(number: int) -> None:
    """The decision log is the same, byte for byte, in any order of tasks, and without wakes too."""
    story = waiting(number)
    budget = Budget(2, 5) if number % 4 == 0 else Budget(256, 40_000)
    assert_same_bytes(story, budget)
    assert_same_bytes(structs.replace(story, wakes=False), budget)


def test_the_stories_hold_what_they_should() -> None:
    """Decisions of every kind fall between the messages, where nothing happens without wakes."""
    found, without = set(), set()
    for number in NUMBERS:
        story = waiting(number)
        scripted = {to_ns(message.at) for message in story.messages} | {to_ns(story.until)}
        for wakes, kinds in ((True, found), (False, without)):
            facts = simulate(structs.replace(story, wakes=wakes)).facts
            ends = {fact.at_ns for fact in facts if isinstance(fact, Released)}
            kinds |= {kind_of(fact) for fact in facts if fact.at_ns not in scripted | ends}
    kinds = {"Reserved", "Allocated", "PREEMPTED_BY_SCHEDULER"}
    assert kinds <= found
    assert not kinds & without


def kind_of(fact: object) -> str:
    if isinstance(fact, ReleaseStarted):
        return fact.termination_type.value
    return type(fact).__name__ if isinstance(fact, Allocated | Reserved) else ""


def test_a_wake_at_the_time_of_a_message_comes_before_it() -> None:
    """Whatever task is first at that moment: what is due then is decided, then the message is heard."""
    text = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
    nodes = [si.NodeInfo(node_id=name, action="CREATE", schedulable_resource={"vcore": 3000}) for name in ("n1", "n2")]
    app = si.AddApplicationRequest("app-1", "root.a", ugi=si.UserGroupInformation("alice"))
    asks = [si.Allocation(key, "app-1", resource_per_alloc={"vcore": 2000}) for key in ("t1", "t2", "t3")]
    release = si.AllocationRelease(application_id="app-1", allocation_key="t1", termination_type="STOPPED_BY_RM")
    requests = [
        (0, si.NodeRequest(nodes=nodes)),
        (0, si.ApplicationRequest(new=[app])),
        (0, si.AllocationRequest(allocations=asks)),
        (2, si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release]))),
    ]
    story = scenario.Scenario("same", text, 5, messages=[scenario.TimedRequest(at, request) for at, request in requests])
    expected = simulate(story).facts
    told = [(fact.at_ns, type(fact).__name__) for fact in expected if isinstance(fact, Reserved | Released)]
    assert told == [(2_000_000_000, "Reserved"), (2_000_000_000, "Released")]
    for order in ORDERS:
        trio._core._run._r.seed(order)  # type: ignore[attr-defined]
        assert simulate_with_actors(story).facts == expected, f"task order {order}"
