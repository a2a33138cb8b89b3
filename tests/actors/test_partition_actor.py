"""A partition as trio tasks on a virtual clock: order, timers, back pressure, manual mode, snapshots, crash and shutdown."""

import time
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from costs import without_collector
from faulting import watch_schedulers
from heard import Heard
from world import PLENTY, RELEASED, S_NS, answer, app, ask, configure, load, make_world, node, queue, release, spoken, tree

from ykactor.actors.clock import Clock
from ykactor.actors.commands import Awaited, Intake, PartitionSnapshot, Publication, Quiesce, Read, RunCycles, TakeSnapshot
from ykactor.actors.mailbox import MailboxOverflow
from ykactor.actors.partition import INBOX_MAX, Cycling, PartitionActor
from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.facts import Allocated, PredicatesAsked
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import HeldLimits
from ykactor.core.objects.node import NodeCore
from ykactor.core.turn.scheduler import Decide, Observe
from ykactor.core.turn.turn import Input
from ykactor.core.values.parts import PART_MAX

TWO_LEAVES = tree(queue("a"), queue("b", max={"vcore": 3000}))
UNBOUNDED = Budget(PLENTY, PLENTY)


class Stage:
    """A running partition, and everything that it gave to the feed."""

    def __init__(self, text, **options):
        self.told = []
        #: While this is not set, the feed has no room.
        self.room = trio.Event()
        self.room.set()
        self.clock = Clock(0)
        self.actor = PartitionActor(load(text), self.clock, self._publish, Cycling(**options))

    async def _publish(self, command):
        await self.room.wait()
        self.told.append(command)

    async def command(self, make):
        """Send the command that ``make`` makes of its answers, and wait until it is done."""
        done = Awaited()
        await self.actor.inbox.put(make(done))
        await done.wait()

    async def send(self, *submissions):
        """Have these handled together, and all that follows decided."""
        await self.command(lambda done: Intake(list(submissions), done))
        await self.command(Quiesce)

    async def steps(self, count):
        await self.command(lambda done: RunCycles(count, done))

    async def until(self, at_s):
        """Let the clock run up to a virtual second, its own timers included."""
        await trio.sleep_until(self.clock.to_trio(at_s * S_NS))
        await self.command(Quiesce)

    @property
    def facts(self):
        return [fact for told in self.told if isinstance(told, Publication) for fact in told.facts]

    def heard(self):
        """(virtual second, decision) of everything decided; the first configuration is not news."""
        lines = [(fact.at_ns / S_NS, line) for fact in self.facts if (line := spoken(fact)) is not None]
        return lines[1:]

    def placed(self):
        return [fact.ask.allocation_key for fact in self.facts if isinstance(fact, Allocated)]


@asynccontextmanager
async def stage(text=TWO_LEAVES, **options):
    made = Stage(text, **options)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.actor.run)
        yield made
        nursery.cancel_scope.cancel()


def asks(count, application="app-1", **resource):
    return [ask(f"{application}-{number}", application, **(resource or {"vcore": 1000})) for number in range(count)]


# ---- order

STORY = [
    (0, [node("n1", vcore=4000), node("n2", vcore=2000), app("app-1", "root.a"), app("app-2", "root.b")]),
    (1, [*asks(4), *asks(4, "app-2"), ask("lost", "nobody", vcore=1)]),
    (2, [release("app-1-0"), node("n3", vcore=8000), release("app-2-0", "app-2")]),
    (3, [ask("pinned", "app-1", requires="n3", vcore=1)]),
    (40, [node("n1", "DRAIN_NODE"), *asks(3, "app-2", vcore=500), app("app-1", "root.a")]),
    (350, [node("n1", "DECOMISSION"), release(None)]),
    (400, [ask("late", "app-2", vcore=100)]),
]


async def test_facts_come_in_the_order_of_the_plain_loop(seed, autojump_clock):
    """The actors decide what the oracle decides, when it does, and publish it in the same order."""
    world = make_world(TWO_LEAVES)
    async with stage(budget=UNBOUNDED) as s:
        for at_s, submissions in STORY:
            world.send(*submissions, at=at_s)
            await s.until(at_s)
            await s.send(*submissions)
        world.wait(500)
        await s.until(500)
        assert s.facts == world.facts


