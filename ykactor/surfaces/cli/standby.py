"""``ykactor serve --standby-of``: a standby that becomes the daemon when it is told to, in the same process (DU-23)."""

from __future__ import annotations

import importlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import click
import trio

from ykactor.actors.pauses import collect_old, set_aside, settle_memory
from ykactor.client import Disconnected, RequestRefused
from ykactor.client.connection import SealedStream, is_refused, open_connection
from ykactor.client.login import Login
from ykactor.journal import schema
from ykactor.journal.errors import JournalError, NotWrittenError
from ykactor.journal.files import follows_nobody, is_following
from ykactor.journal.reading import Reader
from ykactor.journal.stream import Following, Join, Refused, ToStandby, encode
from ykactor.surfaces.admission.listener import turn_away
from ykactor.surfaces.admission.slots import JOURNAL_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.state_options import obstacle
from ykactor.surfaces.cli.urls import Destination
from ykactor.surfaces.daemon.daemon import Daemon, running_at
from ykactor.surfaces.files.state_dir import StandbyDir, StateDir, is_standby_dir
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.net.doors import Door, DoorError, DoorSettings, SocketFileError, SocketInUseError, open_doors
from ykactor.surfaces.net.systemd import Notifier, feed_watchdog
from ykactor.surfaces.standby.asking import Answer
from ykactor.surfaces.standby.following import (
    FollowingJournal,
    NotHandedOverError,
    RefusedJournalError,
    UnreadableStreamError,
    read_message,
)
from ykactor.surfaces.standby.requests import Asked, Requests
from ykactor.wire.si.codec import MSGPACK

log = get_logger(__name__)

#: Makes the daemon that goes on from a state.
Make = Callable[[StateDir], Daemon]
#: How long clients wait until the daemon before has been told, and how long who has asked for the take-over waits for that.
TELL_S = 1.0
TOLD_S = 3.0
#: How long a start waits for the answer of the other daemon.
ASK_S = 5.0
#: How often the newest events are read.
READ_AHEAD_S = 1.0
#: How often systemd is told how far it is.
STATUS_S = 10.0


