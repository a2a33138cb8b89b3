"""Partitions that fail, on a virtual clock: what goes on, what is refused, and what is stopped."""

import random
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
import trio.testing
from deliveries import FakeDelivery
from faulting import Bug, watch_owners, watch_partitions, watch_schedulers
from heard import Heard
from memorystore import MemoryStore
from partitiontexts import several_loaded
from recorded import no_failure
from world import app, ask, node, queue, release, spoken, terminate

from ykactor.actors.clock import Clock
from ykactor.actors.commands import Administer, Awaited, Failure, Intake, Quiesce
from ykactor.actors.feed import FeedActor, SnapshotError
from ykactor.actors.journal import Journal, Recording
from ykactor.actors.partition import PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.actors.supervision import BACKOFF_MAX_S, BACKOFF_S, CALM_S, RESTARTS_MAX, WITHIN_S, Supervisor
from ykactor.core.messages.facts import PartitionFailed
from ykactor.core.messages.submissions import ApplyConfig
from ykactor.core.turn.scheduler import Decide
from ykactor.wire.history import encode_cause, encode_facts
from ykactor.wire.si.events import events

LEAVES = [queue("a"), queue("b")]
NAMES = ("default", "gpu", "arm")
THREE = dict.fromkeys(NAMES, LEAVES)
ADVICE = "start the daemon again, or remove the partition from the configuration"
WIDER = {name: [*LEAVES, queue("c")] for name in NAMES}


class Realm:
    """Supervised partitions over a journal, with the feed, and everything that it was given."""

    def __init__(self, config, store):
        self.config = config
        self.store = store
        self.clock = Clock(0)
        self.journal = Journal(store, encode_facts, self.clock.now_ns)
        self.partitions = Partitions(self._make)
        self.told = []
        self.feed = FeedActor(FakeDelivery(events, self._deliver), self.partitions.inboxes, journal=self.journal)
        self.supervisor = Supervisor(self.clock, self.feed.inbox.put, self, reserves=True)
        self.incidents = []

    # ---- what supervision needs

    async def rows(self, partition):
        await self.feed.published(partition)
        return await self.journal.rows(partition)

    def encode(self, cause):
        return encode_cause(cause)

    async def report(self, incident):
        self.incidents.append(incident)

    # ----

    def _make(self, config):
        recording = Recording(self.journal.room, encode_cause, self.journal.history, no_failure)
        return PartitionActor(config, self.clock, self.feed.inbox.put, recording=recording)

    def _deliver(self, partition, facts):
        self.told += [(partition, fact) for fact in facts]

    async def run(self, *, task_status=trio.TASK_STATUS_IGNORED):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.journal.run)
            nursery.start_soon(self.feed.run)
            await self.partitions.start(nursery, self.config, self.supervisor)
            task_status.started()

    def __getitem__(self, name):
        return self.partitions.actors[name]

    async def send(self, name, *submissions):
        """Have these handled together; returns why some were not."""
        heard = Heard()
        await self.partitions.inboxes[name].put(Intake(list(submissions), heard))
        await heard.wait()
        return heard.failures

    async def settle(self, name):
        """Have everything decided, and the feed hear of it."""
        done = Awaited()
        await self.partitions.inboxes[name].put(Quiesce(done))
        await done.wait()
        await self.feed.published(name)

    def facts(self, name):
        return [fact for partition, fact in self.told if partition == name]

    def heard(self, name):
        return [line for fact in self.facts(name) if (line := spoken(fact)) is not None]

    def consequences(self, name):
        return [str(fact.consequence) for fact in self.facts(name) if isinstance(fact, PartitionFailed)]


@asynccontextmanager
async def realm(store=None, **queues):
    made = Realm(several_loaded(**(queues or THREE)), store or MemoryStore())
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run)
        yield made
        nursery.cancel_scope.cancel()


async def busy(made, name):
    """Three of four tasks fit on the only node."""
    await made.send(name, node("n1", vcore=3000), app("app-1", "root.a"), *(ask(f"t{n}", "app-1", vcore=1000) for n in range(4)))
    await made.settle(name)