async def test_a_cycle_is_one_message_to_the_scheduler(seed, autojump_clock, monkeypatch):
    """The scheduler plans, sends nodes what is placed there, and has leaves settle it, without the partition in between."""
    async with stage() as s:
        await s.send(node("n1", vcore=4000), app("app-1", "root.a"))
        sent = []
        watch_schedulers(monkeypatch, before=lambda _, arguments: sent.append(type(arguments[0])))
        await s.send(*asks(3))
        assert s.placed() == ["app-1-0", "app-1-1", "app-1-2"]
        assert sent == [Observe, Decide]


async def test_what_is_in_the_inbox_together_is_handled_together(seed, autojump_clock):
    """Input of one turn takes effect before any decision, in the order of the inbox, whoever sent it."""
    submissions = [submission for _, submissions in STORY[:4] for submission in submissions]
    world = make_world(TWO_LEAVES)
    world.send(*submissions)
    async with stage(budget=UNBOUNDED) as s:
        for submission in submissions:
            s.actor.inbox.put_nowait(Intake([submission]))
        await s.command(Quiesce)
        assert s.facts == world.facts


async def test_what_exceeds_a_limit_is_refused_in_order(seed, autojump_clock):
    """Whatever the order in which leaves run: the first ones get the room that there is. The sender hears of it once a turn."""
    limits = HeldLimits("ci", 2, 3, 1, 1)
    submissions = [
        node("n1", vcore=9000),
        node("n2", vcore=1),
        app("app-1", "root.a"),
        app("app-2", "root.b"),
        app("app-3", "root.a"),
    ]
    submissions += [ask(f"t{number}", f"app-{1 + number % 2}", vcore=1) for number in range(6)]
    world = make_world(TWO_LEAVES)
    world.direct.run_turn(0, Input(submissions, limits))
    world.direct.schedule(0)
    heard = Heard()
    async with stage(budget=UNBOUNDED) as s:
        await s.actor.inbox.put(Intake(submissions, heard, limits=limits))
        await s.command(Quiesce)
        assert s.facts == world.facts
        assert sorted(s.placed()) == ["t0", "t1", "t2"]
    assert [reason.split(":")[0] for reason in heard.reasons] == [
        f"limit {name} of identity ci" for name in ("nodes = 1", "applications = 2", "asks = 3")
    ]


async def test_done_is_called_when_all_that_was_caused_is_published(seed, autojump_clock):
    """``Answers.done`` comes behind the facts of the submissions themselves, so that an ``Ack`` does too."""
    async with stage() as s:
        seen = []
        for number in range(20):
            s.actor.inbox.put_nowait(Intake([node(f"n{number}", vcore=1)], Heard(lambda name: seen.append((name, len(s.told))))))
        await s.command(Quiesce)
        heard = [line for _, line in s.heard()]
        assert heard == [f"n{number} accepted" for number in range(20)]
        assert seen == [("default", 2)] * 20  # the first configuration, and one publication for the whole turn


