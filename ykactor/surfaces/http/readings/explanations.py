"""Explanations of what a name means: an ask, an application, a queue or a node (AP-153, AP-156)."""

from __future__ import annotations

from ykactor.access.explanations import explanation, meanings
from ykactor.core.inspection.finding import Kind, Match, several
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest.codec import encode_part
from ykactor.wire.si import messages as si


def named(look: Look, name: str, kind: Kind) -> Steps[list[Match]]:
    """All that a name means."""
    return meanings(name, kind, look.view, look.core, look.state)


def one(look: Look, name: str, kind: Kind, key: str) -> Steps[bytes | None]:
    """The explanation of a name, of an application also of one of its asks, encoded; None if there is nothing of this name."""
    found = yield from meanings(name, kind, look.view, look.core, look.state)
    if len(found) > 1:
        return encode_part(si.Explanation(status=several(name, found)))
    if not found:
        return None
    told = yield from explanation(found[0]._replace(key=key or found[0].key), look.view, look.core, look.state, look.now_ns)
    return None if told is None else encode_part(told)
