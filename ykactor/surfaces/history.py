"""The events in the history of a journal, made again from its facts."""

from collections.abc import Iterator

from ykactor.journal.rows import LogRow
from ykactor.wire.history import RecordedTurn, decode_facts, decode_turn
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
