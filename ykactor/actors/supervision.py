"""Supervision: what an exception in a partition does.

The partition is made anew from the journal, as a whole: the state after its last complete turn, and new tasks for its queues and
nodes. Its inbox and what it has in hand stay, so it goes on where it was. A turn that fails has published nothing.
A message that makes it fail again, now handled alone, is put into quarantine: it is refused, and kept for inspection. A partition
that fails without such a message is started again after a delay that doubles with each failure in a row. From the fourth on it is
stopped meanwhile: it shows its state, and refuses all input. The other partitions notice nothing. One that cannot apply what the
others have applied, or whose state cannot be read, stays stopped. The daemon ends when all of them do; but not soon after its
start, because the next one would come to the same end.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import NamedTuple, Protocol

import trio
from msgspec import Struct

from ykactor.actors.clock import Clock
from ykactor.actors.commands import (
    Administer,
    Failure,
    FeedCommand,
    Intake,
    PartitionCommand,
    Publication,
    Quiesce,
    Read,
    RunCycles,
    SwitchConfig,
    TakeSnapshot,
)
from ykactor.actors.hand import Culprit, Message
from ykactor.actors.partition import BATCH_MAX, PartitionActor, Standing
from ykactor.actors.pauses import drive
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import PartitionFailed
from ykactor.core.messages.kinds import Consequence
from ykactor.core.messages.states import PartitionState
from ykactor.core.messages.submissions import ApplyConfig, RemovePartition, Reset, SetPredicateService, WantSchedulingStates
from ykactor.core.records.base import Restored, made_from, new
from ykactor.core.turn.turn import Cause, CycleDue, Input, TimersDue
from ykactor.core.values.ids import PartitionName

#: The time before a partition that has failed is started again. It doubles with each failure in a row, up to the maximum.
BACKOFF_S = 0.1
BACKOFF_MAX_S = 30.0
#: A partition that has run so long has come through: its next failure is the first one in a row.
CALM_S = 20.0
#: A partition that fails more often in a row, and not because of a message, is stopped until it is started again.
RESTARTS_MAX = 3
#: A partition that cannot handle one of these is not what others take it for.
_INDISPENSABLE = (ApplyConfig, RemovePartition, Reset, SetPredicateService, WantSchedulingStates)

#: Keys and rows of a partition's state as text.
Rows = list[tuple[bytes, bytes]]


class Incident(Struct, frozen=True):
    """A failure of a partition.

    Attributes:
        at_ns: the Unix time of the failure.
        reason: the exception, and the message that is to blame if it is known.
        traceback: of the exception.
        now_ns, cause: the time and the cause of the turn that failed; None if it was not in a turn.
        last: number, time and cause of the turns before it.
        rows: the state before it.
        reserves: whether asks reserve nodes.
    """

    partition: PartitionName
    at_ns: int
    consequence: Consequence
    reason: str
    traceback: str
    now_ns: int | None
    cause: bytes | None
    last: list[tuple[int, int, bytes]]
    rows: Rows
    reserves: bool


def may_be_caused_by_input(cause: Cause | None) -> bool:
    """True if what is in hand may have caused the failure; ``cause`` is that of the turn that failed, if it was in one."""
    return not isinstance(cause, CycleDue | TimersDue)


class Failures:
    """The failures of one partition in a row that are not because of a message.

    Attributes:
        delay_s: how long to wait before the partition is started again.
    """

    def __init__(self) -> None:
        self.delay_s = 0.0
        self._count = 0
        self._started_s = 0.0

    def verdict(self, at_s: float, culprit: Culprit | None, cause: Cause | None) -> Consequence:
        """The consequence of a failure; ``culprit`` is the message that is to blame, if it is known."""
        if culprit is not None:
            if _is_indispensable(culprit.message, cause):
                return Consequence.STOPPED
            self._count, self.delay_s = 0, 0.0  # the cause of the failures is gone
            return Consequence.QUARANTINED
        if at_s > self._started_s + CALM_S:
            self._count = 0
        self.delay_s = min(2 * self.delay_s, BACKOFF_MAX_S) if self._count else BACKOFF_S
        self._count += 1
        self._started_s = at_s + self.delay_s
        return Consequence.STOPPED if self._count > RESTARTS_MAX else Consequence.RESTARTED


def _is_indispensable(message: Message, cause: Cause | None) -> bool:
    """A change of the configuration is so in its turn: the other partitions have changed. Before, this one may object to it."""
    return isinstance(message, _INDISPENSABLE) or (isinstance(message, SwitchConfig) and isinstance(cause, Input))


def reason_of(failure: Exception, culprit: Culprit | None) -> str:
    """The first exception of a group, and what is to blame, in one line."""
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    text = " ".join(f"{type(failure).__name__}: {failure}".split())
    return text if culprit is None else f"{_named(culprit.message)}: {text}"


def _named(message: Message) -> str:
    """The kind of a message and the names in it, for example ``SubmitAllocation t1 app-1``."""
    inner = getattr(message, "request", message)
    names = [getattr(inner, field, None) for field in ("allocation_key", "application_id", "node_id")]
    kind = "SubmitAllocation" if type(message) is Ask else type(message).__name__  # what journals call it
    return " ".join([kind, *(str(name) for name in names if name)])


#: A daemon whose partitions all stay stopped so soon after its start does not end.
WITHIN_S = 60.0
#: What to do about a partition that stays stopped, if its state can be read, and if it cannot.
_START_AGAIN = "start the daemon again, or remove the partition from the configuration"
_REMOVE = "remove the partition from the configuration, because no daemon starts with this state"


class Stop(NamedTuple):
    """A partition is stopped, for some time (``inf``: until the next start of the daemon), and why."""

    seconds: float
    reason: str


class Surroundings(Protocol):
    """The daemon, as supervision uses it."""

    async def rows(self, partition: PartitionName, /) -> Rows:
        """The state of a partition after everything that it has published, when that is durable."""

    def encode(self, cause: Cause, /) -> bytes:
        """A cause as JSON."""

    async def report(self, incident: Incident, /) -> None:
        """Tell the operator of a failure, and keep it for inspection."""


class Supervisor:
    """Runs the partitions of one daemon.

    Args:
        publish: sends to the feed; may wait for room there.
        reserves: whether asks reserve nodes.

    Attributes:
        restarting: the partitions that are being made anew; they wait for the disk, and for the time at which they start again.
        stopped: the partitions that are stopped, with the reason and what to do.
        resuming: those of them that start again by themselves.
    """

    def __init__(
        self, clock: Clock, publish: Callable[[FeedCommand], Awaitable[None]], around: Surroundings, *, reserves: bool
    ) -> None:
        self.restarting: set[PartitionName] = set()
        self.stopped: dict[PartitionName, str] = {}
        self.resuming: set[PartitionName] = set()
        self._clock = clock
        self._publish = publish
        self._around = around
        self._reserves = reserves
        self._since_s = trio.current_time()
        #: The partitions that run, or start again by themselves.
        self._lasting: set[PartitionActor] = set()

    async def run(self, actor: PartitionActor, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run a partition until its inbox is closed and empty; started when it takes input, or is stopped.

        Raises:
            Exception: that of the last partition that did not stay stopped.
        """
        status, failures = _Once(task_status), Failures()
        self._lasting.add(actor)
        while not actor.finished.is_set():
            stop = None
            try:
                await actor.run(task_status=status)
            except Exception as failure:
                stop = await self._recover(actor, failure, failures)
                if stop is not None and self._ends_daemon(actor, stop):
                    raise
            if stop is not None:
                await self._stay_stopped(actor, stop, status)
        self._lasting.discard(actor)

    def _ends_daemon(self, actor: PartitionActor, stop: Stop) -> bool:
        if stop.seconds == inf:
            self._lasting.discard(actor)
        return not self._lasting and trio.current_time() > self._since_s + WITHIN_S

    async def _stay_stopped(self, actor: PartitionActor, stop: Stop, status: trio.TaskStatus[None]) -> None:
        """Show the state and refuse everything else, until the partition is to start again, or its inbox is closed and empty."""
        name, until_s = actor.core.name, trio.current_time() + stop.seconds
        actor.standing = Standing(PartitionState.STOPPED, self._clock.now_ns())
        self.stopped[name] = f"partition {name} is stopped: {stop.reason}"
        if stop.seconds < inf:
            self.resuming.add(name)
        status.started()
        await self._refuse_all(actor, Failure("UNAVAILABLE", self.stopped[name]), until_s)
        del self.stopped[name]
        self.resuming.discard(name)
        actor.standing = Standing(PartitionState.ACTIVE, self._clock.now_ns())

    # ---- after a failure

    async def _recover(self, actor: PartitionActor, failure: Exception, failures: Failures) -> Stop | None:
        """Make the partition anew, and tell everybody. Returns when it may run again, or how it is to be stopped."""
        name, at_ns = actor.core.name, self._clock.now_ns()
        now_ns, cause = actor.begun or (None, None)
        culprit = actor.hand.fail() if may_be_caused_by_input(cause) else None
        consequence = failures.verdict(trio.current_time(), culprit, cause)
        reason = reason_of(failure, culprit)
        self.restarting.add(name)
        rows = await self._around.rows(name)
        damage = await self._renew(actor, rows)
        if damage is not None:
            consequence, reason = Consequence.STOPPED, f"{reason}; its state cannot be read: {reason_of(damage, None)}"
        stop = None
        if consequence is Consequence.STOPPED:
            stop = _stop(reason, damage is not None, inf if damage or culprit else failures.delay_s)
            reason = stop.reason
        incident = Incident(
            name,
            at_ns,
            consequence,
            reason,
            traceback="".join(traceback.format_exception(damage or failure)),
            now_ns=now_ns,
            cause=None if cause is None else self._around.encode(cause),
            last=list(actor.last),
            rows=rows,
            reserves=self._reserves,
        )
        await self._tell(incident)
        if culprit is not None and consequence is Consequence.QUARANTINED:
            actor.hand.take_out()
            await _quarantine(name, culprit.command, Failure("QUARANTINED", reason))
        if stop is None:
            await trio.sleep(failures.delay_s)
        self.restarting.discard(name)
        return stop

    async def _tell(self, incident: Incident) -> None:
        await self._around.report(incident)
        failed = PartitionFailed(incident.at_ns, incident.consequence, incident.reason)
        await self._publish(Publication(incident.partition, [failed]))

    async def _renew(self, actor: PartitionActor, rows: Rows) -> Exception | None:
        """Give the partition this state. Returns why it cannot be read, with the exception that is being handled as its context.

        Then the partition has no state: nobody knows what of it is true.
        """
        damage = None
        try:
            restored = await self._restored(actor, rows)
        except Exception as found:
            restored, damage = new(actor.core.registry.config, reserves=self._reserves), found
        actor.restore(restored)
        return damage

    async def _restored(self, actor: PartitionActor, rows: Rows) -> Restored:
        if not rows:  # it has failed in its first turn
            return new(actor.core.registry.config, reserves=self._reserves)
        return await drive(made_from(rows, reserves=self._reserves))

    # ---- a partition that is stopped

    async def _refuse_all(self, actor: PartitionActor, failure: Failure, until_s: float) -> None:
        """Show the state and refuse everything else, until a moment, or the inbox is closed and empty."""
        commands = actor.hand.give_up()
        try:
            while commands or trio.current_time() < until_s:
                for command in commands:
                    if isinstance(command, TakeSnapshot):
                        with suppress(Exception):  # who asked is told that the partition does not answer
                            await actor.show(command)
                    elif isinstance(command, Read):
                        command.done(await actor.read(command))
                    else:
                        await _refuse(actor.core.name, command, failure)
                commands = []
                with trio.move_on_at(until_s):
                    commands = await actor.inbox.take_batch(BATCH_MAX)
        except trio.EndOfChannel:
            actor.finished.set()


