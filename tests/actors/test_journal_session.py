"""The daemon's end of the session of a standby, without sockets (DU-20, DU-23)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ykactor.access.model import Role
from ykactor.actors.standbys import Settings, Standbys
from ykactor.journal import copying, schema
from ykactor.journal.store import Store
from ykactor.journal.stream import PART_BYTES, Following, Join, Part, ToDaemon, ToStandby, encode, from_daemon
from ykactor.journal.terms import GENERATION, Beginning, Term, Terms
from ykactor.journal.transaction import Batch
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.sessions import journal_session as module
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.journal_session import JournalSession
from ykactor.wire.seals import Seal

FIRST = Beginning(Term(1, "a"), 1, 1, 1)
TAKEN_OVER = Beginning(Term(GENERATION, "b"), 4, 1, 1)


class Peer:
    """A standby that sends some messages, and then nothing."""

    def __init__(self, *messages: ToDaemon, is_gone: bool = False) -> None:
        seal, self._seal = Seal(), Seal()
        self._messages = [seal.close(encode(message)) for message in messages]
        self._is_gone = is_gone
        self.sent: list[ToStandby] = []
        self.dropped = ""
        self.has_copy = trio.Event()

    async def receive(self) -> bytes:
        if not self._messages:
            await trio.sleep_forever()
        return self._messages.pop(0)

    async def send_encoded(self, messages: list[bytes], _: object) -> None:
        if self._is_gone:
            raise ConnectionClosedError
        self.sent += map(from_daemon, map(self._seal.open, messages))
        if isinstance(self.sent[-1], Part):
            await self.take_part()
            if self.sent[-1].is_last:
                self.has_copy.set()

    async def drop(self, _: int, reason: str) -> None:
        self.dropped = reason

    def settle(self) -> None:
        pass

    async def take_part(self) -> None:
        """Takes a part of a copy."""


class Gateway:
    """A daemon that notes in which term another one has taken over."""

    def __init__(self) -> None:
        self.terms = Terms([FIRST])
        self.superseded = ""

    def supersede(self, term: str) -> None:
        self.superseded = term


def session_of(peer: Peer, gateway: Gateway, standbys: Standbys) -> JournalSession:
    return JournalSession(cast("Any", peer), cast("Any", gateway), standbys, Caller(Role.REPLICA, "10.0.0.2:41822"))


@pytest.mark.parametrize("version", [schema.VERSION, schema.VERSION + 1])
async def test_a_daemon_ends_even_if_its_answer_reaches_nobody(version: int) -> None:
    """The daemon knows that another one has taken over, whoever told it; to go on would be a second history."""
    gateway, peer = Gateway(), Peer(Join(version, 3, [FIRST, TAKEN_OVER]), is_gone=True)
    with pytest.raises(ConnectionClosedError):
        await session_of(peer, gateway, Standbys(Path("state"), 3, [FIRST], Settings())).run()
    assert gateway.superseded == f"{GENERATION}-b"


async def test_one_copy_is_made_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that comes and goes leaves the thread behind that makes its copy; the next one waits for that."""
    standbys, under_way, most = Standbys(tmp_path, 9, [FIRST], Settings()), 0, 0
    has_begun, goes_on = threading.Event(), threading.Event()

    @contextmanager
    def counted() -> Iterator[None]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        yield
        under_way -= 1

    def copy_rest(*_: object) -> int:
        with counted():
            has_begun.set()
            goes_on.wait()
        raise OSError

    monkeypatch.setattr(module, "copy_rest", copy_rest)
    for _ in range(3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session_of(Peer(Join(schema.VERSION, 0, [])), Gateway(), standbys).run)
            await trio.to_thread.run_sync(has_begun.wait)
            await wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
    goes_on.set()
    assert most == 1


def write_history(directory: Path, count: int) -> Standbys:
    """A journal of so many transactions, with its standbys."""
    with closing(Store.open(directory, "off", now_ns=1)) as store:
        for number in range(count):
            store.commit(Batch(first_event=1, first_message=1, turns=[b"%d" % number]))
        return Standbys(directory, store.number, store.beginnings, Settings())


async def test_a_copy_leaves_room_to_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby is told if there is no room for its copy, and nothing is left of what was begun; with room it gets one."""
    standbys, free = write_history(tmp_path, 50), [2**20]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free.pop() if len(free) > 1 else free[0]))
    monkeypatch.setattr(copying, "_STEPS", 1)
    for frees, reason in (
        ([2**20], "no copy can be made: found 1048576 bytes free for a copy, expected "),
        ([2**20, 2**40], "rest.db: found too little room left on the disk for it"),
    ):
        free[:] = frees
        peer = Peer(Join(schema.VERSION, 0, []))
        await session_of(peer, Gateway(), standbys).run()
        assert reason in peer.dropped
        assert [type(message) for message in peer.sent] == [Following]
        assert directories(tmp_path) == []
    free[:] = [2**40]
    await take_copy(Peer(Join(schema.VERSION, 0, [])), standbys)
    assert directories(tmp_path) == []


def directories(directory: Path) -> list[Path]:
    return [file for file in directory.iterdir() if file.is_dir()]


async def take_copy(peer: Peer, standbys: Standbys) -> None:
    """Run the session of a standby until it has a copy."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session_of(peer, Gateway(), standbys).run)
        await peer.has_copy.wait()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


class SlowPeer(Peer):
    """A standby that takes a part of a copy in five seconds.

    Attributes:
        on_parts: called when it has taken so many parts.
    """

    def __init__(self, clock: MockClock, *messages: ToDaemon) -> None:
        super().__init__(*messages)
        self._clock = clock
        self._parts = 0
        self.on_parts: dict[int, Callable[[], None]] = {}

    async def take_part(self) -> None:
        self._clock.jump(5)
        self._parts += 1
        self.on_parts.get(self._parts, lambda: None)()
        await wait_all_tasks_blocked()


async def test_a_slow_standby_gives_its_copy_up_if_another_one_waits(
    mock_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone it may take as long as it likes."""
    standbys = Standbys(tmp_path, 9, [FIRST], Settings())

    def copy_rest(_: Path, target: Path, __: int) -> int:
        target.write_bytes(bytes(50 * PART_BYTES))
        return 9

    monkeypatch.setattr(module, "copy_rest", copy_rest)
    slow = SlowPeer(mock_clock, Join(schema.VERSION, 0, []))
    await take_copy(slow, standbys)
    assert slow.dropped == ""
    slow, fast = SlowPeer(mock_clock, Join(schema.VERSION, 0, [])), Peer(Join(schema.VERSION, 0, []))
    async with trio.open_nursery() as nursery:
        slow.on_parts[2] = lambda: nursery.start_soon(take_copy, fast, standbys)
        await session_of(slow, Gateway(), standbys).run()
    assert slow.dropped.startswith("read less than 1048576 bytes/s of a copy")
    assert len(slow.sent) - 2 > 5
    assert fast.dropped == ""
