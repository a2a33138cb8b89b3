"""Explanations of what a name means: an ask, an application, a queue or a node (AP-153, AP-156)."""

from __future__ import annotations

from ykactor.access.explanations import explanation, meanings
from ykactor.core.inspection.finding import Kind, Match
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest.codec import encode_part


def named(look: Look, name: str, kind: Kind) -> Steps[list[Match]]:
    """All that a name means."""
    return meanings(name, kind, look.view, look.core, look.state)


def one(look: Look, match: Match) -> Steps[bytes | None]:
    """The explanation of what a name means, encoded; None if that has gone meanwhile, or an application has no such task."""
    told = yield from explanation(match, look.view, look.core, look.state, look.now_ns)
    return None if told is None else encode_part(told)
