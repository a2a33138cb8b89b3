"""Reading the history of a journal: its events, made again from its facts, and what to say if something cannot be read."""

from collections.abc import Iterator
from contextlib import contextmanager

from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.journal.transaction import LogRow
from ykactor.wire.history import HistoryError, RecordedTurn, UnreadableCauseError, decode_facts, decode_turn
from ykactor.wire.si.events import events
from ykactor.wire.si.messages import EventRecord


def events_of(row: LogRow) -> Iterator[tuple[EventRecord, RecordedTurn]]:
    """The events of a transaction in order, with their numbers, each with its turn.

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


@contextmanager
def readable(reader: Reader, number: int) -> Iterator[None]:
    """Raises what cannot be read in a transaction as ``JournalError``, with the number of the transaction."""
    try:
        yield
    except (HistoryError, UnreadableCauseError, UnreadableRowError, DamagedStateError) as error:
        raise JournalError(
            f"{reader.path}: transaction {number}: {error}; use the version of the program that wrote it"
        ) from None
