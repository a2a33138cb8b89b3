"""Partitions that are made anew while they run, on a virtual clock: nobody notices, and what follows can be replayed."""

import gc
import weakref
from contextlib import asynccontextmanager, closing
from functools import partial

import pytest
import trio
from heard import Heard
from msgspec import structs
from recorded import DEFAULT, GPU, Life, Step, StoreInTheLoop, record
from world import app, ask, load, node, queue, release, remove, tree

from ykactor.actors import partition, pauses
from ykactor.actors import partition as partition_module
from ykactor.actors.commands import Administer, Awaited, Intake, Quiesce, RunCycles
from ykactor.actors.journal import History
from ykactor.actors.partition import AGE_PART, BASES_APART, CYCLE_BUDGET, LATEST, Renewal
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.acts import MoveApplication
from ykactor.core.values.parts import PART_MAX
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.surfaces.cli.replay import replayed

CONFIG = load(tree(queue("a"), queue("b")))
WIDER = load(tree(queue("a"), queue("b"), queue("c")))
S_NS = 10**9


def scheduler_config(*partitions):
    return SchedulerConfig(partitions, checksum=f"{len(partitions)}", text="")


# ---- when


def noted(history, base=b"x" * 100):
    renewal = Renewal(history)
    renewal.note(0, base, has_facts=False)
    return renewal


@pytest.mark.parametrize("is_quiet", [True, False])
def test_when_enough_was_recorded(is_quiet):
    """A quiet moment is used as soon as more was recorded than is kept, any moment before input when it is twice as much."""
    history = History(keep_bytes=10_000)
    due = noted(history)
    due.note(1, None, has_facts=True)
    history.written = 10_000 if is_quiet else LATEST * 10_000
    assert not due.is_due(2, is_quiet=is_quiet)
    history.written += 1
    assert due.is_due(2, is_quiet=is_quiet)
    due.note(2, b"x", has_facts=True)
    assert not due.is_due(2, is_quiet=is_quiet)


def test_large_bases_are_rare():
    """However little is kept, bases are a small part of what is recorded."""
    history = History(keep_bytes=1)
    due = noted(history)
    due.note(1, None, has_facts=True)
    history.written = BASES_APART * 100
    assert not due.is_due(2, is_quiet=True)
    history.written += 1
    assert due.is_due(2, is_quiet=True)