def poison(monkeypatch, word="bad"):
    """Leaves that cannot handle what has a name with this word."""

    def fail(_, command):
        if word in repr(command):
            raise Bug("this leaf\n has a bug")

    watch_owners(monkeypatch, after=fail)


def bad_plans(monkeypatch, name="default"):
    """A partition that cannot plan."""

    def fail(scheduler, arguments):
        if scheduler.state.registry.config.name == name and isinstance(arguments[0], Decide):
            raise Bug("no plan")

    watch_schedulers(monkeypatch, before=fail)


def cannot_apply(monkeypatch, name, is_now=lambda: True):
    """A partition that cannot apply a configuration."""

    def fail(partition, arguments):
        if partition.name == name and isinstance(arguments[1][0], ApplyConfig) and is_now():
            raise Bug("not this one")

    watch_partitions(monkeypatch, before=fail)


def waiting(made, name):
    """The keys of the asks that wait."""
    (application,) = made[name].core.registry.leaf("root.a").applications.values()
    return sorted(application.tasks.asks)


# ---- quarantine


async def test_a_message_that_fails_twice_is_put_into_quarantine(seed, autojump_clock, monkeypatch):
    """The sender is told; the other messages of the turn take effect once, in order, and the partition goes on (EV-27)."""
    poison(monkeypatch)
    async with realm() as r:
        await busy(r, "default")
        wanted = [ask(key, "app-1", vcore=1000) for key in ("t4", "bad", "t5")]
        (failure,) = await r.send("default", *wanted)
        assert failure.code == "QUARANTINED"
        assert failure.reason == "SubmitAllocation bad app-1: Bug: this leaf has a bug"
        await r.settle("default")
        assert r.consequences("default") == ["RESTARTED", "QUARANTINED"]
        assert waiting(r, "default") == ["t3", "t4", "t5"]
        assert await r.send("default", release("t0")) == []
        await r.settle("default")
        assert r.heard("default")[-1] == "t3 on n1"


async def test_each_bad_message_of_a_request_is_found(seed, autojump_clock, monkeypatch):
    """However many there are: a failure whose cause is gone does not count for the end of the partition."""
    poison(monkeypatch)
    async with realm() as r:
        await busy(r, "default")
        wanted = [ask(f"{'bad' if number % 3 else 'good'}-{number}", "app-1", vcore=1) for number in range(12)]
        failures = await r.send("default", *wanted)
        assert [failure.reason.split()[1] for failure in failures] == [f"bad-{number}" for number in range(12) if number % 3]
        await r.settle("default")
        assert waiting(r, "default") == [*(f"good-{number}" for number in (0, 3, 6, 9)), "t3"]


async def test_a_request_of_an_administrator_that_fails_twice_is_refused(seed, autojump_clock, monkeypatch):
    """The administrator is told once that the request failed, and once that it is over."""
    poison(monkeypatch, "Terminate")
    async with realm() as r:
        await busy(r, "default")
        ended = []
        heard = Heard(ended.append)
        await r.partitions.inboxes["default"].put(Administer(terminate("app-1"), heard))
        await heard.wait()
        (failure,) = heard.failures
        assert failure == Failure("QUARANTINED", "Administer app-1: Bug: this leaf has a bug")
        assert ended == ["default"]
        await r.settle("default")
        assert r.consequences("default") == ["RESTARTED", "QUARANTINED"]


async def test_a_snapshot_that_fails_twice_stops_nobody(seed, autojump_clock, monkeypatch):
    """The requester of the snapshot is told that there is no answer; then the next snapshot succeeds."""
    async with realm() as r:
        await busy(r, "default")
        with monkeypatch.context() as patch:
            patch.setattr("ykactor.actors.partition.partition_state", None)
            with pytest.raises(SnapshotError, match="no answer from partition"):
                await r.feed.snapshot()
        assert [r.consequences(name) for name in NAMES] == [["RESTARTED", "QUARANTINED"]] * 3
        assert len((await r.feed.snapshot()).partitions) == 3


