"""The one writer of a journal: a batch of changes becomes one transaction.

All methods block; ``open``, ``commit``, ``merge``, ``checkpoint``, ``trim`` and ``close`` may be called in any thread,
one at a time.
"""

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from ykactor.journal import changes, schema
from ykactor.journal.copying import attach, take_over
from ykactor.journal.errors import DiskError, JournalError, damaged, explained, write_error
from ykactor.journal.files import (
    Durability,
    Holder,
    Seen,
    WatchedFiles,
    Witness,
    follows_nobody,
    forget_following,
    forget_superseded,
    is_following,
    locked,
    note_daemon,
    note_following,
    read_superseded,
    sync,
    write_superseded,
)
from ykactor.journal.reading import base_bytes
from ykactor.journal.terms import NO_TERM, TERMS_MAX, Beginning, Term, Terms, read_beginnings, write_beginning, write_beginnings
from ykactor.journal.transaction import Batch, LogRow, Transaction

#: The write-ahead log is copied into the database when it has grown by so much; 30 ms, during which nothing is committed.
CHECKPOINT_BYTES = 16 << 20
#: Changes are merged into the records when they have so many bytes: most asks have got a node by then, and many have ended.
MERGE_BYTES = 16 << 20
#: Changes that one call of ``merge`` reads, but for the rest of a transaction, or records that it writes, so that commits do not
#: wait for long: 10 ms. With twice as many bytes all of them, because more is committed than merged.
MERGE_ROWS = changes.PUT_ROWS
#: The most that one call of ``trim`` deletes, so that commits do not wait for long.
TRIM_ROWS_MAX = 256
TRIM_BYTES_MAX = 4 << 20

_LOG = "INSERT INTO log VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_BASE = "INSERT INTO base VALUES(?, ?, ?, ?)"
_MENTION = "INSERT INTO mention VALUES(?, ?, ?)"
_CHANGE = "INSERT INTO change VALUES(?, ?, ?)"
_NEWEST = "SELECT * FROM log ORDER BY number DESC LIMIT 1"
_CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"
_OLDEST = "SELECT number, at_ns, first_byte FROM log ORDER BY number LIMIT ?"