def test_age():
    """Long before the base is deleted because of its age."""
    due = noted(History(keep_ns=4_000))
    due.note(1, None, has_facts=True)
    assert [due.is_due(now_ns, is_quiet=True) for now_ns in (4_000 // AGE_PART, 4_000 // AGE_PART + 1)] == [False, True]


def test_nothing_to_replay_needs_no_base():
    """An idle partition is not made anew, again and again; but before its next input it is, because the last base may be gone."""
    history = History(keep_bytes=1_000, keep_ns=1_000)
    due = noted(history)
    due.note(1, None, has_facts=False)
    history.written = 10**9
    assert not due.is_due(10**9, is_quiet=True)
    assert due.is_due(10**9, is_quiet=False)


# ---- nobody notices


def load_steps():
    """Sixty applications come, some of them need more than there is, and most go."""
    yield Step(0, lambda: [node(f"n{number}", vcore=4000) for number in range(4)])
    for number in range(60):
        name, at_ns = f"app-{number}", (number + 1) * 3 * S_NS
        asks = [ask(f"t{number}-{place}", name, vcore=1000) for place in range(7)]
        yield Step(at_ns, partial(list, [app(name, f"root.{'ab'[number % 2]}"), *asks]))
        if number > 2 and number % 5:
            yield Step(at_ns + S_NS, partial(list, [release(f"t{number - 3}-{place}") for place in range(7)]))
            yield Step(at_ns + S_NS, partial(list, [remove(f"app-{number - 3}")]))


def bases_in(directory):
    with Reader.open(directory) as reader:
        return sum(len(reader.bases(row.number)) for row in reader.rows())


def test_nobody_notices(tmp_path, monkeypatch):
    """All decisions come at the same time and in the same order; the rest of the history can be replayed when its beginning
    is gone.
    """
    monkeypatch.setattr(partition, "BASES_APART", 0)
    heard = {}
    for keep_bytes in (2**60, 3_000):
        facts = heard[keep_bytes] = []
        directory = tmp_path / str(keep_bytes)
        settings = {"seed": 1, "budget": CYCLE_BUDGET, "ends": 0}
        record(directory, scheduler_config(CONFIG), list(load_steps()), hear=facts.extend, keep_bytes=keep_bytes, **settings)
    assert heard[3_000] == heard[2**60]
    assert bases_in(tmp_path / str(2**60)) == 1
    directory = tmp_path / "3000"
    assert bases_in(directory) > 5
    with closing(Store.open(directory, "off", now_ns=0)) as store:
        store.trim(store._end_byte // 2, 2**62, now_ns=0)
    with Reader.open(directory) as reader:
        assert reader.numbers()[0] > 1
        outcome = replayed(reader)
    assert outcome.difference is None
    assert outcome.turns > 50


class Renewing:
    """A daemon whose partition is being made anew until ``may_end`` is set, and then as often as it is due.

    With ``failure`` set, renewals fail in that way.
    """

    def __init__(self, life):
        self.life = life
        self.actor = life.partitions.actors[DEFAULT]
        self.heard = []
        self.failures = []
        self.renewals = 0
        self.may_end = trio.Event()
        self.failure = None

    def renewed(self, core, scheduler):
        self.renewals += 1
        yield PART_MAX
        if self.failure is not None:
            raise self.failure
        return (yield from _RENEWED(core, scheduler))

    async def drive(self, work, rest=pauses.pause):
        return await pauses.drive(work, self.rest if rest is pauses.pause else rest)

    async def rest(self):
        if self.actor.is_renewing:
            await self.may_end.wait()
        await trio.lowlevel.checkpoint()

    async def send(self, *submissions):
        await self.command(lambda done: Intake(list(submissions), done))

    async def command(self, make):
        done = Awaited()
        await self.actor.inbox.put(make(done))
        await done.wait()

    async def settle(self):
        await self.command(Quiesce)


_RENEWED = partition_module.renewed


@asynccontextmanager
async def renewing(directory, monkeypatch):
    """A partition with a running task and one that waits, which is being made anew."""
    monkeypatch.setattr(partition, "BASES_APART", 0)
    failures = []
    monkeypatch.setattr("recorded.no_failure", lambda partition, failure: failures.append((partition, failure)))
    with closing(Store.open(directory, "off", now_ns=0)) as store:
        facts = []
        life = Life(StoreInTheLoop(store, directory), None, scheduler_config(CONFIG), CYCLE_BUDGET, facts.extend, 1_000, 0)
        async with trio.open_nursery() as nursery:
            await life.begin(nursery)
            made = Renewing(life)
            made.heard, made.failures = facts, failures
            monkeypatch.setattr(partition_module, "renewed", made.renewed)
            monkeypatch.setattr(partition_module, "drive", made.drive)
            opening = [node("n1", vcore=1000), app("app-1", "root.a"), *(ask(f"t{n}", "app-1", vcore=1000) for n in range(9))]
            await made.actor.inbox.put(Intake(opening))
            await trio.sleep(1)  # what was recorded is counted
            await made.actor.inbox.put(Intake([]))
            await trio.sleep(1)
            assert made.actor.is_renewing
            yield made
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    with Reader.open(directory) as reader:
        assert replayed(reader).difference is None


async def test_commands_that_come_in_meanwhile(tmp_path, monkeypatch, autojump_clock):
    """They are carried out afterwards, in their order."""
    async with renewing(tmp_path, monkeypatch) as made:
        old, answered, snapshots = made.actor.core, [], []

        async def look():
            snapshots.append(await made.life.feed.snapshot())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            for name, command in {
                "submit": lambda done: Intake([app("app-2", "root.a")], done),
                "move": lambda done: Administer(MoveApplication("app-2", "root.b"), done),
                "cycles": lambda done: RunCycles(2, done),
            }.items():
                await made.actor.inbox.put(command(Heard(lambda _, name=name: answered.append(name))))
            nursery.start_soon(made.life.happen, Step(0, lambda: scheduler_config(WIDER)))
            await trio.sleep(1)
            assert (answered, snapshots) == ([], [])
            made.may_end.set()
        assert answered == ["submit", "move", "cycles"]
        assert len(snapshots) == 1
        assert made.actor.core is not old
        assert made.actor.core.registry.applications["app-2"] == "root.b"
        assert "root.c" in made.actor.core.registry.queues


async def test_a_partition_that_is_removed(tmp_path, monkeypatch, autojump_clock):
    """A removal waits until the partition has been made anew."""
    async with renewing(tmp_path, monkeypatch) as made, trio.open_nursery() as nursery:
        nursery.start_soon(made.life.happen, Step(0, lambda: scheduler_config(structs.replace(CONFIG, name=GPU))))
        await trio.sleep(1)
        assert not made.actor.finished.is_set()
        made.may_end.set()
        await made.actor.finished.wait()


async def test_the_end_of_the_daemon(tmp_path, monkeypatch, autojump_clock):
    """The daemon ends without waiting for a renewal: nothing is lost."""
    async with renewing(tmp_path, monkeypatch) as made:
        assert made.actor.is_renewing


async def test_a_failure_harms_nothing(tmp_path, monkeypatch, autojump_clock):
    """The partition goes on as it is, says so once, and does not try it again."""
    async with renewing(tmp_path, monkeypatch) as made:
        old, made.failure = made.actor.core, KeyError("a bug")
        made.may_end.set()
        for number in range(30):
            await made.send(app(f"app-{number + 2}", "root.b"))
            await made.settle()
        assert made.actor.core is old
        assert made.failures == [(DEFAULT, made.failure)]
        assert made.renewals == 1
        assert len(old.registry.applications) == 31


async def test_memory_does_not_grow(tmp_path, monkeypatch, autojump_clock):
    """The state of a partition before a renewal is garbage."""
    async with renewing(tmp_path, monkeypatch) as made:
        olds = weakref.WeakSet()
        made.may_end.set()
        for number in range(80):
            olds |= {made.actor.core, made.actor.scheduler_core}
            await made.send(app(f"app-{number + 2}", "root.b"), ask(f"k{number}", f"app-{number + 2}", vcore=1000))
            await made.settle()
        assert made.renewals > 5
        gc.collect()
        assert set(olds) <= {made.actor.core, made.actor.scheduler_core}
