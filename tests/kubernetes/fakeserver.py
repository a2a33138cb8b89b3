"""A fake API server over real sockets: what the adapter uses of a real one, and the faults that a real one has."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import h11
import trio
from fakehttp import Access, Body, Refused, Request, Wire
from fakestore import Change, Store, at_version, invalid
from kinds import served

#: True for the types of patches that are strategic.
_PATCHES = {"merge-patch+json": False, "strategic-merge-patch+json": True, "apply-patch+yaml": True}


class FakeServer:
    """Attributes:
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
        self._kinds = served(is_old=self.store.is_old)

    @asynccontextmanager
    async def running(self, port: int = 0, tls: Any = None) -> AsyncIterator["FakeServer"]:
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
            self.url = f"{'https' if tls else 'http'}://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            listening = [trio.SSLListener(each, tls) if tls else each for each in listeners]
            nursery.start_soon(trio.serve_listeners, self._serve, listening)
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
        kinds, access = self._find(request), request.access
        if not request.resource:
            versions = [{"version": each} for each in sorted({version for _, version, _ in kinds})]
            resources = {"kind": "APIResourceList", "resources": [{"name": name} for *_, name in kinds]}
            await wire.send(200, resources if request.version else {"kind": "APIGroup", "versions": versions})
        elif request.resource != "selfsubjectaccessreviews" and not self._may(request.user, access):
            self.denied.append(access)
            raise Refused(403, "Forbidden", f'User "{request.user}" cannot {access[0]} resource "{access[2]}"')
        elif "watch" in request.query:
            await self._watch(wire, request)
        elif request.method == "GET" and not request.name:
            await wire.send(200, await self._page(request))
        else:
            await wire.send(*self._carry_out(request, json.loads(request.content or "{}")))

    def _find(self, request: Request) -> list[tuple[str, str, str]]:
        """The kinds that a path names, or begins to name."""
        of_group = [key for key in self._kinds if key[0] == request.group]
        found = [key for key in of_group if request.version in ("", key[1]) and request.resource in ("", key[2])]
        if not found or (request.subresource == "resize" and self.store.is_old):
            raise Refused(404, "NotFound", "could not find the requested resource", "" if of_group else "404 page not found\n")
        return found

    def _may(self, user: str, access: Access) -> bool:
        found = {access, (*access[:3], "")} & (self.users[user] or set())
        self.used |= found
        return self.users[user] is None or bool(found)

    def _carry_out(self, request: Request, body: Body) -> tuple[int, Body]:
        store, resource, namespace, name = self.store, request.resource, request.namespace, request.name
        match request.method, request.subresource or resource:
            case "POST", "selfsubjectaccessreviews":
                asked = {"group": "", "namespace": "", "subresource": "", **body["spec"]["resourceAttributes"]}
                whole = f"{asked['resource']}/{asked['subresource']}".rstrip("/")
                is_allowed = self._may(request.user, (asked["verb"], asked["group"], whole, asked["namespace"]))
                return 201, {"kind": "SelfSubjectAccessReview", "status": {"allowed": is_allowed}}
            case "POST", "binding" | "bindings":
                store.bind(namespace, name or body["metadata"]["name"], body, is_subresource=bool(name))
                return 201, {"kind": "Status", "status": "Success", "code": 201}
            case "POST" | "PUT", _ if (namespace, name) not in store.objects[resource]:
                return 201, store.create(resource, namespace, {"kind": self._kinds[request.type], **body})
        found, kind = store.get(resource, namespace, name), request.headers.get("content-type", "").removeprefix("application/")
        match request.method:
            case "PUT":  # of a Lease, which always says everything
                return 200, store.patch(resource, found, body, strategic=False)
            case "PATCH":
                return 200, store.patch(resource, found, body, strategic=_PATCHES[kind], subresource=request.subresource)
            case "DELETE":
                return 200, store.delete(resource, found, {**request.query, **body})
        return 200, found

    async def _page(self, request: Request) -> Body:
        """A list of the newest version, of an older one, or a further page of what it was when the first page was sent."""
        query, newest, match = request.query, self.store.version, request.query.get("resourceVersionMatch")
        wanted, limit = int(query.get("resourceVersion", "0")), int(query.get("limit", "0"))
        if match and not wanted:
            raise invalid("ListOptions", "resourceVersionMatch is forbidden unless resourceVersion is provided")
        if wanted > newest:
            await trio.sleep(3)
            raise Refused(504, "Timeout", f"Timeout: Too large resource version: {wanted}, current: {newest}")
        version, start = map(int, query.get("continue", f"{wanted if match == 'Exact' else newest}-0").split("-"))
        items = [each for each in self.store.all(request.resource, request.namespace, version) if request.selects(each)]
        end = start + limit if limit and query.get("resourceVersion") != "0" else len(items)
        meta = {"resourceVersion": str(version), **({"continue": f"{version}-{end}"} if end < len(items) else {})}
        return {"kind": f"{self._kinds[request.type]}List", "metadata": meta, "items": items[start:end]}

    async def _watch(self, wire: Wire, request: Request) -> None:
        """Send what has changed since a version; without one, all that is there comes first."""
        query, store = request.query, self.store
        if ("resourceVersionMatch" in query) is not ("sendInitialEvents" in query and not store.is_old):
            raise invalid("ListOptions", "resourceVersionMatch goes with sendInitialEvents, and a server of 1.20 knows neither")
        await wire.put(h11.Response(status_code=200, headers=[("content-type", "application/json")]))
        version = int(query.get("resourceVersion", "0"))
        with trio.CancelScope() as scope:
            self._watches.add(scope)
            try:
                while True:
                    events, version = list(self._events(request, version)), max(version, store.version)
                    await wire.put(*events)
                    # The time begins when all is sent that was there, however slow the machine is.
                    scope.deadline = min(scope.deadline, trio.current_time() + float(query.get("timeoutSeconds", "300")))
                    while version >= store.version:
                        await store.grown.park()
            except Refused as gone:
                await wire.put(_event("ERROR", gone.body))
        if scope not in self._watches:
            raise trio.ClosedResourceError  # cut
        await wire.put(h11.EndOfMessage())

    def _events(self, request: Request, version: int) -> Iterator[h11.Data]:
        """The events of a watch after a version; after 0, all that is there has been added."""
        query, resource, store = request.query, request.resource, self.store
        there = [] if version else store.objects[resource].items()
        changes = [Change(store.version, resource, key, "ADDED", body, None) for key, body in there]
        changes += [each for each in store.since(version or store.version) if each.resource == resource]
        for change in [each for each in changes if request.namespace in ("", each.key[0])]:
            was_there = change.before is not None and request.selects(change.before)
            if change.type != "DELETED" and request.selects(change.object):
                yield _event("MODIFIED" if was_there else "ADDED", change.object)
            elif was_there:  # or it is not selected any more
                yield _event("DELETED", at_version(change.before, change.version))
        if "allowWatchBookmarks" in query and changes:
            yield _event("BOOKMARK", {"metadata": {"resourceVersion": str(store.version)}})


def _event(kind: str, found: Body) -> h11.Data:
    return h11.Data(data=json.dumps({"type": kind, "object": found}).encode() + b"\n")
