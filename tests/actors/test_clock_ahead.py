"""A daemon that was started while the clock of the machine was days ahead, and again when it was corrected (DU-6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing
from accessfiles import NOW_NS
from callers import access, credentials
from click.testing import CliRunner
from daemon import application
from daemonhere import serving
from inlinestore import InlineStore
from world import app, ask, node, queue, tree

from ykactor.access.model import Role
from ykactor.actors import clock as clock_module
from ykactor.actors.clock import LOOK_S, Clock
from ykactor.client import connect
from ykactor.core.messages.submissions import AddApplication, Submission
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import finished
from ykactor.journal.reading import Reader
from ykactor.surfaces.admission import submissions as creation_times
from ykactor.surfaces.admission.access_control import AccessControl
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.serve import clock_after, kept_state
from ykactor.surfaces.cli.state_options import Keeping
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.files.recovery import recover
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

S_NS, DAY_S = 10**9, 86_400
DEFAULT = PartitionName("default")


class Machine:
    """A machine whose clock is wrong by ``error_s``, and its state directory."""

    def __init__(self, directory: Path, error_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error_s = error_s
        self.state = directory / "state"
        self.state.mkdir(mode=0o700)
        self.daemon: Daemon
        monkeypatch.setattr(clock_module, "system_ns", self.now_ns)

    def now_ns(self) -> int:
        return 10**18 + round((trio.current_time() + self.error_s) * S_NS)

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """A daemon until the block ends, which kills it."""
        settings = Settings()
        with kept_state(self.state, settings, Keeping("off")) as state:
            assert state is not None
            async with trio.open_nursery() as nursery:
                clock = clock_after(state.recovered)
                journal = state.journal(clock.now_ns, lambda store: InlineStore(store, lambda: 0.001))
                self.daemon = Daemon(None, settings, clock, journal, state.take_recovered(), state.terms)
                await nursery.start(self.daemon.run, [], Notifier(None))
                if self.daemon.outboxes.current is None:
                    self.daemon.outboxes.renew("rm-1", JSON)
                yield
                nursery.cancel_scope.cancel()

    async def submit(self, *submissions: Submission) -> None:
        await self.daemon._submit({DEFAULT: [*submissions]})

    def timed_out(self) -> int:
        """The number of placeholders that the resource manager is to release because they timed out."""
        outbox = self.daemon.outboxes.current
        assert outbox is not None
        answers = [JSON.decode_response(data) for data in outbox.after(0, 1000)]
        released = [each for answer in answers if isinstance(answer, si.AllocationResponse) for each in answer.released]
        return sum(each.termination_type == "TIMEOUT" for each in released)


def gang(name: str, timeout_s: int) -> list[Submission]:
    """A gang whose only placeholder times out so long after it was placed."""
    made = app(name, "", placeholders={"vcore": 1}, timeout_ms=timeout_s * 1000, namespace="a")
    return [made, ask(f"{name}-1", name, group="g", placeholder=True, vcore=1)]


@pytest.mark.parametrize("days", [3, 40])
async def test_timers_go_by_the_corrected_clock_and_told_times_never_back(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """A timeout keeps its remaining time at the correction; from then on, time in which nothing runs counts too."""
    machine = Machine(tmp_path, days * DAY_S, monkeypatch)
    async with machine.living():
        await machine.submit(node("n1", vcore=1000), *gang("short", 60))
        assert machine.daemon.ahead_ns() == 0
        await trio.sleep(10)
        await machine.submit(*gang("long", 1000))
        await trio.sleep(1)  # until it is durable
        assert not machine.timed_out()
    await trio.sleep(20)
    machine.error_s = 0
    async with machine.living():
        assert machine.daemon.ahead_ns() / S_NS == pytest.approx(days * DAY_S - 20, abs=2)
        assert machine.daemon._clock.corrected_ns() == machine.now_ns()
        await trio.sleep(45)
        assert not machine.timed_out()
        await trio.sleep(10)
        assert machine.timed_out() == 1
        (told,) = (check for check in await machine.daemon.health.checks() if check.name == "Clock")
        assert f"ahead of the clock of this machine by {days - 1} d 23 h 59 min, because" in told.description
        assert told.problem == ""
    await trio.sleep(2000)
    async with machine.living():
        await trio.sleep(1)
        assert machine.daemon.ahead_ns() / S_NS == pytest.approx(days * DAY_S - 20, abs=2)
        assert machine.timed_out() == 2
    with Reader.open(machine.state) as reader:
        recovered = recover(reader, reserves=True)
    assert recovered is not None
    assert all(before.timestamp_nano <= after.timestamp_nano for before, after in pairwise(recovered.events))
    done = CliRunner().invoke(main, ["replay", str(machine.state)])
    assert done.exit_code == 0, done.output


async def test_a_clock_that_is_right_again_is_taken_as_it_is(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the time that came too early has passed, the clock is no longer ahead, and nothing is said."""
    machine = Machine(tmp_path, 3 * DAY_S, monkeypatch)
    for error_s in (3 * DAY_S, 0):
        machine.error_s = error_s
        async with machine.living():
            await trio.sleep(1)
    await trio.sleep(4 * DAY_S)
    async with machine.living():
        assert machine.daemon.ahead_ns() == 0
        assert "Clock" not in [check.name for check in await machine.daemon.health.checks()]


