"""AP-153: the explanation of every pending ask, in random histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from generate import generate
from msgspec import UNSET
from seeds import seeds
from test_what_if import bases_of, make

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.config.model import PartitionConfig
from ykactor.core.inspection import explaining
from ykactor.core.inspection.explaining import AHEAD_MAX, explain
from ykactor.core.inspection.explaining_places import explain_node, explain_queue
from ykactor.core.inspection.explanation import AskExplanation
from ykactor.core.inspection.pending_asks import waiting_asks
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.messages.asks import Ask, order_of
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName, QueuePath
from ykactor.core.values.parts import PART_MAX, finished
from ykactor.core.values.resources import Resource
from ykactor.core.values.times import MS_NS
from ykactor.core.waiting.causes import PendingCauses
from ykactor.core.waiting.reasons import HAS_ROOM, PendingCause
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.simulator import Record, ignore, run_directly
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.model import ScenarioRequest
from ykactor.wire.si import messages as si

CONFIG = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: default}]}]}]"


def check_times(found: AskExplanation, ask: Ask) -> None:
    """AP-154: the parts add up to the wait, and nothing began later than now."""
    assert sum(found.waited.values()) == found.time - ask.since_ns
    times = [level.since for level in found.levels if level.since is not UNSET]
    assert all(0 <= since <= found.time for since in times)


def check_binding(found: AskExplanation) -> None:
    """The level that is marked is the one of which the reason speaks first, also where several are short."""
    assert isinstance(found.binding, int) == (found.code != PendingCode.NEXT.value)
    if isinstance(found.binding, int):
        level = found.levels[found.binding]
        assert level.code == found.code
        assert found.reason.startswith(level.reason.partition("; ")[0])


def check(partition: DirectPartition, found: AskExplanation, reason: str) -> None:
    """One explanation against the state."""
    state = partition.scheduler.state
    waiting = state.applications[ApplicationID(found.application_id)]
    assert found.reason == reason
    assert sum((found.nodes or {}).values()) == len(state.nodes.nodes)
    check_binding(found)
    for level in found.levels:
        assert bool(level.code) == bool(level.reason)
        if isinstance(level.used, int) and isinstance(level.max, int) and isinstance(level.wants, int):
            assert bool(level.code) == (level.used + level.wants > level.max)
    paths = [level.queue_name for level in found.levels if level.queue_name]
    assert paths == sorted(paths, key=lambda path: path.count("."))  # from root down
    leaf = [other for other in state.applications.values() if other.leaf is waiting.leaf]
    assert found.waiting == sum(len(other.asks) for other in leaf)
    own, keyed = waiting.sort_key, [(other.sort_key, other) for other in leaf if other.asks and other.sort_key is not None]
    before = [other for key, other in sorted(keyed, key=lambda pair: pair[0]) if own is None or key < own]
    ask = waiting.asks[AllocationKey(found.allocation_key)][0]
    check_times(found, ask)
    first = [other for other, _ in waiting.asks.values() if order_of(other) < order_of(ask)]
    assert found.position == sum(len(other.asks) for other in before) + len(first) + 1
    queues = found.ahead_count - len(before)
    named = [status.application_id for status in found.ahead]
    assert named == [*[UNSET] * queues, *(other.application_id for other in before)][:AHEAD_MAX]
    for status in found.ahead:
        assert status.value != status.own or status.by == "state"


@pytest.mark.parametrize("seed", seeds(40))
def test_every_pending_ask_is_explained(seed: int) -> None:
    """Reasons are those of AP-150, the level that binds is that of the reason, numbers those of the state; nothing changes."""
    story = generate(seed, applications=8, asks=60, reloads=seed % 3, nodes=4)
    direct = DirectPartitions(make, {config.name: make(config, 0) for config in queuefile.load(story.config).partitions})
    explained = 0

    def look(now_ns: int) -> None:
        nonlocal explained
        before = bases_of(direct)
        for partition in direct.partitions.values():
            state = partition.scheduler.state
            reasons = {key: reason for key, _, reason in waiting_asks(state)}
            for application in list(state.applications.values()):
                for key in application.asks:
                    found = finished(explain(partition.core, state, (application.application_id, key), now_ns))
                    assert found is not None
                    check(partition, found, reasons[key])
                    explained += 1
        assert bases_of(direct) == before

    run_directly(story, direct, Record(ignore), after=look)
    assert explained


@pytest.mark.parametrize("seed", seeds(40))
def test_queues_and_nodes_are_explained(seed: int) -> None:
    """AP-156: all pending asks are counted, the oldest is the oldest, amounts are those in use, and nothing changes by it."""
    story = generate(seed, applications=8, asks=60, reloads=seed % 3, nodes=4)
    direct = DirectPartitions(make, {config.name: make(config, 0) for config in queuefile.load(story.config).partitions})

    def look(_: int) -> None:
        before = bases_of(direct)
        for partition in direct.partitions.values():
            state, causes = partition.scheduler.state, PendingCauses(partition.scheduler.state)
            every = [(application, ask) for application in state.applications.values() for ask, _ in application.asks.values()]
            for path in state.tree.nodes:
                found = finished(explain_queue(partition.core, state, path))
                assert found is not None
                below = [(each, ask) for each, ask in every if f"{each.leaf.path}.".startswith(f"{path}.")]
                codes = Counter(causes.of_ask(each, ask.allocation_key).code.value for each, ask in below)
                assert found.pending == codes
                oldest = min((ask for _, ask in below), key=lambda ask: (ask.since_ns, ask.arrival), default=None)
                assert (found.oldest.allocation_key if found.oldest else None) == (oldest and oldest.allocation_key)
                if found.short and found.short.resource and not found.short.whose:
                    used = sum(share.amount for share in found.users) + found.others_use
                    assert used == found.short.used
            for node_id in state.nodes.nodes:
                node = finished(explain_node(partition.core, state, node_id))
                assert node is not None
                assert sum(node.pending.values()) == len(every)
                assert sum(node.kept_back.values()) == node.pending.get(HAS_ROOM, 0)
        assert bases_of(direct) == before

    run_directly(story, direct, Record(ignore), after=look)


class OnlyBelow:
    """The sight of a reader that is limited to a queue."""

    def __init__(self, path: QueuePath) -> None:
        self.path = path

    def reason(self, cause: PendingCause, _: object) -> str:
        return cause.code.value

    def shows_queue(self, queue: str) -> bool:
        return queue == self.path or queue.startswith(f"{self.path}.")

    def queue(self, status: QueueStatus, _above: str, queues: Mapping[str, QueueStatus]) -> QueueStatus:
        assert all(map(self.shows_queue, queues))
        return status


@pytest.mark.parametrize("seed", seeds(15))
def test_limited_readers_see_nothing_of_others(seed: int) -> None:
    """SE-84: no nodes, no numbers and no names of queues out of view, but that one keeps the ask back."""
    story = generate(seed, applications=8, asks=60, nodes=4)
    direct = DirectPartitions(make, {config.name: make(config, 0) for config in queuefile.load(story.config).partitions})

    def look(now_ns: int) -> None:
        for partition in direct.partitions.values():
            state = partition.scheduler.state
            for application in list(state.applications.values()):
                sight = OnlyBelow(application.leaf.path)
                queue = finished(explain_queue(partition.core, state, application.leaf.path, sight))
                assert queue is not None
                if queue.short and not sight.shows_queue(queue.short.queue_name):
                    assert not queue.short.used
                    assert not queue.short.max
                own = [other for other in state.applications.values() if other.leaf is application.leaf]
                assert {share.user for share in queue.users} <= {other.who.user for other in own}
                assert finished(explain_queue(partition.core, state, QueuePath("root"), sight)) is None
                for key in list(application.asks):
                    found = finished(explain(partition.core, state, (application.application_id, key), now_ns, sight))
                    assert found is not None
                    assert not found.nodes
                    assert all(sight.shows_queue(status.queue_name) for status in found.ahead)
                    assert not any(ns % MS_NS for ns in (found.time, *found.waited.values()))
                    for level in found.levels:
                        assert level.since is UNSET or not level.since % MS_NS
                        if level.queue_name and not sight.shows_queue(level.queue_name):
                            assert level.code
                            assert not level.used
                            assert not level.max

    run_directly(story, direct, Record(ignore), after=look)


def test_a_step_looks_at_few_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run while one of very many asks is explained."""
    asks = [si.Allocation(f"t{number}", "app", resource_per_alloc={"vcore": 1000}) for number in range(5 * PART_MAX)]
    requests: list[ScenarioRequest] = [
        si.ApplicationRequest(new=[si.AddApplicationRequest("app", "root.default", ugi=si.UserGroupInformation("bob"))]),
        si.AllocationRequest(allocations=asks),
    ]
    story = Scenario("many", "", 0, messages=[TimedRequest(0, request) for request in requests])
    direct = DirectPartitions(make, {config.name: make(config, 0) for config in queuefile.load(CONFIG).partitions})
    run_directly(story, direct, Record(ignore))
    (partition,) = direct.partitions.values()
    looked, most = 0, 0

    def counted(ask: Ask) -> tuple[int, int, int]:
        nonlocal looked
        looked += 1
        return order_of(ask)

    monkeypatch.setattr(explaining, "order_of", counted)
    state, app = partition.scheduler.state, ApplicationID("app")
    first = explaining.first_ask(state.applications[app])
    for steps in (first, explain(partition.core, state, (app, AllocationKey("t99")), 0)):
        looked_before = looked
        for _ in steps:
            most, looked_before = max(most, looked - looked_before), looked
    assert looked >= 2 * len(asks)
    assert most <= PART_MAX + 1


