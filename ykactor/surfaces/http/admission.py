"""The callers of requests that were let in, and what of the state they may see (SE-88)."""

from __future__ import annotations

from starlette.requests import Request

from ykactor.access.view import View, view_of
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.net.requests import RefusedError


def caller_of(request: Request) -> Caller:
    """The caller of a request that was let in."""
    caller: Caller = request.scope["caller"]
    return caller


def view_for(request: Request) -> View | None:
    """The part of the state that the caller may see; None: everything."""
    return view_of(caller_of(request).identity)


def check_sees_all(request: Request) -> None:
    """Refuse a reader that is limited to partitions or queues: the answer is about all of them (SE-88)."""
    if view_for(request) is not None:
        raise RefusedError(403, "only readers that are limited neither to partitions nor to queues may read this")


def check_sees_nodes(request: Request) -> None:
    """Refuse a reader that is limited to queues: the answer is in no queue (SE-88)."""
    view = view_for(request)
    if view is not None and view.queues is not None:
        raise RefusedError(403, "readers that are limited to queues may not read this")
