"""Several partitions on a virtual clock: they change together or not at all, come while others work, and go with all they run."""

from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from deliveries import FakeDelivery
from heard import Heard
from partitiontexts import several_loaded
from world import PLENTY, S_NS, app, ask, node, queue, release, spoken

from ykactor.actors.clock import Clock
from ykactor.actors.commands import Awaited, Intake, PartitionSnapshot, Publication, Quiesce, TakeSnapshot
from ykactor.actors.feed import FeedActor
from ykactor.actors.partition import Cycling, PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.core.inspection.invariants import violations
from ykactor.core.inspection.pending_asks import waiting_asks
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.messages.facts import ConfigurationChanged, NodeRemoved, QueueRemoved
from ykactor.core.messages.planned import Budget
from ykactor.core.values.parts import finished
from ykactor.sim.direct import DirectPartition, DirectPartitions

UNBOUNDED = Budget(PLENTY, PLENTY)
LEAVES = [queue("a"), queue("b")]
#: ``root.a`` becomes a parent: CF-61 refuses that while it has applications.
SPLIT = [queue("a", queue("child")), queue("b", max={"vcore": 1})]


class Realm:
    """Running partitions, and everything that they gave to the feed."""

    def __init__(self, config):
        self.config = config
        self.told = []
        self.clock = Clock(0)
        self.partitions = Partitions(self._make)
        #: Where publications are forwarded to.
        self.publish = None
        #: Partitions for whose publications the feed has no room until the event is set.
        self.full = {}

    def _make(self, config):
        return PartitionActor(config, self.clock, self._publish, Cycling(budget=UNBOUNDED))

    async def _publish(self, command):
        if command.partition in self.full:
            await self.full[command.partition].wait()
        self.told.append(command)
        if self.publish is not None:
            await self.publish(command)

    def __getitem__(self, name):
        return self.partitions.actors[name]

    async def command(self, name, make):
        done = Awaited()
        await self.partitions.inboxes[name].put(make(done))
        await done.wait()

    async def send(self, name, *submissions):
        """Have these handled together by a partition, and all that follows decided."""
        await self.command(name, partial(Intake, list(submissions)))
        await self.command(name, Quiesce)

    async def settle(self):
        for name in list(self.partitions.inboxes):
            await self.command(name, Quiesce)
            assert violations(self[name].core, self[name].scheduler_core) == []

    def facts(self, name):
        published = [told for told in self.told if isinstance(told, Publication) and told.partition == name]
        return [fact for told in published for fact in told.facts]

    def heard(self, name):
        return [line for fact in self.facts(name) if (line := spoken(fact)) is not None]

    def state(self):
        """The state that could have changed, by identity where there is one."""
        return {
            name: (
                id(actor.core.registry.config),
                {path: (id(core), id(core.config), core.state) for path, core in actor.core.registry.queues.items()},
                finished(partition_state(actor.core, actor.scheduler_core.state)),
                waiting_asks(actor.scheduler_core.state),
            )
            for name, actor in self.partitions.actors.items()
        }

    def blocked(self, name):
        """A partition that cannot come to an end with its turn: it publishes a node, and nobody takes that."""
        self.full[name] = trio.Event()
        self.partitions.inboxes[name].put_nowait(Intake([node(f"{name}-late", vcore=1)]))
        return self.full[name]


@asynccontextmanager
async def realm(**queues):
    made = Realm(several_loaded(**queues))
    async with trio.open_nursery() as nursery:
        await made.partitions.start(nursery, made.config)
        yield made
        nursery.cancel_scope.cancel()


async def busy(made):
    """A cluster whose partitions each have a task that runs in root.b and an ask that waits there."""
    for name in made.partitions.actors:
        await made.send(name, node("n1", vcore=2000), app(f"{name}-1", "root.b"))
        await made.send(name, *(ask(f"{name}-t{number}", f"{name}-1", vcore=1000) for number in range(4)))


