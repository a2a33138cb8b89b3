"""Configurations that await confirmation (CF-91), on a virtual clock: killed after each transaction, old or new is in force, and
never new after the end of its window without confirmation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from inlinestore import InlineStore
from memorystore import MemoryStore
from partitiontexts import several
from world import queue

from ykactor.access.model import Role
from ykactor.actors import clock as clocks
from ykactor.actors.clock import Boot, Clock
from ykactor.actors.commands import Awaited, Intake
from ykactor.actors.journal import Journal
from ykactor.actors.partitions import Partitions
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.objects.tasks import ApplicationTasks
from ykactor.core.values.ids import ApplicationID, PartitionName
from ykactor.core.values.parts import finished
from ykactor.core.values.times import S_NS
from ykactor.journal.transaction import Batch
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.daemon.windows import Window, is_due, seconds_left
from ykactor.surfaces.files.recovery import Recovered
from ykactor.surfaces.files.state_dir import StateDir, StateSettings, open_state_dir
from ykactor.surfaces.net.systemd import Notifier
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.wire import queuefile
from ykactor.wire.history import encode_facts
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON
from ykactor.wire.si.protocol_error import ProtocolError
from ykactor.wire.si.requests import submitting

OLD = several(default=[queue("a", max={"vcore": 2})], gpu=[queue("a")])
NEW = several(default=[queue("a", max={"vcore": 3})], more=[queue("b")])
OTHER = several(default=[queue("a", max={"vcore": 4})])
SUMS = {queuefile.load(text).checksum: name for name, text in (("old", OLD), ("new", NEW), ("other", OTHER))}
WINDOW_S = 60.0


@asynccontextmanager
async def running(daemon: Daemon) -> AsyncIterator[None]:
    """A daemon without sockets."""
    async with trio.open_nursery() as nursery:
        await nursery.start(daemon.run, [], Notifier(None))
        yield
        daemon.stop()
        await daemon.stopped.wait()


@asynccontextmanager
async def new_daemon(store: MemoryStore, *, manual: bool = False) -> AsyncIterator[Daemon]:
    """One with the old configuration and an empty journal."""
    clock = Clock(1000 * S_NS)
    daemon = Daemon(queuefile.load(OLD), Settings(manual=manual), clock, Journal(store, encode_facts, clock.now_ns))
    async with running(daemon):
        yield daemon


async def apply(daemon: Daemon, text: str, window_s: float | None = None) -> str:
    async with daemon.reading_config(text) as config:
        return await config.apply(window=None if window_s is None else daemon.confirmation.window("ops", window_s))


def in_force(daemon: Daemon) -> str:
    """The name of the configuration in force, which all partitions have."""
    for name, config in {config.name: config for config in daemon.config.partitions}.items():
        assert daemon.registry(name).config == config
    assert {*daemon.partitions} == {config.name for config in daemon.config.partitions}
    return SUMS[daemon.config.checksum]


# ---- the window


@pytest.mark.parametrize(("after_s", "name"), [(WINDOW_S - 1, "new"), (WINDOW_S + 1, "old")])
async def test_without_confirmation_the_one_of_before_comes_back(
    autojump_clock: trio.testing.MockClock, after_s: float, name: str
) -> None:
    """The old configuration comes back at the end of the window, not before; then nothing awaits confirmation any more."""
    async with new_daemon(MemoryStore()) as daemon:
        await apply(daemon, NEW, WINDOW_S)
        await trio.sleep(after_s)
        assert in_force(daemon) == name
        assert (daemon.unconfirmed is None) == (name == "old")


async def test_a_confirmed_one_stays(autojump_clock: trio.testing.MockClock) -> None:
    """Whoever confirms; a second time there is nothing to confirm, unless its checksum is named."""
    async with new_daemon(MemoryStore()) as daemon:
        checksum = await apply(daemon, NEW, WINDOW_S)
        assert await daemon.confirmation.confirm("") == checksum
        await trio.sleep(2 * WINDOW_S)
        assert in_force(daemon) == "new"
        for work in (partial(daemon.confirmation.confirm, ""), daemon.confirmation.roll_back):
            with pytest.raises(ProtocolError, match="no configuration awaits confirmation"):
                await work()
        assert await daemon.confirmation.confirm(checksum.lower()) == checksum


async def test_rolled_back_by_hand(autojump_clock: trio.testing.MockClock) -> None:
    """A rollback takes effect at once; a confirmation then comes too late, and another configuration may be applied."""
    async with new_daemon(MemoryStore()) as daemon:
        checksum = await apply(daemon, NEW, WINDOW_S)
        await daemon.confirmation.roll_back()
        assert in_force(daemon) == "old"
        with pytest.raises(ProtocolError, match="the configuration in force has"):
            await daemon.confirmation.confirm(checksum)
        await apply(daemon, OTHER)
        await trio.sleep(2 * WINDOW_S)
        assert in_force(daemon) == "other"


async def test_meanwhile_another_one_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """Also with a window, and the same text again; the error says whose it is and until when."""
    async with new_daemon(MemoryStore()) as daemon:
        await apply(daemon, NEW, WINDOW_S)
        for text, window_s in ((OTHER, None), (OTHER, WINDOW_S), (NEW, None), (OLD, None)):
            with pytest.raises(ProtocolError, match=r"of ops awaits confirmation until 1970-01-01T00:17:40Z") as refusal:
                await apply(daemon, text, window_s)
            assert refusal.value.code == "AWAITS_CONFIRMATION"
        assert in_force(daemon) == "new"


async def test_the_same_text_needs_no_confirmation(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing could come back."""
    async with new_daemon(MemoryStore()) as daemon:
        await apply(daemon, OLD, WINDOW_S)
        assert daemon.unconfirmed is None