def _stop(reason: str, is_damaged: bool, seconds: float) -> Stop:
    remedy = _REMOVE if is_damaged else _START_AGAIN if seconds == inf else f"it is started again in {seconds:g} s"
    return Stop(seconds, f"{reason}; {remedy}")


async def _quarantine(name: PartitionName, command: PartitionCommand, failure: Failure) -> None:
    """Tell who has sent the message that is not handled; the other submissions of an ``Intake`` still are."""
    if not isinstance(command, Intake):
        await _refuse(name, command, failure)
    else:
        command.answers.failed(failure)


async def _refuse(name: PartitionName, command: PartitionCommand, failure: Failure) -> None:
    """Tell who waits for the command that it is not carried out."""
    match command:
        case Intake() | Administer() | RunCycles() | Quiesce():
            command.answers.failed(failure)
            command.answers.done(name)
        case SwitchConfig(switch=switch):
            await switch.prepare(name, failure.reason)
            switch.finish(name)


class _Once:
    """A task status that may be told several times that the task has started."""

    def __init__(self, status: trio.TaskStatus[None]) -> None:
        self._status: trio.TaskStatus[None] | None = status

    def started(self, value: None = None) -> None:
        """Report that the task has started; only the first call counts."""
        if self._status is not None:
            self._status.started(value)
            self._status = None
