"""Queues and applications that an operator holds: they get nothing new (OP-1, OP-2)."""

from __future__ import annotations

from ykactor.surfaces.cli.follow import time_text
from ykactor.surfaces.cli.views.listing import Row

#: Beside the state of what is held, as ``Ready,SchedulingDisabled`` of kubectl.
HELD = "Held"


def is_held(row: Row) -> bool:
    """True if a queue or an application is held, itself or with a queue above it."""
    return "held" in row or "heldWith" in row


def held_by(hold: Row) -> str:
    """``ops since 2026-07-31T09:30:00.000Z``."""
    return f"{hold['by']} since {time_text(hold['since'])}"


def state_text(row: Row) -> str:
    """``Active``, or ``Active,Held``; of an application that has ended, how."""
    return ",".join(states_of(row))


def states_of(row: Row) -> list[str]:
    """All that a row is: its state, or the outcome that its resource manager has told, and whether it is held."""
    state: str = row.get("outcome") or row["state"]
    return [state, HELD] if row.get("isHeld") else [state]