@pytest.mark.parametrize("seconds", [9.9, 86_401, -1, float("nan"), float("inf"), 2.0**63])
async def test_a_window_has_bounds(autojump_clock: trio.testing.MockClock, seconds: float) -> None:
    """10 s to 24 h; nothing changes otherwise."""
    async with new_daemon(MemoryStore()) as daemon:
        with pytest.raises(ProtocolError, match="expected 10 to 86400"):
            await apply(daemon, NEW, seconds)
        assert in_force(daemon) == "old"


async def test_a_window_needs_a_journal(autojump_clock: trio.testing.MockClock) -> None:
    """The old configuration would be lost with a daemon that has no journal."""
    daemon = Daemon(queuefile.load(OLD), Settings(), Clock(0))
    async with running(daemon):
        with pytest.raises(ProtocolError, match="--state-dir"):
            await apply(daemon, NEW, WINDOW_S)
        assert in_force(daemon) == "old"


async def test_one_without_a_way_back_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """A parent that becomes a leaf could have applications at the end of the window (CF-61)."""
    async with new_daemon(MemoryStore()) as daemon:
        await apply(daemon, several(default=[queue("a", queue("b"))]))
        with pytest.raises(ProtocolError, match=r"queue root\.a becomes a leaf"):
            await apply(daemon, several(default=[queue("a")]), WINDOW_S)
        await apply(daemon, several(default=[queue("a")]))