class Process:
    """The process: a standby, and then a daemon.

    Args:
        directory: open as that of a standby.
        before: the daemon that it follows.
        prepare: reads the files that the daemon begins with, before anything is taken over; blocks. Raises ClickException.
        reserves: whether asks reserve nodes.

    Attributes:
        received: the signals that came.
    """

    def __init__(self, directory: StandbyDir, before: Destination, prepare: Callable[[], Make], *, reserves: bool) -> None:
        self.received: set[int] = set()
        self._directory = directory
        self._before = before
        self._login = Login(**before.login())
        self._following = FollowingJournal(before.url, self._login, directory.settings.directory, directory.writer)
        self._requests = Requests(directory.settings.directory)
        self._prepare = prepare
        self._reserves = reserves
        self._notifier = Notifier.from_environment()
        self._daemon: Daemon | None = None
        #: About partitions that were not in memory.
        self._notes: list[str] = []
        self._scope = trio.CancelScope()

    async def run(self, where: DoorSettings) -> str:
        """Run until a signal ends it. Returns ``Daemon.unplanned_end``.

        Raises, also in groups:
            DoorError: it cannot listen where it should. JournalError: the disk fails.
            RequestRefused, RefusedJournalError: as ``FollowingJournal.run``.
        """
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with open_doors(where) as doors, trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                nursery.start_soon(self._handle_signals, signals)
                await nursery.start(self._requests.run, name="requests")
                if where.http:
                    importlib.import_module("ykactor.surfaces.http.server")  # takes 0.2 s, which the daemon would need
                settle_memory()
                asked, state, make = await self._stand_by(doors)
                await self._serve(asked, make(state), doors)
                self._scope.cancel()
        return "" if self._daemon is None else self._daemon.unplanned_end

    async def _handle_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self.received.add(number)
            if self._daemon is not None:
                self._daemon.reload() if number == signal.SIGHUP else self._daemon.stop()
            elif number == signal.SIGHUP:
                log_event(log, logging.INFO, "reload_ignored", reason="a standby reads its files when it takes over")
            else:
                log_event(log, logging.INFO, "standby_stopped", transaction=self._following.status.transaction)
                self._scope.cancel()

    # ---- the standby

    async def _stand_by(self, doors: Sequence[Door]) -> tuple[Asked, StateDir, Make]:
        """Follow the daemon until this process has taken over."""
        memory = self._following.memory
        async with trio.open_nursery() as nursery:
            nursery.start_soon(memory.run, name="memory")
            nursery.start_soon(feed_watchdog, self._notifier, int, lambda: True, name="watchdog")
            nursery.start_soon(collect_old, lambda: memory.is_idle, name="collector")
            nursery.start_soon(self._tell_systemd, name="status")
            addresses = ", ".join(door.url for door in doors)
            log_event(log, logging.INFO, "standby_started", addresses=addresses, daemon=self._before.url)
            while True:
                async with trio.open_nursery() as following:
                    following.start_soon(self._following.run, name="following")
                    following.start_soon(self._read_ahead, name="reading ahead")
                    asked, make = await self._prepared(doors)
                    following.cancel_scope.cancel()
                if (state := await self._taken_over(asked)) is not None:
                    break
            nursery.cancel_scope.cancel()
        return asked, state, make

    async def _tell_systemd(self) -> None:
        self._notifier.ready(str(self._following.status))
        while True:
            await trio.sleep(STATUS_S)
            names = ", ".join(self._following.memory.names) or "nothing"
            self._notifier.status(f"{self._following.status}; {names} in memory")

    async def _read_ahead(self) -> None:
        """Read in quiet moments what a take-over would have to read otherwise."""
        seen = 0
        while True:
            await trio.sleep(READ_AHEAD_S)
            if self._following.memory.is_idle and self._following.status.transaction > seen:
                seen = self._following.status.transaction
                await trio.to_thread.run_sync(self._directory.read_ahead)

    async def _prepared(self, doors: Sequence[Door]) -> tuple[Asked, Make]:
        """Wait until somebody asks to take over and nothing speaks against it; with --hand-over, the daemon has handed over."""
        reason = f"this is a standby of {self._before.url}"
        while True:
            async with trio.open_nursery() as refusing:
                refusing.start_soon(turn_away, doors, reason)
                asked = await self._requests.next()
                refusing.cancel_scope.cancel()  # who connects from now on waits until it is the daemon
            set_aside()
            log_event(log, logging.INFO, "takes_over", hands_over=asked.request.hands_over)
            try:
                return asked, await self._preparation(asked)
            except (NotHandedOverError, JournalError, OSError) as error:
                self._fail(asked, str(error))
            except click.ClickException as error:
                self._fail(asked, error.format_message())

    async def _preparation(self, asked: Asked) -> Make:
        directory = self._directory.settings.directory
        if not is_following(directory):
            raise JournalError(follows_nobody(directory))
        make = await trio.to_thread.run_sync(self._prepare)
        if asked.request.hands_over:
            await self._following.hand_over()
        return make

    async def _taken_over(self, asked: Asked) -> StateDir | None:
        """Begin the term; None if the disk is full, and nothing was taken over."""
        kept = await self._following.memory.up_to_date()
        take_over = partial(self._directory.take_over, kept, reserves=self._reserves)
        try:
            state = await trio.to_thread.run_sync(take_over)
        except NotWrittenError as error:
            self._fail(asked, str(error))
            return None
        found = [] if state.recovered is None else state.recovered.partitions.keys() - kept.keys()
        self._notes = [f"partition {name} was not in memory, and was recovered from the disk" for name in sorted(found)]
        return state

    def _fail(self, asked: Asked, reason: str) -> None:
        log_event(log, logging.WARNING, "not_taken_over", reason=reason)
        asked.answer(Answer(failure=reason))

    # ---- the daemon

    async def _serve(self, asked: Asked, daemon: Daemon, doors: Sequence[Door]) -> None:
        """Run the daemon to its end, after the one before has been told."""
        self._daemon = daemon
        told = _Told(self._login, self._before, self._directory.writer.joining)
        async with trio.open_nursery() as nursery:
            if not asked.request.hands_over:
                nursery.start_soon(told.run, daemon)
                await told.wait(TELL_S)
            nursery.start_soon(self._answer, asked, told, daemon)
            async with running_at(daemon, doors, self._notifier):
                await daemon.stopped.wait()
            nursery.cancel_scope.cancel()

    async def _answer(self, asked: Asked, told: _Told, daemon: Daemon) -> None:
        """Answer when clients are let in, or at once if that depends on standbys, which may come at any time."""
        wanted = self._directory.settings.standbys.wanted
        if wanted:
            self._notes.append(f"clients are let in when {wanted} standbys have everything")
        elif not told.is_outrun:
            await daemon.begun.wait()
        if not asked.request.hands_over:
            await told.wait(TOLD_S)
        notes = [*self._notes, *told.notes]
        failure = " ".join(told.notes) if told.is_outrun else ""
        asked.answer(Answer(failure, str(told.joining.beginnings[-1].term), told.joining.number, notes))
        self._requests.refusal = "it has taken over already, and is the daemon"


