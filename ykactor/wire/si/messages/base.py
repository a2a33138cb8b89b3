"""The base of all structs of the SI: their names on the wire, and the limits of numbers."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from ykactor.core.values.resources import QUANTITY_MAX, QUANTITY_MIN

#: Words that the SI writes in capitals, except at the start of a name.
_ACRONYMS = {"id": "ID"}

#: Every integer of a request has limits: JSON has none, and what is kept of a request must fit in msgpack.
Int64 = Annotated[int, Meta(ge=QUANTITY_MIN, le=QUANTITY_MAX)]
#: A time or a size.
NotNegative = Annotated[int, Meta(ge=0, le=QUANTITY_MAX)]
#: On the wire a quantity is a 64-bit integer in base units, or text as in the queue configuration ("2Gi").
Quantity = Int64 | str
WireResource = Mapping[str, Quantity]

#: Any int32 (PR-1).
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


def _si_name(name: str) -> str:
    """``application_id`` -> ``applicationID``, ``node_id`` -> ``nodeID``, ``rm_id`` -> ``rmID``."""
    head, *tail = name.split("_")
    return head + "".join(_ACRONYMS.get(word, word.capitalize()) for word in tail)


class Part(Struct, rename=_si_name, omit_defaults=True, frozen=True, gc=False, kw_only=True):
    """A struct inside a message."""


class RequestPart(Part, frozen=True, forbid_unknown_fields=True):
    """A struct inside a request; some occur in responses too."""


class Message(Struct, rename=_si_name, omit_defaults=True, frozen=True, kw_only=True, tag_field="type", tag=str):
    """A whole message; the field ``type`` holds the name of its class."""
