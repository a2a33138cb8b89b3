"""Runs the turn of a post-mortem again, in a plain loop."""

from __future__ import annotations

from pathlib import Path

from ykactor.core.messages.submissions import ApplyConfig
from ykactor.core.records.base import made_from
from ykactor.core.turn.causes import Cause, Input
from ykactor.core.turn.cores import Cores, without_anything
from ykactor.core.values.parts import finished
from ykactor.sim.direct import run_turn
from ykactor.wire.causes import decode_cause
from ykactor.wire.post_mortem import PostMortem, UnreadablePostMortemError, decode_post_mortem


def reproduce(path: Path) -> Exception | None:
    """Make the partition of a post-mortem from its rows, and run the turn that failed.

    Returns:
        the exception that the turn raises; None if it raises none.

    Raises:
        OSError: the file cannot be read.
        UnreadablePostMortemError: it is damaged, of a later version, or has no turn.
        UnreadableCauseError, UnreadableRowError, DamagedStateError: what it holds is damaged, or of another version.
    """
    found = decode_post_mortem(path.read_bytes())
    if found.now_ns is None:
        raise UnreadablePostMortemError("found a failure between two turns, expected one in a turn")
    cause = decode_cause(bytes(found.cause))
    partition, scheduler = _partition(found, cause)
    try:
        run_turn(partition, scheduler, found.now_ns, cause, lambda _: None)
    except Exception as failure:
        return failure
    return None


def _partition(found: PostMortem, cause: Cause) -> Cores:
    """The partition before the turn; one that failed in its first turn has no rows yet."""
    if found.rows:
        rows = ((bytes(key), bytes(row)) for key, row in found.rows)
        return finished(made_from(rows, reserves=found.reserves))[:2]
    match cause:
        case Input(submissions=[ApplyConfig(config), *_]):
            return without_anything(config, reserves=found.reserves)
    raise UnreadablePostMortemError("found no rows, expected the state of the partition")
