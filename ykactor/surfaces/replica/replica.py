"""The knowledge of a replica of its daemon, as sessions and the REST API use it (``actors.gateway.ReadGateway``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import trio
from msgspec import Struct

from ykactor.access import moments
from ykactor.actors.clock import Clock
from ykactor.actors.feed import FeedActor
from ykactor.actors.gateway import Point, Reached
from ykactor.actors.health import Check, HealthChecks
from ykactor.actors.journal import Stalled
from ykactor.actors.partition import Standing
from ykactor.core.inspection.process_status import Registration, StandbysStatus, UnconfirmedStatus
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.states import PartitionState
from ykactor.core.objects.registry import Registry
from ykactor.core.values.ids import PartitionName
from ykactor.journal.terms import Beginning, Term, Terms
from ykactor.surfaces.metrics.instruments import Instruments
from ykactor.surfaces.replica.copies import Copies
from ykactor.surfaces.replica.refusals import Refusals
from ykactor.wire.si.events import events, mentioned
from ykactor.wire.turns import Configuration, Hello, Process

#: How long who knows of a later event or turn than the replica waits for it.
REACH_S = 2.0


class OtherHistoryError(Exception):
    """The daemon goes on from a history that lacks events of this replica."""


class _Delivery:
    """Makes events of facts, and counts facts (``actors.feed.Delivery``)."""

    render = staticmethod(events)
    mentioned = staticmethod(mentioned)

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    def deliver(self, partition: PartitionName, facts: list[Fact]) -> None:
        """Count facts."""
        self._instruments.facts.count(partition, facts)


class Lost(Struct, frozen=True):
    """The loss of the connection to the daemon: its Unix time, and the reason."""

    since_ns: int
    reason: str

    def text(self, url: str) -> str:
        """A sentence about the daemon at an address."""
        since = moments.shown(moments.at(self.since_ns))
        return f"the replica is not connected to the daemon at {url} since {since}: {self.reason}"


class Replica:
    """The copies with their feed, and what the daemon has told of itself.

    Args:
        url: the address of the daemon.
        checks: further checks of health, of what surrounds the replica.

    Attributes:
        lost: why there is no connection; None if there is one.
        is_known: set when the daemon has told everything of itself for the first time.
        grown: parks who waits for an event of the daemon.
        refusals: what readers may not do here.
        stalled: since when and why the journal of the daemon is not written; None if it is.
    """

    def __init__(self, url: str, clock: Clock, checks: Callable[[], Sequence[Check]]) -> None:
        self.url = url
        self.copies = Copies(lambda command: self.feed.inbox.give(command), self.cycles_of, clock)
        self.partitions = self.copies.inboxes
        self.instruments = Instruments(self.partitions)
        self.feed = FeedActor(_Delivery(self.instruments), self.partitions)
        self.health = HealthChecks(self.partitions, self._problems, others=self._checks)
        self.terms = Terms.first()
        self.started_ns = 0
        self.registration: Registration | None = None
        self.config = Configuration("", "")
        self.lost: Lost | None = None
        self.is_known = trio.Event()
        self.grown = trio.lowlevel.ParkingLot()
        self.stalled: Stalled | None = None
        self.feed.stalling = self
        self.refusals = Refusals(clock.now_ns)
        self._clock = clock
        self._own_checks = checks
        self._process: Process | None = None
        #: Of each partition, the turn of which what is shown beside it is no older (``Process.turns``).
        self._told: Mapping[str, int] = {}
        self._turns_before: Mapping[str, int] = {}
        #: Whether the turns that copies have run are of the present term: of a new one, when the daemon has said which go on.
        self._are_of_term = True

    async def run(self) -> None:
        """Serve readers of copies and of the feed until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.feed.run, name="feed")
            nursery.start_soon(self.copies.run, name="copies")

    # ---- what the daemon tells

    def greet(self, hello: Hello) -> None:
        """A connection begins. Copies stay as they are until they go on with what was missed, or it is known that they cannot.

        Raises:
            OtherHistoryError: the daemon lacks the newest event that this replica has shown.
        """
        terms = Terms([Beginning(Term.parse(term), 0, event, 0) for term, event in hello.terms])
        newest = self.feed.ring.sequence
        if newest and (reason := terms.missing("event", newest, str(self.terms.present))):
            raise OtherHistoryError(reason)
        if terms.present != self.terms.present:
            self._are_of_term, self._told = False, {}
        self.terms, self.started_ns, self.lost = terms, hello.started_ns, None
        self._turns_before, self.feed.term = hello.turns_before, str(terms.present)

    def go_on(self) -> None:
        """The copies that there are now are of the present term."""
        self._are_of_term = True

    def show(self, message: Process | Configuration) -> None:
        """Show this of the daemon from now on."""
        if isinstance(message, Configuration):
            self.config = message
        else:
            self._process, self.registration, self._told = message, message.registration, message.turns
            self.copies.arrange(message.partitions)
            stalled = None if message.stalled is None else Stalled(*message.stalled)
            if stalled != self.stalled:
                self.stalled = stalled
                self.feed.wake_subscribers()
        if self._process is not None and self.config.checksum:
            self.is_known.set()

    def _problems(self) -> list[str]:
        lost = [] if self.lost is None else [self.lost.text(self.url)]
        missing = [why for name in self.partitions if (why := self.unavailable(name))]
        told = [] if self._process is None else self._process.problems
        return [*lost, *missing, *(f"at the daemon: {problem}" for problem in told)]

    def _checks(self) -> list[Check]:
        """The checks of what surrounds this process, and those of the daemon."""
        told = [] if self._process is None else self._process.checks
        return [*self._own_checks(), *(Check(name, f"at the daemon: {what}", problem) for name, what, problem in told)]

    # ---- ReadGateway

    def now_ns(self) -> int:
        """Unix time."""
        return self._clock.now_ns()

    def standing(self, partition: PartitionName) -> Standing:
        """The state of a partition (``ReadGateway.standing``); one that has just come is active."""
        found = None if self._process is None else self._process.partitions.get(partition)
        return Standing(PartitionState.ACTIVE, self.now_ns()) if found is None else Standing(*found)

    def registry(self, partition: PartitionName) -> Registry:
        """The owners in a partition of which there is a copy."""
        return self.copies.of[partition].cores[0].registry

    def queue_paths(self, partition: PartitionName) -> list[str]:
        """The paths of all queues of a partition; none without a copy."""
        return [*self.registry(partition).queues] if partition in self.copies.of else []

    @property
    def standbys_status(self) -> StandbysStatus | None:
        """The standbys of the daemon (``ReadGateway.standbys_status``)."""
        return None if self._process is None else self._process.standbys

    @property
    def unconfirmed(self) -> UnconfirmedStatus | None:
        """The configuration of the daemon that awaits confirmation (``ReadGateway.unconfirmed``)."""
        return None if self._process is None else self._process.unconfirmed

    def cycles_of(self, partition: PartitionName) -> dict[str, float]:
        """The durations of the cycles of the daemon (``TurnTimes.of_cycles``)."""
        return {} if self._process is None else self._process.cycles.get(partition, {})

    def measured(self) -> bytes:
        """The metrics of the process of the daemon; none while it is away, or they would look as if it did nothing."""
        return b"" if self._process is None or self.lost is not None else self._process.measured

    @property
    def waits(self) -> str:
        """Nothing: a replica serves when its daemon has told what it is (``ReadGateway.waits``)."""
        return ""

    def unavailable(self, partition: PartitionName) -> str:
        """The reason for which a partition cannot be read at present (``ReadGateway.unavailable``)."""
        if partition in self.copies.of:
            return ""
        return f"the replica has no copy of partition {partition} yet: the daemon at {self.url} makes one soon"

    def turn_of(self, partition: PartitionName) -> int:
        """The number of the last turn that was run here (``ReadGateway.turn_of``)."""
        copy = self.copies.of.get(partition)
        return 0 if copy is None else copy.turns

    async def reach(self, point: Point) -> Reached:
        """Wait until the daemon has told it (``ReadGateway.reach``)."""
        with trio.move_on_after(REACH_S) as waiting:
            while not self._has(point):
                await self.grown.park()
            if point.turns:
                await self.feed.published(PartitionName(""))  # the events of these turns
        if not waiting.cancelled_caught:
            return "there"
        return "late" if not point.term or point.term in self.terms or self.terms.are_before(point.term) else "elsewhere"

    def _has(self, point: Point) -> bool:
        if point.term and point.term not in self.terms:
            return False
        if point.turns and not self._are_of_term:
            return False
        # What of an earlier term was durable is in the present one, and of the rest nothing comes any more.
        is_over = point.term not in ("", str(self.terms.present))
        for name, asked in point.turns.items():
            number = min(asked, self._turns_before.get(name, 0)) if is_over else asked
            if self.turn_of(PartitionName(name)) < number or (point.is_beside and self._told.get(name, 0) < number):
                return False
        return point.event <= self.feed.ring.durable