async def test_an_incident_has_what_is_needed_to_repeat_it(seed, autojump_clock, monkeypatch):
    """The cause and time of the turn, the rows before it, the turns before it, and where the exception came from."""
    poison(monkeypatch)
    async with realm() as r:
        await busy(r, "default")
        before = dict(await r.rows("default"))
        at_ns, turns = r.clock.now_ns(), r["default"].core.turns
        await r.send("default", ask("bad", "app-1", vcore=1))
        first, second = r.incidents
        assert first.cause == second.cause
        assert b"bad" in first.cause
        assert first.now_ns == at_ns
        assert dict(first.rows) == before
        assert "has a bug" in first.traceback
        assert "in fail" in first.traceback
        assert [number for number, _, _ in first.last] == list(range(1, turns + 1))


# ---- a partition that is stopped


async def test_a_partition_that_fails_again_and_again_is_stopped(seed, autojump_clock, monkeypatch):
    """A stopped partition shows the state before the failure and refuses everything, until it is started again; others go on."""
    async with realm() as r:
        await busy(r, "default")
        bad_plans(monkeypatch)
        assert await r.send("default", node("n2", vcore=1000)) == []
        (failure,) = await r.send("default", ask("late", "app-1", vcore=1), ask("later", "app-1", vcore=1))
        assert (failure.code, failure.reason) == (
            "UNAVAILABLE",
            "partition default is stopped: Bug: no plan; it is started again in 0.8 s",
        )
        assert r.consequences("default") == ["RESTARTED"] * RESTARTS_MAX + ["STOPPED"]
        await r.settle("default")
        states = {state.name: state for state in (await r.feed.snapshot()).partitions}
        assert set(states["default"].nodes) == {"n1", "n2"}
        await busy(r, "gpu")
        assert "t2 on n1" in r.heard("gpu")
        assert r.partitions.stopped == {"default": failure.reason}
        assert await r.partitions.switch(several_loaded(**WIDER)) == failure.reason
        assert await r.partitions.switch(several_loaded(gpu=LEAVES, arm=LEAVES)) == ""
        assert r.partitions.stopped == {}
        r.partitions.close()
        await r.partitions.finished()


@pytest.mark.parametrize(
    ("key", "row", "why"),
    [
        ('["gpu","node","n1"]', b"{", "UnreadableRowError: row"),
        ('["gpu","queue","root.a"]', None, "DamagedStateError: the rows name"),
    ],
)
async def test_a_partition_with_damaged_rows_is_stopped(key, row, why, seed, autojump_clock, monkeypatch):
    """The others go on; it shows nothing, its post-mortem has all, and it can be removed from the configuration."""
    poison(monkeypatch)
    async with realm() as r:
        for name in ("default", "gpu"):
            await busy(r, name)
        await r.rows("gpu")
        if row is None:
            del r.store.records[key.encode()]
        else:
            r.store.records[key.encode()] = row
        (failure,) = await r.send("gpu", ask("bad", "app-1", vcore=1))
        stopped = f"partition gpu is stopped: Bug: this leaf has a bug; its state cannot be read: {why}"
        assert (failure.code, failure.reason[: len(stopped)]) == ("UNAVAILABLE", stopped)
        assert failure.reason.endswith("; remove the partition from the configuration, because no daemon starts with this state")
        assert r.consequences("gpu") == ["STOPPED"]
        assert not r["gpu"].busy
        (incident,) = r.incidents
        assert dict(incident.rows).get(key.encode()) == row
        assert "has a bug" in incident.traceback
        assert why.partition(":")[0] in incident.traceback
        states = {state.name: state for state in (await r.feed.snapshot()).partitions}
        assert [set(states[name].nodes) for name in NAMES] == [{"n1"}, set(), set()]
        assert await r.send("default", release("t0")) == []
        await r.settle("default")
        assert r.heard("default")[-1] == "t3 on n1"
        assert await r.partitions.switch(several_loaded(default=LEAVES, arm=LEAVES)) == ""


