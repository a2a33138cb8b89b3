"""Requests to the API server: JSON in, JSON out, and streams of watch events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
import msgspec
import trio

from ykactor.kubernetes.credentials import Credentials
from ykactor.kubernetes.model import Status

#: Connections at the same time; watches have their own.
CONNECTIONS_MAX = 32
TIMEOUT_S = 15.0
#: The longest line of a watch, in bytes.
LINE_MAX = 8 << 20
#: A server that answers 429 says when to come back; not later than this.
RETRY_AFTER_MAX_S = 60.0

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON = "application/json"
T = TypeVar("T")
#: What decoding raises for an answer that cannot be read.
WRONG = (msgspec.DecodeError, UnicodeError, RecursionError)


class ReadError(ValueError):
    """An answer cannot be read."""


def read(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """JSON as this type.

    Raises:
        ReadError
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except WRONG as error:
        raise ReadError(str(error)) from None


class ApiError(Exception):
    """The server has answered with an error, or not at all.

    Attributes:
        status: of HTTP; 0 if there was no answer.
        reason: in one word for programs, such as ``Conflict``.
        message: for people.
        retry_after_s: how long the server asks to wait.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else f"no answer ({reason}): {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def is_unknown(self) -> bool:
        """True if the request may have had its effect all the same."""
        return self.status == 0 or self.status >= 500

    @property
    def may_pass(self) -> bool:
        """True if the same request may succeed later: the server is away, starting, or has too much to do."""
        return self.status in (0, 401, 403, 429) or self.status >= 500


class Api:
    """The API server. Several tasks may use it at the same time."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._requests = _client(credentials, CONNECTIONS_MAX, TIMEOUT_S)
        self._watches = _client(credentials, None, None)

    @classmethod
    @asynccontextmanager
    async def open(cls, credentials: Credentials) -> AsyncIterator[Api]:
        """Close its connections at the end of the block."""
        api = cls(credentials)
        try:
            yield api
        finally:
            await api._requests.aclose()
            await api._watches.aclose()

    async def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> bytes:
        """Send a request with a JSON body, and return the body of the answer.

        Raises:
            ApiError
        """
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer = await self._requests.request(method, path, content=content, headers=self._headers(content_type))
        except (httpx2.HTTPError, OSError) as error:
            raise _no_answer(error) from None
        if answer.status_code >= 400:
            raise _error(answer.status_code, answer.headers, answer.content)
        return answer.content

    async def read(self, path: str, kind: type[T], method: str = "GET", body: Any = None) -> T:
        """Send a request, and return its answer as this type.

        Raises:
            ApiError: also for an answer that cannot be read, which may come from something between here and the server.
        """
        try:
            return read(await self.request(method, path, body), kind)
        except ReadError as error:
            raise ApiError(0, "Unreadable", str(error)) from None

    @asynccontextmanager
    async def watch(self, path: str, silence_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Watch: yields the lines of the stream, which ends as the server ends it.

        Args:
            silence_s: nothing has come for so long: the connection is lost.

        Raises:
            ApiError: also from the iterator, if the stream is cut.
        """
        timeout = httpx2.Timeout(TIMEOUT_S, read=silence_s)
        try:
            async with self._watches.stream("GET", path, headers=self._headers(JSON), timeout=timeout) as answer:
                if answer.status_code >= 400:
                    raise _error(answer.status_code, answer.headers, await answer.aread())
                lines = _lines(answer)
                try:
                    yield lines
                finally:
                    await _end(lines)
        except (httpx2.HTTPError, OSError) as error:
            raise _no_answer(error) from None

    def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"content-type": content_type, "accept": JSON}
        token = self._credentials.token()
        return {**headers, "authorization": f"Bearer {token}"} if token else headers


def _client(credentials: Credentials, connections: int | None, timeout_s: float | None) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=60.0)
    return httpx2.AsyncClient(
        base_url=credentials.url, verify=credentials.tls, limits=limits, timeout=httpx2.Timeout(timeout_s), trust_env=False
    )


async def _end(lines: AsyncIterator[bytes]) -> None:
    """End a stream that is left in the middle, with the generators inside the client library, which nobody can close."""
    with trio.CancelScope() as scope:
        scope.cancel()
        async for _ in lines:
            pass


async def _lines(answer: httpx2.Response) -> AsyncIterator[bytes]:
    """Raises ApiError for a line that does not end."""
    rest = bytearray()
    async for piece in answer.aiter_bytes():
        rest += piece
        *lines, last = rest.split(b"\n")
        if not lines and len(rest) > LINE_MAX:
            raise ApiError(0, "TooLarge", f"found an event of more than {LINE_MAX} bytes")
        for line in lines:
            if line:
                yield bytes(line)
        rest = last


def _no_answer(error: Exception) -> ApiError:
    return ApiError(0, type(error).__name__, str(error) or "no answer")


def _error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error that an answer tells; its body may be plain text."""
    try:
        found = read(body, Status)
    except ReadError:
        found = Status(message=body[:500].decode(errors="replace").strip())
    seconds = headers.get("retry-after", "")
    wait_s = float(seconds) if seconds.isascii() and seconds.isdigit() else 0.0
    return ApiError(status, found.reason, found.message, min(wait_s, RETRY_AFTER_MAX_S))
