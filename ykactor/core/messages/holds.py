"""A hold: an operator lets an application, or a queue with all below it, take nothing new (OP-1)."""

from msgspec import Struct


class Hold(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The name of who holds, and since when: Unix time in nanoseconds."""

    by: str
    since_ns: int
