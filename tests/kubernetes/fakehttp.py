"""HTTP of the fake API server: requests, answers and streams of events."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import h11

Body = dict[str, Any]
#: A verb, a group, a resource such as ``pods/binding``, and a namespace.
Access = tuple[str, str, str, str]
#: ``/api/v1/namespaces/team/pods/w/binding`` or a beginning of it, or anything else without parts.
PATH = re.compile(r"/(?:api|apis/([^/]+))(?:/([^/]+))?(?:/namespaces/([^/]+)(?=/))?(?:/([^/]+))?(?:/([^/]+))?(?:/([^/]+))?|.*()")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Refused(Exception):
    """An answer that is an error; with ``text`` a plain one, without a Status."""

    def __init__(self, status: int, reason: str, message: str, text: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": status}
        self.answer = text or self.body


class Request(NamedTuple):
    """A request; the parts that its path does not have are empty."""

    method: str
    query: dict[str, str]
    headers: dict[str, str]
    content: bytes
    group: str
    version: str
    namespace: str
    resource: str
    name: str
    subresource: str

    @property
    def user(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def access(self) -> Access:
        verb = _VERBS.get(self.method) or ("watch" if "watch" in self.query else "get" if self.name else "list")
        return verb, self.group, f"{self.resource}/{self.subresource}".rstrip("/"), self.namespace


class Wire:
    """The connection of a client."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER)

    async def receive(self) -> Request | None:
        """The next request; None at the end of the connection."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        events: list[Any] = []
        while not isinstance(event := self._http.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._stream.receive_some(65536))
            else:
                events.append(event)
        if not events:
            return None
        head, content = events[0], b"".join(each.data for each in events[1:])
        url = urlsplit(head.target.decode())
        headers = {name.decode(): value.decode() for name, value in head.headers}
        parts = PATH.fullmatch(url.path).groups("")[:6]  # type: ignore[union-attr]
        return Request(head.method.decode(), dict(parse_qsl(url.query)), headers, content, *parts)

    async def send(self, status: int, answer: Body | str) -> None:
        kind = "text/plain" if isinstance(answer, str) else "application/json"
        body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        later = [("retry-after", "1")] if status in (429, 504) else []
        headers = [("content-type", kind), ("content-length", str(len(body))), *later]
        await self.put(h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage())

    async def put(self, *events: Any) -> None:
        await self._stream.send_all(b"".join(self._http.send(each) or b"" for each in events))
