"""The partition's task: it takes ordered input, fires timers, runs cycles and publishes the results.

One turn of the loop takes a bounded batch of commands, or wakes for the next timer. The direct effects of a batch are published
before any decision that follows from them. Then cycles run while something can be decided. Input is taken after each cycle that
used its budget of placements. A cycle that only searched is followed by the next cycle at once, so that steady input cannot
starve a search; after ``SEARCH_MAX`` such cycles input is taken, so that a long search cannot starve input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any

import trio
from msgspec import Struct

from ykactor.actors.clock import Clock
from ykactor.actors.commands import (
    NOBODY,
    Administer,
    Failure,
    FeedCommand,
    Intake,
    PartitionCommand,
    PartitionSnapshot,
    Publication,
    Quiesce,
    Read,
    RunCycles,
    SwitchConfig,
    TakeSnapshot,
    TurnRecord,
)
from ykactor.actors.durations import TurnTimes
from ykactor.actors.hand import Alone, Hand
from ykactor.actors.journal import History, Recording, Since
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.owners import Owners
from ykactor.actors.pauses import checkpoint, drive, pause
from ykactor.actors.receipts import Accepted
from ykactor.actors.scheduler import SchedulerActor
from ykactor.core.config.model import PartitionConfig
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.states import PartitionState
from ykactor.core.messages.submissions import ApplyConfig, RemovePartition, Reset, Submission
from ykactor.core.partition.reload import objection
from ykactor.core.records.base import Restored, new, renewed
from ykactor.core.records.encoding import encode
from ykactor.core.records.export import changes
from ykactor.core.state import wakeups
from ykactor.core.turn.scheduler import Cycle, Ingest, Publish, Turn
from ykactor.core.turn.turn import Cause, CycleDue, Input, Request, TimersDue, TurnResult, turn
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import in_parts
from ykactor.core.values.times import S_NS


class Standing(Struct, frozen=True):
    """A state, and the Unix time at which the partition entered it."""

    state: PartitionState
    since_ns: int


#: Commands that may wait in a partition's inbox; sessions wait while it is full.
INBOX_MAX = 1024
#: Commands taken in one turn.
BATCH_MAX = 256
#: The budget of one cycle. A plan pauses meanwhile, and its messages go in waves, so the event loop is blocked for a few ms only.
CYCLE_BUDGET = Budget(placements_max=1024, work_max=60_000)
#: Consecutive cycles without a full budget of placements before input is taken again.
SEARCH_MAX = 10
#: The budget of one step of the manual mode: a single decision, however long the search.
STEP_BUDGET = Budget(placements_max=1, work_max=10**9)
#: The turns of which the causes are kept, for a post-mortem.
LAST_MAX = 16
#: At least so many times the size of the base is recorded before the next one: the bases are a small part of the history.
BASES_APART = 20
#: A base is used for at most this part of the time for which history is kept.
AGE_PART = 4
#: With this times the bounds a partition does not wait for a quiet moment any more.
LATEST = 2
#: Who has asked for a base waits for a quiet moment at most so long.
WISH_NS = 2 * S_NS


#: A request, and whether a turn finishes this partition's part of it.
Part = tuple[Accepted, bool]


class Renewal:
    """The schedule by which a partition is made anew from its own rows, so that most of the history can be replayed (DU-15).

    Replay starts at a base, and a partition that goes on from a base must itself have been made from it. Retention deletes bases
    with the history, so a partition that runs for long needs a new one now and then.

    Attributes:
        has_failed: it cannot be made anew, because of a bug.
    """

    def __init__(self, history: History, since: Since = Since()) -> None:  # noqa: B008
        self.has_failed = False
        self._history = history
        #: Of the newest base: when it was recorded, what was written before it, and what may be written until the next one.
        self._since_ns, self._since_byte = since.at_ns, history.written - since.written
        self._bytes_max = self._most(since.bytes)
        #: Whether turns since then had facts; of others there is nothing to replay.
        self._has_facts = since.at_ns > 0
        #: How often bases had been asked for when the newest one was recorded, and since when there is a newer wish, if any.
        self._answered = history.bases_wanted
        self._wished_ns: int | None = None

    def note(self, now_ns: int, base: bytes | None, *, has_facts: bool) -> None:
        """A turn was recorded, with the base before it if there is one."""
        if base is not None:
            self._since_ns, self._since_byte, self._has_facts = now_ns, self._history.written, False
            self._bytes_max = self._most(len(base))
            self._answered, self._wished_ns = self._history.bases_wanted, None
        self._has_facts |= has_facts

    def _most(self, base_bytes: int) -> int:
        """The most that may be written after a base of so many bytes until the next one."""
        return max(self._history.keep_bytes, BASES_APART * base_bytes)

    def is_due(self, now_ns: int, *, is_quiet: bool) -> bool:
        """True if the partition is to be made anew now, because nothing else is to be done, or before the input that follows."""
        if self.has_failed:
            return False
        if self._is_wanted(now_ns, is_quiet=is_quiet):
            return True
        if is_quiet and not self._has_facts:
            return False
        times = 1 if is_quiet else LATEST
        return (
            self._history.written - self._since_byte > times * self._bytes_max
            or now_ns - self._since_ns > times * self._history.keep_ns // AGE_PART
        )

    def _is_wanted(self, now_ns: int, *, is_quiet: bool) -> bool:
        """True if somebody has asked for a base, and this moment is quiet or ``WISH_NS`` are over."""
        if self._answered == self._history.bases_wanted:
            return False
        if self._wished_ns is None:
            self._wished_ns = now_ns
        return is_quiet or now_ns - self._wished_ns >= WISH_NS


class Cycling(Struct, frozen=True, kw_only=True):
    """The way in which a partition runs cycles.

    Attributes:
        manual: only on request (``RunCycles``).
        confirms: confirm the releases that the scheduler starts before the next decision (simulation).
        wakes: also when time alone makes a decision possible (SC-5); without, only a recorded scenario is played.
        reserves: whether asks reserve nodes (``surfaces.cli.options``).
        budget: the bounds of one cycle.
        on_cycle: called after every cycle with partition, number and result.
    """

    manual: bool = False
    confirms: bool = False
    wakes: bool = True
    reserves: bool = True
    budget: Budget = CYCLE_BUDGET
    on_cycle: Callable[[PartitionName, int, Cycle], None] | None = None


_USUAL = Cycling()


class PartitionActor:
    """One partition with its scheduler, queues and nodes.

    Args:
        config: the first configuration; applied by ``run`` before anything else.
        publish: sends a publication or snapshot to the feed; may wait for room there.
        recording: how turns are recorded; None if they are not.
        restored: the partition with its last state; ``config`` is the one in force. None: a partition without anything.
        is_on_hold: take no decision before the first command.

    Attributes:
        standing: its state, for readers; a partition that is made anew stays active.
        hand: the commands taken and not finished.
        cycles: number of completed cycles; read by the watchdog.
        busy: whether a turn or a renewal is in progress.
        is_renewing: whether the partition is being made anew, which is no progress that anybody could see.
        begun: the time and the cause of the turn in progress; None between two turns.
        last: the newest turns that were recorded: number, time and cause.
        times: how long its turns take.
        finished: set when ``run`` has ended without an error.
    """

    def __init__(
        self,
        config: PartitionConfig,
        clock: Clock,
        publish: Callable[[FeedCommand], Awaitable[None]],
        cycling: Cycling = _USUAL,
        *,
        recording: Recording | None = None,
        restored: Restored | None = None,
        is_on_hold: bool = False,
    ) -> None:
        self.core, self.scheduler_core, base = restored or new(config, reserves=cycling.reserves)
        #: What the partition was made from, until it is recorded with the next turn.
        self._base = base or None
        self.inbox: Mailbox[PartitionCommand] = Mailbox(f"partition {config.name}", INBOX_MAX)
        self.standing = Standing(PartitionState.ACTIVE, clock.now_ns())
        self.hand = Hand()
        #: A resource manager that was connected when the state was kept is no longer.
        self.hand.take([Intake([ApplyConfig(config)] if restored is None else NOBODY.submissions())])
        self.cycles = 0
        self.busy = self.is_renewing = False
        self.begun: tuple[int, Cause] | None = None
        self.last: deque[tuple[int, int, bytes]] = deque(maxlen=LAST_MAX)
        self.times = TurnTimes()
        self.finished = trio.Event()
        self._clock = clock
        self._publish = publish
        self._cycling = cycling
        self._recording = recording
        self._renewal = None if recording is None else Renewal(recording.history, recording.since)
        self._at_rest = True
        #: The times of the last turn and of the last cycle.
        self._turned_ns = self._cycled_ns = 0
        #: The last command had ``more_follows``: take no decision before the next one.
        self._on_hold = is_on_hold
        self._is_removed = False
        #: What the turn in progress has published so far.
        self._facts: list[Fact] = []
        self._owners: Owners
        self._scheduler: SchedulerActor

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until the inbox is closed and empty; started when the first configuration is applied.

        After an exception, and ``restore``, it may be called again: it begins with what is in hand.
        """
        async with trio.open_nursery() as nursery:
            self._owners = Owners(nursery)
            self._scheduler = SchedulerActor(self.scheduler_core, self._owners, self.times)
            nursery.start_soon(self._scheduler.run, name=f"scheduler {self.core.name}")
            self.busy = True
            await self._work_off()
            self.busy = False
            task_status.started()
            with suppress(trio.EndOfChannel):
                while True:
                    self._take(await self._next_commands())
                    self.busy = True
                    await self._fire_timers()
                    await self._work_off()
                    if self._is_quiet():
                        await self._renew_if_due(is_quiet=True)
                    self.busy = False
            if self._is_removed:
                await self._observe(Input([RemovePartition()]))
            nursery.cancel_scope.cancel()
        self.finished.set()

    def restore(self, restored: Restored) -> None:
        """Go on with this state when ``run`` is called the next time; the last one has failed in the middle of a turn."""
        self.core, self.scheduler_core, self._base = restored
        self.begun, self._facts = None, []
        self.times.drop()
        self.busy = self._at_rest = False

    def remove(self) -> None:
        """Close the inbox; after what is in it, end everything that runs (CF-56). Senders that wait for room get an error."""
        self._is_removed = True
        self.inbox.close()

    async def _next_commands(self) -> list[PartitionCommand]:
        """The next commands; [] when a timer is due or work is left."""
        if not (self._at_rest or self._cycling.manual or self._on_hold):
            await trio.lowlevel.checkpoint()
            return self.inbox.take_nowait(BATCH_MAX)
        due_ns = self._next_ns()
        with trio.move_on_at(inf if due_ns is None else self._clock.to_trio(due_ns)):
            return await self.inbox.take_batch(BATCH_MAX)
        return []

    def _next_ns(self) -> int | None:
        """The time of the next turn if no command arrives; None if there is no such time."""
        due_ns = self.core.timers.next_ns()
        if not self._cycling.wakes or self._cycling.manual or self._on_hold:
            return due_ns
        wake_ns = wakeups.wake_ns(self.scheduler_core.state, self._cycled_ns)
        return min((at_ns for at_ns in (due_ns, wake_ns) if at_ns is not None), default=None)

    def _take(self, commands: list[PartitionCommand]) -> None:
        self.hand.take(commands)
        if commands:
            last = commands[-1]
            self._on_hold = isinstance(last, Intake | SwitchConfig | Administer | Quiesce) and last.more_follows

    async def _work_off(self) -> None:
        """Finish everything in hand, then decide what can be decided."""
        while self.hand:
            wanted = self.hand.next()
            if not isinstance(wanted, list):
                await self._handle(wanted)
            elif wanted:
                await self._take_in(wanted)
            for intake in self.hand.finish():
                intake.answers.done(self.core.name, self.core.turns)
        if not (self._cycling.manual or self._on_hold):
            self._check_deadlines()
            await self._schedule()

    async def _take_in(self, submissions: list[Submission]) -> None:
        sender = self.hand.sender()
        outcome = await self._observe(Input(submissions, sender.limits), self.hand.parts())
        for reason in outcome.exceeded:
            sender.answers.exceeded(self.core.name, reason)

    async def _fire_timers(self) -> None:
        """Fire the timers that are due."""
        due_ns = self.core.timers.next_ns()
        if due_ns is not None and due_ns <= self._clock.now_ns():
            await self._observe(TimersDue())
            self._check_deadlines()

    def _check_deadlines(self) -> None:
        """Check whether the passing of time alone makes a decision possible."""
        eligible_ns = wakeups.next_ns(self.scheduler_core.state, self._cycled_ns)
        if eligible_ns is not None and eligible_ns <= self._clock.now_ns():
            self._at_rest = False

    async def _observe(self, cause: Cause, parts: Sequence[Part] = ()) -> TurnResult:
        """Carry out a turn that is no cycle."""
        await self._renew_if_due(is_quiet=False)  # not before a cycle: a long search would never end
        outcome = await self._run(cause, parts)
        if outcome.has_observed:
            self._at_rest = False
        return outcome

    def _is_quiet(self) -> bool:
        return (self._at_rest or self._cycling.manual) and not self._on_hold and not self.inbox.messages_waiting()

    async def _renew_if_due(self, *, is_quiet: bool) -> None:
        """Make the partition anew from its own rows, if they are to be the next base. Nobody notices.

        A failure in it is a bug, which must not harm: nothing has changed, and what runs needs no base.
        """
        recording, renewal = self._recording, self._renewal
        if recording is None or renewal is None or self._base is not None or not recording.is_wanted():
            return
        if not renewal.is_due(self._clock.now_ns(), is_quiet=is_quiet):
            return
        self.is_renewing = True
        try:
            restored = await drive(renewed(self.core, self.scheduler_core))
            self._owners.take_over(restored.core.registry)
        except Exception as failure:
            renewal.has_failed = True
            recording.on_failure(self.core.name, failure)
        else:
            self.core, self.scheduler_core, self._base = restored
            self._scheduler.core = self.scheduler_core
            self._at_rest = False  # what was known of searches is not in the rows
        finally:
            self.is_renewing = False

    async def _run(self, cause: Cause, parts: Sequence[Part] = ()) -> TurnResult:
        """Carry out one turn. All its facts are one publication at its end: a turn is recorded as a whole or not at all.

        Args:
            parts: the requests to which the cause belongs, of which the turn leaves receipts.
        """
        if self._recording is not None:
            await self._recording.room()
        await drive(self.core.registry.changed.forget_most())
        now_ns = self._turned_ns = self._clock.now_ns()  # not before: to wait for a disk may take hours
        self.begun = now_ns, cause
        outcome = await self._carry_out(turn(self.core, self.scheduler_core, now_ns, cause, confirms=self._cycling.confirms))
        facts, self._facts = self._facts, []
        self.times.begin("publish")
        recorded = None
        if self._recording is not None and self._recording.is_wanted():
            recorded = await self._record(now_ns, cause, self._recording)
        self._base = None  # it is of no later turn
        if recorded is not None:
            name, refusal = self.core.name, outcome.refusal
            recorded.changes.extend(request.receipt(name, is_done=is_done, refusal=refusal) for request, is_done in parts)
        if recorded is not None and self._renewal is not None:
            self._renewal.note(now_ns, recorded.base, has_facts=bool(facts))
        if facts or recorded is not None:
            await self._publish(Publication(self.core.name, facts, recorded))
        self.times.end()
        self.begun = None
        return outcome

    async def _record(self, now_ns: int, cause: Cause, recording: Recording) -> TurnRecord:
        """The record of the turn that has just ended."""
        encoded, changed = recording.encode(cause), list[bytes]()
        for rows in in_parts(changes(self.core, self.scheduler_core.state)) if recording.has_rows else ():
            if changed:
                await pause()
            changed.append(encode(self.core.name, rows))
        self.last.append((self.core.turns, now_ns, encoded))
        return TurnRecord(self.core.turns, now_ns, encoded, changed, self._base)

    async def _carry_out(self, phases: Turn[TurnResult]) -> TurnResult:
        reply: Any = None
        try:
            while True:
                phase = phases.send(reply)
                if isinstance(phase, Publish):
                    self._facts += phase.facts
                    reply = None
                elif isinstance(phase, Ingest):
                    self.times.begin("ingest")
                    reply = await self._owners.carry_out(phase.input)
                else:
                    reply = await self._scheduler.carry_out(phase)
        except StopIteration as stop:
            result: TurnResult = stop.value
            return result

    async def _handle(self, command: Alone) -> None:
        match command:
            case SwitchConfig(config, switch):
                if await switch.prepare(self.core.name, "" if command.afresh else objection(self.core.registry, config)):
                    first: list[Submission] = [Reset()] if command.afresh else []
                    await self._observe(Input([*first, ApplyConfig(config)]))
                switch.finish(self.core.name)
            case Administer(request, answers, accepted=accepted):
                parts = [] if accepted is None else [(accepted, True)]
                refusal = (await self._observe(Request(request), parts)).refusal
                if refusal:
                    answers.failed(Failure("REFUSED", refusal))
                answers.done(self.core.name, self.core.turns)
            case TakeSnapshot():
                await self._send_placements()
                await self.show(command)
            case Read():
                await self._send_placements()
                command.done(await self.read(command))
            case RunCycles(count, answers):
                for _ in range(count):
                    await self._cycle(STEP_BUDGET)
                    if self._at_rest:
                        break
                await self._send_placements()
                answers.done(self.core.name, self.core.turns)
            case Quiesce(answers, more_follows):
                if not more_follows:
                    self._check_deadlines()
                while not self._at_rest and not self._cycling.manual:
                    await self._schedule()
                answers.done(self.core.name, self.core.turns)

    async def _send_placements(self) -> None:
        """Let nodes agree with the scheduler before anybody reads them."""
        await self._owners.carry_out(self.core.registry.unsent.show())

    async def show(self, command: TakeSnapshot) -> None:
        """Publish the state between two turns."""
        shown = await drive(partition_state(self.core, self.scheduler_core.state, every_ask=command.every_ask))
        await self._publish(PartitionSnapshot(self.core.name, command.snapshot_id, shown, self.times.of_cycles()))

    async def read(self, command: Read) -> Any:
        """Read between two turns. A read changes nothing, so its failure harms only who asked, and is returned."""
        try:
            return await drive(command.read(self.core, self.scheduler_core.state, self._clock.now_ns()), checkpoint)
        except Exception as failure:
            return failure

    async def _schedule(self) -> None:
        """Run cycles until one uses its budget of placements, nothing more can be decided, or after ``SEARCH_MAX`` cycles."""
        for _ in range(SEARCH_MAX):
            if self._at_rest or (await self._cycle(self._cycling.budget)).is_full:
                return

    async def _cycle(self, budget: Budget) -> Cycle:
        outcome = await self._run(CycleDue(budget))
        self._cycled_ns = self._turned_ns
        cycle = outcome.cycle
        assert cycle is not None
        self.cycles += 1
        self.times.note_cycle(cycle.facts)
        self._at_rest = cycle.at_rest and not outcome.has_confirmed
        if self._cycling.on_cycle is not None:
            self._cycling.on_cycle(self.core.name, self.cycles, cycle)
        return cycle