async def test_a_turn_is_one_publication(seed, autojump_clock):
    """However many facts a turn has, and in how many parts they come: all are published together, when it has ended."""
    async with stage() as s:
        await s.send(node("n1", vcore=10**6), app("app-1", "root.a"), *asks(3 * PART_MAX // 2))
        before = len(s.told)
        await s.send(release(None))
        (told,) = s.told[before:]
        assert len(told.facts) > PART_MAX
        assert s.actor._facts == []


# ---- timers


async def test_timers_fire_at_their_own_time(seed, autojump_clock):
    """Starting ends after 5 min (AP-40), Completing after 30 s (AP-51), an ended application is forgotten after 72 h (AP-73)."""
    async with stage() as s:
        await s.send(node("n1", vcore=4000), app("app-1"), *asks(1))
        await s.until(400)
        await s.send(release("app-1-0"))
        await trio.sleep(100 * 3600)
        expired_s = 430 + 72 * 3600
        assert s.heard() == [
            (0, "n1 accepted"),
            (0, "app-1 New"),
            (0, "app-1 Accepted"),
            (0, "app-1 Starting"),
            (0, "app-1-0 on n1"),
            (300, "app-1 Running"),
            (400, "app-1 Completing"),
            (400, f"app-1-0 {RELEASED}"),
            (430, "app-1 Completed"),
            (expired_s, "app-1 Expired"),
        ]


async def test_time_alone_lets_a_queue_give_back(seed, autojump_clock):
    """SC-5: a partition in which nothing happens wakes for the start of a queue that is over its lowered max."""
    properties, on = {"quota.preemption.delay": "10s"}, {"quotapreemptionenabled": True}
    before, after = (tree(queue("a", p=properties, max={"vcore": limit}), preemption=on) for limit in (2000, 1000))
    async with stage(before) as s:
        await s.send(node("n1", vcore=4000), app("app-1"), *asks(2))
        await s.until(1)
        await s.send(configure(after))
        await trio.sleep_until(s.clock.to_trio(60 * S_NS))
        why = "preempting allocations to enforce new max quota for queue : root.a"
        assert s.heard()[-1] == (11.0, f"app-1-0 releasing PREEMPTED_BY_SCHEDULER ({why})")


async def test_due_timers_come_before_input_of_the_same_moment(seed, autojump_clock):
    async with stage() as s:
        await s.send(node("n1", vcore=4000), app("app-1"), *asks(1))
        await trio.sleep_until(s.clock.to_trio(300 * S_NS))
        await s.send(node("n2", vcore=1))
        assert s.heard()[-2:] == [(300, "app-1 Running"), (300, "n2 accepted")]


async def test_idle_partition_does_nothing(seed, autojump_clock):
    """A partition without input and timers runs no cycle and reports nothing for a virtual day, although asks are pending."""
    async with stage() as s:
        await s.send(node("n1", vcore=4000), app("app-1"), *asks(6))
        await s.until(301)
        assert len(s.placed()) == 4
        cycles, told = s.actor.cycles, len(s.told)
        await trio.sleep(24 * 3600)
        assert (s.actor.cycles, len(s.told), s.actor.busy) == (cycles, told, False)


# ---- waiting


async def test_full_inbox_makes_senders_wait_and_loses_nothing(seed, autojump_clock):
    """A partition that cannot publish takes no more input: senders wait, and all is handled in order when it goes on."""
    async with stage() as s:
        s.room = trio.Event()
        s.actor.inbox.put_nowait(Intake([node("first", vcore=1)]))
        await trio.testing.wait_all_tasks_blocked()
        assert s.actor.busy
        for number in range(INBOX_MAX):
            s.actor.inbox.put_nowait(Intake([node(f"n{number}", vcore=1)]))
        with pytest.raises(MailboxOverflow):
            s.actor.inbox.put_nowait(Intake([]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(s.send, node("last", vcore=1))
            await trio.testing.wait_all_tasks_blocked()
            assert (s.actor.inbox.messages_waiting(), s.actor.inbox.senders_waiting()) == (INBOX_MAX, 1)
            s.room.set()
        expected = ["first", *(f"n{number}" for number in range(INBOX_MAX)), "last"]
        assert [line.split()[0] for _, line in s.heard()] == expected


async def test_quiesce_waits_until_nothing_more_can_be_decided(seed, autojump_clock):
    """However small the cycles, ``Quiesce`` is answered behind the last decision and behind timers that are due."""
    async with stage(budget=Budget(1, 1)) as s:
        await s.send(node("n1", vcore=100_000), app("app-1"), app("app-2"), *asks(80, "app-2"), *asks(1))
        assert len(s.placed()) == 81
        await trio.sleep_until(s.clock.to_trio(300 * S_NS))
        await s.command(Quiesce)
        assert s.heard()[-1] == (300, "app-1 Running")


async def test_input_is_taken_between_cycles(seed, autojump_clock):
    """SC-3: a long backlog does not shut the door: what arrives during it is handled before it is worked off."""
    async with stage(budget=Budget(1, PLENTY)) as s:
        s.actor.inbox.put_nowait(Intake([node("n1", vcore=100_000), app("app-1"), *asks(50)]))
        while not s.placed():
            await trio.lowlevel.checkpoint()
        await s.command(lambda done: Intake([node("n2", vcore=1)], done))
        assert 0 < len(s.placed()) < 50
        await s.command(Quiesce)
        assert len(s.placed()) == 50


# ---- manual mode


async def test_manual_mode_decides_only_when_told(seed, autojump_clock):
    """``RunCycles`` runs passes of at most one decision each; input is taken and timers fire all the same."""
    async with stage(manual=True) as s:
        await s.send(node("n1", vcore=4000), app("app-1"), *asks(6))
        assert s.placed() == []
        await s.steps(1)
        assert s.placed() == ["app-1-0"]
        await trio.sleep(301)
        assert s.heard()[-1] == (300, "app-1 Running")
        await s.steps(2)
        assert s.placed() == ["app-1-0", "app-1-1", "app-1-2"]
        await s.steps(5)
        assert len(s.placed()) == 4
        await s.steps(10**15)  # at rest there is nothing to step through
        assert len(s.placed()) == 4


# ---- bursts


async def test_a_reader_in_the_middle_of_a_burst_finds_every_placement(seed, autojump_clock):
    """Nodes are sent a burst together, but whoever reads the partition between two plans finds them as the scheduler does."""
    unsent, found, running = [], [], []

    def read(core, state, _):
        placed = sum(len(each.allocations) for each in core.registry.nodes.values())
        found.append((placed, violations(core, running[0].scheduler_core)))
        return
        yield

    def look(_, __, cycle):
        for actor in running:
            unsent.append(actor.core.registry.unsent.count)
            actor.inbox.put_nowait(Read(read, lambda _: None))

    async with stage(budget=Budget(2, PLENTY), on_cycle=look) as s:
        await s.send(node("n1", vcore=4000), node("n2", vcore=4000), app("app-1"))
        running.append(s.actor)
        await s.command(lambda done: Intake(asks(6), done))
        await trio.sleep(1)
        assert unsent == [2, 2, 2, 0]
        assert [placed for placed, _ in found][-4:] == [2, 4, 6, 6]
        assert all(wrong == [] for _, wrong in found)


async def test_a_burst_without_readers_is_sent_at_its_end(seed, autojump_clock):
    """Each node gets one message for a burst; also a snapshot, and the steps of the manual mode, find nothing missing."""
    batches = []

    async with stage(budget=Budget(2, PLENTY)) as s:
        await s.send(node("n1", vcore=9000), app("app-1"))
        core = s.actor.core.registry.nodes["n1"]
        place = core.on_place_batch
        core.on_place_batch = lambda command: (batches.append(len(command.asks)), place(command))[1]
        await s.send(*asks(7))
        assert batches == [7]


# ---- snapshots


async def test_snapshot_stands_exactly_where_it_was_asked_for(seed, autojump_clock):
    """Input before ``TakeSnapshot`` is in the state, input behind it is not, and the publications are on the same sides."""
    async with stage() as s:
        for number in range(5):
            s.actor.inbox.put_nowait(Intake([node(f"n{number}", vcore=1)]))
            s.actor.inbox.put_nowait(TakeSnapshot(number))
        await s.command(Quiesce)
        assert [type(told) for told in s.told[1:]] == [Publication, PartitionSnapshot] * 5
        snapshots = s.told[2::2]
        assert [(snapshot.partition, snapshot.snapshot_id) for snapshot in snapshots] == [("default", n) for n in range(5)]
        assert [list(snapshot.state.nodes) for snapshot in snapshots] == [[f"n{n}" for n in range(m + 1)] for m in range(5)]


async def test_snapshot_under_load_equals_what_was_published(seed, autojump_clock):
    """Between the cycles of a long backlog, a snapshot holds just the allocations that were published before it."""
    async with stage(budget=Budget(3, PLENTY)) as s:
        s.actor.inbox.put_nowait(Intake([node("n1", vcore=100_000), app("app-1"), *asks(60)]))
        for number in range(10):
            await s.actor.inbox.put(TakeSnapshot(number))
            for _ in range(10):
                await trio.lowlevel.checkpoint()
        await s.command(Quiesce)
        counts, placed = [], 0
        for told in s.told:
            if isinstance(told, Publication):
                placed += sum(isinstance(fact, Allocated) for fact in told.facts)
            elif told.state.nodes:
                assert len(told.state.nodes["n1"].allocations) == placed
                assert told.state.queues["root.a"].allocated == ({"vcore": 1000 * placed} if placed else {})
                counts.append(placed)
        assert len(set(counts)) > 3


# ---- the end


async def test_closed_inbox_ends_the_partition_in_good_order(seed, autojump_clock):
    """The messages in the inbox are still handled and published, then ``run`` returns and all its tasks are gone."""
    s = Stage(TWO_LEAVES)
    async with trio.open_nursery() as nursery:
        await nursery.start(s.actor.run)
        answered = []
        for number in range(5):
            s.actor.inbox.put_nowait(Intake([node(f"n{number}", vcore=1)], Heard(answered.append)))
        s.actor.inbox.close()
    assert s.actor.finished.is_set()
    assert [line for _, line in s.heard()] == [f"n{number} accepted" for number in range(5)]
    assert answered == ["default"] * 5


async def test_thousands_of_nodes_start_and_stop():
    """Each node has a task of its own; all begin, work, and are gone: four times as many take about four times the CPU time."""
    few_s, many_s = await lived_s(1500), await lived_s(6000)
    assert all(many < 10 * few for few, many in zip(few_s, many_s, strict=True)), (few_s, many_s)


async def lived_s(count):
    """The CPU time of the life of a partition with so many nodes, and that of its end."""
    tasks_before = trio.lowlevel.current_statistics().tasks_living
    with without_collector():
        began_s = time.thread_time()
        async with stage(budget=UNBOUNDED) as s:
            await s.send(*(node(f"n{number}", vcore=1000) for number in range(count)), app("app-1"), *asks(count))
            # nodes and queues have one each, and so have the partition and its scheduler
            assert trio.lowlevel.current_statistics().tasks_living - tasks_before == count + 3 + 2
            assert len(set(s.placed())) == count
            stopping_s = time.thread_time()
        stopped_s = time.thread_time()
    assert trio.lowlevel.current_statistics().tasks_living == tasks_before
    return stopped_s - began_s, stopped_s - stopping_s


@pytest.mark.parametrize("handler", ["on_register", "on_place_batch"])
async def test_broken_node_takes_its_partition_down(seed, autojump_clock, monkeypatch, handler):
    """A core that raises is our mistake: it comes out of ``run``, and no task continues as if nothing had happened."""

    def broken(*_):
        raise RuntimeError("this node is broken")

    monkeypatch.setattr(NodeCore, handler, broken)
    s = Stage(TWO_LEAVES)
    s.actor.inbox.put_nowait(Intake([node("n1", vcore=4000), app("app-1"), *asks(1)]))
    with pytest.raises(BaseExceptionGroup) as caught:
        await s.actor.run()
    mine, others = caught.value.split(RuntimeError)
    assert mine is not None
    assert others is None
    assert not s.actor.finished.is_set()
    assert s.placed() == []


# ---- a resource manager that answers where asks may run


def classed(count, **more):
    return [ask(f"gpu-{number}", "app-1", predicate=f"class-{number}", vcore=100, **more) for number in range(count)]


async def test_a_dead_answerer_stalls_nobody(seed, autojump_clock):
    """While hundreds of asks wait for answers that never come, every other ask is placed in the moment in which it is sent."""
    async with stage() as s:
        nodes = [node(f"n{number:02}", vcore=40_000) for number in range(40)]
        await s.send(*nodes, app("app-1"), app("app-2", "root.b"), *classed(300))
        for second in range(30):
            await s.until(second)
            await s.send(ask(f"free-{second}", "app-2", vcore=1))
            assert s.placed() == [f"free-{number}" for number in range(second + 1)]
        assert [at for at, line in s.heard() if " on " in line and "free" in line] == list(range(30))
        assert s.actor.cycles < 300


async def test_a_slow_answerer_is_asked_once_and_waited_for(seed, autojump_clock):
    """Each answer comes 3 s after its question; what is answered is placed then, and others meanwhile."""
    async with stage() as s:
        nodes = [node(f"n{number}", vcore=4000) for number in range(3)]
        await s.send(*nodes, app("app-1"), app("app-2", "root.b"), *classed(3))
        questions = [fact for fact in s.facts if isinstance(fact, PredicatesAsked)]
        await s.until(1)
        await s.send(ask("free", "app-2", vcore=1))
        await s.until(3)
        await s.send(*(said for check in questions for said in answer(check.predicate, *check.nodes)))
        placed = [(at, line.split()[0]) for at, line in s.heard() if " on n" in line and "?" not in line]
        assert placed == [(1, "free"), (3, "gpu-0"), (3, "gpu-1"), (3, "gpu-2")]
        await s.until(3600)
        assert [fact for fact in s.facts if isinstance(fact, PredicatesAsked)] == questions


async def test_an_answer_that_is_overdue_rings(seed, autojump_clock):
    """After 10 s nobody is waited for; without anything else to do the partition looks again by itself, also in manual mode."""
    async with stage() as s:
        await s.send(node("n1", vcore=4000), node("n2", vcore=4000), app("app-1"), *classed(1))
        await s.send(*answer("class-0", "n2"))
        await trio.sleep(60)
        assert s.heard()[-1] == (10, "gpu-0 on n2")
    async with stage(manual=True) as s:
        await s.send(node("n1", vcore=4000), node("n2", vcore=4000), app("app-1"), *classed(1))
        await s.steps(1)
        await s.send(*answer("class-0", "n2"))
        cycles = s.actor.cycles
        await trio.sleep(60)
        assert s.actor.cycles == cycles
        await s.steps(1)
        assert s.placed() == ["gpu-0"]