async def test_failures_that_are_far_apart_stop_nobody(seed, autojump_clock, monkeypatch):
    """A partition may be restarted as often as it likes, but not in a short time."""
    async with realm() as r:
        for _ in range(3 * RESTARTS_MAX):
            with monkeypatch.context() as patch:
                bad_plans(patch)
                await r.partitions.inboxes["default"].put(Intake([node("n1", vcore=1)]))
                while r["default"].cycles and not r.supervisor.restarting:
                    await trio.lowlevel.checkpoint()
            await trio.sleep(CALM_S + 1)
            await r.send("default", node("n1", "DECOMISSION"))
        assert set(r.consequences("default")) == {"RESTARTED"}
        assert len(r.incidents) >= 3 * RESTARTS_MAX


async def test_a_bad_plan_at_the_start_does_not_end_the_daemon(seed, autojump_clock, monkeypatch):
    """The next daemon would come to the same end: it comes up with what runs."""
    bad_plans(monkeypatch)
    async with realm(default=LEAVES) as r:
        (failure,) = await r.send("default", node("n1", vcore=1))
        assert failure.code == "UNAVAILABLE"


async def test_failures_in_quick_succession_stop_a_partition_for_a_moment(seed, autojump_clock, monkeypatch):
    """EV-27: four of them, without a pause in between, and the fifth start comes through."""
    fails = [Bug("no plan")] * 4

    def fail(scheduler, arguments):
        if scheduler.state.registry.config.name == "default" and isinstance(arguments[0], Decide) and fails:
            raise fails.pop()

    async with realm() as r:
        await busy(r, "gpu")
        watch_schedulers(monkeypatch, before=fail)
        await r.send("default", node("n1", vcore=3000))
        await trio.sleep(2)
        assert r.consequences("default") == ["RESTARTED"] * RESTARTS_MAX + ["STOPPED"]
        assert r.partitions.stopped == {}
        await r.send("default", app("app-1", "root.a"), ask("t1", "app-1", vcore=1000))
        await r.settle("default")
        assert r.heard("default")[-1] == "t1 on n1"
        assert await r.partitions.switch(several_loaded(**WIDER)) == ""


async def test_a_partition_that_always_fails_is_started_less_and_less_often(seed, autojump_clock, monkeypatch):
    """EV-27: the delays double up to the maximum, and the daemon goes on."""
    async with realm(default=LEAVES) as r:
        await trio.sleep(WITHIN_S + 1)
        bad_plans(monkeypatch)
        await r.send("default", node("n1", vcore=1))
        await trio.sleep(5 * BACKOFF_MAX_S)
        times = [incident.at_ns / 1e9 for incident in r.incidents]
        delays = [after - before for before, after in pairwise(times)]
        expected = [min(BACKOFF_S * 2**number, BACKOFF_MAX_S) for number in range(len(delays))]
        assert delays == pytest.approx(expected, abs=BACKOFF_S / 2)
        assert delays[-1] == pytest.approx(BACKOFF_MAX_S, abs=BACKOFF_S / 2)
        assert r.partitions.stopped


async def test_no_run_of_failures_stops_a_partition_for_good(seed, autojump_clock, monkeypatch):
    """EV-27: however often it fails, and when; it runs 30 s after the last failure, and was never started sooner than allowed."""
    chance = random.Random(seed)
    is_over = False

    def fail(scheduler, arguments):
        if isinstance(arguments[0], Decide) and not is_over and chance.random() < 0.7:
            raise Bug("no plan")

    async with realm(default=LEAVES) as r:
        await trio.sleep(WITHIN_S + 1)
        watch_schedulers(monkeypatch, before=fail)
        for number in range(40):
            await r.send("default", node(f"n{number}", vcore=1000))
            await trio.sleep(chance.choice((0, 0.01, 1, 30)))
        is_over = True
        await trio.sleep(BACKOFF_MAX_S + 1)
        assert r.partitions.stopped == {}
        await r.send("default", node("last", vcore=1000), app("app-1", "root.a"), ask("t1", "app-1", vcore=1000))
        await r.settle("default")
        assert "t1 on" in r.heard("default")[-1]
        times = [incident.at_ns / 1e9 for incident in r.incidents]
        assert all(after - before >= BACKOFF_S for before, after in pairwise(times))
        assert all(run[4] - run[0] >= 15 * BACKOFF_S for run in zip(*(times[n:] for n in range(5)), strict=False))


