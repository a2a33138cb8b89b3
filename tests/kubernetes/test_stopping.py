"""A process that stops to lead leaves nothing to its successor that this one cannot see, on a simulated clock."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
import trio
from directapi import DirectApi, process
from fakehttp import Request
from fakeserver import FakeServer
from seeds import seeds
from test_leading import BEGAN
from trio.abc import Clock

from ykactor.kubernetes.api import JSON, TIMEOUT_S, ApiError
from ykactor.kubernetes.effects import Effects, Feedback
from ykactor.kubernetes.lanes import Pace
from ykactor.kubernetes.leader import DURATION_S, STOP_S, Leader, Leadership, LeaseName, lead_alone
from ykactor.kubernetes.messages import Bind, Ref
from ykactor.kubernetes.process import Outages


class SentApi(DirectApi):
    """A request that was sent is carried out, also when nobody waits for its answer any more."""

    def __init__(self, server: FakeServer, nursery: trio.Nursery) -> None:
        super().__init__(server)
        self._nursery = nursery

    async def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> bytes:
        send, receive = trio.open_memory_channel[Any](1)

        async def carry_out() -> None:
            try:
                send.send_nowait(await super(SentApi, self).request(method, path, body, content_type))
            except Exception as error:
                send.send_nowait(error)

        self._nursery.start_soon(carry_out)
        with trio.move_on_after(TIMEOUT_S):
            answer = await receive.receive()
            if isinstance(answer, Exception):
                raise answer
            return bytes(answer)
        raise ApiError(0, "ReadTimeout", "no answer")


class Replica:
    """A process, with a Lease or alone; as the leader it binds a pod.

    Attributes:
        saw: where the pod was when it began to lead; None if it has not.
        began_s: when it began to lead.
    """

    def __init__(self, api: DirectApi, name: str, rng: random.Random, *, has_lease: bool = True) -> None:
        self._api = api
        self._lease = LeaseName("ykactor", "ykactor", name) if has_lease else None
        self._rng = rng
        self.saw: str | None = None
        self.began_s = 0.0
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            if self._lease is None:
                await lead_alone(self._lead)
            else:
                await Leader(self._api, self._lease, process(self._rng, now), Outages(lambda _: None)).run(self._lead)

    async def _lead(self, leadership: Leadership) -> None:
        pod = self._api._server.store.get("pods", "team", "p")
        self.saw, self.began_s = pod["spec"].get("nodeName", ""), trio.current_time()
        effects = Effects(
            self._api, Pace(200), process(self._rng), Feedback(lambda _: None, lambda _: True), lambda: "/apis/groups"
        )
        effects.put(Bind("team.p", Ref("team", "p"), pod["metadata"]["uid"], "n1"))
        await effects.run(leadership)


def now() -> datetime:
    return BEGAN + timedelta(seconds=trio.current_time())


def slow_server(takes_s: float) -> FakeServer:
    """A server with a pod, which takes its time to bind it."""
    server = FakeServer()
    server.store.create("pods", "team", {"metadata": {"name": "p"}, "spec": {"containers": []}})

    async def take_time(request: Request) -> None:
        if request.subresource == "binding":
            await trio.sleep(takes_s)

    server.faults = take_time
    return server


@pytest.mark.parametrize("seed", seeds(20))
async def test_the_next_leader_sees_the_binds_of_the_one_before(seed: int, autojump_clock: Clock) -> None:
    """However long the server takes: the Lease is free when all is answered, else it has to run out."""
    rng = random.Random(seed)
    takes_s = rng.choice((rng.uniform(0.5, STOP_S), rng.uniform(STOP_S, DURATION_S)))
    server = slow_server(takes_s)
    async with trio.open_nursery() as nursery:
        one, two = (Replica(SentApi(server, nursery), name, rng) for name in ("one", "two"))
        nursery.start_soon(one.run)
        await trio.sleep(0.2)
        nursery.start_soon(two.run)
        await trio.sleep(rng.uniform(0, 0.2))
        one.scope.cancel()
        stopped_s = trio.current_time()
        await trio.sleep(2 * DURATION_S)
        nursery.cancel_scope.cancel()
    assert two.saw == "n1"
    assert two.began_s - stopped_s <= (takes_s + 2.5 if takes_s < STOP_S else DURATION_S * 7 / 6)


@pytest.mark.parametrize("has_lease", [True, False], ids=["with a Lease", "alone"])
@pytest.mark.parametrize("seed", seeds(20))
async def test_the_next_process_sees_a_bind_that_had_no_answer(seed: int, autojump_clock: Clock, *, has_lease: bool) -> None:
    """The bind is done up to ten seconds after the process was stopped: it waits for its answer, or has waited in vain."""
    rng = random.Random(seed)
    takes_s = rng.uniform(0.5, TIMEOUT_S + DURATION_S - STOP_S)
    server = slow_server(takes_s)
    async with trio.open_nursery() as nursery:
        one, two = (Replica(SentApi(server, nursery), name, rng, has_lease=has_lease) for name in ("one", "two"))
        async with trio.open_nursery() as first:
            first.start_soon(one.run)
            await trio.sleep(max(0.2, takes_s - rng.uniform(0, DURATION_S - STOP_S)))
            one.scope.cancel()
        nursery.start_soon(two.run)
        await trio.sleep(2 * DURATION_S)
        nursery.cancel_scope.cancel()
    assert two.saw == "n1"


async def test_a_process_alone_ends_at_once_when_nothing_is_open(autojump_clock: Clock) -> None:
    """A process without a Lease waits only for answers."""
    async with trio.open_nursery() as nursery:
        one = Replica(SentApi(slow_server(0.5), nursery), "one", random.Random(0), has_lease=False)
        nursery.start_soon(one.run)
        await trio.sleep(1)
        one.scope.cancel()
        stopped_s = trio.current_time()
    assert trio.current_time() == stopped_s
