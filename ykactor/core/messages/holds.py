"""Holds: an application, or a queue with all below it, gets nothing new until an operator ends the hold (OP-1)."""

from msgspec import Struct


class Hold(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The name of the operator who holds, and since which Unix time in nanoseconds."""

    by: str
    since_ns: int
