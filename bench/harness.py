"""The daemon without its sockets: one partition, the feed with a follower, the outbox with a session that reads it.

Typed requests go in through ``Rig.submit``. On the output side two tasks read what websocket sessions would send: the feed's
events as JSON, and the resource manager's responses as JSON. Each counts its output in a ``Watch``, which measurements read.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import trio

from ykactor.access.limits import IdentityLimits
from ykactor.actors.clock import Clock
from ykactor.actors.commands import Awaited, Intake, PartitionCommand, Quiesce
from ykactor.actors.feed import FeedActor
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.outbox import OutboxReader, OutboxRegistry
from ykactor.actors.partition import Cycling, PartitionActor
from ykactor.actors.selection import EventFilter, Format
from ykactor.actors.subscription import Missed, Subscription
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.submissions import SetPredicateService
from ykactor.core.values.ids import PartitionName
from ykactor.wire import queuefile
from ykactor.wire.si import codec, requests
from ykactor.wire.si import messages as si
from ykactor.wire.si.events import events, mentioned
from ykactor.wire.si.responses import responses

#: Occurs once in the JSON of each event of a new allocation, and in no other event of the benchmarks.
_ALLOCATION_MARK = b'"APP_ALLOC"'
#: The same in the JSON of the responses.
_NEW_MARK = b'"resourcePerAlloc"'
#: Only in a request to the predicate service.
_CHECKS_MARK = b'"type":"PredicatesRequest"'

#: Of who sends, as without an access file.
_LIMITS = IdentityLimits().held("anybody")

#: The names of tasks: the feed, and those that read what it has for followers and what the outbox has.
FEED = "feed"
READERS = ("fan-out", "follower", "resource manager")


class Watch:
    """The output of one side: events or responses.

    Attributes:
        position: sequence number of the newest event or response that was encoded and read.
        allocations: number of allocations among them since ``reset``.
        first_s: time of the first of these allocations, on the clock of ``perf_counter``; None before.
        last_s: time of the newest of these allocations.
    """

    def __init__(self) -> None:
        self.position = 0
        self._grown = trio.lowlevel.ParkingLot()
        self.reset()

    def reset(self) -> None:
        """Restart counting and timing."""
        self.allocations = 0
        self.first_s: float | None = None
        self.last_s = 0.0

    def saw(self, messages: int, allocations: int) -> None:
        """Count messages that were read, and the allocations in them."""
        self.position += messages
        if allocations:
            self.allocations += allocations
            self.last_s = perf_counter()
            self.first_s = self.first_s or self.last_s
        self._grown.unpark_all()

    async def until_position(self, position: int) -> None:
        """Wait until everything up to this sequence number was read."""
        while self.position < position:
            await self._grown.park()

    async def until_allocations(self, allocations: int) -> None:
        """Wait for this many allocations since ``reset``."""
        while self.allocations < allocations:
            await self._grown.park()


class _Reader:
    """Takes whatever is written to the follower, at once (``subscription.Writer``)."""

    is_overdue = False

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def write(self, packed: tuple[int, bytes]) -> bool:
        """Count the events of one batch."""
        events, text = packed
        self._watch.saw(events, text.count(_ALLOCATION_MARK))
        return True

    def flush(self) -> bool:
        """Nothing is left."""
        return True


def _packed(events: Sequence[bytes]) -> tuple[int, bytes]:
    """Pack a batch as it is written: the number of its events, and their JSON."""
    return len(events), b",".join(events)


class _Delivery:
    """Makes events of facts, and posts what a resource manager is told (``actors.feed.Delivery``)."""

    render = staticmethod(events)
    mentioned = staticmethod(mentioned)

    def __init__(self, outboxes: OutboxRegistry[codec.Encoding]) -> None:
        self._outboxes = outboxes

    def deliver(self, partition: PartitionName, facts: list[Fact]) -> None:
        """Post what a resource manager is told of facts."""
        self._outboxes.deliver(responses(facts, partition))


class Rig:
    """One running partition named ``default`` with feed and outbox; made by ``running``.

    Args:
        config: the queue file.
        may_miss: the follower may miss events: a single decision makes more of them than the feed keeps.
        reserves: as of a ``PartitionActor``.
        confirms: whether releases that the scheduler starts are confirmed at once, so that preemption and gangs go on.
        refusal: answers predicate checks: why the asks may not run on the node, or "" if they may. None without such a service.

    Attributes:
        partition: the actor; measurements read its state.
        events: the output of the feed.
        responses: the output to the resource manager.
        answers: the number of predicate checks that were answered.
    """

    def __init__(
        self,
        config: str,
        *,
        may_miss: bool = False,
        reserves: bool = True,
        confirms: bool = False,
        refusal: Callable[[si.PredicateCheck], str] | None = None,
    ) -> None:
        self._may_miss = may_miss
        partitions: dict[PartitionName, Mailbox[PartitionCommand]] = {}
        self._outboxes: OutboxRegistry[codec.Encoding] = OutboxRegistry()
        self._outbox = self._outboxes.renew("bench", codec.JSON)
        self._feed = FeedActor(_Delivery(self._outboxes), partitions)
        configured = queuefile.load(config).partitions[0]
        self.partition = PartitionActor(
            configured, Clock.of_the_system(), self._feed.inbox.put, Cycling(reserves=reserves, confirms=confirms)
        )
        self._refusal = refusal
        self.answers = 0
        partitions[PartitionName(configured.name)] = self.partition.inbox
        self.events = Watch()
        self.responses = Watch()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run all tasks until cancelled."""
        async with trio.open_nursery() as nursery:
            follower = Subscription(self._feed, Format(codec.JSON.encode_each, _packed), EventFilter(), 0)
            nursery.start_soon(self._feed.run, name=FEED)
            nursery.start_soon(self._follow, follower, name="follower")
            nursery.start_soon(self._answer, self._outbox.attach(0), name="resource manager")
            await nursery.start(self.partition.run)
            if self._refusal is not None:
                await self.partition.inbox.put(Intake([SetPredicateService(True)]))
            task_status.started()

    async def submit(self, request: requests.PartitionRequest) -> None:
        """Handle a decoded request, like a session."""
        for submissions in requests.submissions(request).values():
            await self.partition.inbox.put(Intake(submissions, limits=_LIMITS))

    async def settle(self) -> None:
        """Wait until nothing more can be decided, and all decisions were read on both sides."""
        answers = -1
        while answers != self.answers:
            answers = self.answers
            await self._settle()

    async def _settle(self) -> None:
        decided = Awaited()
        await self.partition.inbox.put(Quiesce(decided))
        await decided.wait()
        await self._feed.published(self.partition.core.name)
        await self.events.until_position(self._feed.ring.sequence)
        await self.responses.until_position(self._outbox.sequence)

    def reset(self) -> None:
        """Restart counting and timing on both sides."""
        self.events.reset()
        self.responses.reset()

    async def _follow(self, subscription: Subscription) -> None:
        """A follower of all events, which come as to a session."""
        reader = _Reader(self.events)
        while True:
            message = await subscription.next(reader)
            if isinstance(message, Missed) and self._may_miss:
                self.events.saw(message.last - message.first + 1, 0)
            elif isinstance(message, Missed):
                raise RuntimeError(f"the follower missed events {message.first} to {message.last}: the figures would be wrong")

    async def _answer(self, reader: OutboxReader[codec.Encoding]) -> None:
        """The resource manager's session."""
        while True:
            taken = await reader.take()
            assert isinstance(taken, list), "without a journal there are no notices"
            for message in taken:
                if _CHECKS_MARK in message:
                    await self._answer_checks(codec.JSON.decode_response(message))
                self.responses.saw(1, message.count(_NEW_MARK))
                await trio.lowlevel.checkpoint()

    async def _answer_checks(self, asked: si.Response) -> None:
        assert isinstance(asked, si.PredicatesRequest)
        assert self._refusal is not None, "without a service nothing is asked"
        answers = [
            si.PredicateAnswer(
                predicate=check.predicate, node_id=check.node_id, allocate=check.allocate, error=self._refusal(check)
            )
            for check in asked.checks
        ]
        await self.submit(si.PredicatesResponse(answers=answers))
        self.answers += len(answers)


@asynccontextmanager
async def running(config: str, setup: Sequence[requests.PartitionRequest], **options: Any) -> AsyncIterator[Rig]:
    """A rig that has carried out the requests of ``setup`` one after the other, and has nothing left to decide.

    It settles after each request: otherwise the asks of a later one could take the place of those before.
    """
    rig = Rig(config, **options)
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.run)
        for request in setup:
            await rig.submit(request)
            await rig.settle()
        rig.reset()
        yield rig
        nursery.cancel_scope.cancel()