THREE = {"default": LEAVES, "gpu": LEAVES, "arm": LEAVES}
TWO = {"default": LEAVES, "gpu": LEAVES}


# ---- all or nothing


@pytest.mark.parametrize("names", [("default", "gpu"), ("default", "gpu", "arm")])
@pytest.mark.parametrize("stubborn", [0, -1])
async def test_one_objection_and_nobody_changes(seed, autojump_clock, names, stubborn):
    """CF-58, CF-61: queues, settings and pending asks stay the same; nothing is reported; no partition is added or removed."""
    async with realm(**dict.fromkeys(names, LEAVES)) as setup:
        await busy(setup)
        await setup.send(names[stubborn], app("mine", "root.a"))
        before, told = setup.state(), len(setup.told)
        wanted = several_loaded(**dict.fromkeys(names, SPLIT), fresh=LEAVES)
        objection = await setup.partitions.switch(wanted)
        assert objection.startswith("queue root.a cannot become a parent: it is a leaf with 1 applications")
        assert setup.state() == before
        assert len(setup.told) == told
        await setup.settle()
        await setup.send("default", ask("later", "default-1", vcore=1000), release("default-t0", "default-1"))
        assert "default-t2 on n1" in setup.heard("default")


async def test_an_objection_removes_nobody(seed, autojump_clock):
    """A partition that is no longer listed stays when another one objects."""
    async with realm(**THREE) as setup:
        await busy(setup)
        await setup.send("default", app("mine", "root.a"))
        before = setup.state()
        assert await setup.partitions.switch(several_loaded(default=SPLIT)) != ""
        assert setup.state() == before


async def test_all_objections_are_told(seed, autojump_clock):
    """One line for each partition that cannot follow."""
    async with realm(**THREE) as setup:
        for name in ("default", "arm"):
            await setup.send(name, app("mine", "root.a"))
        objection = await setup.partitions.switch(several_loaded(default=SPLIT, gpu=SPLIT, arm=SPLIT))
        assert len(objection.split("\n")) == 2


async def test_all_agree_and_all_change(seed, autojump_clock):
    """Each partition says what is different; what waits is tried under the new settings."""
    async with realm(**THREE) as setup:
        await busy(setup)
        wider = [queue("a"), queue("b"), queue("c")]
        assert await setup.partitions.switch(several_loaded(default=wider, gpu=wider, arm=wider)) == ""
        for name in THREE:
            assert "root.c" in setup[name].core.registry.queues
            (*_, news) = [fact for fact in setup.facts(name) if isinstance(fact, ConfigurationChanged)]
            assert (news.is_accepted, news.changes) == (True, ("queue root.c: added",))
        await setup.settle()


async def test_an_application_that_is_earlier_than_the_vote_counts(seed, autojump_clock):
    """The messages in the inbox before the vote are handled before the partition votes."""
    async with realm(**TWO) as setup:
        gpu = setup.blocked("gpu")
        async with trio.open_nursery() as nursery:
            setup.partitions.inboxes["gpu"].put_nowait(Intake([app("first", "root.a")]))
            answers = []

            async def switch():
                answers.append(await setup.partitions.switch(several_loaded(default=SPLIT, gpu=SPLIT)))

            nursery.start_soon(switch)
            await trio.testing.wait_all_tasks_blocked()
            assert answers == []
            gpu.set()
        assert "root.a cannot become a parent" in answers[0]
        assert all(actor.core.registry.queues["root.a"].config.children == () for actor in setup.partitions.actors.values())
        assert setup.heard("gpu")[1:] == ["gpu-late accepted", "first New"]


