"""The state directory of a daemon: its journal opened, what it holds recovered, and the thread that writes to it."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ykactor.actors import standbys
from ykactor.actors.clock import system_ns
from ykactor.actors.journal import AsyncStore, BlockingStore, History, Journal, WriterThread
from ykactor.actors.pauses import shorten_collections
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import S_NS
from ykactor.journal import schema
from ykactor.journal.errors import JournalError
from ykactor.journal.files import Durability, may_follow
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.stream import Join
from ykactor.journal.terms import Beginning, Terms
from ykactor.journal.transaction import Batch, Transaction
from ykactor.surfaces.files.recovery import NOTHING_KEPT, Kept, NewestEvents, Recovered, recover
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.wire.history import HistoryError, encode_facts

log = get_logger(__name__)

#: Commits between two looks at what the history has too much of.
TRIM_EVERY = 64
#: The beginning of the names of directories in which copies for standbys are made, which a sudden end leaves behind.
COPY_PREFIX = "copy-"
#: How long the end of the daemon waits for a call of the store that is under way.
CLOSE_S = 2.0


class StateSettings(Struct, frozen=True):
    """The way in which state is kept.

    Attributes:
        directory: of the journal.
        durability: what survives which failure (rules, durability).
        keep_bytes, keep_ns: how much of the history is kept, compressed, and for how long; the state itself is always kept.
        standbys: how many have to have it too.
    """

    directory: Path
    durability: Durability
    keep_bytes: int
    keep_ns: int
    standbys: standbys.Settings = standbys.Settings()


class StateDir(Struct):
    """An open state directory.

    Attributes:
        settings: how it was opened.
        standbys: those of the journal.
        recovered: None if the journal is new, or the daemon has taken it.
        terms: of its history; the present one has begun with this start.
        last_event, last_message: the numbers of the newest event and message.
    """

    settings: StateSettings
    store: BlockingStore
    standbys: standbys.Standbys
    recovered: Recovered | None
    terms: Terms
    last_event: int
    last_message: int

    def take_recovered(self) -> Recovered | None:
        """The state that the daemon takes over; not kept here, because old events would stay in memory as long as it lives."""
        taken, self.recovered = self.recovered, None
        return taken

    def journal(self, now_ns: Callable[[], int], writer: Callable[[BlockingStore], AsyncStore] = WriterThread) -> Journal:
        """The journal's task, to be made in trio; ``writer`` calls the store, usually in a thread."""
        history = History(self.settings.keep_bytes, self.settings.keep_ns)
        return Journal(
            writer(self.store),
            encode_facts,
            now_ns,
            last_event=self.last_event,
            last_message=self.last_message,
            history=history,
            standbys=self.standbys,
        )


class StoreWriter:
    """The store that the writer thread calls (``actors.journal.BlockingStore``).

    Args:
        copies: the standbys that get each transaction that is committed; None of a journal that has none.

    Attributes:
        settings: how it was opened.
        needs_tidying: whether ``tidy`` has anything to do.
    """

    def __init__(self, opened: Store, settings: StateSettings, copies: standbys.Standbys | None = None) -> None:
        self._store = opened
        self.settings = settings
        self._standbys = copies
        self.needs_tidying = False
        #: The Unix time of the last commit.
        self._at_ns = 0
        #: Whether there may be more to delete than the last call of ``trim`` has: under load history grows faster than one piece
        #: for every ``TRIM_EVERY`` commits.
        self._is_trimming = False
        #: Held while the store is used: when the daemon ends, its last call may still be running (``WriterThread``).
        self._using = threading.Lock()

    def commit(self, group: Batch) -> None:
        with self._using:
            self._at_ns = group.at_ns
            if self._standbys is not None:
                self._standbys.begin_commit()
            transaction = self._store.transaction(group)
            self._store.write(transaction)
            if self._standbys is not None:
                self._standbys.on_commit(transaction)
            self._look_for_tidying()

    def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        with Reader.open(self.settings.directory) as reader:
            return list(reader.records(prefix))

    def tidy(self) -> None:
        with self._using:
            if self._store.needs_merge:
                self._store.merge()
            if self._store.needs_checkpoint:
                self._store.checkpoint()
            self._is_trimming = self._store.trim(self.settings.keep_bytes, self.settings.keep_ns, self._at_ns) > 0
            self._look_for_tidying()

    def _look_for_tidying(self) -> None:
        """Look after each use of the store, in the thread that uses it: the event loop does not ask for sizes of files."""
        store = self._store
        self.needs_tidying = store.needs_merge or store.needs_checkpoint or self._is_trimming or store.number % TRIM_EVERY == 0

    def write(self, transaction: Transaction) -> None:
        """Write the next transaction of the journal that a standby follows. Raises:  as ``Store.write``."""
        with self._using:
            self._at_ns = int(transaction.log[1])
            self._store.write(transaction)
            self._look_for_tidying()

    def follow(self, beginnings: list[Beginning], number: int) -> None:
        """Take over the terms of the journal that a standby follows. Parameters and errors are as of ``Store.follow``."""
        with self._using:
            self._store.follow(beginnings, number)

    def take_in(self, copy: Path) -> None:
        """Take over a copy of the rest of the journal that a standby follows. Raises:  as ``Store.take_in``."""
        with self._using:
            self._store.take_in(copy)
            self._store.checkpoint()

    def take_over(self, copies: standbys.Standbys) -> None:
        """Become the journal of the next daemon, which has these standbys. Raises:  as ``Store.take_over``."""
        with self._using:
            self._store.take_over()
            self._standbys = copies

    @property
    def joining(self) -> Join:
        """The journal, as a standby shows it to its daemon."""
        return Join(schema.VERSION, self._store.number, self._store.beginnings)

    def close(self) -> None:
        """Close the store; it is left open if a disk does not answer, and what is being written may then still be written."""
        if self._using.acquire(timeout=CLOSE_S):
            self._store.close()
        else:
            log_event(log, logging.ERROR, "journal_not_closed", reason="the disk does not answer")


