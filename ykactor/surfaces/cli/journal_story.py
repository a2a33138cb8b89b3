"""The story of one object from a journal: events with what has caused them, and the state after the newest of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.turn.causes import CycleDue
from ykactor.core.values.parts import finished
from ykactor.core.values.printable import printable
from ykactor.journal.reading import Reader
from ykactor.journal.rows import LogRow
from ykactor.surfaces.cli.causes import cause_of
from ykactor.surfaces.cli.environment import reserves_nodes
from ykactor.surfaces.cli.follow import as_text
from ykactor.surfaces.cli.present import present
from ykactor.surfaces.files.history import events_of, readable
from ykactor.surfaces.files.recovery import recover_partitions
from ykactor.wire.causes import decode_cause
from ykactor.wire.history import RecordedTurn
from ykactor.wire.si.mentions import AUDIT, mentioned
from ykactor.wire.si.messages import EventRecord


def past(key: str, reader: Reader, since_ns: int) -> Iterator[str]:
    """A line for each event since a Unix time that is about ``key``, as far as the history reaches back.

    Cost: reads the index of the transactions, and those that are about ``key``.

    Raises:
        JournalError: the journal is damaged, or of another version.
    """
    for number in reader.mentions(key, reader.number_at(since_ns)):
        row = reader.row(number)
        if row is not None:  # else it has become too old meanwhile
            with readable(reader, number):
                yield from _lines(key, row, since_ns)


def now(key: str, reader: Reader) -> Iterator[str]:
    """Lines about ``key`` from the state after the newest transaction.

    Raises:
        JournalError, UnreadableRowError, DamagedStateError: the journal is damaged, or of a later version.
    """
    for restored in recover_partitions(reader, reserves=reserves_nodes(os.environ)).values():
        yield from present(key, finished(partition_state(restored.core, restored.scheduler.state)))


def _lines(key: str, row: LogRow, since_ns: int) -> Iterator[str]:
    for event, turn in events_of(row):
        if event.timestamp_nano >= since_ns and key in mentioned([event]):
            yield f"{as_text(event)}  {_why(event, turn)}"


def _why(event: EventRecord, turn: RecordedTurn) -> str:
    cause = None if turn.number is None else decode_cause(turn.cause)
    if isinstance(cause, CycleDue):
        return f"in the scheduling cycle of turn {turn.number}"
    return printable(f"because of {_of_no_turn(event) if cause is None else cause_of(event, cause)}")


def _of_no_turn(event: EventRecord) -> str:
    if event.type == AUDIT:
        return event.reference_id or "somebody who is not known"
    is_failure = event.event_change_detail.startswith("PARTITION_")
    return "an error in the partition" if is_failure else "a request for a partition that does not exist"
