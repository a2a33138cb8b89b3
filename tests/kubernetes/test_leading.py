"""Leading replicas on a simulated clock: another one after the leader has died, the same one after its session was ended."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from directapi import DirectApi, process
from fakeserver import FakeServer
from msgspec import structs
from objects import pod
from seeds import seeds
from test_probes import settings

from ykactor.client import Disconnected, KeptSession, RequestRefused, SessionReplaced
from ykactor.client.addresses import Addresses
from ykactor.kubernetes import adapter
from ykactor.kubernetes.leader import DURATION_S, PAUSE_S, RENEW_S, Leader, Leadership, LeaseName
from ykactor.kubernetes.messages import Changed, Kind
from ykactor.kubernetes.process import Outages
from ykactor.wire.si import messages as si

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


class EndedSession(KeptSession):
    """A session that has begun, and is ended before anybody reads that: what is sent then meets its end first."""

    def __init__(self) -> None:
        super().__init__(Addresses("unix:/none"), lambda: None, str, random.Random(0), lambda _: None)  # type: ignore[arg-type, return-value]
        self.begins = self._messages_in.send

    def end(self, failure: Exception) -> None:
        self._failure = failure

    def read_end(self) -> None:
        self._messages_in.close()


@pytest.mark.parametrize(
    "failure", [SessionReplaced("4001 replaced"), SessionReplaced("4006 an operator"), RequestRefused("NOT_PERMITTED", "no")]
)
async def test_a_leader_whose_session_has_ended_leads_again_later(
    failure: Disconnected | RequestRefused, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.abc.Clock
) -> None:
    """Also if it sends something before it reads that: the end of a session is told once, where the session is read."""
    sessions = list[EndedSession]()

    @asynccontextmanager
    async def keep_registered(*_: object, **__: object) -> AsyncIterator[KeptSession]:
        sessions.append(EndedSession())
        yield sessions[-1]

    monkeypatch.setattr(adapter, "keep_registered", keep_registered)
    warned = list[str]()
    lease = LeaseName("ykactor", "ykactor", "one")
    replica = adapter.Adapter(DirectApi(FakeServer()), structs.replace(settings(), lease=lease), process(warn=warned.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replica.run)
        await trio.sleep(1)
        await sessions[0].begins(si.RegisterResourceManagerResponse())
        await trio.sleep(1)
        sessions[0].end(failure)
        replica._arrive(Changed(Kind.PODS, pod("p")))
        await trio.sleep(1)
        sessions[0].read_end()
        await trio.sleep(1)
        assert warned == [f"the daemon does not let this process lead: {failure}"]
        await trio.sleep(2 * PAUSE_S)
        assert len(sessions) == 2
        nursery.cancel_scope.cancel()
