"""An API server for the adapter, in the process of the measurement, that costs little: it refuses nothing and checks nothing.

What a real one refuses, and when, is tested elsewhere. Here it must be cheap, so that the adapter in its own process is measured
on a machine of few cores.
"""

import ssl
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import h11
import msgspec
import trio
import trustme

from bench.kubeobjects import running_status
from ykactor.actors.clock import system_ns

Body = dict[str, Any]
#: Objects of these kinds are kept; others are answered and forgotten.
_KEPT = ("pods", "nodes", "leases", "namespaces", "configmaps")
_OK, _CREATED, _NOT_FOUND = b"200 OK", b"201 Created", b"404 Not Found"
_ABSENT = b'{"kind":"Status","code":404}'
_READ_MAX = 2**16
_PAGE = 500


class Call(NamedTuple):
    """A request about an object, or about all of a kind if it has no name."""

    method: str
    kind: str
    name: str
    subresource: str
    body: bytes


class ApiServer:
    """Attributes:
    objects: by kind and name.
    bound_ns: when the bind of each pod has arrived.
    counts: how many requests of each kind were answered, such as ``POST events``.
    is_stalled: writes are not answered while it is True.
    holds: requests for these kinds wait until ``release``.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Body]] = {kind: {} for kind in _KEPT}
        self.bound_ns: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self.is_stalled = False
        self.holds: set[str] = set()
        self._version = 1000
        #: Lines of watches by kind, with the version of each.
        self._lines: dict[str, list[bytes]] = defaultdict(list)
        self._versions: dict[str, list[int]] = defaultdict(list)
        self._changed = trio.Event()

    @asynccontextmanager
    async def running(self, directory: Path) -> AsyncIterator[Path]:
        """Listens with TLS within the block; yields a kubeconfig in this directory."""
        authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        authority.cert_pem.write_to_path(str(directory / "ca.pem"))
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        config = directory / "kubeconfig"
        config.write_text(_KUBECONFIG.format(port=port))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, [trio.SSLListener(each, context) for each in listeners])
            yield config
            nursery.cancel_scope.cancel()

    # ---- objects

    def put(self, kind: str, body: Body) -> None:
        """Add an object, or write another one over it."""
        name = body["metadata"]["name"]
        change = "MODIFIED" if name in self.objects[kind] else "ADDED"
        self._version += 1
        kept = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        self.objects[kind][name] = kept
        self._log(kind, change, kept)

    def remove(self, kind: str, name: str) -> None:
        """An object is gone."""
        body = self.objects[kind].pop(name)
        self._version += 1
        self._log(kind, "DELETED", {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}})

    def release(self) -> None:
        """Answer what waits."""
        self.holds.clear()
        self.notify()

    def notify(self) -> None:
        """Something has changed."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until this holds."""
        while not holds():
            await self._changed.wait()

    def _log(self, kind: str, change: str, body: Body) -> None:
        self._lines[kind].append(msgspec.json.encode({"type": change, "object": body}) + b"\n")
        self._versions[kind].append(self._version)
        self.notify()

    # ---- connections

    async def _serve(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER)
        try:
            async with stream:
                while (received := await _receive(stream, connection)) is not None:
                    await self._answer(stream, *received)
                    connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))  # it was written by hand
                    connection.send(h11.EndOfMessage())
                    connection.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            pass

    async def _answer(self, stream: trio.abc.Stream, method: str, target: str, body: bytes) -> None:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        words = parts.path.split("/")
        kind, name, subresource = _kind_of(words)
        await self.until(lambda: kind not in self.holds)
        if method == "GET" and "watch" in query:
            await self._watch(stream, kind, int(query["resourceVersion"][0]))
            return
        if method != "GET":
            await self.until(lambda: not self.is_stalled)
        call = Call(method, kind, name, subresource, body)
        status, answer = self._carried_out(call, int(query.get("continue", ["0"])[0]))
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(answer))
        await stream.send_all(head + answer)
        self.counts[f"{method} {subresource or kind}"] += 1
        self.notify()

    def _carried_out(self, call: Call, start: int) -> tuple[bytes, bytes]:
        method, kind, name, subresource, body = call
        if not kind:  # no further versions
            return _NOT_FOUND, _ABSENT
        if method == "GET" and not name:
            return _OK, self._page(kind, start)
        found = self.objects.get(kind, {})
        if method == "GET":
            return (_OK, msgspec.json.encode(found[name])) if name in found else (_NOT_FOUND, _ABSENT)
        if kind in _KEPT and name not in found and (subresource or method == "DELETE"):
            return _NOT_FOUND, _ABSENT
        given = msgspec.json.decode(body) if body else {}
        if subresource == "binding":
            self.bound_ns[name] = system_ns()
            pod = found[name]
            bound = {**pod, "spec": {**pod["spec"], "nodeName": given["target"]["name"]}}
            self.put(kind, bound)
            self.put(kind, {**bound, "status": running_status()})  # as its kubelet says at once
            return _CREATED, b'{"kind":"Status","status":"Success","code":201}'
        if method == "DELETE":
            self.remove(kind, name)
        elif method == "PATCH" and kind in _KEPT:
            self.put(kind, {**found[name], "status": {**found[name]["status"], **given["status"]}})
        elif kind in _KEPT and method in ("POST", "PUT"):
            self.put(kind, given)
        return _OK, msgspec.json.encode(found.get(name, given))

    def _page(self, kind: str, start: int) -> bytes:
        items = list(self.objects.get(kind, {}).values())
        meta = {"resourceVersion": str(self._version), "continue": str(start + _PAGE) if start + _PAGE < len(items) else ""}
        return msgspec.json.encode({"kind": "List", "metadata": meta, "items": items[start : start + _PAGE]})

    async def _watch(self, stream: trio.abc.Stream, kind: str, version: int) -> None:
        """Serve a watch until the connection ends; each event is a chunk of its own."""
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        lines, versions = self._lines[kind], self._versions[kind]
        sent = next((at for at, each in enumerate(versions) if each > version), len(versions))
        while True:
            changed = self._changed
            new, sent = lines[sent:], len(lines)
            if new:
                await stream.send_all(b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in new))
            else:
                await changed.wait()


_KUBECONFIG = """
current-context: c
clusters: [{{name: k, cluster: {{server: "https://localhost:{port}", certificate-authority: ca.pem}}}}]
users: [{{name: u, user: {{token: bench}}}}]
contexts: [{{name: c, context: {{cluster: k, user: u, namespace: ykactor}}}}]
"""


async def _receive(stream: trio.abc.Stream, connection: h11.Connection) -> tuple[str, str, bytes] | None:
    """Method, target and body of the next request; None at the end."""
    method, target, body = "", "", b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(_READ_MAX)))
        elif isinstance(event, h11.Request):
            method, target = event.method.decode(), event.target.decode()
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return method, target, body
        else:
            return None


def _kind_of(words: list[str]) -> tuple[str, str, str]:
    """Kind, name and subresource of a path such as ``/api/v1/namespaces/team/pods/w/binding``; "" for what is not there."""
    rest = words[3:] if words[1] == "api" else words[4:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    kind, name, subresource = (*rest, "", "", "")[:3]
    return kind, name, subresource
