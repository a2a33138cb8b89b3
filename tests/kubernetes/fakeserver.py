"""A fake API server over real sockets: what the adapter uses of a real one, and the faults that a real one has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import h11
import trio
from fakeadmission import KINDS, Body, Refused, invalid
from fakeroles import Access, everything, nothing
from fakestore import Change, Store

#: What there is, by the path of group and version.
_RESOURCES = {
    "/api/v1": (
        *("pods", "bindings", "nodes", "namespaces", "configmaps", "secrets"),
        *("persistentvolumeclaims", "persistentvolumes"),
    ),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/policy/v1beta1": ("poddisruptionbudgets",),
    "/apis/scheduling.k8s.io/v1": ("priorityclasses",),
    "/apis/scheduling.k8s.io/v1beta1": ("priorityclasses",),
    "/apis/scheduling.k8s.io/v1alpha2": ("podgroups", "podgroups/status"),
    "/apis/events.k8s.io/v1": ("events",),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/storage.k8s.io/v1": ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities"),
    "/apis/node.k8s.io/v1": ("runtimeclasses",),
    "/apis/storage.k8s.io/v1alpha1": ("csistoragecapacities",),
    "/apis/authorization.k8s.io/v1": ("selfsubjectaccessreviews",),
}
#: What a server of this version does not have.
_ABSENT = {
    "1.36": {
        "/apis/policy/v1beta1/poddisruptionbudgets",
        "/apis/scheduling.k8s.io/v1beta1/priorityclasses",
        "/apis/storage.k8s.io/v1alpha1/csistoragecapacities",
    },
    "1.20": {
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/scheduling.k8s.io/v1alpha2/podgroups",
        "/apis/scheduling.k8s.io/v1alpha2/podgroups/status",
        "/apis/storage.k8s.io/v1/csistoragecapacities",
    },
}
#: A server waits so long for a version that it has not seen yet.
FUTURE_S = 3.0


class Target(NamedTuple):
    """What a path means."""

    group: str
    resource: str
    namespace: str
    name: str
    subresource: str


class FakeServer:
    """Attributes:
    store: its objects.
    users: roles by token; "" is somebody without a token.
    faults: called with each request before it is carried out; may wait, or raise ``Refused``.
    requests: (method, path, user) of each.
    denied: what was refused with 403.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or Store()
        self.users: dict[str, Callable[[Access], bool]] = {"": nothing, "admin": everything, "yk": everything}
        self.faults: Callable[[str, Target, dict[str, str]], Any] | None = None
        self.requests: list[tuple[str, str, str]] = []
        self.denied: list[Access] = []
        self.url = ""
        self._grown = trio.Event()
        self._watch_scopes: set[trio.CancelScope] = set()
        self._resources = _resources(self.store.kubernetes)

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
            found = self._discover(parts.path)
            if found is not None:
                await _send(stream, connection, 200, found)
                return
            target = self._target(parts.path)
            await self._admit(method, target, query, headers, parts.path)
            if method == "GET" and query.get("watch"):
                await self._watch(stream, connection, target, query)
                return
            status, answer = await self._carry_out(method, target, query, json.loads(body) if body else {}, headers)
        except Refused as refused:
            status, answer = refused.status, refused.text or refused.body
        except ValueError as error:
            status, answer = 400, Refused(400, "BadRequest", str(error)).body
        await _send(stream, connection, status, answer)

    def _discover(self, path: str) -> Body | None:
        """What there is in a group, or in one of its versions."""
        if path in self._resources:
            return {"kind": "APIResourceList", "resources": [{"name": name} for name in self._resources[path]]}
        versions = [each.rpartition("/")[2] for each in self._resources if each.rpartition("/")[0] == path != "/api"]
        return {"kind": "APIGroup", "versions": [{"version": each} for each in versions]} if versions else None

    def _target(self, path: str) -> Target:
        """``/api/v1/namespaces/team/pods/w/binding``."""
        root = next((each for each in self._resources if path.startswith(f"{each}/")), None)
        if root is None:
            is_group = any(path.startswith(each.rpartition("/")[0]) for each in self._resources if each != "/api/v1")
            text = "" if is_group else "404 page not found\n"
            raise Refused(404, "NotFound", "the server could not find the requested resource", text=text)
        group = root.split("/")[2] if root != "/api/v1" else ""
        words = path.removeprefix(f"{root}/").split("/")
        if words[0] == "namespaces" and len(words) > 2:
            namespace, resource, *rest = words[1:]
        else:
            namespace, (resource, *rest) = "", words
        if resource not in self._resources[root] or (rest[1:] == ["resize"] and self.store.kubernetes == "1.20"):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        return Target(group, resource, namespace, *[*rest, "", ""][:2])

    async def _admit(self, method: str, target: Target, query: dict[str, str], headers: dict[str, str], path: str) -> None:
        token = headers.get("authorization", "").removeprefix("Bearer ")
        self.requests.append((method, path, token))
        if token not in self.users:
            raise Refused(401, "Unauthorized", "Unauthorized")
        resource = f"{target.resource}/{target.subresource}".rstrip("/")
        access = Access(_verb(method, target, query), target.group, resource, target.namespace)
        if resource != "selfsubjectaccessreviews" and not self.users[token](access):
            self.denied.append(access)
            text = f'{resource} is forbidden: User "{token}" cannot {access.verb} resource "{resource}"'
            raise Refused(403, "Forbidden", text)
        if self.faults is not None:
            await self.faults(method, target, query)

    async def _carry_out(
        self, method: str, target: Target, query: dict[str, str], body: Body, headers: dict[str, str]
    ) -> tuple[int, Body]:
        if target.resource == "selfsubjectaccessreviews":
            return 201, self._review(body, headers)
        if method == "GET" and not target.name:
            return 200, await self._page(target, query)
        if method == "DELETE" and "gracePeriodSeconds" in query:
            body = {"gracePeriodSeconds": int(query["gracePeriodSeconds"]), **body}
        version = self.store.version
        try:
            return self._write(method, target, body, headers)
        finally:
            if self.store.version != version:
                self.changed()

    def _write(self, method: str, target: Target, body: Body, headers: dict[str, str]) -> tuple[int, Body]:
        store, (_, resource, namespace, name, subresource) = self.store, target
        if method == "POST" and "binding" in (subresource, resource.removesuffix("s")):
            store.bind(namespace, name or body["metadata"]["name"], body, labels=bool(subresource))
            return 201, {"kind": "Status", "status": "Success", "code": 201}
        if method == "POST":
            return 201, store.create(resource, namespace, body)
        if method == "PUT" and (namespace, name) not in store.objects.get(resource, {}):
            return 201, store.create(resource, namespace, body)
        found = store.get(resource, namespace, name)
        if method == "GET":
            return 200, found
        if method == "PUT":
            return 200, store.replace(resource, found, body)
        if method == "PATCH":
            kind = headers.get("content-type", "")
            if "merge-patch" not in kind and "apply-patch" not in kind:
                raise Refused(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {kind}")
            strategic = "/merge-patch" not in kind
            return 200, store.patch(resource, found, body, strategic=strategic, subresource=subresource)
        return 200, store.delete(resource, found, body)

    def _review(self, body: Body, headers: dict[str, str]) -> Body:
        """May the caller do this?"""
        wanted = body["spec"]["resourceAttributes"]
        resource = f"{wanted['resource']}/{wanted.get('subresource', '')}".rstrip("/")
        access = Access(wanted["verb"], wanted.get("group", ""), resource, wanted.get("namespace", ""))
        allowed = self.users[headers.get("authorization", "").removeprefix("Bearer ")](access)
        return {"kind": "SelfSubjectAccessReview", "spec": body["spec"], "status": {"allowed": allowed}}

    async def _page(self, target: Target, query: dict[str, str]) -> Body:
        """A list of the newest version, of an older one, or a further page of what it was when the first page was sent."""
        version, start, limit = self.store.version, 0, int(query.get("limit", "0"))
        match, wanted = query.get("resourceVersionMatch"), int(query.get("resourceVersion", "0"))
        if match and not wanted:
            raise invalid("ListOptions", "", "resourceVersionMatch is forbidden unless resourceVersion is provided")
        if wanted > version:
            await trio.sleep(FUTURE_S)
            raise Refused(504, "Timeout", f"Timeout: Too large resource version: {wanted}, current: {version}")
        if "continue" in query:
            version, start = (int(part) for part in query["continue"].split("-"))
        elif match == "Exact":
            version = wanted
        items = [each for each in self.store.at(target.resource, target.namespace, version) if _selects(query, each)]
        if query.get("resourceVersion") == "0" or not limit:
            limit = len(items)
        rest = len(items) - start - limit
        meta = {"resourceVersion": str(version), **({"continue": f"{version}-{start + limit}"} if rest > 0 else {})}
        kind = KINDS.get(target.resource, "Object")
        return {"kind": f"{kind}List", "metadata": meta, "items": items[start : start + limit]}

    # ---- watches

    async def _watch(self, stream: Any, connection: h11.Connection, target: Target, query: dict[str, str]) -> None:
        seconds = float(query.get("timeoutSeconds", "300"))
        is_old = self.store.kubernetes == "1.20"  # knows no sendInitialEvents
        if is_old and "resourceVersionMatch" in query:
            raise invalid("ListOptions", "", "resourceVersionMatch is forbidden for watch")
        if not is_old and "sendInitialEvents" in query and "resourceVersionMatch" not in query:
            raise invalid("ListOptions", "", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        await stream.send_all(connection.send(h11.Response(status_code=200, headers=_STREAM)))
        with trio.CancelScope() as scope:

            def begin() -> None:
                scope.deadline = trio.current_time() + seconds

            self._watch_scopes.add(scope)
            try:
                await self._events(stream, connection, target, query, begin)
            finally:
                self._watch_scopes.discard(scope)
        if trio.current_time() < scope.deadline:  # cut
            await stream.aclose()
            return
        await stream.send_all(connection.send(h11.EndOfMessage()))

    async def _events(
        self, stream: Any, connection: h11.Connection, target: Target, query: dict[str, str], begin: Callable[[], None] | None
    ) -> None:
        """Send what has changed since a version; without one, all that is there comes first.

        Args:
            begin: called when all that was there is sent: then the time of the watch begins, however slow the machine is.
        """
        version = int(query.get("resourceVersion", "0"))
        if not version:
            version = self.store.version
            for found in self.store.all(target.resource, target.namespace):
                if _selects(query, found):
                    await _event(stream, connection, "ADDED", found)
            if "sendInitialEvents" in query:
                await _event(stream, connection, "BOOKMARK", _bookmark(version, {"k8s.io/initial-events-end": "true"}))
        while True:
            grown = self._grown
            try:
                changes = self.store.since(version)
            except Refused as refused:
                await _event(stream, connection, "ERROR", refused.body)
                return
            ours = [each for each in changes if each.resource == target.resource]
            for change in ours:
                if target.namespace in ("", change.object["metadata"].get("namespace", "")):
                    for kind, found in _seen_as(query, change):
                        await _event(stream, connection, kind, found)
            version = changes[-1].version if changes else version
            if ours and "allowWatchBookmarks" in query:
                await _event(stream, connection, "BOOKMARK", _bookmark(version, {}))
            if begin is not None:
                begin()
                begin = None
            await grown.wait()


def _bookmark(version: int, annotations: dict[str, str]) -> Body:
    return {"metadata": {"resourceVersion": str(version), "annotations": annotations}}


def _selects(query: dict[str, str], found: Body) -> bool:
    """True if the object has the label of the selector ``name=value``."""
    name, _, value = query.get("labelSelector", "").partition("=")
    return not name or found["metadata"].get("labels", {}).get(name) == value


def _seen_as(query: dict[str, str], change: Change) -> Iterator[tuple[str, Body]]:
    """The event of a watch; an object that the selector does not select any more is deleted for it."""
    is_there = change.type != "DELETED" and _selects(query, change.object)
    was_there = change.before is not None and _selects(query, change.before)
    if is_there:
        yield "MODIFIED" if was_there else "ADDED", change.object
    elif was_there and change.before is not None:
        meta = {**change.before["metadata"], "resourceVersion": str(change.version)}
        yield "DELETED", {**change.before, "metadata": meta}


def _resources(kubernetes: str) -> dict[str, list[str]]:
    absent = _ABSENT[kubernetes]
    found = {path: [name for name in names if f"{path}/{name}" not in absent] for path, names in _RESOURCES.items()}
    return {path: names for path, names in found.items() if names}


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


async def _send(stream: Any, connection: h11.Connection, status: int, answer: Body | str) -> None:
    body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
    kind = "text/plain; charset=utf-8" if isinstance(answer, str) else "application/json"
    headers = [("content-type", kind), ("content-length", str(len(body)))]
    if status in (429, 504):
        headers.append(("retry-after", "1"))
    data = connection.send(h11.Response(status_code=status, headers=headers))
    data += connection.send(h11.Data(data=body)) + connection.send(h11.EndOfMessage())
    await stream.send_all(data)


def _verb(method: str, target: Target, query: dict[str, str]) -> str:
    if method == "GET":
        return "watch" if query.get("watch") else "get" if target.name else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
