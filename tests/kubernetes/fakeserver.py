"""A fake API server over real sockets: what the adapter uses of a real one, and the faults that a real one has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import h11
import trio
from fakeadmission import invalid
from fakehttp import Access, Body, Refused, Request, Wire
from fakestore import Change, Store

#: The kinds of each group, with the versions in which servers of 1.36 and of 1.20 have them.
_KINDS = (
    ("", "v1", "v1", "Pod Binding Node Namespace ConfigMap Secret PersistentVolumeClaim PersistentVolume"),
    ("authorization.k8s.io", "v1", "v1", "SelfSubjectAccessReview"),
    ("coordination.k8s.io", "v1", "v1", "Lease"),
    ("events.k8s.io", "v1", "v1", "Event"),
    ("node.k8s.io", "v1", "v1", "RuntimeClass"),
    ("policy", "v1", "v1beta1", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "v1", "v1 v1beta1", "PriorityClass"),
    ("scheduling.k8s.io", "v1alpha2", "", "PodGroup"),
    ("storage.k8s.io", "v1", "v1", "StorageClass CSINode CSIDriver"),
    ("storage.k8s.io", "v1", "v1alpha1", "CSIStorageCapacity"),
)


class FakeServer:
    """Attributes:
    store: its objects.
    users: tables of permissions by token, "" is somebody without a token; None: everything is permitted.
    used, denied: what was permitted by a table, with the namespace that it says; and what was refused.
    faults: called with each request whose user is known; may wait, raise ``Refused``, or do something before it is carried out.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or Store()
        self.users: dict[str, set[Access] | None] = {"": set(), "admin": None, "yk": None}
        self.used: set[Access] = set()
        self.denied: list[Access] = []
        self.faults: Callable[[Request], Awaitable[object]] | None = None
        self.url = ""
        self._watches: set[trio.CancelScope] = set()
        #: The kinds that there are, by group, version and resource.
        self._kinds = {
            (group, version, _plural(kind)): kind
            for group, new, old, kinds in _KINDS
            for version in (old if self.store.is_old else new).split()
            for kind in kinds.split()
        }

    @asynccontextmanager
    async def running(self, port: int = 0, tls: Any = None) -> AsyncIterator[FakeServer]:
        async with trio.open_nursery() as nursery:
            listeners: list[Any] = list(await trio.open_tcp_listeners(port, host="127.0.0.1"))
            self.url = f"{'https' if tls else 'http'}://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            listeners = [trio.SSLListener(each, tls) for each in listeners] if tls else listeners
            nursery.start_soon(trio.serve_listeners, self._serve, listeners)
            yield self
            nursery.cancel_scope.cancel()

    def cut_watches(self) -> None:
        """End all watches without a last chunk."""
        while self._watches:
            self._watches.pop().cancel()

    async def _serve(self, stream: Any) -> None:
        wire = Wire(stream)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            async with stream:
                while request := await wire.receive():
                    try:
                        await self._answer(wire, request)
                    except Refused as refused:
                        await wire.send(refused.status, refused.answer)
                    except ValueError as error:
                        await wire.send(400, Refused(400, "BadRequest", str(error)).body)

    async def _answer(self, wire: Wire, request: Request) -> None:
        if request.user not in self.users:
            raise Refused(401, "Unauthorized", "Unauthorized")
        if self.faults is not None:
            await self.faults(request)
        if not request.resource:
            await wire.send(200, self._discovered(request))
            return
        self._admit(request)
        if "watch" in request.query:
            await self._watch(wire, request)
        elif request.method == "GET" and not request.name:
            await wire.send(200, await self._page(request))
        else:
            await wire.send(*self._carry_out(request, json.loads(request.content or "{}")))

    def _discovered(self, request: Request) -> Body:
        """The resources of a version, or the versions of a group."""
        of_group = [(version, name) for group, version, name in self._kinds if group == request.group]
        names = [name for version, name in of_group if version == request.version]
        if not of_group or (request.version and not names):
            raise self._absent(request)
        if names:
            return {"kind": "APIResourceList", "resources": [{"name": each} for each in names]}
        return {"kind": "APIGroup", "versions": [{"version": each} for each in sorted({version for version, _ in of_group})]}

    def _absent(self, request: Request) -> Refused:
        text = "" if request.group in {group for group, _, _ in self._kinds} else "404 page not found\n"
        return Refused(404, "NotFound", "the server could not find the requested resource", text)

    def _admit(self, request: Request) -> None:
        is_later = request.subresource == "resize" and self.store.is_old
        if (request.group, request.version, request.resource) not in self._kinds or is_later:
            raise self._absent(request)
        access = request.access
        if access[2] != "selfsubjectaccessreviews" and not self._may(request.user, access):
            self.denied.append(access)
            raise Refused(403, "Forbidden", f'User "{request.user}" cannot {access[0]} resource "{access[2]}"')

    def _may(self, user: str, access: Access) -> bool:
        table = self.users[user]
        found = {access, (*access[:3], "")} & (table or set())
        self.used |= found
        return table is None or bool(found)

    def _carry_out(self, request: Request, body: Body) -> tuple[int, Body]:
        store, resource, namespace, name = self.store, request.resource, request.namespace, request.name
        match request.method, request.subresource or resource:
            case "POST", "selfsubjectaccessreviews":
                wanted = {"group": "", "namespace": "", "subresource": "", **body["spec"]["resourceAttributes"]}
                whole = f"{wanted['resource']}/{wanted['subresource']}".rstrip("/")
                is_allowed = self._may(request.user, (wanted["verb"], wanted["group"], whole, wanted["namespace"]))
                return 201, {"kind": "SelfSubjectAccessReview", "status": {"allowed": is_allowed}}
            case "POST", "binding" | "bindings":
                store.bind(namespace, name or body["metadata"]["name"], body, is_subresource=bool(name))
                return 201, {"kind": "Status", "status": "Success", "code": 201}
            case "POST" | "PUT", _ if (namespace, name) not in store.objects.get(resource, {}):
                return 201, store.create(resource, namespace, {"kind": self._kind(request), **body})
        found, kind = store.get(resource, namespace, name), request.headers.get("content-type", "")
        match request.method:
            case "PUT":  # of a Lease, which always says everything
                return 200, store.patch(resource, found, body, strategic=False)
            case "PATCH" if "merge-patch" in kind or "apply-patch" in kind:
                is_strategic = "/merge-patch" not in kind
                return 200, store.patch(resource, found, body, strategic=is_strategic, subresource=request.subresource)
            case "PATCH":
                raise Refused(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {kind}")
            case "DELETE":
                return 200, store.delete(resource, found, {**request.query, **body})
        return 200, found

    def _kind(self, request: Request) -> str:
        return self._kinds[request.group, request.version, request.resource]

    async def _page(self, request: Request) -> Body:
        """A list of the newest version, of an older one, or a further page of what it was when the first page was sent."""
        query, version, start = request.query, self.store.version, 0
        wanted, limit = int(query.get("resourceVersion", "0")), int(query.get("limit", "0"))
        if "resourceVersionMatch" in query and not wanted:
            raise invalid("ListOptions", "resourceVersionMatch is forbidden unless resourceVersion is provided")
        if wanted > version:
            await trio.sleep(3)
            raise Refused(504, "Timeout", f"Timeout: Too large resource version: {wanted}, current: {version}")
        if "continue" in query:
            version, start = map(int, query["continue"].split("-"))
        elif query.get("resourceVersionMatch") == "Exact":
            version = wanted
        items = [each for each in self.store.all(request.resource, request.namespace, version) if _selects(query, each)]
        end = start + limit if limit and query.get("resourceVersion") != "0" else len(items)
        meta = {"resourceVersion": str(version), **({"continue": f"{version}-{end}"} if end < len(items) else {})}
        return {"kind": f"{self._kind(request)}List", "metadata": meta, "items": items[start:end]}

    async def _watch(self, wire: Wire, request: Request) -> None:
        """Send what has changed since a version; without one, all that is there comes first."""
        query, store = request.query, self.store
        if store.is_old and "resourceVersionMatch" in query:
            raise invalid("ListOptions", "resourceVersionMatch is forbidden for watch")
        if not store.is_old and "sendInitialEvents" in query and "resourceVersionMatch" not in query:
            raise invalid("ListOptions", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        headers = [("content-type", "application/json"), ("transfer-encoding", "chunked")]
        await wire.put(h11.Response(status_code=200, headers=headers))
        version, is_over = int(query.get("resourceVersion", "0")), False
        with trio.CancelScope() as scope:
            self._watches.add(scope)
            while not is_over:
                events, version = list(self._events(request, version)), max(version, store.version)
                for kind, found in events:
                    await wire.put(h11.Data(data=json.dumps({"type": kind, "object": found}).encode() + b"\n"))
                    is_over = kind == "ERROR"
                # The time begins when all is sent that was there, however slow the machine is.
                scope.deadline = min(scope.deadline, trio.current_time() + float(query.get("timeoutSeconds", "300")))
                while not is_over and version >= store.version:
                    await store.grown.wait()
        if scope not in self._watches:
            raise trio.ClosedResourceError  # cut
        self._watches.discard(scope)
        await wire.put(h11.EndOfMessage())

    def _events(self, request: Request, version: int) -> Iterator[tuple[str, Body]]:
        """The events of a watch after a version; after 0, all that is there has been added."""
        query, resource, namespace, store = request.query, request.resource, request.namespace, self.store
        try:
            changes = [each for each in store.since(version) if each.resource == resource] if version else []
        except Refused as refused:
            yield "ERROR", refused.body
            return
        there = [] if version else store.all(resource, namespace)
        for change in [*(Change(store.version, resource, "ADDED", each, None) for each in there), *changes]:
            if namespace in ("", change.key[0]):
                yield from _seen(query, change)
        is_beginning = not version and "sendInitialEvents" in query
        if is_beginning or (changes and "allowWatchBookmarks" in query):
            annotations = {"k8s.io/initial-events-end": "true"} if is_beginning else {}
            yield "BOOKMARK", {"metadata": {"resourceVersion": str(store.version), "annotations": annotations}}


async def starting(request: Request) -> None:
    """The fault of a server that has just started: it refuses all whom it knows, because it has not loaded their roles."""
    raise Refused(403, "Forbidden", f'User "{request.user}" cannot {request.access[0]} resource "{request.resource}"')


def _plural(kind: str) -> str:
    """The resource of a kind: ``pods``, ``priorityclasses``, ``csistoragecapacities``."""
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}es" if name.endswith("s") else f"{name}s"


def _selects(query: dict[str, str], found: Body) -> bool:
    """True if the object has the label and the name of the selectors ``name=value``."""
    wanted = query.get("fieldSelector", "").removeprefix("metadata.name=")
    if wanted not in ("", found["metadata"]["name"]):
        return False
    name, _, value = query.get("labelSelector", "").partition("=")
    return not name or found["metadata"].get("labels", {}).get(name) == value


def _seen(query: dict[str, str], change: Change) -> Iterator[tuple[str, Body]]:
    """The event of a watch; an object that the selector does not select any more is deleted for it."""
    before = change.before if change.before is not None and _selects(query, change.before) else None
    if change.type != "DELETED" and _selects(query, change.object):
        yield "MODIFIED" if before else "ADDED", change.object
    elif before:
        yield "DELETED", {**before, "metadata": {**before["metadata"], "resourceVersion": str(change.version)}}
