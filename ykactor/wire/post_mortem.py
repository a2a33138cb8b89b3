"""The post-mortem of a partition: a JSON file with all that is needed to make the partition fail again.

``{"version": 1, "partition": "default", "at_ns": ..., "consequence": "STOPPED", "reason": "...", "traceback": "...",
"reserves": true, "now_ns": ..., "cause": {...}, "last": [{"number": ..., "now_ns": ..., "cause": {...}}, ...],
"rows": [[key, row], ...]}``: the causes as in ``wire.history``, keys and rows as in ``core.records.rows``.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

VERSION = 1


class EarlierTurn(Struct, frozen=True):
    """A turn before the one that failed: its number, Unix time and cause."""

    number: int
    now_ns: int
    cause: Raw


class PostMortem(Struct, frozen=True, kw_only=True):
    """A failure of a partition.

    Attributes:
        at_ns: the Unix time of the failure.
        consequence: ``RESTARTED``, ``QUARANTINED`` or ``STOPPED``.
        reason: the exception, and the message that is to blame if it is known.
        reserves: whether asks reserve nodes.
        now_ns, cause: the Unix time and the cause of the turn that failed; None and ``null`` if it was not in a turn.
        last: the turns before it, oldest first.
        rows: the state before it.
    """

    version: int = VERSION
    partition: str
    at_ns: int
    consequence: str
    reason: str
    traceback: str
    reserves: bool
    now_ns: int | None
    cause: Raw
    last: list[EarlierTurn]
    rows: list[tuple[Raw, Raw]]


class UnreadablePostMortemError(Exception):
    """The file is damaged, or of a later version."""


def decode_post_mortem(data: bytes) -> PostMortem:
    """The post-mortem in a file.

    Raises:
        UnreadablePostMortemError: the data is something else.
    """
    try:
        found = msgspec.json.decode(data, type=PostMortem)
    except msgspec.DecodeError as error:
        raise UnreadablePostMortemError(f"{error}, expected a post-mortem") from None
    if found.version != VERSION:
        raise UnreadablePostMortemError(f"found version {found.version}, expected {VERSION}")
    return found
