"""A fake API server over real sockets: what the adapter uses of a real one, and the faults that a real one has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import h11
import trio
from fakestore import Body, Refused, Store

#: By path prefix, whether its objects have namespaces.
_GROUPS = (
    "/api/v1",
    "/apis/policy/v1",
    "/apis/scheduling.k8s.io/v1",
    "/apis/scheduling.k8s.io/v1alpha2",
    "/apis/events.k8s.io/v1",
    "/apis/coordination.k8s.io/v1",
)
_KINDS = {"pods": "Pod", "nodes": "Node", "namespaces": "Namespace", "configmaps": "ConfigMap"}
BOOKMARK_S = 1.0


class Target(NamedTuple):
    """What a path means."""

    resource: str
    namespace: str
    name: str
    subresource: str


class FakeServer:
    """Attributes:
    store: its objects.
    users: by token; ``allowed`` is asked with (verb, resource, subresource).
    faults: called with each request before it is carried out; may wait, or raise ``Refused`` or ``Cut``.
    requests: (method, path, user) of each.
    denied: what was refused with 403.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or Store()
        self.users: dict[str, Callable[[str, str, str], bool]] = {"admin": lambda *_: True, "yk": lambda *_: True}
        self.faults: Callable[[str, Target, dict[str, str]], Any] | None = None
        self.requests: list[tuple[str, str, str]] = []
        self.denied: list[str] = []
        self.url = ""
        self._grown = trio.Event()
        self._watching = trio.CancelScope()
        self._watch_scopes: set[trio.CancelScope] = set()

    @asynccontextmanager
    async def running(self, port: int = 0, ssl_context: Any = None) -> AsyncIterator[FakeServer]:
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
            number = listeners[0].socket.getsockname()[1]
            if ssl_context is not None:
                listeners = [trio.SSLListener(each, ssl_context) for each in listeners]
            self.url = f"{'https' if ssl_context else 'http'}://127.0.0.1:{number}"
            nursery.start_soon(trio.serve_listeners, self._serve, listeners)
            try:
                yield self
            finally:
                nursery.cancel_scope.cancel()

    def changed(self) -> None:
        """The store was changed from outside."""
        event, self._grown = self._grown, trio.Event()
        event.set()

    def cut_watches(self) -> None:
        """End all watches without a last chunk."""
        for scope in list(self._watch_scopes):
            scope.cancel()

    # ---- connections

    async def _serve(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER)
        try:
            async with stream:
                while True:
                    request, body = await _receive(stream, connection)
                    if request is None:
                        return
                    await self._answer(stream, connection, request, body)
                    if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                        return
                    connection.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError, OSError):
            return

    async def _answer(self, stream: Any, connection: h11.Connection, request: h11.Request, body: bytes) -> None:
        parts = urlsplit(request.target.decode())
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        headers = {name.decode().lower(): value.decode() for name, value in request.headers}
        method = request.method.decode()
        try:
            target = _target(parts.path)
            self._admit(method, target, query, headers, parts.path)
            if self.faults is not None:
                await self.faults(method, target, query)
            if method == "GET" and query.get("watch"):
                await self._watch(stream, connection, target, query)
                return
            status, answer = self._carry_out(method, target, query, json.loads(body) if body else {}, headers)
        except Refused as refused:
            status, answer = refused.status, refused.body
        except ValueError as error:
            status, answer = 400, Refused(400, "BadRequest", str(error)).body
        await _send(stream, connection, status, json.dumps(answer).encode())

    def _admit(self, method: str, target: Target, query: dict[str, str], headers: dict[str, str], path: str) -> None:
        token = headers.get("authorization", "").removeprefix("Bearer ")
        self.requests.append((method, path, token))
        if token not in self.users:
            raise Refused(401, "Unauthorized", "Unauthorized")
        verb = _verb(method, target, query)
        if not self.users[token](verb, target.resource, target.subresource):
            self.denied.append(f"{verb} {target.resource}/{target.subresource}".rstrip("/"))
            text = f'{target.resource} is forbidden: User "{token}" cannot {verb} resource "{target.resource}"'
            raise Refused(403, "Forbidden", text)

    def _carry_out(
        self, method: str, target: Target, query: dict[str, str], body: Body, headers: dict[str, str]
    ) -> tuple[int, Body]:
        store, (resource, namespace, name, subresource) = self.store, target
        version = store.version
        try:
            if method == "GET":
                return 200, store.get(resource, namespace, name) if name else self._page(resource, namespace, query)
            if method == "POST" and subresource == "binding":
                store.bind(namespace, name, body)
                return 201, {"kind": "Status", "status": "Success", "code": 201}
            if method == "POST":
                return 201, store.create(resource, namespace, body)
            if method == "PUT" and name not in {key[1] for key in store.objects.get(resource, {})}:
                return 201, store.create(resource, namespace, body)
            found = store.get(resource, namespace, name)
            if method == "PUT":
                return 200, store.replace(resource, found, body)
            if method == "PATCH":
                strategic = "strategic" in headers.get("content-type", "")
                return 200, store.patch(resource, found, body, strategic=strategic)
            return 200, store.delete(resource, found, body)
        finally:
            if store.version != version:
                self.changed()

    def _page(self, resource: str, namespace: str, query: dict[str, str]) -> Body:
        version, start = self.store.version, 0
        if "continue" in query:
            version, start = (int(part) for part in query["continue"].split("-"))
            if version < self.store.compacted:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
        items = self.store.all(resource, namespace)
        limit = int(query.get("limit", "0")) or len(items)
        rest = len(items) - start - limit
        meta = {"resourceVersion": str(version), **({"continue": f"{version}-{start + limit}"} if rest > 0 else {})}
        return {"kind": f"{_KINDS.get(resource, 'Object')}List", "metadata": meta, "items": items[start : start + limit]}

    # ---- watches

    async def _watch(self, stream: Any, connection: h11.Connection, target: Target, query: dict[str, str]) -> None:
        seconds = float(query.get("timeoutSeconds", "300"))
        await stream.send_all(connection.send(h11.Response(status_code=200, headers=_STREAM)))
        with trio.move_on_after(seconds) as scope:
            self._watch_scopes.add(scope)
            try:
                await self._events(stream, connection, target, int(query["resourceVersion"]), "allowWatchBookmarks" in query)
            finally:
                self._watch_scopes.discard(scope)
        if trio.current_time() < scope.deadline:  # cut
            await stream.aclose()
            return
        await stream.send_all(connection.send(h11.EndOfMessage()))

    async def _events(self, stream: Any, connection: h11.Connection, target: Target, version: int, bookmarks: bool) -> None:
        while True:
            grown = self._grown
            try:
                changes = self.store.since(version)
            except Refused as refused:
                await _event(stream, connection, "ERROR", refused.body)
                return
            for change in changes:
                version = change.version
                meta = change.object["metadata"]
                if change.resource == target.resource and target.namespace in ("", meta.get("namespace", "")):
                    await _event(stream, connection, change.type, change.object)
            if changes and bookmarks:
                await _event(stream, connection, "BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
            await grown.wait()


_STREAM = [("content-type", "application/json"), ("transfer-encoding", "chunked")]


async def _event(stream: Any, connection: h11.Connection, kind: str, found: Body) -> None:
    line = json.dumps({"type": kind, "object": found}).encode() + b"\n"
    await stream.send_all(connection.send(h11.Data(data=line)))


async def _receive(stream: Any, connection: h11.Connection) -> tuple[h11.Request | None, bytes]:
    request, body = None, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(65536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return request, body
        else:
            return None, b""


async def _send(stream: Any, connection: h11.Connection, status: int, body: bytes) -> None:
    headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
    if status == 429:
        headers.append(("retry-after", "1"))
    data = connection.send(h11.Response(status_code=status, headers=headers))
    data += connection.send(h11.Data(data=body)) + connection.send(h11.EndOfMessage())
    await stream.send_all(data)


def _target(path: str) -> Target:
    """``/api/v1/namespaces/team/pods/w/binding``."""
    group = next((each for each in sorted(_GROUPS, key=len, reverse=True) if path.startswith(f"{each}/")), None)
    if group is None:
        raise Refused(404, "NotFound", "404 page not found")
    words = path.removeprefix(f"{group}/").split("/")
    if words[0] == "namespaces" and len(words) > 2:
        namespace, resource, *rest = words[1:]
    else:
        namespace, (resource, *rest) = "", words
    return Target(resource, namespace, *[*rest, "", ""][:2])


def _verb(method: str, target: Target, query: dict[str, str]) -> str:
    if method == "GET":
        return "watch" if query.get("watch") else "get" if target.name else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