async def test_proofs_expire_by_the_corrected_clock(autojump_clock: trio.testing.MockClock) -> None:
    """A token is valid until its time has come, not until the daemon has told a later one (SE-68)."""
    found = access(expires_ns=NOW_NS + 3600 * S_NS)
    clock = Clock(NOW_NS + 3 * DAY_S * S_NS, lambda: NOW_NS + round(trio.current_time() * S_NS))
    control = AccessControl(found, clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        caller = control.admit(Role.READER, credentials("reader", "token"), "127.0.0.1:1")
        await trio.sleep(3599)
        assert not caller.revoked
        await trio.sleep(2)
        assert caller.revoked
        nursery.cancel_scope.cancel()


async def test_proofs_expire_when_the_clock_is_corrected(autojump_clock: trio.testing.MockClock) -> None:
    """The admission of an idle caller expires too, soon after the clock was set forward past its end, as after a suspension."""
    behind_s = DAY_S
    found = access(expires_ns=NOW_NS + 3600 * S_NS)
    clock = Clock(NOW_NS, lambda: NOW_NS + round((trio.current_time() - behind_s) * S_NS))
    control = AccessControl(found, clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        caller = control.admit(Role.READER, credentials("reader", "token"), "127.0.0.1:1")
        await trio.sleep(3601)
        assert not caller.revoked
        behind_s = 0
        await trio.sleep(LOOK_S)
        assert caller.revoked
        nursery.cancel_scope.cancel()


async def test_creation_times_are_those_of_the_daemon() -> None:
    """An ask that was created a moment ago by the corrected clock is not taken for one that has waited for days."""
    ahead_s = 40 * DAY_S
    now_s = clock_module.system_ns() // S_NS
    daemon = Daemon(queuefile.load(tree(queue("a"))), Settings(), Clock((now_s + ahead_s) * S_NS, clock_module.system_ns))
    created = {"creationTime": str(now_s - 5)}
    async with serving(daemon) as url, connect(url, rm_id="rm-1") as rm:
        await rm.request(application(queue="root.a"))
        wanted = si.Allocation(
            allocation_key="t1", application_id="app-1", resource_per_alloc={"vcore": 1}, allocation_tags=created
        )
        await rm.request(si.AllocationRequest(allocations=[wanted]))
        (found,) = daemon.registry(DEFAULT).leaf(QueuePath("root.a")).applications.values()
        (pending,) = found.tasks.asks.values()
        assert pending.since_ns / S_NS == pytest.approx(now_s + ahead_s - 5, abs=1)


def test_what_is_no_time_is_left_as_it_is() -> None:
    """Only times of asks and applications are moved, and only what can be read as one."""
    kept = [node("n1", vcore=1), ask("t1", "app-1", vcore=1), app("app-2", yunikorn__apache__org="x")]
    assert finished(creation_times.moved(kept, 10)) == kept
    (dated,) = finished(creation_times.moved([app("app-1", **{"yunikorn__apache__org/creationTime": "7"})], 10))
    assert isinstance(dated, AddApplication)
    assert dated.tags["yunikorn.apache.org/creationTime"] == "17"
