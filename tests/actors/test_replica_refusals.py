"""A replica tells its daemon what it has refused (SE-74)."""

from __future__ import annotations

from typing import cast

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ykactor.access.model import Identity, Role
from ykactor.core.messages.acts import Act
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.replica.refusals import BURST_S, KEPT_MAX, RATE, Refusals
from ykactor.wire.turns import Refused, decode_of_replica


class Daemon:
    """A connection: what the daemon is told."""

    def __init__(self) -> None:
        self.told: list[Refused] = []

    async def send(self, data: bytes) -> None:
        self.told.append(cast("Refused", decode_of_replica(data)))


def eve(network: int = 0) -> Caller:
    return Caller(Role.READER, f"10.0.{network}.9:4711", Identity(name="eve", roles=frozenset()))


async def test_one_is_told_at_once_and_the_rest_in_a_sum(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """The first refusal of an identity and an act is told, and after a minute how many more there were, as at the daemon."""
    refusals, daemon = Refusals(lambda: 0), Daemon()
    nursery.start_soon(refusals.run)
    for _ in range(5):
        refusals.refused(eve(), Act.CONNECT, "/ws/v1/config", "no")
        await wait_all_tasks_blocked()
    await refusals.send(daemon)
    assert daemon.told == [Refused("eve", "10.0.0.9:4711", "reader", Act.CONNECT, "/ws/v1/config", "no")]
    await trio.sleep(61)
    await refusals.send(daemon)
    assert [told.times for told in daemon.told] == [1, 4]


async def test_a_flood_ends_here(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """The replica tells so many refusals in a second, from many networks, and keeps no more than a bound."""
    refusals, daemon = Refusals(lambda: 0), Daemon()
    nursery.start_soon(refusals.run)
    for minute in range(3):
        for network in range(500):
            refusals.refused(eve(network), Act.CONNECT, f"/{minute}", "no")
        await trio.sleep(61)
    await refusals.send(daemon)
    assert len(daemon.told) == RATE * BURST_S
    await refusals.send(daemon)
    assert len(daemon.told) == RATE * BURST_S
    for _ in range(10_000):
        await trio.sleep(1)
        await refusals.send(daemon)
    assert len(daemon.told) == KEPT_MAX
    assert {told.target for told in daemon.told} == {"/1", "/2"}  # the oldest were in the log only
