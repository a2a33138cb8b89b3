"""Recovery: from the rows and the history of a journal to what a daemon needs to go on.

The state is that after the last transaction. The newest events and messages are made again from the history, so that followers
and the resource manager go on by number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from ykactor.actors.event_filter import EventRecordLike
from ykactor.actors.outbox import KEPT_BYTES_MAX, KEPT_MAX
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.changed import Key
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.records.encoding import decode
from ykactor.core.records.restore import by_kind, restore
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Pausing
from ykactor.journal.reading import Reader
from ykactor.journal.rows import LogRow
from ykactor.surfaces.server.daemon_rows import CONFIG, FILE, REGISTRATION, SWITCH, FileRow, RegistrationRow
from ykactor.wire.history import HistoryError, decode_facts
from ykactor.wire.si.events import events

#: The newest events that are made again, for followers that go on by number.
EVENTS_MAX = 100_000
#: Rows that are read between two signs of progress.
PROGRESS_ROWS = 1000

R = TypeVar("R")


class Recovered(Struct):
    """What a daemon has to know of the one before it.

    Attributes:
        config: in force.
        partitions: by name, the cores with their state.
        unfinished: the configuration to which the partitions were changing; None if they were not.
        file_checksum: that of the queue file that was read last; "" if none was.
        registration: None if no resource manager was registered.
        messages: the newest messages to the resource manager; the last one has the number ``last_message``.
        events: the newest events; the last one has the number ``last_event``.
        at_ns: the Unix time of the last transaction.
    """

    config: SchedulerConfig
    partitions: dict[PartitionName, tuple[PartitionCore, SchedulerCore]]
    unfinished: SchedulerConfig | None
    file_checksum: str
    registration: RegistrationRow | None
    messages: list[bytes]
    last_message: int
    events: list[EventRecordLike]
    last_event: int
    at_ns: int


class _Turn(Struct):
    """What is read of a turn in the history."""

    partition: PartitionName
    facts: Raw = Raw(b"[]")


def recover(reader: Reader, on_progress: Callable[[], None], *, reserves: bool) -> Recovered | None:
    """Read a journal; None if it is empty. ``on_progress`` is called now and then.

    Raises:
        JournalError: the journal is damaged.
        UnreadableRowError, DamagedStateError: rows are of a later version, or do not belong together.
    """
    own: dict[bytes, bytes] = {}
    rows: dict[PartitionName, list[tuple[Key, Struct]]] = defaultdict(list)
    for number, (key, data) in enumerate(reader.records()):
        if number % PROGRESS_ROWS == 0:
            on_progress()
        if key.startswith(b'["",'):
            own[key] = data
        else:
            partition, identity, row = decode(key, data)
            rows[partition].append((identity, row))
    if CONFIG not in own:
        return None
    registration = msgspec.json.decode(own[REGISTRATION], type=RegistrationRow) if REGISTRATION in own else None
    newest = next(reader.rows_backwards(), None)
    partitions = {name: _finished(restore(by_kind(some), reserves=reserves), on_progress) for name, some in rows.items()}
    return Recovered(
        config=msgspec.json.decode(own[CONFIG], type=SchedulerConfig),
        partitions=partitions,
        unfinished=msgspec.json.decode(own[SWITCH], type=SchedulerConfig) if SWITCH in own else None,
        file_checksum=msgspec.json.decode(own[FILE], type=FileRow).checksum if FILE in own else "",
        registration=registration,
        messages=_messages(reader, registration),
        last_message=0 if newest is None else newest.first_message + newest.messages_count - 1,
        events=_events(reader, on_progress),
        last_event=0 if newest is None else newest.first_event + newest.events_count - 1,
        at_ns=0 if newest is None else newest.at_ns,
    )


def _messages(reader: Reader, registration: RegistrationRow | None) -> list[bytes]:
    """The newest messages of the registration, as many as an outbox keeps, in order."""
    if registration is None:
        return []
    found: list[bytes] = []
    size, first = 0, registration.sequence + 1
    for row in reader.rows_backwards():
        messages = row.messages()[max(0, first - row.first_message) :]
        size += sum(map(len, messages))
        found += reversed(messages)
        if row.first_message <= first or len(found) >= KEPT_MAX or size >= KEPT_BYTES_MAX:
            break
    return found[::-1]


def _finished(work: Pausing[R], on_progress: Callable[[], None]) -> R:
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: R = stop.value
            return result
        on_progress()


def _events(reader: Reader, on_progress: Callable[[], None]) -> list[EventRecordLike]:
    """The newest events, in order; none before a transaction whose events are not the same any more."""
    kept: list[LogRow] = []
    count = 0
    for row in reader.rows_backwards():
        if count >= EVENTS_MAX:
            break
        kept.append(row)
        count += row.events_count
    found: list[EventRecordLike] = []
    for row in reversed(kept):
        on_progress()
        try:
            again = list(_events_of(row))
        except HistoryError:  # written by a version with other facts
            again = []
        if len(again) != row.events_count:
            found.clear()
        else:
            found += again
    return found


def _events_of(row: LogRow) -> Iterator[EventRecordLike]:
    number = row.first_event
    for text in row.turns():
        turn = msgspec.json.decode(text, type=_Turn)
        for fact in decode_facts(turn.facts):
            made = events(fact, turn.partition, number)
            number += len(made)
            yield from made