class _Told:
    """Tells the older daemon that its history goes on here.

    Attributes:
        joining: the journal as it was when it has begun its term.
        notes: a sentence about what has become of it, when that is known.
        is_outrun: whether it has taken over itself meanwhile, so that no daemon may begin here.
    """

    def __init__(self, login: Login, before: Destination, joining: Join) -> None:
        self.notes: list[str] = []
        self.is_outrun = False
        self._login = login
        self._before = before
        self.joining = joining
        self._is_done = trio.Event()

    async def run(self, daemon: Daemon) -> None:
        """Tell it; the daemon here ends if it must."""
        self.notes.append(await self._tell(daemon))
        log_event(log, logging.INFO, "daemon_before_told", outcome=self.notes[0])
        self._is_done.set()

    async def wait(self, seconds: float) -> None:
        """Wait until it has been told, or is not in this time."""
        with trio.move_on_after(seconds):
            await self._is_done.wait()

    async def _tell(self, daemon: Daemon) -> str:
        url = self._before.url
        try:
            answer = await _answer(url, self._login, self.joining)
        except (Disconnected, RequestRefused, UnreadableStreamError, OSError) as error:
            is_nobody = isinstance(error, Disconnected) and is_refused(error)
            reason = f"{url}: nothing listens there" if is_nobody else self._before.problem(error).message
            return f"the daemon before was not told, keep it from being started: {reason}"
        if not isinstance(answer, Refused):
            return f"{url}: is the same daemon"
        if answer.outrun_in:
            self.is_outrun = True
            daemon.supersede(answer.outrun_in)
        return f"{url}: {answer.reason}"


async def _answer(url: str, login: Login, joining: Join) -> ToStandby:
    """The answer of a daemon to a journal. Raises:  Disconnected, RequestRefused, UnreadableStreamError, OSError."""
    async with open_connection(url, JOURNAL_PATH, login=login, subprotocols=[MSGPACK.name]) as connection:
        stream = SealedStream(connection)
        await stream.send(encode(joining))
        return read_message(await stream.receive())


async def begins_as_standby(directory: Path, before: Destination) -> bool:
    """True if a directory has no history of its own, or one that a daemon that runs goes on with; False: it is the daemon's.

    A directory that has taken over is the daemon's when its process is started again with the same arguments, and so is one whose
    standby has not taken over.

    Raises:
        RefusedJournalError: a daemon runs there with another history. RequestRefused: it does not say. JournalError.
    """
    if is_standby_dir(directory):
        return True
    with Reader.open(directory) as reader:
        joining = Join(schema.VERSION, reader.numbers()[1], reader.beginnings())
    answer: ToStandby | None = None
    with trio.move_on_after(ASK_S), suppress(Disconnected, UnreadableStreamError, OSError):
        answer = await _answer(before.url, Login(**before.login()), joining)
    if isinstance(answer, Refused) and not answer.ends:
        raise RefusedJournalError(f"{before.url}: {answer.reason}")
    is_standby = isinstance(answer, Following)
    if not is_standby:
        log_event(log, logging.INFO, "standby_not_begun", reason="no daemon goes on with this history")
    return is_standby


@contextmanager
def ending(before: Destination) -> Iterator[None]:
    """Ends the command with the errors of a standby."""
    try:
        yield
    except* (DoorError, JournalError) as errors:
        raise obstacle(exit_codes.first_of(errors)) from None
    except* (SocketFileError, SocketInUseError, RefusedJournalError) as refusals:
        raise click.ClickException(str(exit_codes.first_of(refusals))) from None
    except* RequestRefused as refusals:
        raise before.problem(exit_codes.first_of(refusals)) from None