LEVELS = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: scarce, resources: {max: {memory: 10Gi, vcore: 100}}}
          - {name: never, resources: {max: {vcore: 3, zpu: 0}}}
          - {name: low, resources: {max: {cpu: 2}}}
          - {name: high, resources: {guaranteed: {cpu: 2}}, properties: {preemption.delay: 1s}}
"""


def explained_in(queue: str, runs: Resource, wants: Resource, until_s: float = 0) -> AskExplanation:
    """The explanation of an ask in a queue, beside a task that runs there, or in root.low if the queue is root.high."""
    node = si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": 3000, "memory": 9 * 2**30, "zpu": 4, "cpu": 2})
    who = si.UserGroupInformation("bob")
    victim, other = si.PreemptionPolicy(allow_preempt_self=True), si.PreemptionPolicy(allow_preempt_other=True)
    queues = {"one": "root.low" if queue == "root.high" else queue, "two": queue}
    requests: list[ScenarioRequest] = [
        si.NodeRequest(nodes=[node]),
        si.ApplicationRequest(new=[si.AddApplicationRequest(name, path, ugi=who) for name, path in queues.items()]),
        si.AllocationRequest(allocations=[si.Allocation("t1", "one", resource_per_alloc=runs, preemption_policy=victim)]),
        si.AllocationRequest(allocations=[si.Allocation("t2", "two", resource_per_alloc=wants, preemption_policy=other)]),
    ]
    messages = [TimedRequest(at, request) for at, request in zip((0, 0, 0, 1), requests, strict=True)]
    story = Scenario("levels", "", 1 + until_s, messages=messages)

    def unconfirmed(config: PartitionConfig, now_ns: int) -> DirectPartition:
        return DirectPartition(config, CYCLE_BUDGET, ignore_facts, now_ns=now_ns, confirms=False, wakes=True)

    direct = DirectPartitions(unconfirmed, {each.name: unconfirmed(each, 0) for each in queuefile.load(LEVELS).partitions})
    run_directly(story, direct, Record(ignore))
    partition = direct.partitions[PartitionName("default")]
    found = finished(explain(partition.core, partition.scheduler.state, (ApplicationID("two"), AllocationKey("t2")), 0))
    assert found is not None
    return found


def ignore_facts(_: list[Fact]) -> None:
    """Do nothing with facts."""


def test_the_scarcest_type_is_the_one_with_the_smallest_part_left() -> None:
    """AP-153: base units of different types do not compare: a GiB of ten is less than 98 cores of a hundred."""
    found = explained_in("root.scarce", {"vcore": 1000, "memory": 8 * 2**30}, {"vcore": 1000, "memory": 2**30 + 2**29})
    (level,) = [level for level in found.levels if level.queue_name == "root.scarce"]
    assert (level.resource, level.code) == ("memory", "")


def test_a_type_that_never_fits_comes_before_one_that_is_short() -> None:
    """AP-153: a core will be free, but no zpu is allowed."""
    found = explained_in("root.never", {"vcore": 3000}, {"vcore": 1000, "zpu": 1})
    assert isinstance(found.binding, int)
    level = found.levels[found.binding]
    assert (level.queue_name, level.resource, "can never fit" in level.reason) == ("root.never", "zpu", True)


def test_victims_bind_before_the_quota_that_they_free() -> None:
    """AP-153: the cluster is full, and what an ask waits for is the end of the task that it has preempted."""
    found = explained_in("root.high", {"cpu": 2}, {"cpu": 2}, until_s=5)
    assert isinstance(found.binding, int)
    assert (found.code, found.levels[0].code, found.levels[found.binding].code) == ("PREEMPTING", "QUOTA", "PREEMPTING")


def test_the_level_that_binds_is_that_of_the_reason() -> None:
    """AP-153: both the leaf and root are short, and both the reason and the mark are about the leaf; for ever comes first."""
    found = explained_in("root.low", {"cpu": 2}, {"cpu": 2})
    short = [level.queue_name for level in found.levels if level.code == "QUOTA"]
    assert isinstance(found.binding, int)
    assert (short, found.levels[found.binding].queue_name) == (["root", "root.low"], "root.low")
    assert found.reason == found.levels[found.binding].reason
    never = explained_in("root.scarce", {"vcore": 3000, "memory": 9 * 2**30}, {"vcore": 4000, "memory": 2 * 2**30})
    assert isinstance(never.binding, int)
    assert (never.levels[never.binding].whose, never.code) == ("nodes", "TOO_LARGE")
