"""The time until another replica leads, on a simulated clock."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from directapi import DirectApi, process
from fakeserver import FakeServer
from seeds import seeds

from ykactor.kubernetes.leader import DURATION_S, RENEW_S, Leader, Leadership, LeaseName
from ykactor.kubernetes.process import Outages

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def renewed(seconds: float) -> dict[str, Any]:
    """The Lease of another replica, renewed at that time."""
    at = (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "one", "leaseDurationSeconds": DURATION_S, "renewTime": at, "leaseTransitions": 1}
    return {"metadata": {"name": "ykactor", "namespace": "ykactor"}, "spec": spec}


@pytest.mark.parametrize("seed", seeds(20))
async def test_a_replica_leads_soon_after_the_leader_has_died(seed: int, autojump_clock: trio.abc.Clock) -> None:
    """Not before the Lease has run out, and at most a sixth of its time later, whenever the last renewal was."""
    rng, server = random.Random(seed), FakeServer()
    api, name = DirectApi(server), LeaseName("ykactor", "ykactor", "two")
    began_s, led_s = trio.current_time(), list[float]()
    server.store.create("leases", "ykactor", renewed(0))

    async def lead(_: Leadership) -> None:
        led_s.append(trio.current_time())
        await trio.sleep_forever()

    leader = Leader(api, name, process(rng), Outages(lambda _: None))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.run, lead)
        for _ in range(rng.randrange(1, 6)):
            await trio.sleep(RENEW_S * rng.uniform(0.9, 1.1))
            await api.request("PUT", f"{name.path}/ykactor", renewed(trio.current_time() - began_s))
        died_s = trio.current_time()
        await trio.sleep(3 * DURATION_S)
        nursery.cancel_scope.cancel()
    assert DURATION_S <= led_s[0] - died_s <= DURATION_S * 7 / 6
