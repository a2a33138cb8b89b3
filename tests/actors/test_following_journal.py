"""The end of a standby of the connection to its daemon, without a daemon (DU-20)."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from ykactor.client.errors import Disconnected
from ykactor.client.login import Login
from ykactor.surfaces.standby import following as module
from ykactor.surfaces.standby.following import PAUSE_MAX_S, FollowingJournal


def following_of(directory: Path) -> FollowingJournal:
    journal = SimpleNamespace(joining=SimpleNamespace(number=0))
    return FollowingJournal("ws://daemon", Login(), directory, cast("Any", journal))


@pytest.mark.parametrize("makes_progress", [False, True])
async def test_a_standby_that_gets_nowhere_tries_less_and_less_often(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, makes_progress: bool
) -> None:
    """Each attempt has the daemon make a copy of its journal; one that takes something over begins with short pauses again."""
    following, attempts = following_of(tmp_path), list[float]()

    async def follow() -> None:
        attempts.append(trio.current_time())
        following.status.connected = True
        following.status.transaction += makes_progress
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(following, "_follow", follow)
    with trio.move_on_after(600):
        await following.run()
    pause_s = attempts[-1] - attempts[-2]
    assert (pause_s < 1) if makes_progress else (PAUSE_MAX_S / 2 <= pause_s <= PAUSE_MAX_S)


async def test_a_copy_that_was_not_complete_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete copy may be as large as the journal, and the next connection may bring none."""

    @asynccontextmanager
    async def no_connection(*_: object, **__: object) -> AsyncIterator[None]:
        raise Disconnected("nobody listens")
        yield

    monkeypatch.setattr(module, "open_connection", no_connection)
    incoming = trio.Path(tmp_path, "incoming.db")
    await incoming.write_bytes(b"part")
    with pytest.raises(Disconnected):
        await following_of(tmp_path)._follow()
    assert not await incoming.exists()
