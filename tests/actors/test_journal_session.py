"""The daemon's end of the session of a standby, without sockets (DU-20, DU-23)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from ykactor.access.model import Role
from ykactor.actors.standbys import Settings, Standbys
from ykactor.journal import schema
from ykactor.journal.stream import Join, ToDaemon, encode
from ykactor.journal.terms import GENERATION, Beginning, Term, Terms
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.sessions import journal_session as module
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.journal_session import JournalSession

FIRST = Beginning(Term(1, "a"), 1, 1, 1)
TAKEN_OVER = Beginning(Term(GENERATION, "b"), 4, 1, 1)


class Peer:
    """A standby that sends some messages, and then nothing."""

    def __init__(self, *messages: ToDaemon, is_gone: bool = False) -> None:
        self._messages = [encode(message) for message in messages]
        self._is_gone = is_gone

    async def receive(self) -> bytes:
        if not self._messages:
            await trio.sleep_forever()
        return self._messages.pop(0)

    async def send_encoded(self, *_: object) -> None:
        if self._is_gone:
            raise ConnectionClosedError

    def settle(self) -> None:
        pass


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
    """It knows that another one has taken over, whoever told it; to go on would be a second history."""
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
