"""Recovery: from the rows and the history of a journal to what a daemon needs to go on.

The state is that after the last transaction. The newest events and messages are made again from the history, so that followers
and the resource manager go on by number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from ykactor.actors.journal import Journal, Since
from ykactor.actors.outbox import KEPT_BYTES_MAX, KEPT_MAX, Epochs, Outbox
from ykactor.actors.receipts import Unanswered, unanswered
from ykactor.actors.ring import EventRecordLike
from ykactor.actors.supervision import Rows
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.facts import Audited
from ykactor.core.records.base import Restored, made_from
from ykactor.core.records.encoding import partition_of, prefix_of
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.names import Names
from ykactor.core.values.parts import Steps, paced
from ykactor.journal.reading import Reader
from ykactor.journal.transaction import LogRow
from ykactor.surfaces.files.daemon_rows import (
    CHANGE,
    CLOCK,
    CONFIG,
    REGISTRATION,
    SWITCH,
    SWITCH_CHANGE,
    UNCONFIRMED,
    ChangeRow,
    ClockRow,
    RegistrationRow,
    UnconfirmedRow,
    begun_acts,
    check,
    epochs_of,
)
from ykactor.wire.history import HistoryError, RecordedTurn, decode_facts, decode_turn
from ykactor.wire.si.codec import ENCODINGS, Encoding
from ykactor.wire.si.events import events
from ykactor.wire.si.messages import EventRecord

#: The newest events that are made again, for followers that go on by number.
EVENTS_MAX = 100_000
#: How many transactions are read for the newest events, and for the newest messages: most of them may have none.
HISTORY_ROWS_MAX = 100_000
#: Rows that are read between two signs of progress.
PROGRESS_ROWS = 1000

R = TypeVar("R")


def _silent() -> None:
    """Give no sign of progress."""


class Unfinished(NamedTuple):
    """A change of the partitions to another configuration that was under way."""

    config: SchedulerConfig
    change: ChangeRow


class Kept(NamedTuple):
    """A partition that a standby has in memory as it is after the last transaction, and its newest base in the history."""

    restored: Restored
    since: Since


#: The partitions that a daemon after a restart has in memory.
NOTHING_KEPT: Mapping[PartitionName, Kept] = {}


class Recovered(Struct):
    """The state that a daemon takes over from the one before it.

    Attributes:
        config: in force.
        partitions: by name, with their state.
        since: of partitions that have no base of their own, the newest one in the history.
        change: the last change of the configuration, which has put ``config`` into force.
        unfinished: the change that was under way; None if there was none.
        unconfirmed: the way back from a configuration that awaits confirmation; None if none does.
        registration: None if no resource manager was registered.
        epochs: of all that have registered.
        unanswered: requests that had an effect and were not answered.
        acts: those that were begun and not told (``daemon_rows.begun_acts``).
        messages: the newest messages to the resource manager; the last one has the number ``last_message``.
        events: the newest events; the last one has the number ``last_event``.
        at_ns: the Unix time of the last transaction.
        ahead_ns: how far its daemon was ahead of the clock of the machine when it started.
    """

    config: SchedulerConfig
    partitions: dict[PartitionName, Restored]
    since: dict[PartitionName, Since]
    change: ChangeRow
    unfinished: Unfinished | None
    unconfirmed: UnconfirmedRow | None
    registration: RegistrationRow | None
    epochs: Epochs
    unanswered: list[Unanswered]
    acts: dict[bytes, Audited]
    messages: list[bytes]
    last_message: int
    events: list[EventRecordLike]
    last_event: int
    at_ns: int
    ahead_ns: int


def recover(
    reader: Reader,
    on_progress: Callable[[], None] = _silent,
    kept: Mapping[PartitionName, Kept] = NOTHING_KEPT,
    newest_events: NewestEvents | None = None,
    *,
    reserves: bool,
) -> Recovered | None:
    """Read a journal; None if it is empty.

    Args:
        on_progress: called now and then.
        kept: the partitions that need not be read.
        newest_events: those that were read before.

    Raises:
        JournalError: the journal is damaged.
        UnreadableRowError, DamagedStateError: rows are of a later version, or do not belong together.
        HistoryError: facts are of a later version.
    """
    own, rows = _records(reader, on_progress, kept)
    if not own and not rows:
        return None
    check(own)
    partitions = _partitions(rows, on_progress, reserves=reserves) | {name: found.restored for name, found in kept.items()}
    if CONFIG not in own:
        raise DamagedStateError("there is no configuration")
    registration = msgspec.json.decode(own[REGISTRATION], type=RegistrationRow) if REGISTRATION in own else None
    newest = next(reader.rows_backwards(), None)
    return Recovered(
        config=msgspec.json.decode(own[CONFIG], type=SchedulerConfig),
        partitions=partitions,
        since={name: found.since for name, found in kept.items()},
        change=_change(own, CHANGE),
        unfinished=_unfinished(own),
        unconfirmed=msgspec.json.decode(own[UNCONFIRMED], type=UnconfirmedRow) if UNCONFIRMED in own else None,
        registration=registration,
        epochs=epochs_of(own),
        unanswered=unanswered(own),
        acts=begun_acts(own),
        messages=_messages(reader, registration, on_progress),
        last_message=0 if newest is None else newest.first_message + newest.messages_count - 1,
        events=(newest_events or NewestEvents()).read(reader, on_progress),
        last_event=0 if newest is None else newest.first_event + newest.events_count - 1,
        at_ns=0 if newest is None else newest.at_ns,
        ahead_ns=msgspec.json.decode(own[CLOCK], type=ClockRow).ahead_ns if CLOCK in own else 0,
    )


def _change(own: dict[bytes, bytes], key: bytes) -> ChangeRow:
    return msgspec.json.decode(own[key], type=ChangeRow) if key in own else ChangeRow()


def _unfinished(own: dict[bytes, bytes]) -> Unfinished | None:
    if SWITCH not in own:
        return None
    # Earlier versions have noted the change only when it was over.
    change = _change(own, SWITCH_CHANGE if SWITCH_CHANGE in own else CHANGE)
    return Unfinished(msgspec.json.decode(own[SWITCH], type=SchedulerConfig), change)


def recover_partitions(reader: Reader, *, reserves: bool) -> dict[PartitionName, Restored]:
    """The partitions with their state after the last transaction. Raises:  as ``recover``."""
    return _partitions(_records(reader, _silent, ())[1], _silent, reserves=reserves)


def configuration_of(reader: Reader) -> SchedulerConfig | None:
    """The configuration in force; None if there is none. Raises:  as ``recover``."""
    own = dict(reader.records(CONFIG[:-1]))
    return msgspec.json.decode(own[CONFIG], type=SchedulerConfig) if CONFIG in own else None


def restored_outbox(recovered: Recovered, journal: Journal | None, now_ns: int) -> Outbox[Encoding] | None:
    """The messages to the registered resource manager at the Unix time of the start; None if none is registered."""
    known = recovered.registration
    if known is None or not known.rm_id:
        return None
    # An earlier version did not say which partitions it serves: then those that there are.
    served = Names.of(known.partitions or map(str.lower, recovered.partitions))
    outbox = Outbox(known.rm_id, ENCODINGS[known.encoding], known.sequence, partitions=served, journal=journal)
    outbox.restore(recovered.messages, recovered.last_message)
    outbox.since_ns = now_ns  # nobody knows when the daemon before this one lost the connection
    return outbox


def _records(
    reader: Reader, on_progress: Callable[[], None], kept: Iterable[PartitionName]
) -> tuple[dict[bytes, bytes], dict[PartitionName, Rows]]:
    """The rows of the daemon itself, and those of each partition but for those that are kept."""
    own: dict[bytes, bytes] = {}
    found: dict[PartitionName, Rows] = defaultdict(list)
    for number, (key, data) in enumerate(reader.records(without=[*map(prefix_of, kept)])):
        if number % PROGRESS_ROWS == 0:
            on_progress()
        if key.startswith(b'["",'):
            own[key] = data
        else:
            found[partition_of(key)].append((key, data))
    return own, found


def _partitions(
    found: dict[PartitionName, Rows], on_progress: Callable[[], None], *, reserves: bool
) -> dict[PartitionName, Restored]:
    return {name: _finished(made_from(rows, reserves=reserves), on_progress) for name, rows in found.items()}


def _newest(reader: Reader, on_progress: Callable[[], None]) -> Iterator[LogRow]:
    """Transactions, the newest first, so many that a start does not take long."""
    for count, row in enumerate(islice(reader.rows_backwards(), HISTORY_ROWS_MAX)):
        if count % PROGRESS_ROWS == 0:
            on_progress()
        yield row


def _messages(reader: Reader, registration: RegistrationRow | None, on_progress: Callable[[], None]) -> list[bytes]:
    """The newest messages of the registration, as many as an outbox keeps, in order."""
    if registration is None:
        return []
    found: list[bytes] = []
    size, first = 0, registration.sequence + 1
    for row in _newest(reader, on_progress):
        if row.messages_count:
            messages = row.messages()[max(0, first - row.first_message) :]
            size += sum(map(len, messages))
            found += reversed(messages)
        if row.first_message <= first or len(found) >= KEPT_MAX or size >= KEPT_BYTES_MAX:
            break
    return found[::-1]


def _finished(work: Steps[R], on_progress: Callable[[], None]) -> R:
    parts = paced(work)
    while True:
        try:
            next(parts)
        except StopIteration as stop:
            result: R = stop.value
            return result
        on_progress()


class NewestEvents:
    """The newest events of a journal, in order; none before a transaction whose events are not the same any more."""

    def __init__(self) -> None:
        self._events: list[EventRecordLike] = []
        #: The newest transaction that was read.
        self._number = 0

    def read(self, reader: Reader, on_progress: Callable[[], None] = _silent) -> list[EventRecordLike]:
        """Read what is new in the journal; all events there are. Raises:  as ``recover``."""
        rows, count, newest, is_gapless = list[LogRow](), 0, 0, False
        for row in _newest(reader, on_progress):
            is_gapless = row.number <= self._number
            if is_gapless or count >= EVENTS_MAX:
                break
            newest = max(newest, row.number)
            if row.events_count:
                rows.append(row)
                count += row.events_count
        if not is_gapless:
            self._events.clear()
        for row in reversed(rows):
            on_progress()
            self._add(row)
        self._number = max(self._number, newest)
        del self._events[: -2 * EVENTS_MAX]
        return self._events

    def _add(self, row: LogRow) -> None:
        try:
            again = [event for event, _ in events_of(row)]
        except HistoryError as error:
            if row.term:
                raise HistoryError(f"transaction {row.number}: {error}") from None
            again = []  # written by an early version with other facts
        if len(again) != row.events_count:
            self._events.clear()
        else:
            self._events += again


def events_of(row: LogRow) -> Iterator[tuple[EventRecord, RecordedTurn]]:
    """The events of a transaction in order, with their numbers, made again from its facts, each with its turn.

    Raises:
        HistoryError: the transaction is damaged, or of another version.
    """
    number = row.first_event
    for text in row.turns():
        turn = decode_turn(text)
        for fact in decode_facts(turn.facts):
            made = events(fact, turn.partition, number)
            number += len(made)
            for event in made:
                yield event, turn
