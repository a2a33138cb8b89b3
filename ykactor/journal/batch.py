"""The content of one transaction of the journal."""

from msgspec import Struct


class Batch(Struct):
    """The changes and the history of some turns.

    Attributes:
        first_event, first_message: the number of the first; of the next one if there is none in the batch.
        at_ns: the Unix time at which the batch is complete.
        puts: new records: key (JSON) -> record (JSON).
        deletes: the keys of records that are no more; none of them is in ``puts``.
        turns: each turn with its facts, as JSON.
        messages: the messages to the resource manager, as they are sent.
        bases: the state of a partition before some of the turns, by their positions in ``turns`` (``core.records.base``).
        names: what the turns are about.
    """

    first_event: int
    first_message: int
    at_ns: int = 0
    puts: dict[bytes, bytes] = {}
    deletes: set[bytes] = set()
    events_count: int = 0
    messages_count: int = 0
    turns: list[bytes] = []
    messages: list[bytes] = []
    bases: dict[int, bytes] = {}
    names: set[str] = set()