class Store:
    """An open journal; use ``open``.

    Attributes:
        number: the newest transaction; 0 if there is none.
        last_event, last_message: the numbers of the newest event and message when it was opened.
        beginnings: of the newest terms of this history, the oldest first; none in a journal that has never been written.
        loss: a sentence that says which transactions were lost since the last run, or may have been; "" if none. It is said
            again by the next ``open`` if nothing is committed.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, witness: Witness, seen: Seen) -> None:
        self._connection = connection
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._witness = witness
        self._resources = ExitStack()
        #: The last connection to be closed copies the log into the database, if it may write: after a failure that must not be.
        self._reader = schema.connect(path, "ro")
        self._reader.execute("PRAGMA user_version").fetchall()
        self._failure: DiskError | None = None
        #: The size of what is not merged, and the merge that is under way.
        self._changed_bytes = 0
        self._merge: changes.Merge | None = None
        ((page_bytes,),) = connection.execute("PRAGMA page_size")
        self._files = WatchedFiles(path, self._wal, page_bytes)
        self._wal_bytes = self._files.log_bytes
        self.number = self.last_event = self.last_message = self._end_byte = 0
        self._read_newest()
        schema.created_ns(connection, path)  # that it can be read
        self.beginnings = read_beginnings(connection, path)
        self.loss = seen.loss(self.number, [beginning.term for beginning in self.beginnings])
        #: The term of the newest transaction.
        self._noted = seen.term
        #: The transaction from which on this journal may take over the history that it has begun to follow; None: no such.
        self._follows_from: int | None = None

    @classmethod
    def open(cls, directory: Path, durability: Durability, *, now_ns: int, holder: Holder = "daemon") -> "Store":
        """Opens the journal in the directory; makes both if they are missing.

        A daemon begins a term, which is durable as a transaction is. A standby writes what another journal has written.

        Cost: 0.7 s for each GB of the database, for ``PRAGMA quick_check``; and what the disk needs to read it.

        Raises:  JournalError, which says why this directory cannot be used and what to do.
        """
        path = directory / schema.NAME
        with explained(path), ExitStack() as stack:
            stack.enter_context(locked(directory, holder))
            seen = Seen.of(directory)
            witness = stack.enter_context(closing(Witness(directory, durability)))
            if not path.exists():
                schema.refuse_rest(path)
                if seen.number:
                    raise JournalError(
                        f"{path}: found no journal, although {seen.path} says that it had {seen.number} transactions; "
                        f"put a backup there, or remove {seen.path} to begin with nothing"
                    )
                witness.note(0, None)
                schema.create(path, now_ns)
            # What an earlier run with less durability has left to the system. SQLite must not have opened the file yet: whoever
            # closes a file gives up all locks of the process on it.
            sync(path)
            connection = stack.enter_context(closing(schema.connect(path, "rw")))
            schema.upgrade(connection, path)
            ((verdict,),) = connection.execute("PRAGMA quick_check(1)")
            if verdict != b"ok":
                raise damaged(path, verdict.decode(errors="replace"))
            connection.execute(f"PRAGMA synchronous={durability}")
            connection.execute("PRAGMA wal_autocheckpoint=0")
            connection.execute(_CHECKPOINT).fetchall()  # a log that begins empty can be watched best
            store = cls(connection, path, witness, seen)
            stack.callback(store._end)
            if holder == "daemon":
                if superseded := read_superseded(directory):
                    raise JournalError(superseded)
                store.begin_term()
            store._resources = stack.pop_all()
            return store

    def commit(self, batch: Batch) -> int:
        """Writes the batch; it is durable when the call returns. Returns the number of the transaction.

        Raises:
            NotWrittenError: nothing was written; the same batch may be tried again.
            DiskError: every later call raises it too. Nothing was written, unless somebody has changed the files.
        """
        return self.write(self.transaction(batch))

    def transaction(self, batch: Batch) -> Transaction:
        """The batch as the next transaction, for ``write``."""
        return Transaction.of(batch, self.number + 1, self._end_byte, self.beginnings[-1].term.number)

    def write(self, transaction: Transaction) -> int:
        """Write the next transaction, as ``commit``, also one that another journal has written, of the present term.

        Raises:  ValueError if it is not the next one, or of another term; NotWrittenError, DiskError.
        """
        number = transaction.number
        if number != self.number + 1:
            raise ValueError(f"found transaction {number}, expected {self.number + 1}")
        if transaction.log[-1] != self.beginnings[-1].term.number:
            raise ValueError(f"found a transaction of term {transaction.log[-1]}, expected {self.beginnings[-1].term}")
        with self._transaction():
            self._connection.execute(_LOG, transaction.log)
            if transaction.bases:
                self._connection.executemany(_BASE, transaction.bases)
            if transaction.mention is not None:
                self._connection.execute(_MENTION, transaction.mention)
            if transaction.change is not None:
                self._connection.execute(_CHANGE, transaction.change)
        self.number, self._end_byte = number, transaction.end_byte
        self._changed_bytes += 0 if transaction.change is None else len(transaction.change[1])
        self._note()
        self._note_following()
        return number

    @property
    def needs_merge(self) -> bool:
        """True if ``merge`` should be called soon."""
        return self._merge is not None or self._changed_bytes >= MERGE_BYTES

    def merge(self) -> None:
        """Merge some of the changes into the records; after further calls all that there were at the first one.

        Raises:  as ``commit``; JournalError if the changes are damaged.
        """
        most = MERGE_ROWS if self._changed_bytes < 2 * MERGE_BYTES else sys.maxsize
        with self._writing():
            merge = self._merge = self._merge or changes.Merge(self._connection, self._path, self.number)
            if not merge.read(most):
                return
        with self._transaction():
            merge.write(most)
        if merge.written(most):
            self._merge, self._changed_bytes = None, changes.changed_bytes(self._connection)

    @property
    def needs_checkpoint(self) -> bool:
        """True if ``checkpoint`` should be called soon: when what was committed has been acknowledged."""
        return self._files.log_bytes >= self._wal_bytes + CHECKPOINT_BYTES

    def checkpoint(self) -> None:
        """Copies the write-ahead log into the database and empties it, as far as no reader still needs it.

        Raises:  NotWrittenError (nothing is lost, and commits may go on), DiskError.
        """
        self._check_files()  # what was cut off would be copied as if it were there
        self._connection.execute("PRAGMA busy_timeout=0")  # readers are not waited for
        try:
            with self._writing():
                self._connection.execute(_CHECKPOINT).fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={schema.BUSY_MS}")
            self._files.note()
            self._wal_bytes = self._files.log_bytes

    def trim(self, bytes_max: int, age_max_ns: int, now_ns: int) -> int:
        """Deletes some of the oldest transactions of the history, if all together are too large or they are too old.

        The newest one stays: it has the numbers from which the next ones follow. Deleted pages of the file are used again, so
        the file stops growing. (To give them back to the system instead would cost each commit an entry for each new page.)

        Returns:  how many were deleted; more may have to follow, so call it again until it is 0.
        Raises:  as ``commit``.
        """
        with self._writing():
            oldest = self._connection.execute(_OLDEST, (TRIM_ROWS_MAX,)).fetchall()
        surplus = [
            number
            for number, at_ns, first_byte in oldest
            if number < self.number
            and first_byte - oldest[0][2] < TRIM_BYTES_MAX
            and (first_byte < self._end_byte - bytes_max or at_ns < now_ns - age_max_ns)
        ]
        if not surplus:
            return 0
        with self._transaction():
            for table in ("base", "mention"):
                self._connection.execute(f"DELETE FROM {table} WHERE number <= ?", (surplus[-1],))
            return self._connection.execute("DELETE FROM log WHERE number <= ?", (surplus[-1],)).rowcount

    def close(self) -> None:
        """Closes the journal and lets go of the directory. It is checkpointed first, unless a reader still needs it."""
        self._resources.close()

    def _end(self) -> None:
        if self._failure is None:
            self._reader.close()
        self._connection.close()
        self._reader.close()
        if self._failure is None and not self._wal.exists():
            with suppress(OSError):
                self._witness.note_end(self.number, self._noted)

    @property
    def terms(self) -> Terms:
        """The terms of this history."""
        return Terms(self.beginnings)

    def begin_term(self, *, takes_over: bool = False) -> None:
        """Begin a term that is higher than those of the database and of the witness. Raises:  as ``commit``.

        Args:
            takes_over: as of ``Term.after``.
        """
        terms = [beginning.term for beginning in self.beginnings] + ([] if self._noted is None else [self._noted])
        begun = Beginning(
            Term.after(max(terms, default=NO_TERM), takes_over=takes_over),
            self.number + 1,
            self.last_event + 1,
            self.last_message + 1,
        )
        with self._transaction():
            write_beginning(self._connection, begun)
        self.beginnings = [*self.beginnings, begun][-TERMS_MAX:]
        forget_following(self._path.parent)

    # ---- as a standby

    def take_over(self) -> None:
        """Become the journal of the next daemon: begin a term that the daemon before does not reach.

        Raises:  JournalError if this journal follows no other one, or lacks some of it; as ``commit``; OSError.
        """
        directory = self._path.parent
        if not is_following(directory):
            raise JournalError(follows_nobody(directory))
        self._read_newest()
        self.begin_term(takes_over=True)
        forget_superseded(directory)
        note_daemon(directory)

    def follow(self, beginnings: Sequence[Beginning], number: int) -> None:
        """Take over the terms of the history that this journal is the beginning of. Raises:  as ``commit``.

        Args:
            number: its newest transaction. From when it is here too, this journal may take that history over: before, it could
                lack what was told long ago.
        """
        with self._transaction():
            write_beginnings(self._connection, beginnings)
        self.beginnings = list(beginnings)
        self._follows_from = number
        if self.number < number and not is_following(self._path.parent):
            write_superseded(self._path.parent, f"term {beginnings[-1].term}")  # no daemon begins with a part of a history
        self._note_following()

    def _note_following(self) -> None:
        """Note that this journal may take over the history that it follows, as soon as it may."""
        if self._follows_from is not None and self.number >= self._follows_from:
            note_following(self._path.parent)
            forget_superseded(self._path.parent)
            self._follows_from = None

    def take_in(self, copy: Path) -> None:
        """Take over a copy of the rest of a history (``copying``), in one transaction. Raises:  as ``commit``."""
        with self._writing():
            attach(self._connection, copy, "copy")
        try:
            with self._transaction():
                take_over(self._connection)
        finally:
            self._connection.execute("DETACH copy")
        self.beginnings = read_beginnings(self._connection, self._path)
        self._read_newest()
        self._note()
        self._note_following()

    def _read_newest(self) -> None:
        row = _newest(self._connection, self._path)
        if row is not None:
            self.number = row.number
            self.last_event = row.first_event + row.events_count - 1
            self.last_message = row.first_message + row.messages_count - 1
            self._end_byte = row.end_byte + base_bytes(self._connection, row.number)
        self._merge, self._changed_bytes = None, changes.changed_bytes(self._connection)

    def _note(self) -> None:
        """Note the newest transaction in the witness: it is durable whatever happens to that, which the next one writes again."""
        with suppress(OSError):
            self._noted = self.beginnings[-1].term
            self._witness.note(self.number, self._noted)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._writing():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._files.note_failure()
                raise
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        self._check_files()

    def _check_files(self) -> None:
        """Check that what was written is where the next start looks for it."""
        if self._failure is None and (changed := self._files.changed()):
            what_to_do = "put the file back, or a backup, then start again"
            self._failure = DiskError(f"{changed} under the daemon that writes to it; {what_to_do}")
            raise self._failure

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except sqlite3.Error as error:
            failure = write_error(error, self._path)
            if isinstance(failure, DiskError):
                self._failure = failure
            raise failure from error


def _newest(connection: sqlite3.Connection, path: Path) -> LogRow | None:
    columns = connection.execute(_NEWEST).fetchone()
    try:
        return None if columns is None else LogRow.of(columns)
    except ValueError as error:
        raise damaged(path, str(error)) from None
