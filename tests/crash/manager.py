"""The resource manager: it remembers what it sent and was told, and goes on with each daemon where the one before was killed."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from typing import Any

import msgspec
import pytest
import trio
from ledger import Ledger, Sent, Task
from load import LARGE, PARTITIONS, Load, Request, config
from msgspec import UNSET, structs
from process import until_disconnected

from ykactor.client import RequestRefused, connect
from ykactor.client.connection import MessageStream, open_connection
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

#: Requests without an answer; then the resource manager waits.
UNANSWERED_MAX = 40
#: How often a registration is a fresh one, is that of a new process, and is followed by an attempt of the process before.
FRESH, TAKEOVER, LATE = 0.04, 0.3, 0.3


class Manager:
    """One resource manager.

    Attributes:
        ledger: what it knows of the present registration; None before the first one is acknowledged, and during another one.
        counts: of the registrations before.
    """

    def __init__(self, rng: random.Random) -> None:
        self.ledger: Ledger | None = None
        self.counts: Counter[str] = Counter()
        self._rng = rng
        self._numbers = count(1)
        #: The number of the newest message that was received since the registration was answered; the journal may hold more.
        self._received = 0
        #: Its term.
        self._term = ""
        #: The id of a registration without an answer.
        self._registering = ""
        self._is_fresh = True
        #: The number, term and text of the newest message from before a loss; None if there was no loss since then.
        self._before_loss: tuple[int, str, bytes] | None = None
        #: Whether the journal has this message.
        self._is_there = False
        #: The epoch of the present process, and the highest one that has certainly registered.
        self._epoch = self._registered_epoch = 0
        self._took = trio.Event()
        self._stream: MessageStream
        self._loads: list[Load] = []

    # ---- sessions

    async def serve(self, url: str, *, plays: bool = True, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Register or resume, send again what has no answer, and play until the connection ends; then wait to be cancelled."""
        with until_disconnected():
            if self._before_loss is not None:
                number, term, _ = self._before_loss
                await self._find_out(url, number, term)
            async with open_connection(url, "/v1/rm", subprotocols=[JSON.name]) as connection:
                self._stream = MessageStream(connection, JSON)
                await self._register()
                if self._registered_epoch and self._rng.random() < LATE:
                    await self._is_stale(url)
                await self._send_again()
                task_status.started()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._receive)
                    if plays:
                        nursery.start_soon(self._play)
        await trio.sleep_forever()

    async def _register(self) -> None:
        if self.ledger is None or (self._registering and self._is_fresh) or self._rng.random() < FRESH:
            self._forget()
        self._is_fresh = self.ledger is None
        ledger, overlap = self.ledger, self._rng.choice((0, 0, 5, 50))
        resume_from = UNSET if ledger is None else max(ledger.first, self._received - overlap)
        request_id = self._registering = self._new_id()
        self._epoch += self._rng.random() < TAKEOVER
        request = si.RegisterResourceManagerRequest(rm_id="rm", id=request_id, resume_from=resume_from, epoch=self._epoch)
        request = structs.replace(request, term="" if ledger is None else self._term)
        await self._stream.send(structs.replace(request, answers_predicates=True, wants_scheduling_states=True))
        open_before = 0 if ledger is None else len(ledger.unanswered)
        while self.ledger is None or request_id not in self.ledger.answered:
            await self._receive_one()
        self._registered_epoch = self._epoch
        if ledger is not None:
            ledger.counts["answered late"] += open_before - len(ledger.unanswered)

    def lose(self, last: int, messages: list[Any]) -> None:
        """The journal has lost messages; ``last`` is the number of the newest one in it, and these are kept."""
        if self._before_loss is None and self._term:
            told = [] if self.ledger is None else self.ledger.messages[: self._received - self.ledger.first]
            self._before_loss = (self._received, self._term, told[-1] if told else b"")
        if self._before_loss is not None:
            number, _, newest = self._before_loss
            kept = [msgspec.json.encode(message) for message in messages if message.sequence == number]
            self._is_there = number <= last and (not newest or kept in ([], [newest]))
        self._registered_epoch = 0
        self._forget()

    async def _find_out(self, url: str, number: int, term: str) -> None:
        """Register anew, which is required after a loss, and done in any case."""
        try:
            async with connect(url, rm_id="rm", epoch=self._epoch, resume_from=number, term=term):
                assert self._is_there, f"message {number} of term {term} is lost"
        except RequestRefused as refused:
            assert refused.code == "RESYNC_REQUIRED"  # noqa: PT017
            self.counts["registers anew"] += 1
        self._before_loss = None

    async def _is_stale(self, url: str) -> None:
        """The process before this one cannot come back, and this one goes on (SC-158)."""
        resume_from = self._rng.choice((None, "now"))
        with pytest.raises(RequestRefused, match="STALE_EPOCH"):
            async with connect(url, rm_id="rm", epoch=self._registered_epoch - 1, resume_from=resume_from):
                pass
        self.counts["STALE_EPOCH"] += 1

    def _forget(self) -> None:
        """The next registration is a fresh one."""
        if self.ledger is not None:
            self.counts += self.ledger.counts
        self.ledger = None

    async def _send_again(self) -> None:
        """Send unanswered requests again: they had no effect; interrupted ones had some, and entries may be repeated."""
        assert self.ledger is not None
        for sent in list(self.ledger.unanswered.values()):
            assert not sent.had_effect, f"{sent} took effect and was not answered"
            self.ledger.counts["sent again"] += 1
            await self._stream.send(sent.request)
        interrupted, self.ledger.interrupted = self.ledger.interrupted, []
        for sent in interrupted:
            request = structs.replace(self._what_is_left(sent.request), id=self._new_id())
            self.ledger.send(Sent(request, sent.makes, sent.ends, is_repeated=True))
            await self._stream.send(request)

    def _what_is_left(self, request: si.AllocationRequest) -> si.AllocationRequest:
        """The request without the asks that were decided: they may run or have ended."""
        assert self.ledger is not None
        tasks = self.ledger.tasks
        missing = [entry for entry in request.allocations if not _was_told(tasks[entry.allocation_key])]
        return structs.replace(request, allocations=missing)

    # ---- messages

    async def _receive(self) -> None:
        while True:
            await self._receive_one()

    async def _receive_one(self) -> None:
        message = JSON.decode_response(await self._stream.receive())
        if isinstance(message, si.JournalStatus):  # it has no number
            self.counts[type(message).__name__] += 1
            return
        if self.ledger is None:
            self.ledger = Ledger(message.sequence - 1)
            self._loads = [Load(name, self.ledger, self._rng, self._numbers.__next__) for name in PARTITIONS]
        self.ledger.take(message)
        if not self._registering:
            self._received = message.sequence
        elif isinstance(message, si.Ack) and message.id == self._registering:
            self._received, self._term, self._registering = message.sequence, message.term, ""
        self._took.set()
        if isinstance(message, si.PredicatesRequest):
            answers = [
                si.PredicateAnswer(predicate=check.predicate, node_id=check.node_id, allocate=check.allocate)
                for check in message.checks
            ]
            await self._stream.send(si.PredicatesResponse(partition_name=message.partition_name, answers=answers))

    def _new_id(self) -> str:
        return f"r{next(self._numbers)}"

    # ---- requests

    async def _play(self) -> None:
        while True:
            await trio.sleep(self._rng.uniform(0, 0.01))
            assert self.ledger is not None
            if len(self.ledger.unanswered) < UNANSWERED_MAX:
                await self.send(self._rng.choice(self._loads).draw())

    async def send(self, drawn: Request) -> None:
        """Send a request that a load has drawn."""
        assert self.ledger is not None
        message, makes, ends = drawn
        message = structs.replace(message, id=self._new_id())
        self.ledger.send(Sent(message, makes, ends))
        with until_disconnected():
            await self._stream.send(message)

    async def send_large(self) -> None:
        """A request that takes several turns, or changes several partitions, if there are applications yet."""
        if not all(load.has_applications for load in self._loads):
            return
        load, other = self._rng.sample(self._loads, 2)
        kind = self._rng.randrange(3)
        if kind == 0:
            await self.send(load.asks(LARGE))
            await self.send(load.release(1))
        elif kind == 1:
            await self.send(load.release_application())
        else:
            (ours, *made), (theirs, *made_there) = load.asks(20), other.asks(20)
            both = structs.replace(ours, allocations=[*ours.allocations, *theirs.allocations])
            await self.send((both, made[0] + made_there[0], []))

    async def send_configuration(self) -> None:
        """Another configuration."""
        await self.send((si.UpdateConfigurationRequest(config=config(self._rng.randrange(6))), [], []))

    def total(self) -> Counter[str]:
        """The messages of all registrations."""
        return self.counts + (Counter() if self.ledger is None else self.ledger.counts)

    async def counted(self, what: str, number: int) -> None:
        """Wait until so much more was counted."""
        wanted = self.total()[what] + number
        while self.total()[what] < wanted:
            await self._takes_one()

    async def all_answered(self) -> None:
        """Wait until every request has its answer."""
        while self.ledger is None or self.ledger.unanswered:
            await self._takes_one()

    async def _takes_one(self) -> None:
        self._took = trio.Event()
        await self._took.wait()


def _was_told(task: Task) -> bool:
    return bool(task.node_id) or task.may_be_gone
