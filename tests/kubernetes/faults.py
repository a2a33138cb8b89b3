"""Faults of an API server."""

from fakehttp import Refused, Request


async def starting(request: Request) -> None:
    """A server that has just started refuses all whom it knows, because it has not loaded their roles."""
    raise Refused(403, "Forbidden", f'User "{request.user}" cannot {request.access[0]} resource "{request.resource}"')
