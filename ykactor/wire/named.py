"""Objects of several classes as JSON: ``["Allocated", {"at_ns": 0, ...}]``, the name of the class and the fields."""

from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

S = TypeVar("S", bound=Struct)

#: The name of a class, and the fields as JSON.
Named = tuple[str, Raw]


class UnknownClassError(Exception):
    """A name is that of no class that this version knows."""


class NamedDecoder(Generic[S]):
    """Makes objects of these classes again."""

    def __init__(self, *kinds: type[S]) -> None:
        self._decoders = {kind.__name__: msgspec.json.Decoder(kind) for kind in kinds}

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
