"""Limits of what one identity may hold in a partition. They are a part of the input, so a replayed turn decides the same."""

from __future__ import annotations

from msgspec import Struct

#: Resource types of one entry, of a configuration, and beside these of a partition: queues and nodes multiply them.
TYPES_MAX = 256


class HeldLimits(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The limits of what the sender of input may hold in a partition at the same time (SE-48).

    Attributes:
        identity: its name.
        asks: asks and allocations, foreign ones too.
        queues: those that placement creates.
        resource_types: those that objects name, without those of the configuration; None: any number, as in older journals.
    """

    identity: str
    applications: int
    asks: int
    nodes: int
    queues: int
    resource_types: int | None = None


def exceeded(limit: str, value: int, identity: str, found: str) -> str:
    """A sentence about a limit that is exceeded."""
    return f"limit {limit} = {value} of identity {identity}: {found}"