@pytest.mark.parametrize("gpu_objects", [False, True])
async def test_nothing_happens_between_vote_and_switch(seed, autojump_clock, gpu_objects):
    """An application, an ask and a freed place that come during the preparation wait for its end; so what was said stays true."""
    async with realm(**TWO) as setup:
        await busy(setup)
        if gpu_objects:
            await setup.send("gpu", app("mine", "root.a"))
        gpu = setup.blocked("gpu")
        before, told = setup.state()["default"], len(setup.facts("default"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.partitions.switch, several_loaded(default=SPLIT, gpu=SPLIT))
            await trio.testing.wait_all_tasks_blocked()
            for said in (
                [app("late", "root.a")],
                [ask("late-t", "late", vcore=1), release("default-t0", "default-1")],
                [node("n2", vcore=10_000)],
            ):
                setup.partitions.inboxes["default"].put_nowait(Intake(said))
            await trio.testing.wait_all_tasks_blocked()
            assert setup.state()["default"] == before
            assert len(setup.facts("default")) == told
            gpu.set()
        await setup.settle()
        news = [line for line in map(spoken, setup.facts("default")[told:]) if line]
        if gpu_objects:  # the leaf is still one: the application is in
            assert news[:2] == ["late New", "late Accepted"]
            assert setup["default"].core.registry.applications["late"] == "root.a"
        else:
            assert news[0] == "configuration accepted"
            assert news[1].startswith("late Rejected: ")
            assert news[2].startswith("late-t rejected: ")
            assert not [line for line in news if " on " in line]  # the new max of root.b is 1
        assert "n2 accepted" in news


async def test_input_of_the_vote_comes_after_it_in_order(seed, autojump_clock):
    """However much is said meanwhile, by several, it is handled in the order of the inbox."""
    async with realm(**TWO) as setup:
        gpu = setup.blocked("gpu")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.partitions.switch, several_loaded(default=[*LEAVES, queue("c")], gpu=LEAVES))
            await trio.testing.wait_all_tasks_blocked()
            for number in range(600):
                setup.partitions.inboxes["default"].put_nowait(Intake([node(f"n{number}", vcore=1)]))
            gpu.set()
        await setup.settle()
        assert setup.heard("default")[1:] == ["configuration accepted", *(f"n{number} accepted" for number in range(600))]


async def test_a_timer_that_falls_due_during_the_vote_waits(seed, autojump_clock):
    """Starting ends after 5 min (AP-40), but a partition that has voted does nothing, however long the others take."""
    async with realm(**TWO) as setup:
        await setup.send("default", node("n1", vcore=1000), app("app-1"), ask("t1", "app-1", vcore=1))
        gpu = setup.blocked("gpu")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.partitions.switch, several_loaded(default=[*LEAVES, queue("c")], gpu=LEAVES))
            await trio.sleep(400)
            assert setup.heard("default")[-1] == "t1 on n1"
            gpu.set()
        await setup.settle()
        assert setup.heard("default")[-2:] == ["configuration accepted", "app-1 Running"]


async def test_the_plain_loop_does_the_same(seed, autojump_clock):
    """A story of accepted and refused configurations, partitions that come and go: facts and states are those of the oracle."""
    wider = [*LEAVES, queue("c", max={"vcore": 1000})]
    story = [
        (10, several_loaded(default=LEAVES, gpu=wider)),
        (20, several_loaded(default=SPLIT, gpu=LEAVES)),  # refused: root.a of default has an application
        (30, several_loaded(default=wider, gpu=LEAVES, arm=LEAVES)),
        (40, several_loaded(default=LEAVES, arm=wider)),
        (50, several_loaded(default=LEAVES, ARM=SPLIT, gpu=SPLIT)),
        (60, several_loaded(arm=LEAVES)),
    ]
    work = {"default": [node("n1", vcore=2500), app("app-1", "root.a"), *(ask(f"t{n}", "app-1", vcore=1000) for n in range(4))]}
    work["gpu"] = [node("n1", vcore=5000), app("app-1", "root.b"), ask("t1", "app-1", vcore=1000)]
    facts = {}

    def publish(name, news):
        facts.setdefault(name, []).extend(news)

    def make(config, now_ns):
        return DirectPartition(config, UNBOUNDED, partial(publish, config.name), now_ns=now_ns)

    direct = DirectPartitions(make, {config.name: make(config, 0) for config in several_loaded(**TWO).partitions})
    async with realm(**TWO) as setup:
        for name, said in work.items():
            direct.partitions[name].intake(0, said)
            await setup.send(name, *said)
        for at_s, config in story:
            await trio.sleep_until(setup.clock.to_trio(at_s * S_NS))
            for partition in direct.partitions.values():
                partition.advance(at_s * S_NS)
            objection = direct.switch(at_s * S_NS, config)
            for partition in direct.partitions.values():
                partition.schedule(at_s * S_NS)
            assert await setup.partitions.switch(config) == objection
            assert bool(objection) is (at_s == 20)
            await setup.settle()
            assert list(setup.partitions.actors) == list(direct.partitions)
        assert {name: setup.facts(name) for name in facts} == facts


