"""When a running partition is made anew from its own rows: often enough that most of the history can be replayed (DU-15).

Replay starts at a base, and a partition that goes on from a base must itself have been made from it. Retention deletes bases with
the history, so a partition that runs for long needs a new one now and then.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.values.times import NEVER

#: At least so many times the size of the base is recorded before the next one: the bases are a small part of the history.
BASES_APART = 20
#: A base is used for at most this part of the time for which history is kept.
AGE_PART = 4
#: With this times the bounds a partition does not wait for a quiet moment any more.
LATEST = 2


class History(Struct):
    """The history of all partitions.

    Attributes:
        keep_bytes, keep_ns: how much of it is kept, compressed, and for how long.
        written: the bytes of turns that were recorded so far, not compressed.
    """

    keep_bytes: int = NEVER
    keep_ns: int = NEVER
    written: int = 0


class Renewal:
    """When one partition is due to be made anew.

    Attributes:
        has_failed: it cannot be made anew, because of a bug.
    """

    def __init__(self, history: History) -> None:
        self.has_failed = False
        self._history = history
        #: Of the newest base: when it was recorded, what was written before it, and what may be written until the next one.
        self._since_ns = self._since_byte = self._bytes_max = 0
        #: Whether turns since then had facts; of others there is nothing to replay.
        self._has_facts = False

    def note(self, now_ns: int, base: bytes | None, *, has_facts: bool) -> None:
        """A turn was recorded, with the base before it if there is one."""
        if base is not None:
            self._since_ns, self._since_byte, self._has_facts = now_ns, self._history.written, False
            self._bytes_max = max(self._history.keep_bytes, BASES_APART * len(base))
        self._has_facts |= has_facts

    def is_due(self, now_ns: int, *, is_quiet: bool) -> bool:
        """Whether the partition is to be made anew now, because nothing else is to be done, or before the input that follows."""
        if self.has_failed or (is_quiet and not self._has_facts):
            return False
        times = 1 if is_quiet else LATEST
        return (
            self._history.written - self._since_byte > times * self._bytes_max
            or now_ns - self._since_ns > times * self._history.keep_ns // AGE_PART
        )
