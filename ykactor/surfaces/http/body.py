"""The bodies of requests, within limits of size and time."""

from __future__ import annotations

from contextlib import aclosing

import trio
from starlette.requests import ClientDisconnect, Request

from ykactor.surfaces.net.requests import RefusedError

#: A body must arrive within this time.
BODY_S = 10


async def body_of(request: Request, bytes_max: int) -> bytes:
    """The body of a request. One that is announced to be too large is not asked for.

    Raises:
        RefusedError: it is too large, late, or cut off.
    """
    too_large = RefusedError(413, f"found a body of more than {bytes_max} bytes", {"Connection": "close"})
    if int(request.headers.get("content-length", "0")) > bytes_max:
        raise too_large
    body = bytearray()
    with trio.move_on_after(BODY_S) as receiving:
        try:
            async with aclosing(request.stream()) as parts:
                async for part in parts:
                    body += part
                    if len(body) > bytes_max:
                        raise too_large
        except ClientDisconnect:
            raise RefusedError(400, "found a body without its end") from None
    if receiving.cancelled_caught:
        raise RefusedError(408, f"found no whole body within {BODY_S} s", {"Connection": "close"})
    return bytes(body)