# ---- stopping


@pytest.mark.parametrize("closed", ["default", "gpu", "arm"])
async def test_a_closed_partition_leaves_nobody_waiting(seed, autojump_clock, closed):
    """A partition that is closed before the question: none changes, the others continue, and the requester gets the reason."""
    async with realm(**THREE) as setup:
        await busy(setup)
        setup[closed].inbox.close()
        with pytest.raises(trio.ClosedResourceError), trio.fail_after(1):
            await setup.partitions.switch(several_loaded(default=SPLIT, gpu=SPLIT, arm=SPLIT))
        for name in set(THREE) - {closed}:
            await setup.send(name, node("n2", vcore=1000))
            assert setup.heard(name)[-2:] == ["n2 accepted", f"{name}-t2 on n2"]
            assert "root.a.child" not in setup[name].core.registry.queues
        setup.partitions.close()
        with trio.fail_after(1):
            await setup.partitions.finished()


async def test_closed_during_the_vote(seed, autojump_clock):
    """A closing partition handles its inbox first: the preparation completes, then all partitions end."""
    async with realm(**TWO) as setup:
        gpu = setup.blocked("gpu")
        answers = []

        async def switch():
            answers.append(await setup.partitions.switch(several_loaded(default=SPLIT, gpu=SPLIT)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(switch)
            await trio.testing.wait_all_tasks_blocked()
            setup.partitions.close()
            await trio.testing.wait_all_tasks_blocked()
            gpu.set()
            with trio.fail_after(1):
                await setup.partitions.finished()
        assert answers == [""]
        assert all("root.a.child" in actor.core.registry.queues for actor in setup.partitions.actors.values())


async def test_partition_that_comes_while_all_stop(seed, autojump_clock):
    """``finished`` waits for those who are there; one that starts meanwhile disturbs nobody."""
    async with realm(**TWO) as setup:
        gpu = setup.blocked("gpu")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.partitions.switch, several_loaded(default=LEAVES, gpu=LEAVES, fresh=LEAVES))
            await trio.testing.wait_all_tasks_blocked()
            setup.partitions.close()
            nursery.start_soon(setup.partitions.finished)
            await trio.testing.wait_all_tasks_blocked()
            gpu.set()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert setup["default"].finished.is_set()


async def test_a_cancelled_switch_changes_nothing(seed, autojump_clock):
    """Whoever wanted it is gone before all have voted: those who wait are let go."""
    async with realm(**TWO) as setup:
        await busy(setup)
        gpu = setup.blocked("gpu")
        with trio.move_on_after(1) as scope:
            await setup.partitions.switch(several_loaded(default=SPLIT, gpu=SPLIT))
        assert scope.cancelled_caught
        gpu.set()
        await setup.settle()
        for name in TWO:
            assert "root.a.child" not in setup[name].core.registry.queues
        assert await setup.partitions.switch(several_loaded(default=SPLIT, gpu=SPLIT)) == ""


# ---- partitions come


async def test_an_added_partition_is_usable_at_once(seed, autojump_clock):
    """A new partition takes nodes and applications when ``switch`` returns, and its timers fire at their own time."""
    async with realm(default=LEAVES) as setup:
        await trio.sleep(1000)
        assert await setup.partitions.switch(several_loaded(default=LEAVES, gpu=LEAVES)) == ""
        assert list(setup.partitions.inboxes) == ["default", "gpu"]
        await setup.send("gpu", node("n1", vcore=1000), app("app-1"), ask("t1", "app-1", vcore=1))
        assert setup.heard("gpu")[-1] == "t1 on n1"
        await trio.sleep(301)
        assert setup.heard("gpu")[-1] == "app-1 Running"
        assert setup.heard("default") == ["configuration accepted"] * 2


@pytest.mark.parametrize(("name", "other"), [("gpu", "GPU"), ("GPU", "gpu"), ("Gpu", "gPU")])
async def test_names_are_compared_without_case(seed, autojump_clock, name, other):
    """``GPU`` is ``gpu``: it keeps its name, its nodes and what runs, and takes the new queues."""
    async with realm(**{"default": LEAVES, name: LEAVES}) as setup:
        await busy(setup)
        actor = setup[name]
        assert await setup.partitions.switch(several_loaded(**{"default": LEAVES, other: [*LEAVES, queue("c")]})) == ""
        assert list(setup.partitions.inboxes) == ["default", name]
        assert setup[name] is actor
        assert actor.core.registry.config.name == name
        assert {"root.c", "root.b"} < set(actor.core.registry.queues)
        assert set(actor.core.registry.nodes) == {"n1"}
        await setup.settle()


# ---- partitions go


async def test_a_removed_partition_ends_with_all_it_runs(seed, autojump_clock):
    """CF-56: applications fail, allocations are released with the reason, nodes and queues go, its tasks end, others work on."""
    async with realm(**TWO) as setup:
        await busy(setup)
        gpu, told = setup["gpu"], len(setup.facts("gpu"))
        tasks = trio.lowlevel.current_statistics().tasks_living
        assert await setup.partitions.switch(several_loaded(default=LEAVES)) == ""
        assert list(setup.partitions.inboxes) == list(setup.partitions.actors) == ["default"]
        assert gpu.finished.is_set()
        news = setup.facts("gpu")[told:]
        gone = "released STOPPED_BY_RM (Partition gpu Removed)"
        assert [line for line in map(spoken, news) if line] == [
            "gpu-1 Failing",
            "gpu-1 Failed",
            f"gpu-t0 {gone}",
            f"gpu-t1 {gone}",
        ]
        assert [fact.node_id for fact in news if isinstance(fact, NodeRemoved)] == ["n1"]
        assert [fact.queue for fact in news if isinstance(fact, QueueRemoved)] == ["root.b", "root.a", "root"]
        assert (gpu.core.registry.applications, gpu.core.registry.nodes, gpu.core.registry.queues) == ({}, {}, {})
        await trio.testing.wait_all_tasks_blocked()
        # the partition, its scheduler, three queues and a node
        assert tasks - trio.lowlevel.current_statistics().tasks_living == 6
        await setup.send("default", node("n2", vcore=1000))
        assert setup.heard("default")[-1] == "default-t2 on n2"


async def test_what_is_in_the_inbox_is_handled_before_the_end(seed, autojump_clock):
    """Input of a partition that goes is still handled and answered; a snapshot shows it as it was; then all of it ends."""
    async with realm(**TWO) as setup:
        await busy(setup)
        gpu, free = setup["gpu"], setup.blocked("gpu")
        await trio.testing.wait_all_tasks_blocked()
        answered = []
        gpu.inbox.put_nowait(Intake([node("n2", vcore=1), app("late", "root.a")], Heard(answered.append)))
        gpu.inbox.put_nowait(TakeSnapshot(7))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.partitions.switch, several_loaded(default=LEAVES))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.ClosedResourceError):
                gpu.inbox.put_nowait(TakeSnapshot(8))
            free.set()
        assert answered == ["gpu"]
        (snapshot,) = [told for told in setup.told if isinstance(told, PartitionSnapshot)]
        assert set(snapshot.state.applications) == {"gpu-1", "late"}
        behind = setup.told[setup.told.index(snapshot) + 1 :]
        assert [line for told in behind for fact in told.facts if (line := spoken(fact))] == [
            "late Failing",
            "late Failed",
            "gpu-1 Failing",
            "gpu-1 Failed",
            "gpu-t0 released STOPPED_BY_RM (Partition gpu Removed)",
            "gpu-t1 released STOPPED_BY_RM (Partition gpu Removed)",
        ]


