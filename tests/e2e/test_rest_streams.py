"""``/ws/v1/events/stream``: an endless answer, its limits, and how it ends."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing
from accessfiles import access_of
from callers import IDENTITIES, SECRETS, access, control_of
from doubles import FakeDaemon, accept_all
from restdaemon import Rest, node, rest_daemon

from ykactor.actors.commands import Publication
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.http import connections, events
from ykactor.surfaces.http.history import SAMPLE_S, SAMPLES_MAX, History
from ykactor.surfaces.http.published import Published
from ykactor.wire.rest.history import PartitionSample


class Stream:
    """A stream of events that a client reads."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._unread = b""
        self._lines = b""

    async def head(self) -> bytes:
        while b"\r\n\r\n" not in self._unread:
            self._unread += await self._stream.receive_some(2**16)
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        return head

    async def line(self) -> Any:
        """The next line; None at the end."""
        while b"\n" not in self._lines:
            chunk = await self._chunk()
            if not chunk:
                return None
            self._lines += chunk
        line, _, self._lines = self._lines.partition(b"\n")
        return json.loads(line)

    async def end(self) -> None:
        """Read to the end of the answer."""
        while await self.line() is not None:
            pass

    async def _chunk(self) -> bytes:
        while b"\r\n" not in self._unread:
            self._unread += await self._received()
        size, _, rest = self._unread.partition(b"\r\n")
        length = int(size, 16)
        while len(rest) < length + 2:
            rest += await self._received()
        self._unread = rest[length + 2 :]
        return rest[:length]

    async def _received(self) -> bytes:
        data = await self._stream.receive_some(2**16)
        assert data, "the connection has ended within the answer"
        return bytes(data)


@asynccontextmanager
async def streaming(rest: Rest, query: str = "", host: str = "localhost", headers: str = "") -> AsyncIterator[Stream]:
    stream = await trio.open_tcp_stream("127.0.0.1", rest.port)
    async with stream:
        await stream.send_all(f"GET /ws/v1/events/stream{query} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode())
        yield Stream(stream)


async def test_past_events_and_new_ones() -> None:
    """First the instance, then as many past events as wanted and kept, then each new one at once; no compression."""
    async with rest_daemon() as rest:
        await rest.submit(node("n1"))
        past = (await rest.read("events/batch"))["EventRecords"]
        async with streaming(rest, f"?count={len(past) + 100}") as stream, streaming(rest) as without_past:
            head = await stream.head()
            assert b"200" in head.splitlines()[0]
            assert b"content-encoding" not in head.lower()
            assert await stream.line() == {"InstanceUUID": str(rest.daemon.terms.present)}
            assert [await stream.line() for _ in past] == past
            await without_past.head()
            await without_past.line()
            await rest.submit(node("n2"))
            assert (await without_past.line())["objectID"] == (await stream.line())["objectID"] == "n2"


async def test_the_end_is_told() -> None:
    """The last line of a stream has the form of an error with the status 200 when the daemon stops."""
    async with rest_daemon() as rest, streaming(rest) as stream:
        await stream.head()
        await stream.line()
        rest.stopping.set()
        assert await stream.line() == {"status_code": 200, "message": "the daemon stops", "description": "the daemon stops"}
        assert await stream.line() is None


async def test_a_stream_ends_with_the_right_to_read() -> None:
    """SE-68: when its token is revoked, also if nothing occurs."""
    control = control_of()
    async with rest_daemon(admit=control.admit) as rest, trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        async with streaming(rest, headers=f"Authorization: Bearer {SECRETS['reader']}\r\n") as stream:
            await stream.head()
            await stream.line()
            control.replace(access_of("identities: [{name: other, roles: [reader]}]\n"))
            assert (await stream.line())["message"] == "you may not read any more"
            assert await stream.line() is None
        nursery.cancel_scope.cancel()


async def test_streams_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: a quarter of what others leave for each identity, whatever the ``Host`` is; one that ends makes room."""
    monkeypatch.setattr(events, "STREAMS_MAX", 8)
    control = control_of(access({**IDENTITIES, "rm": "roles: [rm, reader], rmIDs: [x]"}))
    reader, other = (f"Authorization: Bearer {SECRETS[name]}\r\n" for name in ("reader", "rm"))
    async with rest_daemon(admit=control.admit, host_names=["other"]) as rest, AsyncExitStack() as held:
        for host in ("localhost", "other"):
            stream = await held.enter_async_context(streaming(rest, host=host, headers=reader))
            await stream.head()
        refused = await rest.ask("/ws/v1/events/stream", Host="third", Authorization=f"Bearer {SECRETS['reader']}")
        assert (refused.status, refused.content["message"]) == (503, "Too many streaming connections")
        async with streaming(rest, headers=other) as another:
            assert b"200" in await another.head()
        await held.aclose()
        await room_for_one(rest, reader)


async def room_for_one(rest: Rest, headers: str = "") -> None:
    """Wait until the daemon has noticed that a stream has ended."""
    status = 503
    while status == 503:
        async with streaming(rest, headers=headers) as stream:
            status = int((await stream.head()).split()[1])


async def test_who_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream ends when its client has not taken a part for some time, and its place is free again."""
    monkeypatch.setattr(connections, "SEND_S", 0.2)
    monkeypatch.setattr(events, "STREAMS_MAX", 1)
    async with rest_daemon() as rest, streaming(rest) as stream:
        await stream.head()
        facts = [Audited(1, "", "", "", Act.CONNECT, "x" * 4000) for _ in range(4000)]
        await rest.daemon.feed.inbox.put(Publication("default", facts))
        await room_for_one(rest)
        with pytest.raises(AssertionError, match="within the answer"):
            await stream.end()


async def test_who_misses_events_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line names the events that are not kept any more."""
    async with rest_daemon() as rest, streaming(rest) as stream:
        await stream.head()
        await stream.line()
        ring = rest.daemon.feed.ring
        ring.lowest = ring.sequence + 3  # as after many events at once
        await rest.submit(node("n1"))
        while (line := await stream.line()) is not None:
            last = line
        assert (last["status_code"], "have read too slowly" in last["message"]) == (200, True)


async def test_an_hour_of_history(autojump_clock: trio.testing.MockClock) -> None:
    """A sample a minute, texts of numbers, the oldest first; no more than those of a day."""

    class Counted(History):
        async def _sample(self, _: PartitionName) -> PartitionSample:
            return PartitionSample(at=int(trio.current_time() * 10**9), applications=1, allocations=2)

    history = Counted(Published(FakeDaemon(("default",), accept_all, 10, manual=False)), None)  # type: ignore[arg-type]
    with trio.move_on_after(SAMPLE_S * (SAMPLES_MAX + 10) + 1):
        await history.run()
    applications, containers = history.found_applications(), history.found_containers()
    assert (len(applications), len(containers)) == (SAMPLES_MAX, SAMPLES_MAX)
    assert (applications[0].total_applications, containers[0].total_containers) == ("1", "2")
    times = [sample.timestamp for sample in applications]
    assert {later - earlier for earlier, later in pairwise(times)} == {SAMPLE_S * 10**9}
