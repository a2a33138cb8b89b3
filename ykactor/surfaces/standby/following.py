"""Follows the journal of a daemon: keeps it on another disk, from which the next daemon can go on (DU-20)."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import trio
from msgspec import Struct

from ykactor.actors.clock import system_ns
from ykactor.client.connection import SealedStream, open_connection
from ykactor.client.errors import Disconnected
from ykactor.client.login import Login
from ykactor.core.values.times import S_NS
from ykactor.journal.errors import NotWrittenError, may_pass
from ykactor.journal.stream import (
    Copy,
    Durable,
    Ended,
    Following,
    HandOver,
    Part,
    Refused,
    ToStandby,
    WantBases,
    encode,
    from_daemon,
)
from ykactor.journal.transaction import Transaction
from ykactor.surfaces.admission.slots import JOURNAL_PATH
from ykactor.surfaces.files.state_dir import StoreWriter
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.standby.memory import Memory
from ykactor.wire.si.codec import MSGPACK

log = get_logger(__name__)

#: The first and the longest pause before another attempt to connect, and between attempts to write while the disk is full.
PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 10.0
RETRY_S = 2.0
#: The name of a copy that is received.
_INCOMING = "incoming.db"


class Status(Struct):
    """The progress of a standby.

    Attributes:
        transaction: the newest one on its disk; 0 if there is none.
        term: in which it follows; "" before it has ever followed.
        lag_s: how long after the daemon has written it; None if it has been there since before the start.
    """

    transaction: int
    term: str = ""
    connected: bool = False
    lag_s: float | None = None

    def __str__(self) -> str:
        """A line for people."""
        lag = "" if self.lag_s is None else f", {1000 * self.lag_s:.0f} ms behind"
        state = "follows" if self.connected else "is not connected"
        return f"{state}: transaction {self.transaction} of term {self.term or '-'} is on the disk{lag}"


class UnreadableStreamError(Exception):
    """A message of the daemon cannot be read, or is not what comes next."""


class RefusedJournalError(Exception):
    """The daemon does not let this journal follow: trying again changes nothing."""


class NotHandedOverError(Exception):
    """The daemon has not handed over."""


class _HandOver(Struct):
    """A hand-over that is under way; it has failed for a reason, or "" if it has not."""

    ended: trio.Event
    is_asked: bool = False
    failure: str = ""


class FollowingJournal:
    """Follows the journal of a daemon.

    Args:
        url: of the daemon, or several with commas between them: the first that answers.
        directory: for a copy that is received.
        journal: the own one.

    Attributes:
        memory: gets each transaction that is in the journal.
        status: its progress.
    """

    def __init__(self, url: str, login: Login, directory: Path, journal: StoreWriter) -> None:
        self.memory = Memory(self._want_bases)
        self.status = Status(journal.joining.number)
        self._url = url
        #: The one of the addresses that has answered.
        self._address = url
        self._login = login
        self._incoming = directory / _INCOMING
        self._journal = journal
        #: The parts of data that is not complete; of a copy, they are in the file.
        self._parts: list[bytes] = []
        #: The size of the copy that is received; None while none is.
        self._copy_bytes: int | None = None
        #: The connection over which it follows; None without one.
        self._stream: SealedStream | None = None
        #: The newest transaction of the daemon when it was connected: it is asked to hand over when that is here.
        self._joined_at = 0
        #: Whether the daemon is to be asked for bases, and the hand-over that is under way, if any.
        self._wants_bases = False
        self._hand_over: _HandOver | None = None

    async def run(self) -> None:
        """Follow the daemon until it has handed over, or this is cancelled.

        Raises:
            RequestRefused: the daemon does not let this one in.
            RefusedJournalError: the daemon has another history. JournalError, OSError: the disk fails.
        """
        pause_s, said, number = PAUSE_FIRST_S, "", self.status.transaction
        while True:
            try:
                await self._follow()
                return
            except (Disconnected, UnreadableStreamError, OSError) as lost:
                if isinstance(lost, OSError) and not may_pass(lost):
                    raise
                if self.status.connected or str(lost) != said:
                    said = str(lost)
                    log_event(log, logging.WARNING, "standby_not_connected", daemon=self._url, reason=said)
            self.status.connected = False
            if self.status.transaction > number:  # else each attempt may have the daemon make the same copy
                pause_s, number = PAUSE_FIRST_S, self.status.transaction
            await trio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _follow(self) -> None:
        """Follow the daemon over one connection, until it has handed over."""
        names, self._parts, self._copy_bytes = [MSGPACK.name], [], None
        await trio.to_thread.run_sync(partial(self._incoming.unlink, missing_ok=True))  # what came of a copy before
        try:
            async with open_connection(self._url, JOURNAL_PATH, login=self._login, subprotocols=names) as connection:
                self._address, stream = connection.url, SealedStream(connection)
                await stream.send(encode(self._journal.joining))
                while not isinstance(message := read_message(await stream.receive()), Ended):
                    await self._handle(message, stream)
        except (Disconnected, UnreadableStreamError, OSError) as lost:
            self._end_hand_over(str(lost))
            raise
        finally:
            self._stream = None
        self._end_hand_over("")

    async def hand_over(self) -> None:
        """Let the daemon end in good order, and follow it to its end, while ``run`` goes on.

        Raises:
            NotHandedOverError: see there; if it has been asked, it may have ended.
        """
        if self._stream is None:
            raise NotHandedOverError("the standby is not connected to a daemon")
        hand_over = self._hand_over = _HandOver(trio.Event())
        await self._ask(self._stream)
        await hand_over.ended.wait()
        self._hand_over = None
        if hand_over.failure:
            raise NotHandedOverError(hand_over.failure)

    def _end_hand_over(self, failure: str) -> None:
        if self._hand_over is not None:
            self._hand_over.failure = failure
            self._hand_over.ended.set()

    async def _handle(self, message: ToStandby, stream: SealedStream) -> None:
        match message:
            case Refused(reason=reason):
                raise RefusedJournalError(f"{self._address}: {reason}")
            case Following(beginnings=beginnings, number=number):
                await self._write(partial(self._journal.follow, beginnings, number))
                self._stream, self._joined_at, self._wants_bases = stream, number, self.memory.lacks
                self.status.term, self.status.connected = str(beginnings[-1].term), True
                since = {"term": self.status.term, "transaction": self.status.transaction}
                log_event(log, logging.INFO, "standby_follows", daemon=self._address, **since)
                await self._ask(stream)
            case Copy(size=size):
                log_event(log, logging.INFO, "standby_gets_copy", daemon=self._address, bytes=size)
                self._copy_bytes = size
                await trio.to_thread.run_sync(partial(self._incoming.write_bytes, b""))
            case Part(data=data, is_last=is_last) if self._copy_bytes is not None:
                received = await trio.to_thread.run_sync(_append, self._incoming, data)
                if is_last and received != self._copy_bytes:
                    raise UnreadableStreamError(f"found a copy of {received} bytes, expected {self._copy_bytes}")
                if is_last:
                    await self._take_in(stream)
            case Part(data=data, is_last=is_last):
                self._parts.append(data)
                if is_last:
                    await self._take(b"".join(self._parts), stream)
                    self._parts.clear()

    async def _take(self, data: bytes, stream: SealedStream) -> None:
        """Write a transaction, and tell that it is on the disk."""
        try:
            transaction = Transaction.decode(data)
            await self._write(partial(self._journal.write, transaction))
        except ValueError as error:  # also what msgspec raises
            raise UnreadableStreamError(f"found a transaction that cannot be taken: {error}") from None
        self.status.lag_s = (system_ns() - int(transaction.log[1])) / S_NS
        self.memory.add(transaction, len(data))
        await self._confirm(stream)

    async def _take_in(self, stream: SealedStream) -> None:
        """Take over the copy that was received, and tell that it is on the disk."""
        await self._write(partial(self._journal.take_in, self._incoming))
        await trio.to_thread.run_sync(self._incoming.unlink)
        self._copy_bytes = None
        self.memory.forget("a copy of the journal has come instead of its turns")
        self._wants_bases = True
        await self._confirm(stream)

    async def _confirm(self, stream: SealedStream) -> None:
        self.status.transaction = self._journal.joining.number
        await stream.send(encode(Durable(self.status.transaction)))
        await self._ask(stream)
        if self._journal.needs_tidying:
            with suppress(NotWrittenError):  # the next transaction finds it out too
                await trio.to_thread.run_sync(self._journal.tidy)

    async def _ask(self, stream: SealedStream) -> None:
        """Ask for what is wanted as soon as the daemon has little left to send: what comes with a copy is in no memory."""
        if self._journal.joining.number < self._joined_at:
            return
        if self._wants_bases:
            self._wants_bases = False
            await stream.send(encode(WantBases()))
        if self._hand_over is not None and not self._hand_over.is_asked:
            self._hand_over.is_asked = True
            await stream.send(encode(HandOver()))

    def _want_bases(self) -> None:
        self._wants_bases = True

    async def _write(self, work: Callable[[], None]) -> None:
        """Do blocking work of the journal; while its disk is full, try it again and again."""
        told = ""
        while True:
            try:
                return await trio.to_thread.run_sync(work)
            except NotWrittenError as reason:
                if str(reason) != told:
                    told = str(reason)
                    log_event(log, logging.WARNING, "standby_stalled", reason=told)
                await trio.sleep(RETRY_S)


def read_message(data: bytes) -> ToStandby:
    """The message of a daemon. Raises:  UnreadableStreamError."""
    try:
        return from_daemon(data)
    except msgspec.DecodeError as error:
        raise UnreadableStreamError(f"found a message that cannot be read: {error}") from None


def _append(path: Path, data: bytes) -> int:
    """Append to a file; returns its size. Raises:  OSError, which names the file."""
    try:
        with path.open("ab") as file:
            file.write(data)
            return file.tell()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
