"""A daemon in this process that serves the REST API on loopback, and a client for it."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import trio

from ykactor.actors.clock import Clock, system_ns
from ykactor.actors.commands import Awaited, Intake, Quiesce
from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.admission.caller import Admit
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.http.server import serve_rest
from ykactor.surfaces.metrics.instruments import Instruments
from ykactor.surfaces.metrics.scrape import Sources
from ykactor.surfaces.net.doors import HTTP, WS, Door
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests


class Answer:
    """A response with its body."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def content(self) -> Any:
        """The content of a JSON body."""
        return json.loads(self.body)


def request(port: int, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> Answer:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Rest:
    """A daemon that serves the REST API.

    Attributes:
        stopping: ends the server, not the daemon.
    """

    def __init__(self, daemon: Daemon, port: int) -> None:
        self.daemon = daemon
        self.port = port
        self.stopping = trio.Event()
        self.admission: Admission

    async def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        """The answer to a request; ``accept_encoding`` is the header ``accept-encoding``."""
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        return await trio.to_thread.run_sync(partial(request, self.port, method, path, shown, body))

    async def read(self, path: str) -> Any:
        """The JSON below ``/ws/v1/``."""
        answer = await self.ask(f"/ws/v1/{path}")
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == "application/json; charset=UTF-8"
        return answer.content

    async def submit(self, *messages: requests.PartitionRequest) -> None:
        """Submit requests like a resource manager; returns when nothing more can be decided."""
        for message in messages:
            for name, submissions in requests.submissions(message).items():
                await self.daemon.partitions[name].put(Intake(submissions))
        for inbox in self.daemon.partitions.values():
            decided = Awaited()
            await inbox.put(Quiesce(decided))
            await decided.wait()

    async def send(self, data: bytes) -> bytes:
        """Send bytes on a connection of its own; returns what comes back until it ends."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            await stream.send_all(data)
            found = b""
            async for part in stream:
                found += part
        return found


@asynccontextmanager
async def rest_daemon(
    config: str = "",
    *,
    admit: Admit | None = None,
    host_names: Sequence[str] = (),
    web_root: Path | None = None,
    ahead_ns: int = 0,
) -> AsyncIterator[Rest]:
    """Runs until the block ends; a minute ends what hangs. Its clock may be ahead of the machine's."""
    daemon = Daemon(queuefile.load(config), Settings(reserves=False), Clock.of_the_system(system_ns() + ahead_ns, ahead_ns))
    async with trio.open_nursery() as nursery:
        doors = [await _door(WS), await _door(HTTP)]
        await nursery.start(daemon.run, doors[:1], Notifier(None))
        rest = Rest(daemon, doors[1].listener.socket.getsockname()[1])
        sources = Sources(daemon, {}, Instruments(daemon.partitions), has_old_names=False)
        admission = rest.admission = Admission(daemon.audit, admit, host_names)
        serve = partial(serve_rest, doors, daemon, admission, sources, acting=daemon, stopping=rest.stopping)
        await nursery.start(partial(serve, web_root=web_root))
        with trio.fail_after(60):
            yield rest
        nursery.cancel_scope.cancel()


async def _door(service: str) -> Door:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    return Door.of(listener, service)


def node(node_id: str, **attributes: str) -> si.NodeRequest:
    """A node with 4 vcores and 16 GiB."""
    info = si.NodeInfo(
        node_id=node_id,
        action="CREATE",
        attributes=attributes,
        schedulable_resource={"vcore": 4000, "memory": 2**34},
    )
    return si.NodeRequest(nodes=[info])


def application(application_id: str, queue: str, user: str = "alice", *groups: str, **tags: str) -> si.ApplicationRequest:
    """An application."""
    ugi = si.UserGroupInformation(user=user, groups=list(groups))
    return si.ApplicationRequest(
        new=[si.AddApplicationRequest(application_id=application_id, queue_name=queue, ugi=ugi, tags=tags)]
    )


def asks(application_id: str, count: int, **tags: str) -> si.AllocationRequest:
    """Asks ``APPLICATION-N`` of 1 vcore each, with rising priorities."""
    return si.AllocationRequest(
        allocations=[
            si.Allocation(
                allocation_key=f"{application_id}-{number}",
                application_id=application_id,
                resource_per_alloc={"vcore": 1000},
                priority=number,
                allocation_tags=tags,
            )
            for number in range(count)
        ]
    )
