"""The partitions of a daemon, in the memory of its standby: they run the turns that are in the journal (DU-25).

What a partition in memory has is what a recovery from the disk would make of the rows there: after each transaction the facts of
its turns and the rows that they have changed are compared with those of the transaction. A partition of which one differs is
forgotten, as by a standby of another version that decides otherwise, and is recovered from the disk at a take-over.
"""

from __future__ import annotations

import logging
import zlib
from collections import defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple

import trio
from msgspec import Struct

from ykactor.actors.journal import Since
from ykactor.actors.pauses import drive
from ykactor.core.records.base import Restored, decode_base, partition_from
from ykactor.core.records.encoding import UnreadableRowError, decode, encode, pairs, partition_of
from ykactor.core.records.export import changes
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps, in_parts
from ykactor.journal.changes import packed_texts
from ykactor.journal.transaction import LogRow, Transaction
from ykactor.sim.replica import Copy, MismatchError
from ykactor.surfaces.files.recovery import Kept
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.wire.history import HistoryError, RecordedTurn, UnreadableCauseError, decode_turn
from ykactor.wire.turns import Turn, checksum_of

log = get_logger(__name__)

#: The bytes of transactions that may wait to be run; with more, all partitions are forgotten.
WAITING_BYTES_MAX = 2**26
#: The bytes of a row that are shown, and the text of a row that has not changed.
SHOWN_MAX = 500
_UNCHANGED = b"no change"


class _Partition(Struct):
    """A partition in memory.

    Attributes:
        at_ns, base_bytes: of its newest base.
        written: the bytes of turns that had been recorded then, as ``Memory`` counts them.
        changed: the rows that its turns in the present transaction have changed, as texts.
        is_new: whether it has begun in that transaction, which may have rows of turns before.
    """

    copy: Copy
    at_ns: int
    base_bytes: int
    written: int
    changed: list[bytes] = []
    is_new: bool = True


class _Waiting(NamedTuple):
    transaction: Transaction
    size: int