async def test_a_partition_that_is_stopped_ends_with_the_daemon(seed, autojump_clock, monkeypatch):
    """The end of the daemon does not wait for the next start of the partition."""
    async with realm() as r:
        bad_plans(monkeypatch)
        await r.send("default", node("n1", vcore=1))
        await trio.sleep(BACKOFF_MAX_S)
        began_s = trio.current_time()
        r.partitions.close()
        await r.partitions.finished()
        assert trio.current_time() - began_s < 1
        assert r.partitions.stopped == {}


async def test_the_last_partition_that_runs_ends_the_daemon(seed, autojump_clock, monkeypatch):
    """Some time after the start, when it stays stopped as all the others do."""
    poison(monkeypatch)
    with pytest.raises(BaseExceptionGroup) as ended:  # noqa: PT012
        async with realm(default=LEAVES, gpu=LEAVES) as r:
            for name in ("default", "gpu"):
                await busy(r, name)
                await r.rows(name)
                r.store.records[f'["{name}","node","n1"]'.encode()] = b"{"
            await trio.sleep(WITHIN_S + 1)
            assert (await r.send("default", ask("bad", "app-1", vcore=1)))[0].code == "UNAVAILABLE"
            assert await r.send("gpu", release("t0")) == []
            await r.send("gpu", ask("bad", "app-1", vcore=1))
    assert ended.group_contains(Bug, match="has a bug")


async def test_the_first_configuration_can_fail(seed, autojump_clock, monkeypatch):
    """A partition without any state is made anew without any; one that cannot begin is stopped."""
    fails = [1, 1]
    cannot_apply(monkeypatch, "gpu", lambda: fails and fails.pop())
    async with realm() as r:
        assert (await r.send("gpu", node("n1", vcore=1)))[0].code == "UNAVAILABLE"
        assert r.consequences("gpu") == ["RESTARTED", "STOPPED"]
        fails.append(1)
        assert await r.partitions.switch(several_loaded(default=LEAVES)) == ""
        assert await r.partitions.switch(several_loaded(default=LEAVES, gpu=LEAVES)) == ""
        assert await r.send("gpu", node("n1", vcore=1)) == []
        assert r.consequences("gpu")[2:] == ["RESTARTED"]


async def test_a_configuration_that_only_others_can_apply_stops_the_partition(seed, autojump_clock, monkeypatch):
    """The partition stops without delaying the others, which have the configuration in force."""
    async with realm() as r:
        cannot_apply(monkeypatch, "gpu")
        assert await r.partitions.switch(several_loaded(**WIDER)) == ""
        assert ["root.c" in r[name].core.registry.queues for name in NAMES] == [True, False, True]
        assert r.consequences("gpu") == ["RESTARTED", "STOPPED"]
        assert r.partitions.stopped == {"gpu": f"partition gpu is stopped: SwitchConfig: Bug: not this one; {ADVICE}"}


async def test_a_partition_that_cannot_be_asked_objects(seed, autojump_clock, monkeypatch):
    """Before anything has changed: nobody changes, and it goes on."""
    async with realm() as r:
        with monkeypatch.context() as patch:
            patch.setattr("ykactor.actors.partition.objection", None)
            objection = await r.partitions.switch(several_loaded(**WIDER))
        assert "TypeError" in objection
        assert ["root.c" in r[name].core.registry.queues for name in NAMES] == [False] * 3
        assert await r.send("gpu", node("n1", vcore=1)) == []


async def test_without_a_journal_a_failure_ends_the_daemon(autojump_clock, monkeypatch):
    """A daemon that has no journal has no state to begin again from."""
    bad_plans(monkeypatch)

    async def publish(_):
        """Discard the facts."""

    partitions = Partitions(lambda config: PartitionActor(config, Clock(0), publish))
    with pytest.raises(BaseExceptionGroup) as ended:
        async with trio.open_nursery() as nursery:
            await partitions.start(nursery, several_loaded(default=LEAVES))
    assert ended.group_contains(Bug, match="no plan")
