"""The registered resource manager: whether it has a session, and since when."""

from __future__ import annotations

from msgspec import UNSET, to_builtins

from ykactor.surfaces.cli.cells import NOT_SHOWN
from ykactor.surfaces.cli.follow import time_text
from ykactor.surfaces.cli.views.listing import Column, Row
from ykactor.wire.si import messages as si


def row_of(answer: si.Snapshot | si.Health) -> Row:
    """``resourceManager``: null if none is registered; {} if it is not shown."""
    return {} if answer.resource_manager is UNSET else {"resourceManager": to_builtins(answer.resource_manager)}


def text_of(row: Row) -> str:
    """``rm-1, away since 2026-07-31T09:30:00.000Z``, from a row that may have a ``resourceManager``."""
    if "resourceManager" not in row:
        return NOT_SHOWN
    known: Row | None = row["resourceManager"]
    if known is None:
        return "none is registered"
    return f"{known['rmID']}, {'connected' if known['connected'] else 'away'} since {time_text(known['since'])}"


def absence_of(answer: si.Snapshot) -> str:
    """``Resource manager rm-1, away since 2026-07-31T09:30:00.000Z``; "" if it is there, or is not shown."""
    row = row_of(answer)
    return f"Resource manager {text_of(row)}" if _is_away(row.get("resourceManager")) else ""


def column(header: str) -> Column:
    """Red if it is away."""
    return Column(header, text_of, colour=lambda row: "red" if _is_away(row.get("resourceManager")) else None)


def _is_away(known: Row | None) -> bool:
    return known is not None and not known["connected"]
