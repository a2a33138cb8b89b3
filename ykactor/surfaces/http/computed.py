"""Answers that a child of the daemon computes on copies of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from ykactor.surfaces.copies.computing import Computing, NotComputedError
from ykactor.surfaces.net.requests import RETRY, RefusedError


@contextmanager
def computing(request: Request) -> Iterator[Computing]:
    """Within the block an answer may be computed; 503 if it is not."""
    try:
        found: Computing = request.state.connection.admission.computing
        yield found
    except NotComputedError as error:
        is_busy = error.code == "BUSY"
        raise RefusedError(503, f"BUSY: {error}" if is_busy else str(error), RETRY if is_busy else {}) from None
