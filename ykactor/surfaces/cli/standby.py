"""``ykactor replica --standby``: keeps the journal of a daemon on another disk, from which the next daemon can go on (DU-20)."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import msgspec
import trio
from msgspec import Struct, to_builtins

from ykactor.actors.clock import system_ns
from ykactor.client.connection import SealedStream, alongside, open_connection
from ykactor.client.errors import Disconnected
from ykactor.client.login import Login
from ykactor.core.values.times import S_NS
from ykactor.core.values.words import plural
from ykactor.journal.errors import JournalError, NotWrittenError, may_pass
from ykactor.journal.stream import Copy, Durable, Ended, Following, HandOver, Part, Refused, ToStandby, encode, from_daemon
from ykactor.journal.transaction import Transaction
from ykactor.surfaces.admission.slots import JOURNAL_PATH
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.printer import Printer
from ykactor.surfaces.cli.state_options import obstacle, prepare_state_dir
from ykactor.surfaces.cli.terminal import on_one_line, warn
from ykactor.surfaces.cli.urls import Destination
from ykactor.surfaces.files.state_dir import StateSettings, StoreWriter, open_standby_dir
from ykactor.surfaces.log.logs import STANDARD_ERROR, STANDARD_OUTPUT
from ykactor.wire.si.codec import MSGPACK

T = TypeVar("T")

#: The first and the longest pause before another attempt to connect, and between attempts to write while the disk is full.
PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 10.0
RETRY_S = 2.0
#: The name of a copy that is received.
_INCOMING = "incoming.db"


class Status(Struct, rename="camel"):
    """The progress of a standby.

    Attributes:
        transaction: the newest one on its disk; 0 if there is none.
        term: in which it follows; "" before it has ever followed.
        lag_seconds: how long after the daemon has written it; None if it has been there since before the command has started.
    """

    at_ns: int
    transaction: int
    term: str
    connected: bool
    lag_seconds: float | None = None

    def __str__(self) -> str:
        """A line for people."""
        lag = "" if self.lag_seconds is None else f", {1000 * self.lag_seconds:.0f} ms behind"
        state = "follows" if self.connected else "is not connected"
        return f"{time_text(self.at_ns)} {state}: transaction {self.transaction} of term {self.term or '-'} is on the disk{lag}"


class UnreadableStreamError(Exception):
    """A message of the daemon cannot be read, or is not what comes next."""


class FollowingJournal:
    """Follows the journal of a daemon.

    Args:
        directory: for a copy that is received.
        journal: the own one.
        tell: prints a line on standard error.
    """

    def __init__(
        self,
        daemon: Destination,
        directory: Path,
        journal: StoreWriter,
        tell: Callable[[str], None] = warn,
    ) -> None:
        self._daemon = daemon
        #: The one of the addresses of the daemon that has answered.
        self._address = daemon.url
        self._tell = tell
        self._login = Login(**daemon.login())
        self._incoming = directory / _INCOMING
        self._journal = journal
        #: The parts of data that is not complete; of a copy, they are in the file.
        self._parts: list[bytes] = []
        #: The size of the copy that is received; None while none is.
        self._copy_bytes: int | None = None
        self._takes_over = False
        #: With which transaction it asks the daemon to end; None: it does not, or has.
        self._asks_at: int | None = None
        self.status = Status(0, journal.joining.number, "", connected=False)

    async def run(self) -> None:
        """Follow the daemon until cancelled.

        Raises:
            RequestRefused: the daemon does not let this one in.
            ClickException: the daemon has another history. JournalError, OSError: the disk fails.
        """
        pause_s, said, number = PAUSE_FIRST_S, "", self.status.transaction
        while True:
            try:
                await self._follow()
            except (Disconnected, UnreadableStreamError, OSError) as lost:
                if isinstance(lost, OSError) and not may_pass(lost):
                    raise
                if self.status.connected or str(lost) != said:
                    said = str(lost)
                    self._tell(f"is not connected, and tries again: {lost}")
            self.status.connected = False
            if self.status.transaction > number:  # else each attempt may have the daemon make the same copy
                pause_s, number = PAUSE_FIRST_S, self.status.transaction
            await trio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _follow(self) -> None:
        """Follow the daemon over one connection, until it has handed over."""
        url = self._daemon.url
        names, self._parts, self._copy_bytes = [MSGPACK.name], [], None
        await trio.to_thread.run_sync(partial(self._incoming.unlink, missing_ok=True))  # what came of a copy before
        async with open_connection(url, JOURNAL_PATH, login=self._login, subprotocols=names) as connection:
            self._address, stream = connection.url, SealedStream(connection)
            await stream.send(encode(self._journal.joining))
            while True:
                data = await stream.receive()
                message = read_message(data)
                if isinstance(message, Ended):
                    return
                await self._handle(message, stream)

    def tell_end(self) -> None:
        """Tell that it ends, because somebody has told it to, such as a take-over."""
        self._tell(f"ends with transaction {self.status.transaction} on the disk")

    async def take_over(self) -> None:
        """Let the daemon end in good order, and follow it to its end.

        Raises:
            Disconnected: the connection was lost, or there was none: the daemon may have ended, and may have told more.
            UnreadableStreamError: see there.
            RequestRefused, ClickException, JournalError, OSError: as of ``run``.
        """
        self._takes_over = True
        await self._follow()

    async def _handle(self, message: ToStandby, stream: SealedStream) -> None:
        match message:
            case Refused(reason=reason):
                raise click.ClickException(f"{self._address}: {reason}")
            case Following(beginnings=beginnings, number=number):
                self._asks_at = number if self._takes_over else None
                await self._write(partial(self._journal.follow, beginnings, number))
                self.status.term, self.status.connected = str(beginnings[-1].term), True
                since = f"in term {self.status.term}, from transaction {self.status.transaction} on"
                self._tell(f"follows {self._address} {since}")
                await self._ask(stream)
            case Copy(size=size):
                self._tell(f"gets a copy of {plural(size, 'byte')}")
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
        self.status.lag_seconds = (system_ns() - int(transaction.log[1])) / S_NS
        await self._confirm(stream)

    async def _take_in(self, stream: SealedStream) -> None:
        """Take over the copy that was received, and tell that it is on the disk."""
        await self._write(partial(self._journal.take_in, self._incoming))
        await trio.to_thread.run_sync(self._incoming.unlink)
        self._copy_bytes = None
        await self._confirm(stream)

    async def _confirm(self, stream: SealedStream) -> None:
        self.status.transaction = self._journal.joining.number
        await stream.send(encode(Durable(self.status.transaction)))
        await self._ask(stream)
        if self._journal.needs_tidying:
            with suppress(NotWrittenError):  # the next transaction finds it out too
                await trio.to_thread.run_sync(self._journal.tidy)

    async def _ask(self, stream: SealedStream) -> None:
        """Ask the daemon to end as soon as it has little left to send: it ends in seconds, whatever was sent."""
        if self._asks_at is not None and self._journal.joining.number >= self._asks_at:
            self._asks_at = None
            await stream.send(encode(HandOver()))

    async def _write(self, work: Callable[[], None]) -> None:
        """Do blocking work of the journal; while its disk is full, try it again and again."""
        told = ""
        while True:
            try:
                return await trio.to_thread.run_sync(work)
            except NotWrittenError as reason:
                if str(reason) != told:
                    told = str(reason)
                    self._tell(f"{reason}; trying again")
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


async def follow_until_signal(
    following: FollowingJournal, every_s: float, print_line: Callable[[str], None], *, is_json: bool
) -> None:
    """Follow until SIGTERM or SIGINT, with a line about the progress now and then."""

    async def report() -> None:
        while True:
            await trio.sleep(every_s)
            following.status.at_ns = system_ns()
            print_line(on_one_line(to_builtins(following.status)) if is_json else str(following.status))

    async def end(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        received.add(await anext(signals))
        scope.cancel()

    received: set[int] = set()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals, trio.CancelScope() as scope:
        async with alongside(report, partial(end, signals, scope)):
            await following.run()
    following.tell_end()
    if signal.SIGINT in received:
        raise KeyboardInterrupt


def keep_standby(daemon: Destination, settings: StateSettings, every_s: float, *, is_json: bool) -> None:
    """Keep the journal of a daemon in a directory until SIGTERM or Ctrl-C.

    Raises:
        ClickException: the daemon refuses, or the directory cannot be used.
    """
    is_new = not settings.directory.exists()
    prepare_state_dir(settings.directory)

    async def main() -> None:
        following = FollowingJournal(daemon, settings.directory, journal, errors.say)
        await follow_until_signal(following, every_s, output.say, is_json=is_json)

    # A daemon may wait for this standby, which waits for nobody who reads its lines.
    output, errors = Printer(STANDARD_OUTPUT), Printer(STANDARD_ERROR)
    try:
        with open_standby_dir(settings) as journal:
            daemon.run(main)
    except JournalError as error:
        raise obstacle(error) from None
    except click.ClickException:
        if is_new and not journal.joining.beginnings:  # it was refused before it has got anything
            shutil.rmtree(settings.directory, ignore_errors=True)
        raise
    finally:
        output.close()
        errors.close()
