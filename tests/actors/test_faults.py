"""One actor fails at its nth message, wherever that is in the life of several partitions: what must be true all the same."""

import random
from functools import partial

import pytest
import trio
import trio.testing
from faulting import Bug, watch_owners, watch_partitions, watch_schedulers
from heard import Heard
from kept_rows import all_rows, values_of
from memorystore import MemoryStore
from partitiontexts import several_loaded
from seeds import seeds
from test_supervision import NAMES, THREE, WIDER, Realm
from world import app, ask, node, release, remove

from ykactor.actors.commands import Intake
from ykactor.actors.feed import SnapshotError
from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.facts import PartitionFailed
from ykactor.core.objects.node import NodeCore
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.partition.reload import walk
from ykactor.core.turn.scheduler import SchedulerCore

#: The partition that fails.
VICTIM = "gpu"
KINDS = ("partition", "scheduler", "queue", "node")


def kind_of(core):
    if isinstance(core, NodeCore):
        return "node"
    return {PartitionCore: "partition", SchedulerCore: "scheduler"}.get(type(core), "queue")


class Fault:
    """The actor of a kind fails at its message ``number`` in the victim; ``late``: when it has carried it out."""

    def __init__(self, kind, number, *, late):
        self.kind = kind
        self.number = number
        self.late = late
        self.count = 0
        self.realm = None

    def install(self, monkeypatch):
        """Fail in the realm that is set later."""
        hooks = {"after" if self.late else "before": self.on_message}
        for watch in (watch_owners, watch_schedulers, watch_partitions):
            watch(monkeypatch, **hooks)

    def on_message(self, core, _):
        if kind_of(core) == self.kind and self._is_in_victim(core):
            self.count += 1
            if self.count == self.number:
                raise Bug(f"{self.kind} {self.number}")

    def _is_in_victim(self, core):
        actor = self.realm.partitions.actors.get(VICTIM)
        if actor is None:
            return False
        registry = actor.core.registry
        owned = [*registry.queues.values(), *registry.nodes.values()]
        return any(core is one for one in (actor.core, actor.scheduler_core, *owned))


