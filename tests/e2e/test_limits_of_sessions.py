"""The limits of sessions, over real sockets: what is still allowed, what is one too much, who waits, and who is told."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from callers import IDENTITIES, SECRETS, access, control_of
from doubles import FakeDaemon, accept_all, running_daemon
from trio_websocket import ConnectionClosed

from ykactor.access.limits import IdentityLimits, Limits
from ykactor.client import Disconnected
from ykactor.client.connection import open_connection
from ykactor.client.login import Login
from ykactor.core.messages.facts import Audited, Fact
from ykactor.core.messages.submissions import RefuseEntry, Submission
from ykactor.surfaces.admission.access_control import AccessControl
from ykactor.surfaces.sessions.peer import Limits as ServerLimits
from ykactor.wire.si.lengths import REQUEST_MAX

ALL = "roles: [rm, reader, operator], rmIDs: [rm-1], users: [alice]"
REGISTER = {"type": "RegisterResourceManagerRequest", "id": "0", "rmID": "rm-1"}
DAY_S = 86_400


def limited(limits: str) -> Mapping[str, str]:
    """The identity ``rm`` with every role and these limits."""
    return {**IDENTITIES, "rm": f"{ALL}, limits: {limits}"}


@asynccontextmanager
async def daemon_with(own: str, **options: Any) -> AsyncIterator[tuple[FakeDaemon, AccessControl]]:
    control = control_of(access(limited(own)))
    async with running_daemon(admit=control.admit, **options) as daemon:
        yield daemon, control


@asynccontextmanager
async def line_to(daemon: FakeDaemon, path: str = "/v1/rm", name: str = "rm") -> AsyncIterator[Line]:
    async with open_connection(daemon.url, path, login=Login(SECRETS[name])) as connection:
        yield Line(connection)


class Line:
    """A client."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def send(self, *messages: object) -> None:
        for message in messages:
            await self._connection.send_message(message if isinstance(message, str) else msgspec.json.encode(message).decode())

    async def receive(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(await self._connection.get_message())
        return found

    async def answer(self, request_id: str) -> dict[str, Any]:
        while (answer := await self.receive()).get("id") != request_id:
            pass
        return answer

    async def closed(self) -> tuple[int, str | None]:
        try:
            while True:
                await self.receive()
        except ConnectionClosed as error:
            return error.reason.code, error.reason.reason


async def register(line: Line) -> None:
    await line.send(REGISTER)
    assert (await line.answer("0"))["type"] == "Ack"


def schedule(number: int, **more: object) -> dict[str, object]:
    """A request that every daemon answers with an error."""
    return {"type": "ScheduleRequest", "id": str(number), **more}


def refusals(daemon: FakeDaemon) -> list[tuple[str, str, str]]:
    """The refusals in the audit: who, the act, and why."""
    return [(fact.who, fact.act, fact.refusal) for fact in daemon.told if isinstance(fact, Audited) and fact.refusal]


# ---- places


@pytest.mark.parametrize(
    ("limits", "paths", "reason"),
    [
        ("{sessions: 2}", ("/v1/feed", "/v1/operator", "/v1/rm"), "limit sessions = 2 of identity rm: so many are open"),
        ("{subscriptions: 1}", ("/v1/rm", "/v1/feed", "/v1/feed"), "limit subscriptions = 1 of identity rm: so many are open"),
    ],
)
async def test_sessions_of_an_identity(limits: str, paths: tuple[str, ...], reason: str) -> None:
    """SE-49: the last of these is one too many, until another one ends; others have their own places, and the audit is told."""
    async with daemon_with(limits) as (daemon, _), AsyncExitStack() as lines:
        for path in paths[:-2]:
            await lines.enter_async_context(line_to(daemon, path))
        async with line_to(daemon, paths[-2]):
            with pytest.raises(Disconnected, match=f"503 {reason}"):
                async with line_to(daemon, paths[-1]):
                    pass
            async with line_to(daemon, "/v1/feed", "reader"):
                pass
        await until_there_is_a_place(daemon, paths[-1])
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert refusals(daemon)[0] == ("rm", "CONNECT", reason)


async def until_there_is_a_place(daemon: FakeDaemon, path: str) -> None:
    while True:
        try:
            async with line_to(daemon, path):
                return
        except Disconnected:
            await trio.lowlevel.checkpoint()


#: By path, the slots there are where ``totalSessions`` is 64, and the quarter of an identity.
SLOTS = {"/v1/rm": (16, 4), "/v1/operator": (16, 4), "/v1/feed": (32, 8)}


@pytest.mark.parametrize("path", SLOTS)
async def test_no_identity_keeps_others_out(path: str) -> None:
    """SE-49: at each door one has a quarter of what the others leave; others have theirs, also at the doors beside it."""
    control, in_force = control_of(access(dict.fromkeys(IDENTITIES, ALL))), partial(Limits, total_sessions=64)
    most, quarter = SLOTS[path]
    async with running_daemon(admit=control.admit, in_force=in_force) as daemon, AsyncExitStack() as lines:

        async def greedy(name: str) -> int:
            """The sessions that an identity gets that opens all it can."""
            count, reason = 0, ""
            while not reason:
                try:
                    await lines.enter_async_context(line_to(daemon, path, name))
                except Disconnected as refused:
                    reason = str(refused)
                else:
                    count += 1
            assert f"503 {count} sessions on {path} of identity {name} are open" in reason
            return count

        counts = [await greedy(name) for name in IDENTITIES]
        assert counts[0] == quarter
        assert all(counts)
        assert counts[1] == (most - quarter) // 4
        for other in SLOTS.keys() - {path}:
            await lines.enter_async_context(line_to(daemon, other, "rm"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert {who for who, act, _ in refusals(daemon) if act == "CONNECT"} == set(IDENTITIES)


async def test_without_identities_an_address_block_has_a_quarter() -> None:
    """SE-49: where no access file is in force, whoever it is in the block."""
    async with running_daemon(in_force=partial(Limits, total_sessions=64)) as daemon, AsyncExitStack() as lines:
        for _ in range(4):
            await lines.enter_async_context(line_to(daemon))
        with pytest.raises(Disconnected, match=r"503 4 sessions on /v1/rm of [^ ]+ are open, no more are allowed"):
            await lines.enter_async_context(line_to(daemon))
        await lines.enter_async_context(line_to(daemon, "/v1/operator"))


async def test_another_file_holds_for_who_is_there() -> None:
    """SE-49: a limit that is lowered takes nothing away."""
    async with daemon_with("{sessions: 3}") as (daemon, control), line_to(daemon) as rm, line_to(daemon, "/v1/feed"):
        control.replace(access(limited("{sessions: 1}")))
        with pytest.raises(Disconnected, match="503 limit sessions = 1 of identity rm"):
            async with line_to(daemon):
                pass
        await register(rm)


# ---- messages


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/feed", "/v1/operator"])
async def test_the_bytes_of_a_message(path: str) -> None:
    """SE-49: as many as are allowed are read; with one more the session ends, with the limit by name, and the audit is told."""
    async with daemon_with("{messageBytes: 1000}") as (daemon, _), line_to(daemon, path) as line:
        await line.send("x" * 1000)
        assert (await line.receive())["code"] == "MALFORMED"
        await line.send("x" * 1001)
        reason = "limit messageBytes = 1000 of identity rm: a message has more"
        assert await line.closed() == (1009, reason)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert refusals(daemon) == [("rm", "SEND", reason)]


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/operator"])
async def test_the_bytes_of_a_message_without_a_configuration(path: str) -> None:
    """AP-138: of who may not configure, one that is longer is refused by its length, before it is read."""
    async with daemon_with("{}") as (daemon, _), line_to(daemon, path) as line:
        await line.send("x" * REQUEST_MAX)
        assert (await line.receive())["code"] == "MALFORMED"
        await line.send("x" * (REQUEST_MAX + 1))
        assert await line.closed() == (1009, "a message without a configuration has more than 4194304 bytes")


async def answers(line: Line, times: list[tuple[str, float]]) -> None:
    """Note when each answer comes."""
    while True:
        message = await line.receive()
        if "id" in message:
            times.append((message["id"], trio.current_time()))


@asynccontextmanager
async def timed(line: Line) -> AsyncIterator[list[tuple[str, float]]]:
    times: list[tuple[str, float]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answers, line, times)
        yield times
        nursery.cancel_scope.cancel()


async def passes(clock: trio.testing.MockClock, seconds: float, step_s: float = 0.25) -> None:
    """Time goes by while real sockets carry what there is."""
    await trio.testing.wait_all_tasks_blocked(0.005)
    for _ in range(round(seconds / step_s)):
        clock.jump(step_s)
        await trio.testing.wait_all_tasks_blocked(0.005)


@pytest.mark.parametrize(
    ("limits", "first"),
    [("{messagesPerSecond: 2}", "x" * 200), ("{bytesPerSecond: 500}", "x" * 200), ("{bytesPerSecond: 500}", "x" * 900)],
)
@pytest.mark.parametrize("is_registered", [False, True], ids=["one by one", "together"])
async def test_who_sends_too_fast_waits(limits: str, first: str, is_registered: bool, mock_clock: trio.testing.MockClock) -> None:
    """SE-49: what is allowed in a second is taken at once, the rest no faster than that; none is lost, and nobody else waits."""
    async with daemon_with(limits) as (daemon, _), line_to(daemon, "/v1/rm") as line, AsyncExitStack() as stack:
        if is_registered:
            await register(line)
            await passes(mock_clock, 2)
        times = await stack.enter_async_context(timed(line))
        sizes = [len(msgspec.json.encode(message)) for message in (message_of(number, first) for number in range(10))]
        for number in range(10):
            await line.send(message_of(number, first))
        await passes(mock_clock, 12)
        assert [name for name, _ in times] == [str(number) for number in range(10)]
        rate = 2 if "messages" in limits else 500
        costs = [1] * 10 if "messages" in limits else sizes
        began = times[0][1]
        for number, (_, at_s) in enumerate(times):
            owed = sum(costs[:number]) - rate + 1
            assert max(0.0, owed / rate) - 0.01 <= at_s - began <= max(0.0, owed / rate) + 0.3


def message_of(number: int, first: str = "x" * 200) -> dict[str, object]:
    """A request that is refused before a registration; the first one names this node."""
    nodes = [{"nodeID": first if number == 0 else "x" * 200, "action": "CREATE"}]
    return {"type": "NodeRequest", "id": str(number), "nodes": nodes}


async def test_who_waits_leaves_a_trace(mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture) -> None:
    """SE-49: a line a minute, with the limit, and a count of all waits."""
    caplog.set_level(logging.INFO)
    async with daemon_with("{messagesPerSecond: 1}", limits=ServerLimits(unused_s=DAY_S)) as (daemon, _), line_to(daemon) as line:
        await line.send(*(message_of(number) for number in range(65)))
        await passes(mock_clock, 70, 1.0)
    keys = [record.__dict__["keys"] for record in caplog.records if record.getMessage() == "session_throttled"]
    reason = "limit messagesPerSecond = 1 of identity rm: what follows has to wait"
    assert [(each["path"], each["reason"]) for each in keys] == [("/v1/rm", reason)] * 2
    assert keys[1]["left_out"] > 50
    assert daemon.counts.waits > 60


async def test_who_waits_is_not_dead(mock_clock: trio.testing.MockClock) -> None:
    """SE-49: answers to pings are behind what waits; the session goes on for as long as there is something."""
    async with daemon_with("{bytesPerSecond: 100}", limits=ServerLimits(ping_s=0.5)) as (daemon, _), line_to(daemon) as line:
        async with timed(line) as times:
            await line.send(*(message_of(number) for number in range(5)))
            await passes(mock_clock, 15)
            assert len(times) == 5


async def test_a_raised_limit_holds_for_who_waits(mock_clock: trio.testing.MockClock) -> None:
    """SE-49: within a second; what is owed is paid at the new rate."""
    async with daemon_with("{bytesPerSecond: 1}") as (daemon, control), line_to(daemon) as line, timed(line) as times:
        await line.send(*(message_of(number) for number in range(3)))
        await passes(mock_clock, 3)
        assert len(times) == 1
        control.replace(access(limited("{bytesPerSecond: 1000}")))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(control.run)
            await passes(mock_clock, 3)
            nursery.cancel_scope.cancel()
        assert len(times) == 3


async def test_the_end_of_who_waits(mock_clock: trio.testing.MockClock) -> None:
    """SE-49: who is let in no longer is sent away, and a connection that ends leaves its place, however long it would wait."""
    async with daemon_with("{bytesPerSecond: 1, sessions: 1}", limits=ServerLimits(close_s=0.1)) as (daemon, control):
        async with line_to(daemon) as line:
            await line.send(message_of(0))
            await line.receive()
            await trio.testing.wait_all_tasks_blocked(0.01)
        await until_there_is_a_place(daemon, "/v1/feed")
        async with trio.open_nursery() as nursery, line_to(daemon, "/v1/feed") as line:
            nursery.start_soon(control.run)
            await line.send(*[{"type": "Subscribe"}] * 20)
            await line.receive()
            await trio.testing.wait_all_tasks_blocked(0.01)
            control.replace(access())
            assert (await line.closed())[0] == 4005
            nursery.cancel_scope.cancel()
        assert mock_clock.current_time() < DAY_S


@pytest.mark.parametrize("most", [1, 3])
async def test_requests_that_are_not_carried_out(most: int) -> None:
    """SE-49: while a partition stands still it has as many requests as are allowed; the others come later."""
    async with daemon_with(f"{{outstanding: {most}}}") as (daemon, _), line_to(daemon) as line:
        await register(line)
        double = daemon.doubles["default"]
        double.resume = trio.Event()
        nodes = [{"type": "NodeRequest", "id": str(n), "nodes": [{"nodeID": f"n{n}", "action": "CREATE"}]} for n in range(1, 6)]
        await line.send(*nodes)
        await trio.testing.wait_all_tasks_blocked(0.05)
        in_hand = 1  # the double has taken one
        assert in_hand + double.inbox.messages_waiting() == most
        double.resume.set()
        assert (await line.answer("5"))["type"] == "Ack"


def with_refusals(submission: Submission) -> list[Fact]:
    return [submission.rejected] if isinstance(submission, RefuseEntry) else accept_all(submission)


async def test_tags() -> None:
    """SE-49: an entry with one tag too many is rejected alone, with the limit by name, and the audit is told."""
    few, many = ({f"tag-{number}": "" for number in range(count)} for count in (2, 3))
    alice = {"user": "alice", "groups": ["alice"]}
    new = [
        {"applicationID": name, "ugi": alice, "tags": tags} for name, tags in (("app-1", few), ("app-2", many), ("app-3", few))
    ]
    asks = [
        {"allocationKey": key, "applicationID": "app-1", "resourcePerAlloc": {"vcore": 1}, "allocationTags": tags}
        for key, tags in (("t1", many), ("t2", few))
    ]
    reason = "limit tags = 2 of identity rm: found 3"
    async with daemon_with("{tags: 2}", script=with_refusals) as (daemon, _), line_to(daemon) as line:
        await register(line)
        await line.send({"type": "ApplicationRequest", "id": "1", "new": new})
        await line.send({"type": "AllocationRequest", "id": "2", "allocations": asks})
        rejected, accepted = [], []
        while (message := await line.receive()).get("id") != "2":
            rejected += [*message.get("rejected", []), *message.get("rejectedAllocations", [])]
            accepted += [*message.get("accepted", []), *message.get("new", [])]
        assert [(entry.get("allocationKey") or entry["applicationID"], entry["reason"]) for entry in rejected] == [
            ("app-2", reason),
            ("t1", reason),
        ]
        assert [entry.get("allocationKey") or entry["applicationID"] for entry in accepted] == ["app-1", "app-3", "t2"]
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert refusals(daemon) == [("rm", "SEND", reason)]


def test_the_defaults_fit_together() -> None:
    """SE-48: one identity alone may have its quarter; the most that may wait has room for several of the largest messages."""
    one, of_all = IdentityLimits(), Limits()
    assert one.sessions == of_all.total_sessions // 4
    assert one.subscriptions == (of_all.total_sessions - 2 * of_all.reserved_sessions) // 4
    assert 10 * one.message_bytes < of_all.waiting_bytes
