"""Turns and their facts as JSON, for the journal.

An object of several classes is ``["Allocated", {"at_ns": 0, ...}]``: the name of its class, and its fields.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct

from ykactor.core.messages.facts import Fact
from ykactor.core.records.encoding import Decoder
from ykactor.core.values.ids import PartitionName

S = TypeVar("S", bound=Struct)

#: The name of a class, and the fields as JSON.
Named = tuple[str, Raw]


class UnknownClassError(Exception):
    """A name is that of no class that this version knows."""


class NamedDecoder(Generic[S]):
    """Makes objects of these classes again."""

    def __init__(self, *kinds: type[S]) -> None:
        self._decoders = {kind.__name__: Decoder(kind) for kind in kinds}

    def decode(self, name: str, fields: Raw) -> S:
        """The object.

        Raises:
            UnknownClassError: see there.
            msgspec.DecodeError: the fields are not those of the class.
        """
        decoder = self._decoders.get(name)
        if decoder is None:
            raise UnknownClassError(f"found {name!r}, expected what this version knows")
        return decoder.decode(fields)


_ENCODER = msgspec.json.Encoder()
_ENTRIES = msgspec.json.Decoder(list[Named])
_FACTS: NamedDecoder[Fact] = NamedDecoder(*get_args(Fact))


class HistoryError(Exception):
    """A turn in a journal cannot be read: it is damaged, or of another version."""


class RecordedTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """A turn in a journal.

    Attributes:
        number: counts the turns of the partition; None if these facts are of no turn: a session has refused something itself,
            the partition has failed, or they are of the audit.
        now_ns: the Unix time of the turn.
        cause: for ``causes.decode_cause``; null without a number.
        facts: for ``decode_facts``.
    """

    partition: PartitionName
    number: int | None = None
    now_ns: int = 0
    cause: Raw = Raw(b"null")
    facts: Raw = Raw(b"[]")


_TURN = msgspec.json.Decoder(RecordedTurn)


def decode_turn(data: bytes) -> RecordedTurn:
    """A turn, as the journal has it. Raises:  HistoryError if the data is something else."""
    try:
        return _TURN.decode(data)
    except msgspec.DecodeError as error:
        raise HistoryError(f"turn: {error}") from None


def encode_facts(facts: Sequence[Fact]) -> bytes:
    """A JSON array of the facts, in order. Cost: 0.3 us and 300 bytes for each."""
    return _ENCODER.encode([(type(fact).__name__, fact) for fact in facts])


def decode_facts(data: bytes) -> list[Fact]:
    """The facts in an array that ``encode_facts`` made.

    Raises:
        HistoryError: the data is not such an array, or names a fact that does not exist.
    """
    name = ""
    facts: list[Fact] = []
    try:
        for name, fields in _ENTRIES.decode(data):
            facts.append(_FACTS.decode(name, fields))
    except UnknownClassError as unknown:
        raise HistoryError(f"fact {len(facts)}: {unknown}") from None
    except msgspec.DecodeError as error:
        raise HistoryError(f"fact {len(facts)} {name}: {error}") from None
    return facts
