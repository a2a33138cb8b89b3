"""The feed: one numbered history of all events, which any number of subscribers read at their own pace.

Partitions put ``Publication``s and ``PartitionSnapshot``s into ``FeedActor.inbox``. The feed's task numbers the events, keeps the
newest in a ring buffer and then delivers the facts to the resource managers' outboxes, so that both have the same order. A
subscriber (``Subscription``) is a cursor into the ring: it is served new events in the rounds of a ``FanOut``, and is notified
when events that it has not read were overwritten. The feed never waits for a subscriber.

A replica has a feed too, which gets publications whose events have numbers already. It may lack some of before for a while, and
be given others twice: an event is kept if its number follows the newest one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol
from weakref import WeakValueDictionary

import trio
from msgspec import Struct, field, structs

from ykactor.actors.commands import (
    FeedCommand,
    PartitionCommand,
    PartitionSnapshot,
    PastEvents,
    Publication,
    TakeSnapshot,
)
from ykactor.actors.fan_out import FanOut
from ykactor.actors.journal import Journal, Stalling
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.pauses import drive, pause
from ykactor.actors.ring import EventRecordLike, Ring
from ykactor.actors.selection import EventFilter, Format, Kept, Selection, View
from ykactor.actors.turn_stream import TurnStream
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.messages.facts import Fact
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import PART_MAX, emptied

#: Commands that the feed takes in one batch ...
COMMANDS_MAX = 256
#: ... and facts that it handles before subscribers run (about 4 us each, delivery to outboxes included).
FACTS_MAX = 512
#: The bytes of the events kept: their texts, and their encoded forms. 100,000 usual events have 15 MiB of texts, and 25 to 30 MiB
#: in each encoding that is used.
RING_BYTES_MAX = 2**26
#: A snapshot that takes longer fails, because publications are held back meanwhile; so does one during which more facts are.
SNAPSHOT_S = 5.0
HELD_FACTS_MAX = 100_000


class Delivery(Protocol):
    """Makes the events of facts, and takes the facts to those who are told of them."""

    def render(self, fact: Fact, partition: PartitionName, number: int, /) -> Sequence[EventRecordLike]:
        """Make the events of a fact; the first one has this sequence number."""
        ...

    def deliver(self, partition: PartitionName, facts: list[Fact], /) -> object:
        """Take facts whose events are numbered, for resource managers; must not block."""
        ...

    def mentioned(self, events: list[Any], /) -> set[str]:
        """Name what events are about, for the journal."""
        ...


class SeenStates:
    """The states of a snapshot as views show them: made once for each view, while other tasks run."""

    def __init__(self) -> None:
        self._made: dict[View, list[PartitionStatus]] = {}
        self._turn = trio.Lock()

    async def of(self, states: Sequence[PartitionStatus], view: View) -> list[PartitionStatus]:
        """The states of the snapshot as the view shows them."""
        async with self._turn:
            if view not in self._made:
                shown = [state for state in states if view.shows_partition(state.name)]
                self._made[view] = [await drive(view.of_state(state)) for state in shown]
            return self._made[view]


async def forget(states: Iterable[PartitionStatus]) -> None:
    """Free states that nobody needs any more, a part at a time: all at once takes long."""
    for state in states:
        for section in (getattr(state, name) for name in state.__struct_fields__):
            while isinstance(section, dict) and section:
                for name in list(islice(section, PART_MAX)):
                    del section[name]
                await pause()


class FeedSnapshot(Struct, frozen=True):
    """The states of all partitions exactly at ``sequence``.

    Attributes:
        round_number: counts the snapshots taken.
        cycles: how long those of each partition take.
        is_shared: whether other callers get the same states; if not, the caller may take them apart.
        has_every_ask: whether the states name all pending asks.
    """

    sequence: int
    partitions: list[PartitionStatus]
    round_number: int
    cycles: dict[str, dict[str, float]] = {}
    is_shared: bool = False
    has_every_ask: bool = False
    seen: SeenStates = field(default_factory=SeenStates)

    async def seen_by(self, view: View) -> list[PartitionStatus]:
        """The states as the view shows them; if the snapshot is shared, other callers with the same view get the same.

        If not, it is taken apart, also what is not shown.
        """
        shown = await self.seen.of(self.partitions, view)
        if not self.is_shared:
            await forget(state for state in self.partitions if not any(state is kept for kept in shown))
        return shown


class SnapshotError(Exception):
    """A partition did not reply."""


class _Round:
    """A snapshot in progress: the replies of partitions, and what they published after their replies."""

    def __init__(self, number: int, partitions: list[PartitionName], every_ask: bool) -> None:
        self.number = number
        self.every_ask = every_ask
        self.partitions = partitions
        self.states: dict[PartitionName, PartitionStatus] = {}
        self.cycles: dict[str, dict[str, float]] = {}
        self.held: list[Publication] = []
        self.held_facts = 0
        self.result: FeedSnapshot | None = None
        self.complete = trio.Event()


class _Barrier(Publication, frozen=True, kw_only=True):
    """A publication without facts; sets ``reached`` when the feed has processed everything before it."""

    reached: trio.Event


class FeedActor:
    """Numbers, keeps and distributes events.

    Args:
        delivery: makes events of facts, and gets the facts.
        partitions: the inbox of every partition; read for each snapshot, so it may change.
        ring_max, bytes_max: number of events kept, and their bytes (``RING_BYTES_MAX``).
        inbox_max: number of commands that may wait in ``inbox``.
        is_idle: whether no partition has anything to do; subscribers give way while one has.
        journal: gets each turn; events may be read when they are durable. None: at once.

    Attributes:
        stalling: the journal of which followers are told whether it can be written (``wake_subscribers``).
        term: of the events to come, where it may change, as at a replica: subscribers are told before them (EV-55).
        still: held while a snapshot is taken. Who publishes what has numbers holds it too, because that cannot be held back.
    """

    def __init__(
        self,
        delivery: Delivery,
        partitions: Mapping[PartitionName, Mailbox[PartitionCommand]],
        ring_max: int = 100_000,
        bytes_max: int = RING_BYTES_MAX,
        inbox_max: int = 1024,
        is_idle: Callable[[], bool] = lambda: True,
        journal: Journal | None = None,
    ) -> None:
        self.inbox: Mailbox[FeedCommand] = Mailbox("feed", inbox_max)
        self.ring = Ring(ring_max, bytes_max)
        self.fan_out = FanOut(ring_max, is_idle)
        self._delivery = delivery
        self._partitions = partitions
        self.journal = journal
        self.stalling: Stalling | None = journal
        self.term = ""
        #: Gets each publication, behind the journal if there is one.
        self.turns: TurnStream | None = None
        #: Makes JSON of the facts of the publication in progress; None if nobody needs that.
        self._encode: Callable[[Sequence[Fact]], bytes] | None = None
        #: The number of the first event of the publication in progress, its facts as the journal keeps them, and what they are
        #: about.
        self._first_event = 1
        #: The number of its next event.
        self._following = 1
        self._encoded: list[bytes] = []
        self._names: set[str] = set()
        if journal is not None:
            journal.watch(self.wake_subscribers)
        self._selections: WeakValueDictionary[tuple[Format, EventFilter, View | None], Selection] = WeakValueDictionary()
        self._kept_parts = Kept()
        self._round: _Round | None = None
        self._rounds = 0
        #: What a round has held back, and whether a publication is in progress, after which it follows.
        self._released: deque[Publication] = deque()
        self._is_publishing = False
        #: Whether commands were taken from the inbox and are not all processed.
        self._is_processing = False
        self._latest: FeedSnapshot | None = None
        self._snapshot_turn = trio.Lock()
        self.still = trio.Lock()

    async def run(self) -> None:
        """Process commands and serve subscribers until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.fan_out.run, name="fan-out")
            await self._process()

    async def _process(self) -> None:
        while True:
            facts_count, commands = 0, await self.inbox.take_batch(COMMANDS_MAX)
            self._is_processing = True
            for command in commands:
                if isinstance(command, PartitionSnapshot):
                    self._on_partition_snapshot(command)
                elif isinstance(command, PastEvents):
                    self._on_past(command)
                elif not self._hold(command):
                    facts_count = await self._on_publication(command, facts_count)
            self._is_processing = False

    def restore(self, events: list[EventRecordLike], last: int) -> None:
        """Take over the newest events of the journal, before anything is published; the last one has the number ``last``."""
        self.ring.restore(events, last)
        self.fan_out.grow(last)

    # ---- publishing

    def _hold(self, publication: Publication) -> bool:
        """Hold the publication back if its partition has replied in the round in progress; whether it did."""
        round_ = self._round
        if round_ is None or publication.partition not in round_.states:
            return False
        round_.held.append(publication)
        round_.held_facts += len(publication.facts)
        if round_.held_facts > HELD_FACTS_MAX:
            self._end_round(round_)
            round_.complete.set()
        return True

    async def _on_publication(self, publication: Publication, facts_count: int) -> int:
        """Publish, and let others run before more than ``FACTS_MAX`` facts; ``facts_count`` counts those since they ran."""
        self._begin(publication)
        for facts in emptied(publication.facts):
            facts_count += len(facts)
            if facts_count > FACTS_MAX:
                await trio.lowlevel.checkpoint()
                facts_count = len(facts)
            self._number(publication.partition, facts)
        self._complete(publication)
        self._publish_released()
        return facts_count

    def _publish_released(self) -> None:
        """Publish what a round has held back."""
        while self._released:
            publication = self._released.popleft()
            self._begin(publication)
            for facts in emptied(publication.facts):
                self._number(publication.partition, facts)
            self._complete(publication)

    def _begin(self, publication: Publication) -> None:
        self._is_publishing = True
        given = publication.first_event
        self._first_event = self._following = self.ring.sequence + 1 if given is None else given
        self._encode = self.turns.encode if self.turns is not None and self.turns.is_read else None
        if self.journal is not None:
            self._encode = self.journal.encode
            self.journal.begin_turn()

    def _number(self, partition: PartitionName, facts: list[Fact]) -> None:
        """Number the events of some facts, keep them and deliver the facts."""
        events: list[EventRecordLike] = []
        first = self._following
        for fact in facts:
            events += self._delivery.render(fact, partition, first + len(events))
        self._following += len(events)
        self.ring.keep(self._new(first, events), durable=self.journal is None)
        self._delivery.deliver(partition, facts)
        if self._encode is not None:
            self._encoded.append(self._encode(facts))
        if self.journal is None:
            self.fan_out.grow(self.ring.durable)
        else:
            self._names |= self._delivery.mentioned(events)

    def _new(self, first: int, events: list[EventRecordLike]) -> list[EventRecordLike]:
        """The part of consecutive events that follows what is kept: not what is there already, nothing behind a gap."""
        known = self.ring.sequence + 1 - first
        return events if known == 0 else events[known:] if known > 0 else []

    def _on_past(self, past: PastEvents) -> None:
        if past.first_event > self.ring.sequence + 1:
            self.ring.skip_to(past.first_event - 1)
        self.ring.keep(self._new(past.first_event, past.events), durable=True)
        self.fan_out.grow(self.ring.durable)

    def _complete(self, publication: Publication) -> None:
        """All facts of the publication are numbered."""
        self._is_publishing = False
        if self._encode is not None:
            encoded, self._encoded = self._encoded, []
            names, self._names = self._names, set()
            if encoded or publication.turn is not None:
                if self.journal is not None:
                    self.journal.add(self, publication, encoded, names, self.ring.sequence)
                if self.turns is not None:
                    self.turns.add(publication, encoded, self._first_event)
        if self.journal is not None:
            self.journal.end_turn()
        if isinstance(publication, _Barrier):
            publication.reached.set()

    def raise_durable(self, number: int) -> None:
        """The events up to this number may be read (``journal.Reader``)."""
        self.ring.raise_durable(number)
        self.fan_out.grow(number)

    def wake_subscribers(self) -> None:
        """Let subscribers look for notices."""
        self.fan_out.grow(self.ring.durable)

    async def published(self, partition: PartitionName) -> None:
        """Wait until everything that the partition has put into the inbox before is numbered and delivered.

        No checkpoint if that is so.
        """
        if self._round is None and not self._is_processing and not self.inbox.messages_waiting():
            return
        barrier = _Barrier(partition, [], reached=trio.Event())
        await self.inbox.give(barrier)
        await barrier.reached.wait()

    # ---- reading

    def selection(self, form: Format, wanted: EventFilter, view: View | None = None) -> Selection:
        """The events of a view that pass a filter; one object for all subscribers with the same format, filter and view."""
        found = self._selections.get((form, wanted, view))
        if found is None:
            found = self._selections[form, wanted, view] = Selection(self.ring, form, wanted, view, self._kept_parts)
        return found

    # ---- snapshots

    async def snapshot(self, *, every_ask: bool = False) -> FeedSnapshot:
        """The state of all partitions at one sequence number, not older than this call.

        A partition's reply follows everything that it has published. What it publishes after its reply is held back until all
        partitions have replied, so that one sequence number is exact for all. Concurrent callers share one snapshot. With
        ``every_ask`` it names all pending asks; otherwise it may do so for another caller.

        Raises:
            SnapshotError: a partition does not run, or did not reply within ``SNAPSHOT_S`` and ``HELD_FACTS_MAX``; or the state
                was not durable ``SNAPSHOT_S`` later.
        """
        snapshot = await self._shared_snapshot(every_ask)
        if self.journal is not None:
            with trio.move_on_after(SNAPSHOT_S) as deadline:
                await self.journal.flushed()
            if deadline.cancelled_caught:
                why = f": {self.journal.stalled.reason}" if self.journal.stalled is not None else ""
                raise SnapshotError(f"the state after event {snapshot.sequence} was not durable within {SNAPSHOT_S:g} s{why}")
        return snapshot

    async def _shared_snapshot(self, every_ask: bool) -> FeedSnapshot:
        rounds_before = self._rounds
        async with self._snapshot_turn:
            latest = self._latest
            if latest is None or latest.round_number <= rounds_before or (every_ask and not latest.has_every_ask):
                latest = await self._take_snapshot(every_ask)
            # Kept only for callers that share it: a snapshot can be large.
            if self._snapshot_turn.statistics().tasks_waiting:
                latest = self._latest = structs.replace(latest, is_shared=True)
            else:
                self._latest = None
            return latest

    async def _take_snapshot(self, every_ask: bool) -> FeedSnapshot:
        while True:
            inboxes = dict(self._partitions)
            async with self.still:
                round_ = await self._ask(inboxes, every_ask)
            if round_.result is not None:
                return round_.result
            if inboxes == self._partitions:  # else a partition was removed before its turn: try again
                silent = [name for name in round_.partitions if name not in round_.states]
                raise SnapshotError(f"no answer from partition {', '.join(silent)}")

    async def _ask(self, inboxes: Mapping[PartitionName, Mailbox[PartitionCommand]], every_ask: bool) -> _Round:
        self._rounds += 1
        round_ = self._round = _Round(self._rounds, list(inboxes), every_ask)
        self._complete_round(round_)
        try:
            with trio.move_on_after(SNAPSHOT_S):
                for inbox in inboxes.values():
                    await inbox.put(TakeSnapshot(round_.number, every_ask))
                await round_.complete.wait()
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass  # this partition does not run
        finally:
            self._end_round(round_)
        return round_

    def _on_partition_snapshot(self, snapshot: PartitionSnapshot) -> None:
        round_ = self._round
        if round_ is None or snapshot.snapshot_id != round_.number:
            return  # its round has timed out
        round_.states[snapshot.partition] = snapshot.state
        round_.cycles[snapshot.partition] = snapshot.cycles
        self._complete_round(round_)

    def _complete_round(self, round_: _Round) -> None:
        if len(round_.states) == len(round_.partitions):
            states = [round_.states[name] for name in round_.partitions]
            cycles, every_ask = round_.cycles, round_.every_ask
            round_.result = FeedSnapshot(self.ring.sequence, states, round_.number, cycles, has_every_ask=every_ask)
            round_.complete.set()
            self._end_round(round_)

    def _end_round(self, round_: _Round) -> None:
        """Publish what was held back during the round, but not in the middle of another publication."""
        if self._round is round_:
            self._round = None
            self._released += round_.held
            if not self._is_publishing:
                self._publish_released()