async def test_senders_that_wait_while_a_partition_goes(seed, autojump_clock):
    """Senders do not wait for ever for room in the inbox of a partition that goes, and nothing is accepted behind its end."""
    async with realm(**TWO) as setup:
        await busy(setup)
        gpu, free = setup["gpu"], setup.blocked("gpu")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(gpu.inbox.capacity):
            gpu.inbox.put_nowait(Intake([]))
        refused = []

        async def say(number):
            try:
                await gpu.inbox.put(Intake([app(f"late-{number}", "root.a"), node(f"late-{number}", vcore=1)]))
            except trio.ClosedResourceError:
                refused.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(say, number)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(setup.partitions.switch, several_loaded(default=LEAVES))
            await trio.testing.wait_all_tasks_blocked()
            free.set()
        assert sorted(refused) == list(range(5))
        assert gpu.finished.is_set()
        assert isinstance(setup.facts("gpu")[-1], QueueRemoved)
        assert not [line for line in setup.heard("gpu") if line.startswith("late-")]


async def test_a_snapshot_that_waits_for_a_partition_that_goes(seed, autojump_clock):
    """The snapshot is not refused and does not hang: it has the partitions that are left."""
    async with realm(**TWO) as setup, trio.open_nursery() as nursery:
        feed = FeedActor(FakeDelivery(lambda *_: []), setup.partitions.inboxes)
        setup.publish = feed.inbox.put
        nursery.start_soon(feed.run)
        gpu, free = setup["gpu"], setup.blocked("gpu")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(gpu.inbox.capacity):
            gpu.inbox.put_nowait(Intake([]))
        found = []

        async def look():
            found.extend((await feed.snapshot()).partitions)

        async with trio.open_nursery() as looking:
            looking.start_soon(look)
            await trio.testing.wait_all_tasks_blocked()
            assert gpu.inbox.senders_waiting() == 1
            looking.start_soon(setup.partitions.switch, several_loaded(default=LEAVES))
            await trio.testing.wait_all_tasks_blocked()
            free.set()
        assert [state.name for state in found] == ["default"]
        nursery.cancel_scope.cancel()


async def test_a_partition_that_comes_back_is_empty(seed, autojump_clock):
    """Nothing of the old one is left: no nodes, no applications, the same names are free."""
    async with realm(**TWO) as setup:
        for _ in range(3):
            await busy(setup)
            assert await setup.partitions.switch(several_loaded(default=LEAVES)) == ""
            assert await setup.partitions.switch(several_loaded(default=LEAVES, gpu=LEAVES)) == ""
            state = setup.state()["gpu"][2]
            assert (state.applications, state.nodes) == ({}, {})
            await setup.partitions.switch(several_loaded(gpu=LEAVES))
            await setup.partitions.switch(several_loaded(gpu=LEAVES, default=LEAVES))


async def test_all_partitions_are_replaced(seed, autojump_clock):
    """All running partitions go: preparation has no partition to wait for, and is done all the same."""
    async with realm(**TWO) as setup:
        await busy(setup)
        assert await setup.partitions.switch(several_loaded(x=LEAVES, y=LEAVES)) == ""
        assert list(setup.partitions.inboxes) == ["x", "y"]
        await setup.settle()