class Life:
    """Random requests to three partitions, each at its own times."""

    def __init__(self, seed, fault):
        self.seed = seed
        self.realm = fault.realm = Realm(several_loaded(**THREE), MemoryStore())
        #: For each partition, how often each request was answered, and why some were refused.
        self.answers = {name: [] for name in NAMES}
        self.failures = []
        self.disturbances = []
        self.is_closed = False
        #: Without a pause it is left to chance which requests are handled together.
        self.pauses_s = (0.0003, 0.02, 3)

    async def run(self):
        """Run until every request is answered and everything is decided."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.realm.run)
            async with trio.open_nursery() as clients:
                for name in NAMES:
                    clients.start_soon(self.client, name)
                for disturbance in self.disturbances:
                    clients.start_soon(disturbance)
            await self.rest()
            nursery.cancel_scope.cancel()

    async def rest(self):
        """Wait until everything is recorded; a timer may begin a turn of one partition while another one is waited for."""
        turns = None
        while turns != (turns := [self.realm[name].core.turns for name in NAMES]):
            if not self.is_closed:
                for name in NAMES:
                    await self.realm.settle(name)
            await self.realm.journal.flushed()

    async def client(self, name):
        chance = random.Random(f"{self.seed} {name}")
        for submissions in history(chance):
            await trio.sleep(chance.choice(self.pauses_s))
            number = len(self.answers[name])
            self.answers[name].append(0)

            def count(_, number=number):
                self.answers[name][number] += 1

            answered = Heard(count)
            answered.failures = self.failures
            try:
                await self.realm.partitions.inboxes[name].put(Intake(submissions, answered))
            except trio.ClosedResourceError:
                self.answers[name].pop()
                return
            if chance.random() < 0.3:
                await answered.wait()
        await answered.wait()

    async def reload(self):
        """Change the configuration of all partitions again and again."""
        chance = random.Random(f"{self.seed} reload")
        for number in range(6):
            await trio.sleep(chance.choice((0, 0.0005, 0.5, 6)))
            assert await self.realm.partitions.switch(several_loaded(**(THREE if number % 2 else WIDER))) == ""

    async def close(self):
        """Take no more requests, at any time."""
        await trio.sleep(random.Random(f"{self.seed} close").uniform(4, 20))
        self.is_closed = True
        self.realm.partitions.close()
        await self.realm.partitions.finished()

    async def look(self):
        """Take snapshots; one during a restart may be too late, but not wait for ever."""
        for _ in range(20):
            await trio.sleep(0.7)
            try:
                assert len((await self.realm.feed.snapshot()).partitions) == len(NAMES)
            except SnapshotError:
                assert self.realm.incidents

    def owned(self, name):
        """The tasks of each application, whether they run or wait."""
        registry = self.realm[name].core.registry
        found = {application: registry.leaf_of(application).applications[application] for application in registry.applications}
        return {name: sorted((*each.tasks.asks, *each.tasks.allocations)) for name, each in found.items()}


def history(chance):
    """Requests with applications, asks, releases, and nodes that come and go."""
    applications, asks = [], []
    yield [node("n1", vcore=4000), node("n2", vcore=2000)]
    for number in range(40):
        submissions = []
        for _ in range(chance.choice((1, 1, 3))):
            match chance.randrange(6):
                case 0:
                    applications.append(f"app-{len(applications)}")
                    submissions.append(app(applications[-1], chance.choice(("root.a", "root.b"))))
                case 1 | 2 | 3 if applications:
                    asks.append((f"t{len(asks)}", chance.choice(applications)))
                    submissions.append(ask(*asks[-1], vcore=chance.choice((100, 1000, 1500))))
                case 4 if asks:
                    submissions.append(release(*asks.pop(chance.randrange(len(asks)))))
                case 5 if applications and chance.random() < 0.3:
                    submissions.append(remove(chance.choice(applications)))
        yield submissions or [node(f"extra-{number}", vcore=500)]


def play(seed, fault, disturbances=()):
    """One life on a virtual clock."""

    async def main():
        nonlocal life
        life = Life(seed, fault)
        life.disturbances = [partial(each, life) for each in disturbances]
        if disturbances:
            life.pauses_s += (0, 0)
        with trio.fail_after(3600):
            await life.run()

    life = None
    trio._core._run._r.seed(seed)
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return life


def faults(seed, monkeypatch, disturbances=()):
    """The life without a fault, and with one at a random message."""
    chance = random.Random(seed)
    kind, late = KINDS[seed % len(KINDS)], chance.random() < 0.5
    with monkeypatch.context() as patch:
        never = Fault(kind, 0, late=late)
        never.install(patch)
        whole = play(seed, never, disturbances)
    with monkeypatch.context() as patch:
        once = Fault(kind, chance.randrange(1, never.count + 1), late=late)
        once.install(patch)
        return whole, play(seed, once, disturbances)


def check_victim(life):
    """Check that the partition failed, went on from the last complete turn, and lost nothing."""
    realm = life.realm
    assert realm.consequences(VICTIM) == ["RESTARTED"]
    assert life.failures == []
    for name in NAMES:
        assert life.answers[name] == [1] * len(life.answers[name])
        actor = realm[name]
        assert violations(actor.core, actor.scheduler_core) == []
        prefix = b'["%b",' % name.encode()
        kept = {key: row for key, row in realm.store.records.items() if key.startswith(prefix)}
        assert values_of(kept) == values_of(all_rows(actor.core, actor.scheduler_core))
    numbers = [turn["number"] for turn in realm.store.turns if turn["partition"] == VICTIM and "number" in turn]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("seed", seeds(48))
def test_a_fault_harms_nobody_else(seed, monkeypatch):
    """The others decide the same at the same times; the one that failed ends with the same tasks; each request has one answer."""
    whole, broken = faults(seed, monkeypatch)
    check_victim(broken)
    for name in NAMES:
        if name != VICTIM:
            assert broken.realm.facts(name) == whole.realm.facts(name)
    assert broken.owned(VICTIM) == whole.owned(VICTIM)
    (failed,) = [fact for fact in broken.realm.facts(VICTIM) if isinstance(fact, PartitionFailed)]
    assert "Bug: " in failed.reason


@pytest.mark.parametrize("seed", seeds(24, first=100))
def test_a_fault_leaves_nobody_waiting(seed, monkeypatch):
    """Also if there are changes of the configuration and snapshots at the same time."""
    _, broken = faults(seed, monkeypatch, (Life.reload, Life.look))
    check_victim(broken)
    assert len({tuple(queue.path for queue in walk(broken.realm[name].core.registry.config.root)) for name in NAMES}) == 1


@pytest.mark.parametrize("seed", seeds(24, first=200))
def test_a_fault_does_not_hinder_the_end(seed, monkeypatch):
    """The inboxes are closed at any time: what is in them is answered, and every partition ends."""
    _, broken = faults(seed, monkeypatch, (Life.close,))
    check_victim(broken)
