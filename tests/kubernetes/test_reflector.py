"""Lists and watches: nothing is missed, whatever the server forgets, cuts or refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from directapi import DirectApi, open_api, process
from fakehttp import Refused, Request
from fakeserver import FakeServer
from trio.abc import Clock

from ykactor.kubernetes import reflector
from ykactor.kubernetes.api import Api
from ykactor.kubernetes.messages import Changed, Gone, Kind, Listed, Stimulus
from ykactor.kubernetes.process import Outages
from ykactor.kubernetes.reflector import PAGE_SIZE, Reflector, Source

NODES = Source(Kind.NODES, "/api/v1/nodes")


class Watching:
    """A reflector of the nodes of a fake server.

    Attributes:
        there: the nodes that it has shown.
        queries: of its requests.
        faults: called with each request; may raise ``Refused``.
    """

    def __init__(self, server: FakeServer, api: Api, source: Source = NODES) -> None:
        self.server = server
        self.there: set[str] = set()
        self.queries: list[dict[str, str]] = []
        self.faults: Callable[[dict[str, str]], None] = lambda _: None
        server.faults = self._look
        self.reflector = Reflector(api, source, self._tell, process(), Outages(lambda _: None))

    async def _look(self, request: Request) -> None:
        self.queries.append(request.query)
        self.faults(request.query)

    def _tell(self, stimulus: Stimulus) -> None:
        match stimulus:
            case Listed(objects=objects):
                self.there = {each.metadata.name for each in objects}
            case Changed(object=found):
                self.there.add(found.metadata.name)
            case Gone(ref=ref):
                self.there.discard(ref.name)

    def node(self, name: str) -> None:
        self.server.store.create("nodes", "", {"metadata": {"name": name}})

    def remove(self, name: str) -> None:
        self.server.store.remove("nodes", self.server.store.get("nodes", "", name))

    async def until(self, *names: str) -> None:
        """Wait until these nodes are shown."""
        with trio.fail_after(60):
            while self.there != set(names):  # noqa: ASYNC110
                await trio.sleep(0.005)

    def watches(self) -> list[str]:
        """The versions from which it has watched."""
        return [query["resourceVersion"] for query in self.queries if "watch" in query]


@pytest.fixture
async def watching(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watching]:
    """A reflector that runs during the test, over sockets, and tries again after a moment."""
    monkeypatch.setattr(reflector, "BACKOFF_FIRST_S", 0.05)
    async with FakeServer().running() as server, trio.open_nursery() as nursery:
        async with open_api(server.url) as api:
            found = Watching(server, api)
            found.node("n1")
            nursery.start_soon(found.reflector.run)
            await found.until("n1")
            with trio.fail_after(60):
                while not server._watches:  # noqa: ASYNC110 (a request for one may not be served yet, and could not be cut)
                    await trio.sleep(0.005)
            yield found
            nursery.cancel_scope.cancel()


async def test_a_watch_that_is_cut_goes_on_where_it_was(watching: Watching) -> None:
    """A change that has happened meanwhile is an event; nothing is listed again."""
    watching.node("n2")
    await watching.until("n1", "n2")
    version = str(watching.server.store.version)
    watching.server.cut_watches()
    watching.remove("n1")
    await watching.until("n2")
    assert watching.watches()[1:] == [version]
    assert watching.reflector.lists == 1


async def test_a_bookmark_moves_the_version_on(watching: Watching) -> None:
    """Beyond the last event, so that the watch goes on although what was before is compacted."""
    store = watching.server.store
    watching.node("n2")
    store.create("namespaces", "", {"metadata": {"name": "team"}})
    await watching.until("n1", "n2")
    with trio.fail_after(60):
        while watching.reflector._version != str(store.version):  # noqa: ASYNC110 (the bookmark comes behind the event)
            await trio.sleep(0.005)
    store.compact()
    watching.server.cut_watches()
    watching.node("n3")
    await watching.until("n1", "n2", "n3")
    assert watching.reflector.lists == 1


async def lost_as_event(watching: Watching) -> None:
    """The server has compacted what came after the watch was cut: an ERROR event in a 200 stream."""
    gate = trio.Event()

    async def wait(_: Request) -> None:
        await gate.wait()

    look, watching.server.faults = watching.server.faults, wait
    watching.server.cut_watches()
    watching.remove("n1")
    watching.node("n2")
    watching.server.store.compact()
    watching.server.faults = look
    gate.set()


async def lost_as_status(watching: Watching) -> None:
    """The watch is refused as a whole."""

    def refuse(query: dict[str, str]) -> None:
        if "watch" in query and len(watching.watches()) == 2:
            raise Refused(410, "Expired", "too old")

    watching.faults = refuse
    watching.server.cut_watches()
    watching.remove("n1")
    watching.node("n2")


@pytest.mark.parametrize("lose", [lost_as_event, lost_as_status])
async def test_what_was_compacted_is_listed_again(watching: Watching, lose: Any) -> None:
    """And what is not there any more is gone."""
    await lose(watching)
    await watching.until("n2")
    assert watching.reflector.lists == 2


async def test_a_server_that_has_too_much_to_do_says_when_to_come_back(watching: Watching) -> None:
    """A busy server may answer in plain text, and is asked again after a pause."""
    times: list[float] = []

    def refuse(query: dict[str, str]) -> None:
        times.append(trio.current_time())
        if len(times) == 1:
            raise Refused(429, "", "", "Too many requests, please try again later.\n")

    watching.faults = refuse
    watching.server.cut_watches()
    watching.node("n2")
    await watching.until("n1", "n2")
    assert times[1] - times[0] >= 1
    assert watching.reflector.lists == 1


class _EndingApi(DirectApi):
    """Every watch ends at once, behind this line."""

    def __init__(self, server: FakeServer, line: bytes) -> None:
        super().__init__(server)
        self._line = line
        self.watches = 0

    @asynccontextmanager
    async def watch(self, path: str, silence_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self.watches += 1
        assert self.watches < 100, "it is asked again and again without a pause"

        async def lines() -> AsyncIterator[bytes]:
            if self._line:
                yield self._line

        async with aclosing(lines()) as found:
            yield found


@pytest.mark.parametrize("line", [b"", b'{"type": "ERROR", "object": {"code": 410}}', b"{}"], ids=["empty", "lost", "wrong"])
async def test_watches_that_end_at_once_are_opened_more_and_more_seldom(line: bytes, autojump_clock: Clock) -> None:
    """Else all is listed again and again, by each replica, from a server that has trouble already."""
    server = FakeServer()
    api = _EndingApi(server, line)
    watching = Watching(server, api)
    with trio.move_on_after(300):
        await watching.reflector.run()
    assert 10 < api.watches < 30
    assert len(watching.queries) <= api.watches + 1


async def test_large_lists_come_in_pages_of_one_version(autojump_clock: Clock) -> None:
    """All pages are listed again if the version of the first ones is compacted before the last one."""
    server = FakeServer()
    watching = Watching(server, DirectApi(server))
    for number in range(2 * PAGE_SIZE + 200):
        watching.node(f"n{number}")
    compactions = [1]

    def compact(query: dict[str, str]) -> None:
        if "continue" in query and compactions:
            compactions.pop()
            watching.node("late")
            server.store.compact()

    watching.faults = compact
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.reflector.run)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert len(watching.there) == 2 * PAGE_SIZE + 201
    pages = [query.get("continue", "") for query in watching.queries if "watch" not in query]
    assert [bool(each) for each in pages] == [False, True, False, True, True]
    assert {query["limit"] for query in watching.queries if "watch" not in query} == {str(PAGE_SIZE)}


class Scripted:
    """A server that answers when it is told to."""

    def __init__(self) -> None:
        self.lists: list[trio.Event] = []
        self.to_watch, self.lines = trio.open_memory_channel[bytes](10)

    async def request(self, method: str, path: str) -> bytes:
        self.lists.append(trio.Event())
        await self.lists[-1].wait()
        return b'{"metadata":{"resourceVersion":"5"},"items":[]}'

    @asynccontextmanager
    async def watch(self, path: str, limit_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self.lines


@pytest.mark.parametrize("trial", range(8))  # the order of tasks is random
async def test_an_event_that_comes_with_a_refresh_does_not_undo_it(trial: int, nursery: trio.Nursery) -> None:
    """The watch has the line, but has not handled it yet, when the kind is to be listed again."""
    server = Scripted()
    found = Reflector(server, NODES, lambda _: None, process(), Outages(lambda _: None))  # type: ignore[arg-type]
    nursery.start_soon(found.run)
    await trio.testing.wait_all_tasks_blocked()
    server.lists[0].set()
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(found.refresh)
    server.to_watch.send_nowait(b'{"type":"ADDED","object":{"metadata":{"name":"n1","resourceVersion":"6"}}}')
    await trio.testing.wait_all_tasks_blocked()
    assert len(server.lists) == 2
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("trial", range(8))  # the order of tasks is random
async def test_a_list_that_is_under_way_is_no_refresh(trial: int, nursery: trio.Nursery) -> None:
    """The list under way may be older than the call: one that has begun later is waited for."""
    server = Scripted()
    found = Reflector(server, NODES, lambda _: None, process(), Outages(lambda _: None))  # type: ignore[arg-type]
    nursery.start_soon(found.run)
    await trio.testing.wait_all_tasks_blocked()
    async with trio.open_nursery() as refreshing:
        refreshing.start_soon(found.refresh)
        server.lists[0].set()
        await trio.testing.wait_all_tasks_blocked()
        assert refreshing.child_tasks
        assert len(server.lists) == 2
        server.lists[1].set()
    nursery.cancel_scope.cancel()
