"""The headers of requests and answers as ASGI has them: bytes, and names in lower case."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from starlette.requests import Request

Headers = Sequence[tuple[bytes, bytes]]


def value_of(request: Request, name: bytes) -> str | None:
    """The first header of a name; None if there is none."""
    for found, value in request.scope["headers"]:
        if found == name:
            return str(value, "latin-1")
    return None


def accepts_gzip(request: Request) -> bool:
    """True if ``Accept-Encoding`` lists ``gzip``, and not with the weight 0."""
    return _lists_gzip(b",".join([value for name, value in request.scope["headers"] if name == b"accept-encoding"]))


@lru_cache(maxsize=16)
def _lists_gzip(encodings: bytes) -> bool:
    for item in encodings.lower().split(b","):
        name, *parameters = (part.strip() for part in item.split(b";"))
        if name == b"gzip":
            return not any(_is_zero(parameter) for parameter in parameters)
    return False


def _is_zero(parameter: bytes) -> bool:
    name, _, value = parameter.partition(b"=")
    return name.strip() == b"q" and value.strip().strip(b"0") in (b"", b".")


@lru_cache(maxsize=100)
def encoded(*headers: tuple[str, str]) -> Headers:
    """Headers of an answer; most answers have those of others."""
    return tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers)
