"""Reports that requests to the API server fail, on a simulated clock: one sentence for one cause."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from directapi import DirectApi, process
from fakeserver import FakeServer
from msgspec import structs
from seeds import seeds
from test_probes import settings
from trio.abc import Clock

from ykactor.kubernetes.adapter import Adapter
from ykactor.kubernetes.api import JSON, ApiError
from ykactor.kubernetes.leader import LeaseName
from ykactor.kubernetes.messages import Kind
from ykactor.kubernetes.process import PATIENCE_S, Outages


class Away(DirectApi):
    """A server that does not answer."""

    async def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> bytes:
        await trio.sleep(0.1)
        raise ApiError(0, "ReadTimeout" if method == "GET" and "lease" in path else "ConnectError", "no answer")

    @asynccontextmanager
    async def watch(self, path: str, silence_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        await self.request("GET", path)
        yield aiter(())  # type: ignore[call-overload]


async def test_a_server_that_is_away_is_told_of_once_a_minute(autojump_clock: Clock) -> None:
    """All kinds, the versions of some, and the Lease cannot be read for one cause."""
    warned = list[str]()
    lease = LeaseName("ykactor", "ykactor", "one")
    adapter = Adapter(Away(FakeServer()), structs.replace(settings(), lease=lease), process(warn=warned.append))
    with trio.move_on_after(PATIENCE_S + 45):
        await adapter.run()
    (warning,) = warned
    watched = set(Kind) - {Kind.BUDGETS, Kind.POD_GROUPS, Kind.CAPACITIES}
    names = {*watched, "the Lease ykactor", "the versions of poddisruptionbudgets"}
    assert not [name for name in names if name not in warning.partition(" cannot be read: ")[0].split(", ")]


@pytest.mark.parametrize("seed", seeds(20))
async def test_no_cause_is_told_twice_in_a_minute_and_none_is_kept_silent(seed: int, autojump_clock: Clock) -> None:
    """Whatever fails for how long, and for which causes at the same time."""
    rng, told, began_s = random.Random(seed), list[tuple[float, str]](), trio.current_time()
    outages = Outages(lambda sentence: told.append((trio.current_time() - began_s, sentence)))
    failing: dict[str, tuple[int, float]] = {}
    for second in range(600):
        await trio.sleep(1)
        for what in ("nodes", "pods", "the Lease"):
            if rng.random() < 0.01:
                failing.pop(what, None)
                outages.over(what)
                if rng.random() < 0.7:
                    failing[what] = rng.choice((0, 403)), second
        for what, (status, since) in failing.items():
            outages.failed(what, ApiError(status, "Reason", f"status {status}"))
            if second - since > 2 * PATIENCE_S:
                assert any(f"{status}" in said and what in said for at_s, said in told if at_s >= second - 2 * PATIENCE_S)
    for status in (0, 403):
        times = [at_s for at_s, said in told if said.endswith(f"status {status}")]
        assert all(later - earlier >= PATIENCE_S for earlier, later in pairwise(times))