@contextmanager
def open_state_dir(
    settings: StateSettings, on_progress: Callable[[], None] = lambda: None, *, reserves: bool
) -> Iterator[StateDir]:
    """Open the journal and recover what it holds; closed at the end of the block. Blocks.

    Args:
        on_progress: called at the beginning, and then now and then.

    Raises:
        JournalError: the directory cannot be used; the message says why and what to do.
    """
    began_s = time.monotonic()
    on_progress()
    opened = Store.open(settings.directory, settings.durability, now_ns=system_ns())
    copies = standbys.Standbys(settings.directory, opened.number, opened.beginnings, settings.standbys)
    writer = StoreWriter(opened, settings, copies)
    try:
        for rest in settings.directory.glob(f"{COPY_PREFIX}*"):
            shutil.rmtree(rest, ignore_errors=True)
        if opened.loss:
            log_event(log, logging.ERROR, "journal_loss", directory=settings.directory, reason=opened.loss)
        yield _state(opened, writer, copies, _recover(settings.directory, on_progress, reserves=reserves), began_s)
    finally:
        writer.close()


def _state(
    opened: Store, writer: StoreWriter, copies: standbys.Standbys, recovered: Recovered | None, began_s: float
) -> StateDir:
    settings = writer.settings
    _log_recovered(settings.directory, recovered, time.monotonic() - began_s)
    return StateDir(settings, writer, copies, recovered, opened.terms, opened.last_event, opened.last_message)


class StandbyDir:
    """The open state directory of a standby.

    Attributes:
        settings: how it was opened.
        writer: writes what the daemon has written.
    """

    def __init__(self, opened: Store, settings: StateSettings) -> None:
        self.settings = settings
        self.writer = StoreWriter(opened, settings)
        self._opened = opened
        self._events = NewestEvents()

    def read_ahead(self) -> None:
        """Read what a take-over would have to read otherwise. Blocks; not while ``take_over`` does. Raises:  JournalError."""
        with Reader.open(self.settings.directory) as reader, suppress(HistoryError):  # the take-over says what is wrong
            self._events.read(reader)

    def take_over(self, kept: Mapping[PartitionName, Kept], *, reserves: bool) -> StateDir:
        """Begin the term of the next daemon, and recover what the journal holds, but for the partitions that are kept. Blocks.

        Raises:
            JournalError: the journal has followed no daemon, or the disk fails. OSError: the disk fails.
        """
        began_s, opened, directory = time.monotonic(), self._opened, self.settings.directory
        copies = standbys.Standbys(directory, opened.number, opened.beginnings, self.settings.standbys)
        self.writer.take_over(copies)
        copies.beginnings = opened.beginnings
        recovered = _recover(directory, lambda: None, kept, self._events, reserves=reserves)
        return _state(opened, self.writer, copies, recovered, began_s)


@contextmanager
def open_standby_dir(settings: StateSettings) -> Iterator[StandbyDir]:
    """Open the journal of a standby; closed at the end of the block. Blocks.

    Raises:
        JournalError: the directory cannot be used; the message says why and what to do.
    """
    directory = StandbyDir(Store.open(settings.directory, settings.durability, now_ns=system_ns(), holder="standby"), settings)
    try:
        yield directory
    finally:
        directory.writer.close()


def is_standby_dir(directory: Path) -> bool:
    """True if a directory has no history of its own: it is new, follows that of a daemon, or has handed over to another one.

    Raises:
        JournalError: the journal cannot be read.
    """
    if not (directory / schema.NAME).exists() or may_follow(directory):
        return True
    with Reader.open(directory) as reader:
        return not reader.beginnings() and reader.numbers() == (1, 0)


def _recover(
    directory: Path,
    on_progress: Callable[[], None],
    kept: Mapping[PartitionName, Kept] = NOTHING_KEPT,
    newest_events: NewestEvents | None = None,
    *,
    reserves: bool,
) -> Recovered | None:
    shorten_collections()
    try:
        with Reader.open(directory) as reader:
            return recover(reader, on_progress, kept, newest_events, reserves=reserves)
    except (UnreadableRowError, DamagedStateError, HistoryError) as error:
        raise JournalError(
            f"{directory}: the state cannot be read: {error}; expected what this version or an earlier one wrote"
        ) from error


def _log_recovered(directory: Path, recovered: Recovered | None, seconds: float) -> None:
    if recovered is None:
        log_event(log, logging.INFO, "journal_new", directory=directory)
        return
    registries = [restored.core.registry for restored in recovered.partitions.values()]
    applications = sum(len(registry.applications) for registry in registries)
    nodes = sum(len(registry.nodes) for registry in registries)
    as_of = f"{datetime.fromtimestamp(recovered.at_ns // S_NS, UTC):%Y-%m-%dT%H:%M:%SZ}"
    found = {"seq": recovered.last_event, "as_of": as_of, "nodes": nodes, "apps": applications, "seconds": round(seconds, 3)}
    log_event(log, logging.INFO, "state_recovered", directory=directory, **found)
