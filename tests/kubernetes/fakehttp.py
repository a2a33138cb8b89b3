"""HTTP of the fake API server: requests, answers and streams of events."""

import json
import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h11

Body = dict[str, Any]
#: A verb, a group, a resource such as ``pods/binding``, and a namespace.
Access = tuple[str, str, str, str]
#: ``/api/v1/namespaces/team/pods/w/binding`` or a beginning of it, or anything else without parts.
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))(?:/(?P<version>[^/]+))?(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"(?:/(?P<resource>[^/]+))?(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?|.*"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Refused(Exception):
    """An answer that is an error; with ``text`` a plain one, without a Status."""

    def __init__(self, status: int, reason: str, message: str, text: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": status}
        self.answer = text or self.body


class Request(SimpleNamespace):
    """A request. The parts of its path are attributes too; those that it does not have are empty.

    Attributes:
        type: the group, the version and the resource.
        user: the token of the user.
        access: the permission that the user needs.
    """

    def __init__(self, method: str, target: str, headers: dict[str, str], content: bytes) -> None:
        url = urlsplit(target)
        super().__init__(**_PATH.fullmatch(url.path).groupdict(""))
        self.method, self.query, self.headers, self.content = method, dict(parse_qsl(url.query)), headers, content
        self.type = self.group, self.version, self.resource
        self.user = headers.get("authorization", "").removeprefix("Bearer ")
        verb = _VERBS.get(method) or ("watch" if "watch" in self.query else "get" if self.name else "list")
        self.access: Access = verb, self.group, f"{self.resource}/{self.subresource}".rstrip("/"), self.namespace

    def selects(self, found: Body) -> bool:
        """True if the object has the label and the name of the selectors ``name=value``."""
        meta, (label, _, value) = found["metadata"], self.query.get("labelSelector", "").partition("=")
        name = self.query.get("fieldSelector", "").removeprefix("metadata.name=")
        return name in ("", meta["name"]) and meta.get("labels", {}).get(label, "") == value


class Wire:
    """The connection of a client."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER)

    async def receive(self) -> Request | None:
        """The next request; None at the end of the connection."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        if not isinstance(head := await self._next(), h11.Request):
            return None
        content = b""
        while isinstance(part := await self._next(), h11.Data):
            content += part.data
        headers = {name.decode(): value.decode() for name, value in head.headers}
        return Request(head.method.decode(), head.target.decode(), headers, content)

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._stream.receive_some(65536))
        return event

    async def send(self, status: int, answer: Body | str) -> None:
        is_text = isinstance(answer, str)
        body = answer.encode() if is_text else json.dumps(answer).encode()
        headers = [("content-type", "text/plain" if is_text else "application/json"), ("content-length", str(len(body)))]
        headers += [("retry-after", "1")] if status in (429, 504) else []
        await self.put(h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage())

    async def put(self, *events: Any) -> None:
        await self._stream.send_all(b"".join(self._http.send(each) or b"" for each in events))
