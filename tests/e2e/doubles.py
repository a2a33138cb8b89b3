"""A daemon whose partitions are doubles: real sockets, real feed and outbox, scripted facts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio
from deliveries import FakeDelivery

from ykactor.access.limits import Limits as AccessLimits
from ykactor.actors.commands import (
    Administer,
    Failure,
    Intake,
    PartitionCommand,
    PartitionSnapshot,
    Publication,
    Read,
    RunCycles,
    TakeSnapshot,
)
from ykactor.actors.feed import FeedActor
from ykactor.actors.gateway import Point, Reached
from ykactor.actors.health import HealthChecks
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.outbox import OutboxRegistry
from ykactor.actors.partition import Standing
from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.inspection.partition_status import LimitStatus, PartitionStatus
from ykactor.core.inspection.process_status import Registration
from ykactor.core.messages import facts as decisions
from ykactor.core.messages import submissions as messages
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.states import PartitionState
from ykactor.journal.terms import Terms
from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.admission.caller import Admit
from ykactor.surfaces.files.daemon_rows import DaemonRows
from ykactor.surfaces.files.tls_files import TlsFiles
from ykactor.surfaces.metrics.instruments import SessionCounts
from ykactor.surfaces.net.doors import Door
from ykactor.surfaces.sessions.peer import Limits
from ykactor.surfaces.sessions.websocket import Acting, serve_websockets
from ykactor.wire.si.events import events
from ykactor.wire.si.messages import EventRecord
from ykactor.wire.si.protocol_error import ProtocolError
from ykactor.wire.si.responses import responses

Script = Callable[[messages.Submission], list[decisions.Fact]]


def accept_all(submission: messages.Submission) -> list[decisions.Fact]:
    """The default script: everything is accepted and runs on n1 at once."""
    match submission:
        case messages.UpdateNode(node_id):
            added = decisions.NodeAdded(0, node_id, submission.capacity or {}, True, submission.attributes)
            return [decisions.NodeSchedulable(0, node_id, True), added]
        case messages.AddApplication(application_id):
            queue = submission.queue_name or f"root.{submission.tags.get('namespace', 'default')}"
            return [decisions.ApplicationAdded(0, application_id, queue, submission.user)]
        case Ask() as ask:
            return [decisions.AskAdded(0, ask, "root.a"), decisions.Allocated(0, ask, "root.a", "n1")]
        case _:
            return []


def counted(name: str, count: int) -> PartitionStatus:
    """The state of a partition that has told so many facts."""
    facts = LimitStatus(queue="root", whose="facts", max=None, allocated={"facts": count}, max_applications=0, applications=[])
    return PartitionStatus(name=name, queues={}, applications={}, limits=[facts])


class FakePartition:
    """Answers each submission with the facts of a script; its state is the number of facts it has published.

    ``resume`` is an event: while it is not set, commands wait.
    """

    def __init__(self, name: str, feed: FeedActor, script: Script, inbox_max: int = 100) -> None:
        self.name = name
        self.inbox = Mailbox(name, inbox_max)
        self.received: list[messages.Submission] = []
        self.facts_count = 0
        self.resume = trio.Event()
        self.resume.set()
        self._feed = feed
        self._script = script

    async def run(self) -> None:
        """Handle commands until the inbox is closed."""
        with suppress(trio.EndOfChannel):
            while True:
                command = await self.inbox.get()
                await self.resume.wait()
                await self._handle(command)

    async def _handle(self, command: PartitionCommand) -> None:
        match command:
            case Intake(submissions, answers):
                self.received += submissions
                facts = [fact for submission in submissions for fact in self._script(submission)]
                self.facts_count += len(facts)
                await self._feed.inbox.put(Publication(self.name, facts))
                answers.done(self.name)
            case Read():
                command.done({})
            case TakeSnapshot(snapshot_id):
                await self._feed.inbox.put(PartitionSnapshot(self.name, snapshot_id, counted(self.name, self.facts_count)))
            case Administer(_, answers):
                answers.failed(Failure("REFUSED", "no such thing"))
                answers.done(self.name)
            case RunCycles(_, answers):
                answers.done(self.name)


class FakeConfig:
    """A configuration that was read."""

    def __init__(self, daemon: FakeDaemon, text: str) -> None:
        self._daemon = daemon
        self._text = text

    async def apply(self, *, afresh: bool = False, window: None = None) -> str:
        return await self._daemon.apply_config(self._text)


class NoConfirmation:
    """The confirmation of a daemon in which no configuration ever awaits one."""

    def window(self, who: str, seconds: float) -> None:
        raise ProtocolError("REFUSED", "no window")

    async def settled(self) -> None:
        await trio.lowlevel.checkpoint()

    def check_settled(self) -> None:
        pass

    async def confirm(self, if_checksum: str) -> str:
        raise ProtocolError("REFUSED", "nothing awaits confirmation")

    async def roll_back(self) -> tuple[str, list[str]]:
        raise ProtocolError("REFUSED", "nothing awaits confirmation")


class FakeDaemon:
    """Implements ``actors.gateway.Gateway`` over doubles."""

    def __init__(self, names: tuple[str, ...], script: Script, ring_max: int, manual: bool) -> None:
        self.outboxes: OutboxRegistry = OutboxRegistry()
        #: All that was published.
        self.told: list[decisions.Fact] = []
        self.partitions: dict[str, Mailbox] = {}
        self.feed = FeedActor(FakeDelivery(_scripted_events, self._deliver), self.partitions, ring_max)
        self.audit = Audit(self.feed, self.partitions, self.now_ns, DaemonRows(None))
        self.counts = SessionCounts()
        self.doubles = {name: FakePartition(name, self.feed, script) for name in names}
        self.partitions.update({name: double.inbox for name, double in self.doubles.items()})
        self.health = HealthChecks(self.partitions, list)
        self.manual = manual
        self.config = SchedulerConfig(partitions=(), checksum="sum", text="")
        self.terms = Terms.first()
        self.started_ns = 0
        self.turns = None
        self.turns_before: dict[str, int] = {}
        self.is_switching = False
        self.changed = trio.lowlevel.ParkingLot()
        self.standbys = self.unconfirmed = None
        self.confirmation = NoConfirmation()
        self.begun = trio.Event()
        self.begun.set()
        self.configs: list[str] = []
        #: Held while a configuration is read: who holds it delays all of them.
        self.reading = trio.Lock()
        self.steps = 0
        self.url = ""
        #: Ends the server in good order.
        self.stopping = trio.Event()
        self.stopped = trio.Event()

    def _deliver(self, partition: str, facts: list[decisions.Fact]) -> None:
        self.told += facts
        self.outboxes.deliver(responses(facts, partition))

    def now_ns(self) -> int:
        return 0

    def ahead_ns(self) -> int:
        return 0

    def queue_paths(self, partition: str) -> list[str]:
        return ["root", "root.a", "root.p", "root.p.b"]

    @asynccontextmanager
    async def reading_config(self, text: str, if_checksum: str = "", rm_id: str = "") -> AsyncIterator[FakeConfig]:
        if "bad" in text:
            raise ProtocolError("BAD_CONFIG", "found bad, expected good", "config")
        if if_checksum not in ("", "sum"):
            raise ProtocolError("CHECKSUM_MISMATCH", f"found {if_checksum}, expected sum", "ifChecksum")
        async with self.reading:
            yield FakeConfig(self, text)

    async def apply_config(self, text: str) -> str:
        await self.reach_partitions()
        self.configs.append(text)
        return "sum"

    def cycles(self) -> dict[str, dict[str, float]]:
        return {}

    def measured(self) -> bytes:
        return b""

    def standing(self, _: str) -> Standing:
        return Standing(PartitionState.ACTIVE, 0)

    @property
    def registration(self) -> Registration | None:
        return self.outboxes.registration

    @property
    def standbys_status(self) -> None:
        return None

    @property
    def waits(self) -> str:
        return ""

    def unavailable(self, _: str) -> str:
        return ""

    def turn_of(self, _: str) -> int:
        return 0

    async def reach(self, point: Point) -> Reached:
        """Wait for nothing."""
        return "there" if not point.term or point.term in self.terms else "elsewhere"

    async def with_groups(self, partition: str, submissions: list[messages.Submission]) -> list[messages.Submission]:
        return submissions

    async def with_own_groups(self, partition: str, who: UserGroups) -> UserGroups:
        return who

    async def run_steps(self, steps: int) -> None:
        await self.reach_partitions()
        self.steps += steps

    async def reach_partitions(self) -> None:
        for inbox in self.partitions.values():
            await inbox.put(Intake([]))

    async def serve(
        self,
        door: Door,
        limits: Limits,
        host_names: Sequence[str],
        admit: Admit,
        in_force: Callable[[], AccessLimits],
        *,
        task_status: trio.TaskStatus,
    ) -> None:
        """Serve websockets; ``stopped`` tells that the server has come to its end."""
        admission = Admission(self.audit, admit, host_names, in_force)
        acting = Acting(self, self.audit)
        serve = partial(serve_websockets, acting=acting, stopping=self.stopping, limits=limits, counts=self.counts)
        await serve([door], self, admission, task_status=task_status)
        self.stopped.set()


def _scripted_events(fact: decisions.Fact, partition: str, first: int) -> list[EventRecord]:
    """Only what a script says is an event; what sessions tell of themselves is none."""
    return [] if isinstance(fact, decisions.Audited) else events(fact, partition, first)


async def open_listener(port: int = 0) -> trio.SocketListener:
    """A listener on loopback, on a free port."""
    (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
    return listener


@asynccontextmanager
async def running_daemon(
    *names: str,
    script: Script = accept_all,
    limits: Limits | None = None,
    ring_max: int = 1000,
    manual: bool = False,
    port: int = 0,
    host_names: Sequence[str] = (),
    admit: Admit | None = None,
    in_force: Callable[[], AccessLimits] = AccessLimits,
    tls: TlsFiles | None = None,
) -> AsyncIterator[FakeDaemon]:
    """A daemon that serves websockets on loopback until the block ends; three minutes end what hangs."""
    daemon = FakeDaemon(names or ("default",), script, ring_max, manual)
    door = Door.of(await open_listener(port), tls=tls)
    daemon.url = door.url
    async with trio.open_nursery() as nursery:
        nursery.start_soon(daemon.feed.run)
        nursery.start_soon(daemon.audit.run)
        for double in daemon.doubles.values():
            nursery.start_soon(double.run)
        await nursery.start(daemon.serve, door, limits or Limits(), host_names, admit, in_force)
        with trio.fail_after(180):
            yield daemon
        nursery.cancel_scope.cancel()