async def test_partitions_that_refuse_are_asked_again(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window outlasts writes that fail; meanwhile health has the reason, and a confirmation is too late."""
    async with new_daemon(MemoryStore()) as daemon:
        await apply(daemon, NEW, WINDOW_S)
        with monkeypatch.context() as patched:
            patched.setattr("ykactor.actors.partition.objection", lambda *_: "not now")
            await trio.sleep(2 * WINDOW_S)
            assert in_force(daemon) == "new"
            (problem,) = [check.problem for check in daemon.health.surroundings() if check.name == "Configuration"]
            assert problem == "not now"
            with pytest.raises(ProtocolError, match=r"the window of configuration .* is over"):
                await daemon.confirmation.confirm("")
        await trio.sleep(WINDOW_S)
        assert in_force(daemon) == "old"


@pytest.mark.parametrize("applies_again", [False, True])
async def test_an_operator_may_be_first(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, *, applies_again: bool
) -> None:
    """A way back that an operator has begun before the end of the window is the operator's in the audit, and no problem."""
    told: list[object] = []
    switch = Partitions.switch

    async def not_confirmed(_: Audit, *found: object) -> None:
        told.append(found)

    async def slow(partitions: Partitions, config: SchedulerConfig, *, afresh: bool) -> str:
        await trio.sleep(2)
        return await switch(partitions, config, afresh=afresh)

    async def by_hand(daemon: Daemon) -> None:
        await daemon.confirmation.roll_back()
        if applies_again:
            await apply(daemon, OTHER, 10 * WINDOW_S)

    async with new_daemon(MemoryStore()) as daemon, trio.open_nursery() as nursery:
        await apply(daemon, NEW, WINDOW_S)
        monkeypatch.setattr(Audit, "not_confirmed", not_confirmed)
        monkeypatch.setattr(Partitions, "switch", slow)
        await trio.sleep(WINDOW_S - 1)
        nursery.start_soon(by_hand, daemon)
        await trio.sleep(WINDOW_S)
        assert (in_force(daemon), told) == ("other" if applies_again else "old", [])
        status = daemon.confirmation.status()
        assert (status is not None, status.problem if status is not None else "") == (applies_again, "")


# ---- a resource manager


@asynccontextmanager
async def sending(daemon: Daemon) -> AsyncIterator[Callable[[si.UpdateConfigurationRequest], None]]:
    """Carries out the configurations of a resource manager, which are sent by the function."""
    outbox, configs = daemon.outboxes.renew("rm-1", JSON), ConfigUpdates(daemon, daemon.audit)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(configs.run)
        yield lambda request: configs.put(request, outbox, Caller(Role.RM, "127.0.0.1:1"))
        nursery.cancel_scope.cancel()


def answers(daemon: Daemon) -> list[str]:
    """The types of the messages that the resource manager was sent."""
    assert daemon.outboxes.current is not None
    return [type(JSON.decode_response(data)).__name__ for data in daemon.outboxes.current.after(0, 100)]


async def test_a_configuration_that_waits_also_waits_for_the_next_window(autojump_clock: trio.testing.MockClock) -> None:
    """A request is not refused because an operator has applied the next one with a window before it was read."""
    async with new_daemon(MemoryStore()) as daemon, sending(daemon) as send:
        await apply(daemon, NEW, WINDOW_S)
        send(si.UpdateConfigurationRequest(id="1", config=OTHER))
        await trio.sleep(1)
        await daemon.confirmation.confirm("")
        await apply(daemon, OLD, WINDOW_S)
        await trio.sleep(1)
        assert (in_force(daemon), answers(daemon)) == ("old", [])
        await daemon.confirmation.confirm("")
        await trio.sleep(1)
        assert (in_force(daemon), answers(daemon)) == ("other", ["Ack"])


async def test_one_that_does_not_wait_is_refused_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Also behind others that wait for the end of the window."""
    async with new_daemon(MemoryStore()) as daemon, sending(daemon) as send:
        await apply(daemon, NEW, WINDOW_S)
        send(si.UpdateConfigurationRequest(id="1", config=OTHER))
        with pytest.raises(ProtocolError, match="of ops awaits confirmation") as refusal:
            send(si.UpdateConfigurationRequest(id="2", config=OLD, waits_for_confirmation=False))
        assert refusal.value.code == "AWAITS_CONFIRMATION"


# ---- after a sudden end


class Ended(NamedTuple):
    """A daemon that has been killed after the first transactions of a journal."""

    batches: list[Batch]
    directory: Path

    @asynccontextmanager
    async def reopened(self) -> AsyncIterator[tuple[StateDir, Recovered]]:
        settings = StateSettings(self.directory, "off", 2**30, 10**18)
        with open_state_dir(settings, reserves=True) as state:
            for batch in self.batches:
                state.store.commit(batch)
        with open_state_dir(settings, reserves=True) as state:
            assert state.recovered is not None
            yield state, state.recovered

    async def after(self, end: Callable[[Daemon], Awaitable[None]], *, later_s: float) -> None:
        """Start the next daemon so long after the last transaction, and look at it at the end."""
        async with self.reopened() as (state, recovered):
            clock = Clock(recovered.at_ns + round(later_s * S_NS) + 1000)
            journal = state.journal(clock.now_ns, partial(InlineStore, delay_s=lambda: 0.001))
            daemon = Daemon(None, Settings(), clock, journal, state.take_recovered(), state.terms, standbys=state.standbys)
            async with running(daemon):
                await end(daemon)


async def histories(how: str) -> list[Batch]:
    """The transactions of a daemon in which a configuration was applied, and then confirmed, rolled back, or neither."""
    store = MemoryStore()
    async with new_daemon(store) as daemon:
        await trio.sleep(1)
        begun = len(store.batches)
        await apply(daemon, NEW, WINDOW_S)
        await trio.sleep(1)
        if how == "confirmed":
            await daemon.confirmation.confirm("")
        elif how == "rolled back":
            await daemon.confirmation.roll_back()
        else:
            await trio.sleep(WINDOW_S)
        await trio.sleep(1)
        assert len(store.batches) > begun + 2
        return store.batches


@pytest.mark.parametrize("how", ["confirmed", "rolled back", "neither"])
async def test_killed_after_any_transaction(autojump_clock: trio.testing.MockClock, tmp_path: Path, how: str) -> None:
    """Old or new is in force in all partitions, before the end of the window and after it: then new only if it is confirmed."""
    batches = await histories(how)
    seen = set[tuple[str, str]]()
    for count in range(1, len(batches) + 1):
        found: list[str] = []

        async def look(daemon: Daemon, found: list[str] = found) -> None:
            found.append(in_force(daemon))
            is_open = daemon.unconfirmed is not None
            await trio.sleep(2 * WINDOW_S)
            found.append(in_force(daemon))
            assert daemon.unconfirmed is None
            assert is_open or found[0] == found[1]

        async def late(daemon: Daemon, found: list[str] = found) -> None:
            assert in_force(daemon) == found[1]
            assert daemon.unconfirmed is None

        ended = Ended(batches[:count], tmp_path / f"{how}-{count}")
        await ended.after(look, later_s=0)
        await Ended(batches[:count], tmp_path / f"{how}-{count}-late").after(late, later_s=2 * WINDOW_S)
        seen.add((found[0], found[1]))
    expected = {"confirmed": {("old", "old"), ("new", "old"), ("new", "new")}}.get(how, {("old", "old"), ("new", "old")})
    assert seen == expected


async def put(daemon: Daemon, *sent: si.NodeRequest | si.ApplicationRequest | si.AllocationRequest) -> None:
    """Give what a resource manager has sent to the default partition."""
    for request in sent:
        done = Awaited()
        (submissions,) = finished(submitting(request)).values()
        await daemon.partitions[PartitionName("default")].put(Intake(submissions, done))
        await done.wait()


def some_asks(count: int = 2) -> list[si.NodeRequest | si.ApplicationRequest | si.AllocationRequest]:
    """A node, and asks of one application, of which some may be preempted."""
    node = si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": 8})
    application = si.AddApplicationRequest("x", "root.a", ugi=si.UserGroupInformation("bob"))
    policy = si.PreemptionPolicy(allow_preempt_self=True)
    asks = [
        si.Allocation(f"x-{number}", "x", resource_per_alloc={"vcore": 1}, preemption_policy=policy) for number in range(count)
    ]
    return [si.NodeRequest(nodes=[node]), si.ApplicationRequest(new=[application]), si.AllocationRequest(allocations=asks)]


def running_tasks(daemon: Daemon) -> ApplicationTasks:
    registry, name = daemon.registry(PartitionName("default")), ApplicationID("x")
    return registry.leaf_of(name).applications[name].tasks


@pytest.mark.parametrize(("later_s", "placed"), [(WINDOW_S, 2), (0, 3)])
async def test_no_decision_comes_before_the_way_back(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, later_s: float, placed: int
) -> None:
    """An ask for which only the new configuration has room is not placed by a daemon that starts after the end of the window."""
    store = MemoryStore()
    async with new_daemon(store, manual=True) as daemon:
        await put(daemon, *some_asks(3))
        await apply(daemon, NEW, WINDOW_S)
        await trio.sleep(1)

    async def look(daemon: Daemon) -> None:
        await trio.sleep(WINDOW_S)
        assert len(running_tasks(daemon).allocations) == placed

    await Ended(store.batches, tmp_path / "state").after(look, later_s=later_s)


async def test_what_stays(autojump_clock: trio.testing.MockClock) -> None:
    """Applications that were rejected, and those in queues that drain now, are named."""
    async with new_daemon(MemoryStore()) as daemon:
        wider = several(default=[queue("a", max={"vcore": 2}), queue("b")])
        await apply(daemon, wider, WINDOW_S)
        bob = si.UserGroupInformation("bob")
        new = [si.AddApplicationRequest(name, f"root.{at}", ugi=bob) for name, at in (("x", "b"), ("y", "gone"), ("z", "gone"))]
        await put(daemon, si.ApplicationRequest(new=new))
        _, remains = await daemon.confirmation.roll_back()
        assert remains == [
            "2 applications were rejected since 1970-01-01T00:16:40Z: y, z",
            "queue root.b drains: 1 application",
        ]


async def test_tasks_that_were_preempted_are_named(autojump_clock: trio.testing.MockClock) -> None:
    """They do not come back."""
    soon = {"quota.preemption.delay": "1s"}
    less = json.loads(several(default=[queue("a", max={"vcore": 1}, properties=soon)]))
    less["partitions"][0]["preemption"] = {"quotapreemptionenabled": True}
    async with new_daemon(MemoryStore()) as daemon:
        await put(daemon, *some_asks())
        await apply(daemon, json.dumps(less), WINDOW_S)
        await trio.sleep(5)
        (victim,) = running_tasks(daemon).released
        ended = si.AllocationRelease("x", victim, termination_type="PREEMPTED_BY_SCHEDULER")
        await put(daemon, si.AllocationRequest(releases=si.AllocationReleasesRequest([ended])))
        _, remains = await daemon.confirmation.roll_back()
        assert remains == [f"1 task was preempted since 1970-01-01T00:16:40Z: {victim}"]


# ---- the clock of the machine


def recovered_in_a_window(clock: Clock) -> Recovered:
    row = Window("ops", WINDOW_S, clock, 0).row(queuefile.load(OLD), "", queuefile.load(NEW).checksum)
    values = dict.fromkeys(Recovered.__struct_fields__)
    return Recovered(**values | {"unconfirmed": row, "at_ns": clock.now_ns(), "ahead_ns": 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("passed_s", "boot", "set_back_s", "is_over"),
    [
        (WINDOW_S - 1, "first", 0, False),
        (WINDOW_S + 1, "first", 0, True),
        (WINDOW_S - 1, "first", 3600, False),
        (WINDOW_S + 1, "first", 3600, True),
        (1, "second", 0, True),
        (1, "second", 3600, True),
    ],
)
async def test_the_clock_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, passed_s: float, boot: str, set_back_s: int, is_over: bool
) -> None:
    """Unix time does not count within one boot. After another boot the time that has passed is unknown: the window is over."""
    now_ns, elapsed_ns = 10**18, 10**15
    monkeypatch.setattr(Clock, "boot", lambda _: Boot(booted, elapsed_ns))
    booted = "first"
    recovered = recovered_in_a_window(Clock(now_ns, lambda: now_ns))
    booted, elapsed_ns = boot, elapsed_ns + round(passed_s * S_NS)
    now_ns += round((passed_s - set_back_s) * S_NS)
    assert is_due(recovered, Clock(max(now_ns, recovered.at_ns), lambda: now_ns)) == is_over


async def test_a_system_that_does_not_tell_its_boots(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the clock of the process counts, which nobody can set, and after a restart of the daemon the window is over."""
    monkeypatch.setattr(clocks, "_BOOT_ID", "/no/such/file")
    now_ns = 10**18
    clock = Clock(now_ns, lambda: now_ns)
    recovered = recovered_in_a_window(clock)
    assert recovered.unconfirmed is not None
    now_ns -= 3600 * S_NS
    await trio.sleep(WINDOW_S - 1)
    assert seconds_left(recovered.unconfirmed, clock) == pytest.approx(1)
    await trio.sleep(1)
    assert seconds_left(recovered.unconfirmed, clock) <= 0
    monkeypatch.setattr(clocks, "_PROCESS_ID", "process 2")
    assert is_due(recovered, Clock(now_ns, lambda: now_ns))
