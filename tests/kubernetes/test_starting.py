"""A server that starts refuses whom it knows, with 403, until it has loaded its roles: that is not final."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from cluster import running_cluster
from daemon import real_daemon
from directapi import open_api, process
from fakehttp import Request
from fakeserver import FakeServer
from faults import starting
from trio.testing import MockClock

from ykactor.kubernetes import reflector
from ykactor.kubernetes.api import Api
from ykactor.kubernetes.messages import Kind, Listed, Stimulus
from ykactor.kubernetes.process import PATIENCE_S, Outages
from ykactor.kubernetes.reflector import Reflector, Source


def play(act: Callable[[FakeServer, Api], Awaitable[None]]) -> None:
    """Run beside a server that starts, with a clock that is much faster than the one on the wall."""

    async def beside() -> None:
        async with FakeServer().running() as server:
            server.faults = starting
            async with open_api(server.url) as api:
                await act(server, api)

    trio.run(beside, clock=MockClock(rate=100))


def test_a_refusal_is_told_only_when_it_lasts() -> None:
    """The reflector asks again, later and later, says nothing for a minute, and goes on when the server has started."""
    told, warned = list[Stimulus](), list[str]()

    async def act(server: FakeServer, api: Api) -> None:
        source = Source(Kind.NODES, "/api/v1/nodes")
        async with trio.open_nursery() as nursery:
            reflector = Reflector(api, source, told.append, process(warn=warned.append), Outages(warned.append))
            nursery.start_soon(reflector.run)
            began_s = trio.current_time()
            while not warned:  # noqa: ASYNC110
                await trio.sleep(1)
            assert trio.current_time() - began_s >= PATIENCE_S
            (warning,) = warned
            assert warning.startswith("nodes cannot be read: 403 Forbidden: ")
            server.faults = None
            while not told:  # noqa: ASYNC110
                await trio.sleep(1)
            nursery.cancel_scope.cancel()

    play(act)
    assert told == [Listed(Kind.NODES, [], [])]


@pytest.mark.parametrize("lease", [False, True], ids=["alone", "with a lease"])
async def test_the_adapter_waits_for_a_server_that_starts(monkeypatch: pytest.MonkeyPatch, *, lease: bool) -> None:
    """Also in the middle: what is refused meanwhile is done later, and nobody is warned."""
    monkeypatch.setattr(reflector, "VERSION_PAUSE_S", 0.1)
    monkeypatch.setattr(reflector, "BACKOFF_FIRST_S", 0.1)
    refused = set[str]()

    async def refuse(request: Request) -> None:
        refused.add(request.resource)
        await starting(request)

    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        cluster.node("n1")
        cluster.pod("p1")
        if not lease:
            cluster.server.faults = refuse
        async with cluster.adapter(lease=lease):
            await cluster.until(lambda: lease or "pods" in refused)
            refused.clear()
            cluster.server.faults = None
            await cluster.until(lambda: "p1" in cluster.bound())
            cluster.server.faults = refuse
            cluster.server.cut_watches()
            cluster.pod("p2")
            await cluster.until(lambda: "pods" in refused)
            assert "p2" not in cluster.bound()
            cluster.server.faults = None
            await cluster.until(lambda: "p2" in cluster.bound())
        assert cluster.warned == []
