"""Whoever changed the configuration last stays (CF-90), in random lives of a daemon on a virtual clock.

The queue file and the state directory are real. What the file system tells of the file comes when the history says so, and what
is done at the same time comes in any order.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from faulting import Bug, watch_schedulers
from inlinestore import InlineStore
from lastchange import BAD, REFUSED, Model, Step, after_all, after_the_end
from seeds import seeds
from world import queue, tree

from ykactor.access.model import Role
from ykactor.actors.clock import Clock
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.submissions import AddApplication, UpdateNode
from ykactor.core.turn.scheduler import Decide
from ykactor.core.values.ids import ApplicationID, NodeID, PartitionName
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.cli.serve import kept_state
from ykactor.surfaces.cli.state_options import Keeping
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.files import watcher
from ykactor.surfaces.files.state_dir import StateDir
from ykactor.surfaces.net.systemd import Notifier
from ykactor.surfaces.sessions.config_updates import ConfigUpdates, applying_update
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON
from ykactor.wire.si.protocol_error import ProtocolError

DEFAULT = PartitionName("default")
#: Until everything that was begun is done; simulated seconds.
SETTLED_S = 10.0
#: How far apart steps begin that are done at the same time.
APART_S = 0.4
#: The longest commit, so that many daemons are killed during one.
COMMIT_S = 0.15
#: The longest read of the file.
READ_S = 0.3
TEXTS = 4
LIVES, ROUNDS = 5, 5
#: How probable it is that a daemon is killed during a round.
KILLED = 0.3


def text_of(number: int) -> str:
    """A text that the partition refuses has a parent in the place of a leaf with an application."""
    match number:
        case _ if number == BAD:
            return "partitions: [{name: default, colour: red}]\n"
        case _ if number == REFUSED:
            return tree(queue("a", queue("child")))
    return tree(queue("a", max={"vcore": number + 1}))


#: By checksum, the number of the text.
NUMBERS = {queuefile.load(text_of(number)).checksum: number for number in (*range(TEXTS), REFUSED)}


class Life:
    """A daemon, its queue file, and everybody who changes its configuration."""

    def __init__(self, directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.random = random.Random(seed)
        self.file = directory / "queues.yaml"
        self._state = directory / "state"
        self._state.mkdir(mode=0o700)
        self._swaps = 0
        self._requests = 0
        self.write(0)
        self.models = {Model(disk=0, in_force=0, read=0, noted=0)}
        self.daemon: Daemon
        self._events: trio.MemorySendChannel[None]
        self._configs: ConfigUpdates
        monkeypatch.setattr(watcher, "awatch", self._watched)
        monkeypatch.setattr(watcher.FileWatcher, "_read", self._read)

    # ---- the file

    def write(self, number: int) -> None:
        """Write it in place, rename another file to it, or swap the link of a mounted ConfigMap."""
        self.written = number
        match self.random.choice(("in place", "renamed", "swapped")):
            case "in place" if not self.file.is_symlink():
                self.file.write_text(text_of(number))
            case "swapped":
                self._swaps += 1
                version = self.file.with_name(f"..v{self._swaps}")
                version.mkdir()
                (version / self.file.name).write_text(text_of(number))
                fresh = self.file.with_name("fresh")
                fresh.symlink_to(version / self.file.name)
                fresh.replace(self.file)
            case _:
                fresh = self.file.with_name("fresh")
                fresh.write_text(text_of(number))
                fresh.replace(self.file)

    async def _read(self) -> bytes:
        """Read the file without a thread; the content may be old, as from a network file system."""
        content = self.file.read_bytes()
        await trio.sleep(self.random.uniform(0, READ_S))
        return content

    async def _watched(self, *_: Path, stop_event: trio.Event, **__: object) -> AsyncIterator[None]:
        """Yield the simulated events of the file system, in the place of ``awatch``."""
        self._events, told = trio.open_memory_channel[None](10)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end, stop_event, nursery.cancel_scope)
            async for event in told:
                yield event

    # ---- the daemon

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """A daemon until the block ends, which kills it."""
        config = queuefile.load(self.file.read_text(), str(self.file))
        settings = Settings(config_path=self.file)
        with kept_state(self._state, settings, Keeping("off")) as state:
            assert state is not None
            async with trio.open_nursery() as nursery:
                self.daemon = self._made(config, settings, state)
                await nursery.start(self.daemon.run, [], Notifier(None))
                self._configs = ConfigUpdates(self.daemon, self.daemon.audit)
                nursery.start_soon(self._configs.run)
                if self.daemon.outboxes.current is None:
                    self.daemon.outboxes.renew("rm-1", JSON)
                    app = AddApplication(ApplicationID("app-1"), "root.a", "alice")
                    await self.daemon._submit({DEFAULT: [app]})
                yield
                nursery.cancel_scope.cancel()

    def _made(self, config: SchedulerConfig, settings: Settings, state: StateDir) -> Daemon:
        recovered = state.take_recovered()
        clock = Clock(recovered.at_ns + 10**9 if recovered is not None else 10**18)
        journal = state.journal(clock.now_ns, lambda store: InlineStore(store, partial(self.random.uniform, 0.001, COMMIT_S)))
        return Daemon(config, settings, clock, journal, recovered, state.terms)

    # ---- what is done

    def draw(self) -> Step:
        """Something to do."""
        self._requests += 1
        number = self.random.choice((*range(TEXTS), *range(TEXTS), BAD, REFUSED))
        kinds = ("write", "write", "write", "event", "event", "event", "SIGHUP", "reload", "operator", "manager", "manager")
        return Step(self.random.choice(kinds), number, str(self._requests))

    async def do(self, step: Step, answered: set[str]) -> None:
        """Do it after some time."""
        await trio.sleep(self.random.uniform(0, APART_S))
        request = si.UpdateConfigurationRequest(id=step.id, config=text_of(step.text))
        operator = Caller(Role.OPERATOR, "127.0.0.1:1")
        match step.kind:
            case "write":
                self.write(step.text)
                answered.add(step.id)
            case "event":
                self._events.send_nowait(None)
            case "SIGHUP":
                self.daemon.reload()
            case "manager":
                outbox = self.daemon.outboxes.current
                assert outbox is not None
                self._configs.put(request, outbox, Caller(Role.RM, "127.0.0.1:2"))
            case "reload" | "operator":
                try:
                    if step.kind == "reload":
                        await self.daemon.reload_file()
                    else:
                        async with applying_update(self.daemon, self.daemon.audit, request, operator):
                            pass
                except ProtocolError:
                    pass
                await self.daemon.audit.durable()
                answered.add(step.id)

    # ---- what must be so

    def told(self) -> tuple[str, ...]:
        """The answers that were sent to the resource manager, in words."""
        outbox = self.daemon.outboxes.current
        assert outbox is not None
        found = []
        for data in outbox.after(0, 1000):
            match JSON.decode_response(data):
                case si.Ack(id=request_id):
                    found.append(f"acknowledged {request_id}")
                case si.ErrorResponse(code="CONFIG_REPLACED"):
                    found.append("replaced")
                case si.ErrorResponse(id=request_id):
                    found.append(f"refused {request_id}")
        return tuple(found)

    def answered(self) -> set[str]:
        """The requests of the resource manager whose answer is durable."""
        return {said.split()[1] for said in self.told() if " " in said}

    def expect(self, models: set[Model]) -> None:
        """One of the models holds; from now on only those that do."""
        found = NUMBERS[self.daemon.config.checksum], self.told()
        text = self.daemon.registry(DEFAULT).config.root.children[0].max
        assert text == queuefile.load(text_of(found[0])).partitions[0].root.children[0].max
        self.models = {model for model in models if (model.in_force, model.told) == found}
        assert self.models, f"found {found}, expected one of {sorted((model.in_force, model.told) for model in models)}"


async def _end(stop: trio.Event, scope: trio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()


async def play(life: Life) -> None:
    """Lives of the daemon, one after the other; some are killed while something is done."""
    steps, answered = list[Step](), set[str]()
    for _ in range(LIVES):
        if life.written == BAD:  # no daemon starts with it
            steps.append(Step("write", 0, "repair"))
            await life.do(steps[-1], answered)
        async with life.living():
            await trio.sleep(SETTLED_S)
            after = after_the_end(life.models, steps, answered | life.answered())
            life.expect({model.restarted() for model in after})
            for _ in range(ROUNDS):
                steps, answered = [life.draw() for _ in range(life.random.randint(1, 4))], set()
                is_killed = life.random.random() < KILLED
                await do_all(life, steps, answered, until_s=life.random.uniform(0, 2 * APART_S) if is_killed else SETTLED_S)
                if is_killed:
                    break
                life.expect(after_all(life.models, steps))
                steps = []


async def do_all(life: Life, steps: list[Step], answered: set[str], until_s: float) -> None:
    """Begin steps at about the same time, and give up waiting for them after some time."""
    with trio.move_on_after(until_s):
        async with trio.open_nursery() as nursery:
            for step in steps:
                nursery.start_soon(life.do, step, answered)
        await trio.sleep_forever()


@pytest.mark.parametrize("seed", seeds(60))
async def test_whoever_changed_last_stays(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The last change is in force, also after restarts; the resource manager is told when another one replaces its own."""
    trio._core._run._r.seed(seed)  # type: ignore[attr-defined]
    await play(Life(tmp_path, seed, monkeypatch))


