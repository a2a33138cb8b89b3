"""Waits of a follower before it connects again (``client.follower``)."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from ykactor.client import Disconnected
from ykactor.client.addresses import Addresses
from ykactor.client.connection import encoding_named
from ykactor.client.follower import Connecting, Follower
from ykactor.client.login import Login
from ykactor.client.reconnecting import BACKOFF_MAX_S, LASTING_S
from ykactor.wire.si import messages as si


class Open(Connecting):
    """Connects without a daemon."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        yield


class Cut(Follower):
    """A follower whose sessions are cut after some time, though each has brought events."""

    def __init__(self, lasting_s: float) -> None:
        super().__init__(Open(Addresses("unix:/none"), Login(), encoding_named("json"), 0), si.Subscribe(), random.Random(1))
        self.sessions_s: list[float] = []
        self._lasting_s = lasting_s

    async def _listen(self, _: object) -> None:
        self.sessions_s.append(trio.current_time())
        self.begun.set()
        self._resume_from(len(self.sessions_s))
        await trio.sleep(self._lasting_s)
        raise Disconnected("cut")


@pytest.mark.parametrize(("lasting_s", "pause_s"), [(0.0, BACKOFF_MAX_S), (LASTING_S, 0.2)])
async def test_the_pause_grows_unless_a_session_lasts(
    autojump_clock: trio.testing.MockClock, lasting_s: float, pause_s: float
) -> None:
    """A daemon that dies of every follower is left alone for a while; one that is restarted now and then is not."""
    follower = Cut(lasting_s)
    with trio.move_on_after(20 * (lasting_s + BACKOFF_MAX_S)):
        await follower.run()
    *_, last, end = follower.sessions_s
    assert pause_s / 2 <= end - last - lasting_s <= pause_s