class Memory:
    """The partitions in memory.

    Args:
        ask: asks the daemon for bases, from which the partitions can begin.
    """

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._partitions: dict[PartitionName, _Partition] = {}
        self._lost: set[PartitionName] = set()
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._written = 0
        self._grown = trio.Event()
        self._is_idle = trio.Event()
        self._is_idle.set()

    @property
    def names(self) -> list[PartitionName]:
        """The partitions that are in memory."""
        return [*self._partitions]

    @property
    def is_idle(self) -> bool:
        """True if all that was added has been run."""
        return self._is_idle.is_set()

    @property
    def lacks(self) -> bool:
        """True if nothing is in memory yet, or something not any more."""
        return not self._partitions or bool(self._lost)

    def add(self, transaction: Transaction, size: int) -> None:
        """Run the turns of a transaction of so many bytes, which is in the journal, as soon as possible."""
        if self._waiting_bytes + size > WAITING_BYTES_MAX and self._waiting:
            self.forget(f"more than {WAITING_BYTES_MAX} bytes of transactions were not run")
            self._ask()
        self._waiting.append(_Waiting(transaction, size))
        self._waiting_bytes += size
        self._is_idle = trio.Event()
        self._grown.set()

    def forget(self, reason: str) -> None:
        """Forget all partitions: transactions come next that do not follow those that were run."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self._lose_all(reason)

    async def run(self) -> None:
        """Run what is added, until cancelled."""
        while True:
            while self._waiting:
                transaction, size = self._waiting.popleft()
                self._waiting_bytes -= size
                await self._run(transaction)
            self._is_idle.set()
            self._grown = trio.Event()
            await self._grown.wait()

    async def up_to_date(self) -> dict[PartitionName, Kept]:
        """Wait until all that was added has been run; the partitions as they are then."""
        await self._is_idle.wait()
        return {
            name: Kept(
                Restored(*found.copy.cores, b""),
                Since(found.at_ns, found.base_bytes, self._written - found.written),
            )
            for name, found in self._partitions.items()
        }

    # ---- a transaction

    async def _run(self, transaction: Transaction) -> None:
        if not self._partitions and not transaction.bases:
            return
        try:
            texts = _texts(transaction)
        except (ValueError, UnreadableRowError) as error:
            self._lose_all(str(error))
            return
        bases = {position: zlib.decompress(state) for _, position, state, _ in transaction.bases}
        for position, text in enumerate(LogRow.of(transaction.log).turns()):
            self._written += len(text)
            try:
                turn = decode_turn(text)
            except HistoryError as error:  # of another version
                self._lose_all(f"transaction {transaction.number}: {error}")
                return
            if turn.number is not None:
                await self._attempt(turn, bases.get(position))
        for name, found in list(self._partitions.items()):
            if reason := difference(found.changed, texts.get(name, []), is_whole=not found.is_new):
                self._lose(name, f"transaction {transaction.number}: {reason}")
            found.changed, found.is_new = [], False

    async def _attempt(self, turn: RecordedTurn, base: bytes | None) -> None:
        """Run a turn. A partition that cannot is forgotten, whatever the reason: nothing else of the standby depends on it."""
        try:
            if base is not None:
                await self._begin(turn, base)
            if (found := self._partitions.get(turn.partition)) is not None:
                await self._turn(turn, found)
        except (MismatchError, HistoryError, UnreadableCauseError, UnreadableRowError, DamagedStateError) as error:
            self._lose(turn.partition, str(error))
        except Exception as failure:
            log.error("partition_not_run", exc_info=failure)
            self._lose(turn.partition, f"turn {turn.number}: {type(failure).__name__}")

    async def _begin(self, turn: RecordedTurn, base: bytes) -> None:
        """Begin a partition with its state before a turn, as the daemon has done."""
        known = self._partitions.get(turn.partition)
        if known is not None and known.copy.turns + 1 == turn.number:
            await drive(known.copy.renew())
            known.at_ns, known.base_bytes, known.written = turn.now_ns, len(base), self._written
            return
        copy = Copy(await drive(partition_from(decode_base(base))))
        self._lost.discard(turn.partition)
        self._partitions[turn.partition] = _Partition(copy, turn.now_ns, len(base), self._written)
        log_event(log, logging.INFO, "partition_in_memory", partition=turn.partition, turn=turn.number, bytes=len(base))

    async def _turn(self, turn: RecordedTurn, found: _Partition) -> None:
        assert turn.number is not None
        facts = bytes(turn.facts)
        checksum = checksum_of([facts] if facts != b"[]" else [])
        decided = await drive(found.copy.run(Turn(turn.partition, turn.number, turn.now_ns, bytes(turn.cause), checksum, 0)))
        if decided.is_last:
            self._partitions.pop(turn.partition, None)  # it may have been forgotten meanwhile
        else:
            found.changed += await drive(_changed(found.copy))

    def _lose_all(self, reason: str) -> None:
        for name in self.names:
            self._lose(name, reason)

    def _lose(self, name: PartitionName, reason: str) -> None:
        if self._partitions.pop(name, None) is not None:
            self._lost.add(name)
            log_event(log, logging.WARNING, "partition_forgotten", partition=name, reason=reason)


def _texts(transaction: Transaction) -> dict[PartitionName, list[bytes]]:
    """The rows of each partition that the transaction has changed, as texts, each of which is of one partition.

    Raises:
        ValueError, UnreadableRowError: they are damaged.
    """
    found = defaultdict[PartitionName, list[bytes]](list)
    for text in [] if transaction.change is None else packed_texts(*transaction.change):
        found[partition_of(text[: text.index(b"\n")])].append(text)
    return found


def _changed(copy: Copy) -> Steps[list[bytes]]:
    """The rows that the last turn has changed, as texts."""
    core, scheduler = copy.cores
    texts: list[bytes] = []
    for rows in in_parts(changes(core, scheduler.state)):
        texts.append(encode(core.name, rows))
        yield len(rows)
    return texts


def difference(changed: list[bytes], texts: list[bytes], *, is_whole: bool) -> str:
    """The first row of a partition that a transaction has otherwise, as a sentence; "" if there is none.

    Args:
        changed: what has changed here, as texts.
        texts: what the transaction has changed.
        is_whole: whether all changes of the partition are among ``changed``.
    """
    if changed == texts:
        return ""
    here, there = _records(changed), _records(texts)
    for key in here.keys() | there.keys() if is_whole else here.keys():
        found, expected = here.get(key, _UNCHANGED), there.get(key, _UNCHANGED)
        if found != expected and (_UNCHANGED in (found, expected) or _rows_differ(key, found, expected)):
            return f"row {key.decode()}: found {_shown(found)}, expected {_shown(expected)}"
    return ""


def _records(texts: list[bytes]) -> dict[bytes, bytes]:
    """The newest text of each row, "null" of one that is gone."""
    return {key: row for text in texts for key, row in pairs(text)}


def _rows_differ(key: bytes, one: bytes, other: bytes) -> bool:
    """True if two rows are not the same; the order of what has none does not count."""
    try:
        return decode(key, one) != decode(key, other)
    except UnreadableRowError:  # of another version
        return True


def _shown(row: bytes) -> str:
    return row[:SHOWN_MAX].decode(errors="replace")
