"""Leading, on a simulated clock: one replica at a time, the next one in seconds, each time with a higher epoch."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from directapi import DirectApi, process
from fakehttp import Body
from fakeserver import FakeServer
from faults import starting
from seeds import seeds
from trio.abc import Clock

from ykactor.kubernetes.api import JSON, ApiError
from ykactor.kubernetes.leader import DURATION_S, EPOCH, RENEW_S, Leader, Leadership, LeaseName
from ykactor.kubernetes.process import Outages

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
BEGIN_S = int(BEGIN.timestamp())


class Replica:
    """A process that wants to lead.

    Attributes:
        epochs: of its times as the leader.
        times: when it has begun and ended to lead.
        away: True while the API server cannot be reached from it.
        loses_answers: True if some requests have their effect all the same.
        gives_up: it stops to lead by itself when this is set.
    """

    def __init__(self, server: FakeServer, name: str, rng: random.Random | None = None) -> None:
        self.server = server
        self.name = name
        self.rng = rng or random.Random(0)
        self.began_s = trio.current_time()
        self.epochs: list[int] = []
        self.times: list[tuple[str, float]] = []
        self.away = self.loses_answers = False
        self.gives_up = trio.Event()
        self.scope = trio.CancelScope()
        server.users[name] = None

    @property
    def leads(self) -> bool:
        return bool(self.times) and self.times[-1][0] == "begin"

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=trio.current_time() - self.began_s)

    async def run(self) -> None:
        api = _LostApi(self)
        name = LeaseName("ykactor", "ykactor", self.name)
        with self.scope:
            await Leader(api, name, process(self.rng, self.now), Outages(lambda _: None)).run(self._lead)

    async def _lead(self, leadership: Leadership) -> None:
        self.epochs.append(leadership.epoch)
        self._note("begin")
        try:
            await self.gives_up.wait()
        finally:
            self._note("end")

    def _note(self, what: str) -> None:
        self.times.append((what, trio.current_time() - self.began_s))


class _LostApi(DirectApi):
    """Does not answer while its replica is away: at once or late, with the effect of the request or without it."""

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica.server, replica.name)
        self._replica = replica

    async def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> bytes:
        replica = self._replica
        if not replica.away:
            return await super().request(method, path, body, content_type)
        await trio.sleep(replica.rng.choice((0, replica.rng.uniform(0, 15))))
        if replica.rng.random() < 0.2 and replica.loses_answers:
            with suppress(ApiError):
                await super().request(method, path, body, content_type)
        raise ApiError(0, "ConnectError", "no answer")


@pytest.fixture
async def play() -> Any:
    """A server, and what starts replicas."""
    server = FakeServer()
    async with trio.open_nursery() as nursery:

        def start(name: str, rng: random.Random | None = None) -> Replica:
            replica = Replica(server, name, rng)
            nursery.start_soon(replica.run)
            return replica

        yield start
        nursery.cancel_scope.cancel()


def lease(replica: Replica) -> Body:
    return replica.server.store.get("leases", "ykactor", "ykactor")


def holder(replica: Replica) -> str:
    """The identity of the holder; "" is none."""
    found: str = lease(replica)["spec"]["holderIdentity"]
    return found.partition("_")[0]


async def test_a_new_lease(play: Any, autojump_clock: Clock) -> None:
    """A new Lease has its epoch, the Unix seconds, and is renewed each 5 s, with fractions of seconds."""
    one = play("one")
    await trio.sleep(1)
    found = lease(one)
    assert one.epochs == [BEGIN_S]
    assert found["metadata"]["annotations"] == {EPOCH: str(BEGIN_S)}
    assert (holder(one), found["spec"]["leaseDurationSeconds"]) == ("one", DURATION_S)
    await trio.sleep(21)
    changes = [change.object["spec"]["renewTime"] for change in one.server.store.log if change.resource == "leases"]
    assert changes == [f"2030-01-01T00:00:{second:02}.000000Z" for second in (0, 5, 10, 15, 20)]


async def test_a_second_replica_waits_until_the_lease_has_run_out(play: Any, autojump_clock: Clock) -> None:
    """The first one has crashed; the time is counted from when its last renewal was seen, not by its clock."""
    one = play("one")
    await trio.sleep(7)
    two = play("two")
    await trio.sleep(60)
    assert two.epochs == []
    one.away = True
    await trio.sleep(DURATION_S + 2 * RENEW_S)
    assert two.epochs
    assert two.epochs[0] > one.epochs[0]


async def test_the_epoch_grows_with_each_takeover(play: Any, autojump_clock: Clock) -> None:
    """Also if the clock of the one before was ahead; what cannot be read counts for nothing."""
    one = play("one")
    await trio.sleep(1)
    one.scope.cancel()
    await trio.sleep(1)
    for text, epoch in (("9" * 12, 10**12), ("none", 0), ("-7", 0), ("9" * 30, 0)):
        store = one.server.store
        store.patch("leases", lease(one), {"metadata": {"annotations": {EPOCH: text}}}, strategic=False)
        two = play("two")
        await trio.sleep(10)
        assert two.epochs[0] == epoch or BEGIN_S <= two.epochs[0] < BEGIN_S + 1000
        assert two.epochs[0] >= epoch
        two.scope.cancel()
        await trio.sleep(1)


async def test_a_leader_that_is_stopped_releases_the_lease(play: Any, autojump_clock: Clock) -> None:
    """Another one leads as soon as it looks."""
    one = play("one")
    await trio.sleep(1)
    two = play("two")
    await trio.sleep(7)
    one.scope.cancel()
    await trio.sleep(0.1)
    assert holder(one) == ""
    await trio.sleep(1.2 * RENEW_S)
    assert two.epochs


@pytest.mark.parametrize("seed", seeds(12))
async def test_a_leader_without_the_server_stops_after_two_thirds_of_the_lease(
    seed: int, play: Any, autojump_clock: Clock
) -> None:
    """The leader stops if requests fail or have no answer; it leads again, with a higher epoch, when the server is back."""
    one = play("one", random.Random(seed))
    await trio.sleep(one.rng.uniform(1, 30))
    renewed = [change for change in one.server.store.log if change.resource == "leases"][-1]
    one.away = True
    await trio.sleep(60)
    (_, _), (what, ended_s) = one.times
    last_s = datetime.fromisoformat(renewed.object["spec"]["renewTime"]) - BEGIN
    assert what == "end"
    assert ended_s - last_s.total_seconds() == pytest.approx(DURATION_S * 2 / 3)
    one.away = False
    await trio.sleep(20)
    assert one.epochs[1] > one.epochs[0]


async def test_a_lease_that_was_deleted_is_made_again(play: Any, autojump_clock: Clock) -> None:
    """The new Lease has the same epoch, and the leader leads on."""
    one = play("one")
    await trio.sleep(1)
    one.server.store.remove("leases", lease(one))
    await trio.sleep(5)
    assert lease(one)["metadata"]["annotations"] == {EPOCH: str(BEGIN_S)}
    assert one.epochs == [BEGIN_S]


async def test_a_leader_whose_lease_another_one_has_taken_stops(play: Any, autojump_clock: Clock) -> None:
    """The old leader leaves the Lease to that one."""
    one = play("one")
    await trio.sleep(1)
    one.server.store.patch("leases", lease(one), {"spec": {"holderIdentity": "other"}}, strategic=False)
    await trio.sleep(RENEW_S)
    assert [what for what, _ in one.times] == ["begin", "end"]
    assert holder(one) == "other"


async def test_of_two_with_the_same_name_the_first_one_leads_on(play: Any, autojump_clock: Clock) -> None:
    """However often the other one is started again; and when it has died, not before its Lease has run out."""
    one = play("same", random.Random(1))
    await trio.sleep(1)
    for number in range(10):
        two = play("same", random.Random(2 + number))
        await trio.sleep(2 * RENEW_S)
        assert (one.leads, two.epochs) == (True, [])
        two.scope.cancel()
    two = play("same", random.Random(12))
    one.away = True
    for _ in range(2 * DURATION_S):
        await trio.sleep(1)
        assert not (one.leads and two.leads)
    assert two.epochs[0] > one.epochs[0]


async def test_a_leader_stops_if_the_lease_was_deleted_and_had_another_holder(play: Any, autojump_clock: Clock) -> None:
    """Also if that one has given it up: the number of the takeover says so."""
    one = play("one")
    await trio.sleep(1)
    taken = {"spec": {"holderIdentity": ""}, "metadata": {"annotations": {EPOCH: str(BEGIN_S + 3)}}}
    one.server.store.patch("leases", lease(one), taken, strategic=False)
    await trio.sleep(RENEW_S)
    assert [what for what, _ in one.times[:2]] == ["begin", "end"]


async def test_a_leader_that_gives_up_lets_another_one_lead(play: Any, autojump_clock: Clock) -> None:
    """The daemon serves another process: the Lease is free at once, and is not taken again for twice its duration."""
    one = play("one")
    await trio.sleep(1)
    one.gives_up.set()
    await trio.sleep(0.1)
    one.gives_up = trio.Event()
    assert holder(one) == ""
    await trio.sleep(2 * DURATION_S - 1)
    assert len(one.epochs) == 1
    two = play("two")
    await trio.sleep(60)
    assert (len(one.epochs) + len(two.epochs)) == 2


async def test_refusals_of_a_server_that_starts_are_not_final(play: Any, autojump_clock: Clock) -> None:
    one = Replica(FakeServer(), "one")
    one.server.faults = starting
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await trio.sleep(30)
        assert one.epochs == []
        one.server.faults = None
        await trio.sleep(10)
        assert one.leads
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", seeds(20))
async def test_never_two_lead(seed: int, play: Any, autojump_clock: Clock) -> None:
    """Whoever is cut off; requests without an answer may have had their effect. Somebody leads again soon."""
    rng = random.Random(seed)
    replicas = [play(name, random.Random(seed + number)) for number, name in enumerate(("one", "two", "three"))]
    for each in replicas:
        each.loses_answers = True
    for _ in range(30):
        replica = rng.choice([each for each in replicas if each.leads] or replicas)
        replica.away = rng.random() < 0.7
        if rng.random() < 0.2:
            for each in replicas:
                each.away = False
        for _ in range(rng.randint(1, 40)):
            await trio.sleep(1)
            assert sum(each.leads for each in replicas) <= 1
    for each in replicas:
        each.away = False
    await trio.sleep(DURATION_S + 3 * RENEW_S)
    assert sum(each.leads for each in replicas) == 1
    epochs = [epoch for each in replicas for epoch in each.epochs]
    assert len(epochs) == len(set(epochs)) > 1
