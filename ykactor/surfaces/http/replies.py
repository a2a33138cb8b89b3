"""How answers and refusals are sent: headers, compression, and what Apache YuniKorn says where there is no route."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from ykactor.surfaces.http.pages import GZIP_BYTES_MIN, Page
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode

JSON = "application/json; charset=UTF-8"
_ALLOWED_HEADERS = "X-Requested-With,Content-Type,Accept,Origin"


class RefusedError(Exception):
    """A request that is refused, with the body of such an answer.

    Attributes:
        status: of HTTP.
        headers: further ones.
    """

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}

    def page(self) -> Page:
        """What is sent."""
        return error_page(self.status, str(self))


def error_page(status: int, message: str) -> Page:
    """The answer to a request that is refused."""
    return Page(status, encode(types.Error(status_code=status, message=message, description=message)))


async def reply(request: Request, page: Page, media_type: str = JSON, headers: dict[str, str] | None = None) -> Response:
    """A page as an answer, compressed if the client takes it so."""
    shown = {"Content-Type": media_type, **cors(request), **(headers or {})}
    body = page.body
    if len(body) >= GZIP_BYTES_MIN:
        shown["Vary"] = "Accept-Encoding"
        if accepts_gzip(request.headers):
            body = await page.zipped()
            shown["Content-Encoding"] = "gzip"
    return Response(body, page.status, shown)


def accepts_gzip(headers: Headers) -> bool:
    """Whether ``Accept-Encoding`` lists ``gzip``, and not with the weight 0."""
    for item in ",".join(headers.getlist("accept-encoding")).split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        if name == "gzip":
            return not any(_is_zero(parameter) for parameter in parameters)
    return False


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().strip("0") in ("", ".")


def cors(request: Request, methods: str = "GET, OPTIONS") -> dict[str, str]:
    """Pages of every host may read the answer: their browser shows no proof of its own accord."""
    return {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": f"{_ALLOWED_HEADERS},Authorization",
    }