async def test_what_was_read_first_is_applied_first(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow read for an operator does not bring back what the file was before its last change."""
    life = Life(tmp_path, 0, monkeypatch)
    pauses_s = [0.0, 0.0, 1.0, 1.0]  # the first look of the watcher, then the operator's

    async def read(_: watcher.FileWatcher) -> bytes:
        content = life.file.read_bytes()
        await trio.sleep(pauses_s.pop(0) if pauses_s else 0)
        return content

    monkeypatch.setattr(watcher.FileWatcher, "_read", read)
    async with life.living():
        await trio.sleep(SETTLED_S)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(life.daemon.reload_file)
            await trio.sleep(1.5)
            life.write(1)
            await life.do(Step("event"), set())
        await trio.sleep(SETTLED_S)
        assert NUMBERS[life.daemon.config.checksum] == 1


def fail_to_plan(fails: list[Bug], _: object, arguments: tuple[object, ...]) -> None:
    """Raise the next of these errors where a plan is asked for, until none is left."""
    if fails and isinstance(arguments[0], Decide):
        raise fails.pop()


async def test_a_file_that_comes_while_a_partition_is_stopped_is_applied_later(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """EV-27: it is refused, read again, and in force when the partition has started again."""
    life, fails = Life(tmp_path, 0, monkeypatch), [Bug("no plan")] * 6
    async with life.living():
        await trio.sleep(SETTLED_S)
        watch_schedulers(monkeypatch, before=partial(fail_to_plan, fails))
        await life.daemon._submit({DEFAULT: [UpdateNode(NodeID("n1"), NodeAction.CREATE, {"vcore": 1})]})
        while len(fails) > 1:  # noqa: ASYNC110  # neither a bug nor a log can set an event
            await trio.sleep(0.1)
        life.write(1)
        await life.do(Step("event"), set())
        while "config_refused" not in caplog.messages:  # noqa: ASYNC110
            await trio.sleep(0.1)
        assert life.daemon.health.problems()
        assert NUMBERS[life.daemon.config.checksum] == 0
        await trio.sleep(SETTLED_S)
        assert not life.daemon.health.problems()
        assert NUMBERS[life.daemon.config.checksum] == 1


async def test_a_file_that_comes_before_the_start_of_a_stopped_partition_is_applied_later(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EV-27: the same if it was changed while no daemon ran, and the partition fails when the next one starts."""
    life, fails = Life(tmp_path, 0, monkeypatch), [Bug("no plan")] * 6
    async with life.living():
        await trio.sleep(SETTLED_S)
    life.write(1)
    watch_schedulers(monkeypatch, before=partial(fail_to_plan, fails))
    async with life.living():
        assert NUMBERS[life.daemon.config.checksum] == 0
        await trio.sleep(SETTLED_S)
        assert NUMBERS[life.daemon.config.checksum] == 1
