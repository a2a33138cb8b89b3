"""Probes and metrics of an adapter: /livez, /readyz and /metrics, and wrong requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from directapi import open_api, process

from ykactor.kubernetes import probes
from ykactor.kubernetes.adapter import WATCH_LOST_S, Adapter, Settings
from ykactor.kubernetes.messages import BindOutcome, Kind, Listed


def settings() -> Settings:
    return Settings(
        url="ws://127.0.0.1:1",
        login={},
        rm_id="kubernetes",
        scheduler_name="ykactor",
        namespace="ykactor",
        lease=None,
        qps=200,
    )


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Adapter, int]]:
    """An adapter that does nothing, and the port of its probes."""
    async with open_api("http://127.0.0.1:1") as api, trio.open_nursery() as nursery:
        adapter = Adapter(api, settings(), process())
        yield adapter, await nursery.start(probes.serve, adapter, "127.0.0.1", 0)
        nursery.cancel_scope.cancel()


async def ask(port: int, request: bytes) -> bytes:
    """All bytes that answer these bytes."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        answer = b""
        try:
            await stream.send_all(request)
            await stream.send_eof()
            async for piece in stream:
                answer += piece
        except trio.BrokenResourceError:
            pass  # closed before it has read everything
        return answer


async def get(port: int, path: str) -> tuple[int, str]:
    answer = await ask(port, f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def show_life(adapter: Adapter, at_s: float) -> None:
    for each in adapter.reflectors:
        each.alive_s = at_s


async def test_it_is_ready_when_everything_is_listed_and_each_watch_shows_life() -> None:
    """A process is ready when it leads or waits; before, and when a watch is silent for too long, it says what it lacks."""
    async with serving() as (adapter, port):
        status, text = await get(port, "/readyz")
        assert status == 503
        assert "pods are not listed yet" in text
        show_life(adapter, trio.current_time())
        assert await get(port, "/readyz") == (503, "not everything is listed yet\n")
        adapter.state.handle([Listed(kind, []) for kind in Kind], 0.0)
        assert await get(port, "/readyz?verbose") == (200, "ok\n")
        adapter.reflectors[0].alive_s = trio.current_time() - WATCH_LOST_S - 5
        status, text = await get(port, "/readyz")
        assert status == 503
        assert text.startswith(f"the watch of {adapter.reflectors[0].kind} has shown no sign of life for 9")
        assert await get(port, "/livez") == (200, "ok\n")


async def test_metrics() -> None:
    """Each has its type; binds by result, lanes, age of watches, lists, conflicts, and who leads."""
    async with serving() as (adapter, port):
        show_life(adapter, trio.current_time() - 5)
        adapter.counts.binds[BindOutcome.DONE] = 3
        adapter.counts.conflicts = 2
        adapter.reflectors[0].lists = 7
        status, text = await get(port, "/metrics")
        assert status == 200
        lines = text.splitlines()
        assert 'ykactor_kubernetes_binds_total{result="done"} 3' in lines
        assert "ykactor_kubernetes_bind_conflicts_total 2" in lines
        assert "ykactor_kubernetes_leader 0" in lines
        kind = adapter.reflectors[0].kind
        assert f'ykactor_kubernetes_relists_total{{kind="{kind}"}} 7' in lines
        assert any(line.startswith(f'ykactor_kubernetes_watch_age_seconds{{kind="{kind}"}} 5.') for line in lines)
        types = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
        assert {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")} <= types
        assert "ykactor_kubernetes_lane_waiting" in types


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"HEAD /livez HTTP/1.1\r\nhost: x\r\n\r\n", b"200"),
        (b"GET /livez HTTP/1.0\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
        (b"GET /livez/x HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
        (b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", b""),
        (b"POST /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc", b"405"),
        (b"GET /livez HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\r\n", b"200"),
        (b"GET /livez HTTP/1.1\r\n\r\n", b""),
        (b"GET /livez HTTP/1.1\r\nhost: x\r\n", b""),
        (b"GET /livez HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * 100_000, b""),
        (b"\x16\x03\x01\x02\x00", b""),
        (b"nonsense\r\n\r\n", b""),
        (b"", b""),
    ],
)
async def test_nobody_ends_it_by_what_he_asks(request_: bytes, status: bytes) -> None:
    """Bytes that are no request get no answer; the next request does."""
    async with serving() as (_, port):
        answer = await ask(port, request_)
        assert answer.split()[1:2] == ([status] if status else [])
        assert answer.endswith(b"ok\n") is (status == b"200" and not request_.startswith(b"HEAD"))
        assert await get(port, "/livez") == (200, "ok\n")


async def test_connections_that_say_nothing_are_bounded_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(probes, "CONNECTION_S", 0.3)
    async with serving() as (_, port):
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2)]
        assert await ask(port, b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n") == b""
        with trio.fail_after(60):
            assert [await each.receive_some() for each in silent] == [b"", b""]
        assert await get(port, "/livez") == (200, "ok\n")
        for each in silent:
            await each.aclose()
