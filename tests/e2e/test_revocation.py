"""Revocation of access, over real sockets: what is still done for the client, what is not, and what it is told."""

import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from accessfiles import NOW_NS
from callers import IDENTITIES, SECRETS, access, control_of, jwt_of
from doubles import FakeDaemon, accept_all, running_daemon
from trio_websocket import ConnectionClosed

from ykactor.access.access import Access
from ykactor.access.credentials import Credentials
from ykactor.access.limits import Limits as AccessLimits
from ykactor.access.model import Role
from ykactor.actors.commands import Intake
from ykactor.actors.mailbox import Mailbox
from ykactor.client.connection import open_connection
from ykactor.client.login import Login
from ykactor.core.messages.submissions import AddApplication, Submission
from ykactor.surfaces.admission.access_control import PROOF_GONE, RIGHTS_SHRANK, AccessControl
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.session_limits import InputMemory
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.surfaces.sessions.connection import Received
from ykactor.surfaces.sessions.rm_requests import RequestHandler
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

SECOND_NS = 10**9
LATER = "yk_" + "l" * 43
REGISTER = {"type": "RegisterResourceManagerRequest", "id": "0", "rmID": "rm-1"}
#: What the identities may, with one thing more, or less, each.
MORE = {**IDENTITIES, "rm": "roles: [rm, reader], rmIDs: [rm-1], users: [alice, bob], groups: [dev]"}
LESS = {**IDENTITIES, "rm": "roles: [rm], rmIDs: [rm-1], users: [alice], groups: [ops]"}
GONE = access(secrets={**{name: secret for name, secret in SECRETS.items() if name != "rm"}, "rm": LATER})


@asynccontextmanager
async def controlled(found: Access | None = None, **options: Any) -> AsyncIterator[tuple[FakeDaemon, AccessControl]]:
    control = control_of(found)
    async with running_daemon(admit=options.pop("admit", control.admit), **options) as daemon, trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        yield daemon, control
        nursery.cancel_scope.cancel()


class Line:
    """A client with a bearer."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def send(self, message: dict[str, Any]) -> None:
        await self.connection.send_message(msgspec.json.encode(message).decode())

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = msgspec.json.decode(await self.connection.get_message())
        return message

    async def answer(self, request_id: str) -> dict[str, Any]:
        while True:
            answer = await self.receive()
            if answer.get("id") == request_id:
                return answer

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        await self.send(message)
        return await self.answer(message["id"])

    async def closed(self) -> tuple[int, str | None, list[dict[str, Any]]]:
        """Code and reason of the close frame, and what came before it."""
        messages = []
        while True:
            try:
                messages.append(await self.receive())
            except ConnectionClosed as error:
                return error.reason.code, error.reason.reason, messages


@asynccontextmanager
async def line_to(daemon: FakeDaemon, path: str, bearer: str) -> AsyncIterator[Line]:
    async with open_connection(daemon.url, path, login=Login(bearer)) as connection:
        yield Line(connection)


@asynccontextmanager
async def registered(daemon: FakeDaemon, bearer: str = SECRETS["rm"], **fields: Any) -> AsyncIterator[Line]:
    async with line_to(daemon, "/v1/rm", bearer) as rm:
        assert (await rm.ask({**REGISTER, **fields}))["type"] == "Ack"
        yield rm


def applications(number: object, *users: str) -> dict[str, Any]:
    new = [{"applicationID": f"app-{number}-{user}", "ugi": {"user": user, "groups": ["dev"]}} for user in users or ("alice",)]
    return {"type": "ApplicationRequest", "id": str(number), "new": new}


def submitted(daemon: FakeDaemon) -> list[str]:
    """The applications that the partition has taken."""
    (double,) = daemon.doubles.values()
    return [new.application_id for new in double.received if isinstance(new, AddApplication)]


async def test_a_proof_expires(mock_clock: trio.testing.MockClock) -> None:
    """SE-3, SE-68: at its moment, to the nanosecond, and not before; a session that sends nothing ends too."""
    async with controlled(access(expires_ns=NOW_NS + 20 * SECOND_NS)) as (daemon, _):
        async with registered(daemon) as rm, line_to(daemon, "/v1/feed", SECRETS["reader"]) as follower:
            mock_clock.jump(19.999)
            assert (await rm.ask(applications(1)))["type"] == "Ack"
            mock_clock.jump(0.001)
            assert (await rm.closed())[:2] == (4005, PROOF_GONE)
            assert (await follower.closed())[:2] == (4005, PROOF_GONE)
        assert submitted(daemon) == ["app-1-alice"]


async def test_a_jwt_expires(mock_clock: trio.testing.MockClock) -> None:
    """SE-9, SE-68: 30 s after its ``exp``."""
    bearer = jwt_of("reader", exp=NOW_NS // SECOND_NS - 10)
    async with controlled() as (daemon, _), line_to(daemon, "/v1/feed", bearer) as follower:
        mock_clock.jump(19)
        await follower.send({"type": "Subscribe", "from": "now"})
        assert (await follower.receive())["type"] == "Bookmark"
        mock_clock.jump(1)
        assert (await follower.closed())[:2] == (4005, PROOF_GONE)


async def test_an_expired_proof_takes_nothing(mock_clock: trio.testing.MockClock) -> None:
    """SE-63: also if nobody has had the time to end the session."""
    control = control_of(access(expires_ns=NOW_NS + 20 * SECOND_NS))
    async with running_daemon(admit=control.admit) as daemon, registered(daemon) as rm:
        mock_clock.jump(20)
        await rm.send(applications(1))
        assert (await rm.closed())[0] == 4005
        assert submitted(daemon) == []


async def test_a_later_caller_expires_earlier(mock_clock: trio.testing.MockClock) -> None:
    """SE-68: each at its own time, in whatever order they have come."""
    control = control_of(access(expires_ns=NOW_NS + 5000 * SECOND_NS))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        callers = {0: control.admit(Role.READER, Credentials(bearer=SECRETS["reader"]), "here")}
        await trio.testing.wait_all_tasks_blocked()
        for seconds in (600, 300, 900):
            bearer = jwt_of("reader", exp=NOW_NS // SECOND_NS + seconds - 30)
            callers[seconds] = control.admit(Role.READER, Credentials(bearer=bearer), "here")
            await trio.testing.wait_all_tasks_blocked()
        ended = []
        for _ in range(3):
            mock_clock.jump(300)
            await trio.testing.wait_all_tasks_blocked()
            ended.append([seconds for seconds, caller in callers.items() if caller.ended.is_set()])
        assert ended == [[300], [600, 300], [600, 300, 900]]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("found", [access(), access(MORE), access({**IDENTITIES, "reader": "roles: [metrics]"})])
async def test_who_may_as_much_stays(found: Access) -> None:
    """SE-68: rights that stay or grow end no session, whatever becomes of others; the new ones hold at once."""
    async with controlled() as (daemon, control), registered(daemon) as rm:
        await rm.ask(applications(1, "alice", "bob"))
        assert submitted(daemon) == ["app-1-alice"]
        control.replace(found)
        await rm.ask(applications(2, "alice", "bob"))
        grown = ["app-2-bob"] if found.identities[0].roles == {Role.RM, Role.READER} else []
        assert submitted(daemon) == ["app-1-alice", "app-2-alice", *grown]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (access(LESS), RIGHTS_SHRANK),
        (GONE, PROOF_GONE),
        (access({name: keys for name, keys in IDENTITIES.items() if name != "rm"}), PROOF_GONE),
        (access(secrets={"rm": SECRETS["reader"], "metrics": SECRETS["rm"]}), PROOF_GONE),
    ],
)
async def test_who_may_less_is_sent_away(found: Access, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """SE-68: with 4005 and the reason, at once; the log says who, from where and why; others stay."""
    caplog.set_level(logging.DEBUG)
    async with controlled() as (daemon, control), line_to(daemon, "/v1/feed", jwt_of("reader")) as follower:
        async with registered(daemon) as rm:
            control.replace(found)
            assert await rm.closed() == (4005, reason, [])
        await follower.send({"type": "Subscribe", "from": "now"})
        assert (await follower.receive())["type"] == "Bookmark"
    (record,) = [record for record in caplog.records if record.getMessage() == "access_ended"]
    assert record.__dict__["keys"]["identity"] == "rm"
    assert record.__dict__["keys"]["peer"].startswith("127.0.0.1:")
    assert not [secret for secret in SECRETS.values() if any(secret in repr(found.__dict__) for found in caplog.records)]


async def test_a_follower_gets_nothing_more() -> None:
    """SE-69: no event that comes after the revocation is sent to it."""
    async with controlled() as (daemon, control), registered(daemon) as rm:
        async with line_to(daemon, "/v1/feed", SECRETS["reader"]) as follower:
            await follower.send({"type": "Subscribe", "from": "now"})
            await follower.receive()
            await trio.testing.wait_all_tasks_blocked()
            control.replace(access(secrets={"rm": SECRETS["rm"]}))
            await rm.ask(applications(1))
            assert await follower.closed() == (4005, PROOF_GONE, [])


async def test_revoked_during_the_handshake() -> None:
    """SE-68: who is let in is known before anything waits, so a change that comes then ends it."""
    control = control_of()

    def admit(role: Role, shown: Credentials, origin: str) -> Caller:
        caller = control.admit(role, shown, origin)
        control.replace(GONE)
        return caller

    async with controlled(admit=admit) as (daemon, _), trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        async with line_to(daemon, "/v1/rm", SECRETS["rm"]) as rm:
            assert (await rm.closed())[:2] == (4005, PROOF_GONE)
        nursery.cancel_scope.cancel()


async def test_what_was_begun_is_answered_to_a_later_session() -> None:
    """SE-69: the partition has the request, so it is carried out, and a session with another proof gets the answer."""
    async with controlled() as (daemon, control):
        (double,) = daemon.doubles.values()
        async with registered(daemon) as rm:
            double.resume = trio.Event()
            await rm.send(applications(1))
            await trio.testing.wait_all_tasks_blocked()
            control.replace(GONE)
            assert (await rm.closed())[:2] == (4005, PROOF_GONE)
        double.resume.set()
        async with line_to(daemon, "/v1/rm", LATER) as rm:
            await rm.send({**REGISTER, "id": "2", "resumeFrom": 2})
            assert (await rm.answer("1"))["type"] == "Ack"
        assert submitted(daemon) == ["app-1-alice"]


@pytest.mark.parametrize("found", [GONE, access(LESS)])
@pytest.mark.parametrize(
    "message",
    [
        applications(1),
        {"type": "NodeRequest", "nodes": [{"nodeID": "n1", "action": "CREATE"}]},
        {"type": "ScheduleRequest", "steps": 1},
        {"type": "DeregisterResourceManagerRequest"},
    ],
)
async def test_what_waits_is_not_begun(found: Access, message: dict[str, Any]) -> None:
    """SE-63, SE-69: a request that has waited for its turn is checked again when it has it."""
    async with controlled(manual=True) as (daemon, control), registered(daemon) as rm:
        (double,) = daemon.doubles.values()
        before = [*double.received]
        async with daemon.outboxes.turn:
            await rm.send(message)
            await trio.testing.wait_all_tasks_blocked()
            control.replace(found)
        assert (await rm.closed())[0] == 4005
        assert (double.received, daemon.steps, daemon.outboxes.current is None) == (before, 0, False)


async def test_what_looks_up_groups_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-63: a name service may take seconds, and in them the right to submit may go."""
    asked, answered = trio.Event(), trio.Event()

    async def with_groups(_daemon: FakeDaemon, _partition: str, submissions: list[Submission]) -> list[Submission]:
        asked.set()
        await answered.wait()
        return submissions

    monkeypatch.setattr(FakeDaemon, "with_groups", with_groups)
    async with controlled() as (daemon, control), registered(daemon) as rm:
        await rm.send(applications(1))
        await asked.wait()
        control.replace(access(LESS))
        answered.set()
        assert (await rm.closed())[:2] == (4005, RIGHTS_SHRANK)
        assert submitted(daemon) == []


async def test_a_snapshot_that_takes_long() -> None:
    """SE-63: is not sent to who may not read it any more when it is there."""
    control = control_of()
    async with running_daemon(admit=control.admit) as daemon:
        (double,) = daemon.doubles.values()
        async with line_to(daemon, "/v1/feed", SECRETS["reader"]) as follower:
            double.resume = trio.Event()
            await follower.send({"type": "Subscribe", "from": "snapshot"})
            await trio.testing.wait_all_tasks_blocked()
            control.replace(access(secrets={}))  # nobody looks after the callers here, so that only the session can notice it
            double.resume.set()
            _, _, messages = await follower.closed()
        assert "Snapshot" not in [message["type"] for message in messages]


async def test_who_may_not_does_not_wait() -> None:
    """SE-63: what is refused when it arrives is answered at once, while others wait for their turn."""
    async with controlled() as (daemon, _), registered(daemon) as rm, daemon.outboxes.turn:
        answer = await rm.ask({"type": "UpdateConfigurationRequest", "id": "c", "config": "text"})
        assert (answer["code"], answer["path"]) == ("NOT_PERMITTED", "config")


async def test_a_registration_that_waits() -> None:
    """SE-63, SE-64: neither the one before is replaced, nor is anything reset."""
    async with controlled() as (daemon, control), registered(daemon) as first:
        before = daemon.outboxes.current
        async with line_to(daemon, "/v1/rm", jwt_of("rm")) as second:
            async with daemon.outboxes.turn:
                await second.send(REGISTER)
                await trio.testing.wait_all_tasks_blocked()
                control.replace(access(key="RSA"))
            assert (await second.closed())[:2] == (4005, PROOF_GONE)
        assert daemon.outboxes.current is before
        assert (await first.ask(applications(1)))["type"] == "Ack"


@pytest.mark.parametrize("is_connected", [True, False])
async def test_a_configuration_that_waits(is_connected: bool) -> None:
    """SE-63, SE-69: refused when it is read, also if its session has ended before; a later session is told."""
    configuring = {**IDENTITIES, "rm": "roles: [rm], rmIDs: [rm-1], configure: true"}
    async with controlled(access(configuring)) as (daemon, control):
        async with daemon.reading:
            async with registered(daemon) as rm:
                await rm.send({"type": "UpdateConfigurationRequest", "id": "c", "config": "text"})
                await trio.testing.wait_all_tasks_blocked()
                if is_connected:
                    control.replace(access(configuring, secrets={"rm": LATER}))
                    assert (await rm.closed())[:2] == (4005, PROOF_GONE)
            control.replace(access(configuring, secrets={"rm": LATER}))
        async with line_to(daemon, "/v1/rm", LATER) as rm:
            await rm.send({**REGISTER, "id": "2", "resumeFrom": 2})
            answer = await rm.answer("c")
        assert (answer["code"], answer["message"]) == ("NOT_PERMITTED", f"update of configuration failed: {PROOF_GONE}")
        assert daemon.configs == []


async def test_what_is_not_permitted_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """SE-74: registrations, subscriptions, and configurations that have waited, in the audit as every other message."""
    rights = {**IDENTITIES, "rm": "roles: [rm], rmIDs: [rm-1], configure: true", "reader": "roles: [reader], queues: [root.a]"}
    caplog.set_level(logging.WARNING)
    async with controlled(access(rights)) as (daemon, control):
        for config in "", "text":
            async with line_to(daemon, "/v1/rm", SECRETS["rm"]) as rm:
                assert (await rm.ask({**REGISTER, "rmID": "rm-2", "config": config}))["code"] == "NOT_PERMITTED"
        async with line_to(daemon, "/v1/rm", SECRETS["rm"]) as rm:
            assert (await rm.ask({"type": "ScheduleRequest", "id": "1"}))["code"] == "NOT_REGISTERED"
        async with line_to(daemon, "/v1/feed", SECRETS["reader"]) as follower:
            for queue in "root.b", "root.a", "nowhere":
                await follower.send({"type": "Subscribe", "from": "now", "queues": [queue]})
                assert (await follower.receive())["type"] == ("Bookmark" if queue == "root.a" else "ErrorResponse")
        async with registered(daemon) as rm, daemon.reading:
            await rm.send({"type": "UpdateConfigurationRequest", "id": "c", "config": "text"})
            await trio.testing.wait_all_tasks_blocked()
            control.replace(access(rights, secrets={}))
            await rm.closed()
        await trio.sleep(0.05)
    told = [vars(record)["keys"] for record in caplog.records if record.message == "audited"]
    assert [(keys["who"], keys["role"], keys["act"], keys["target"]) for keys in told if keys["refusal"]] == [
        ("rm", "rm", "REGISTER", "rm-2"),
        ("reader", "reader", "SEND", "Subscribe"),
        ("rm", "rm", "CONFIGURE", "UpdateConfigurationRequest"),
    ]


async def test_what_comes_after_the_end_is_ignored() -> None:
    """SE-69: nor is it answered: the answers would push out of the outbox what a later session asks for."""
    daemon = FakeDaemon(("default",), accept_all, ring_max=10, manual=False)
    outbox, caller = daemon.outboxes.renew("rm-1", JSON), Caller(Role.RM, "here")
    configs = ConfigUpdates(daemon, daemon.audit)

    async def read(message: str | bytes) -> si.Request:
        return JSON.decode_request(message)

    handler = RequestHandler(
        daemon, outbox.attach(0), read, configs, InputMemory(lambda: AccessLimits(waiting_bytes=1000)), caller, daemon.audit
    )
    await handler.on_messages([Received('{"type": "ScheduleRequest", "id": "1"}', 38)])
    assert outbox.sequence == 1
    caller.revoke(PROOF_GONE)
    await handler.on_messages([Received('{"type": "ScheduleRequest", "id": "2"}', 38)])
    assert outbox.sequence == 1


@pytest.mark.parametrize("seed", range(40))
async def test_nothing_begins_after_a_revocation(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-67, SE-69: at whatever moment it comes, a partition gets nothing from then on, and answers what it got before."""
    chance = random.Random(seed)
    async with controlled() as (daemon, control), registered(daemon) as rm:
        given = []

        def offer(inbox: Mailbox, command: object, offer: Callable[..., bool] = Mailbox.offer) -> bool:
            given.extend([command] if isinstance(command, Intake) else [])
            return offer(inbox, command)

        monkeypatch.setattr(Mailbox, "offer", offer)
        last = chance.randrange(1, 40)
        for number in range(1, last + 10):
            with suppress(ConnectionClosed):
                await rm.send(applications(number))
            for _ in range(chance.randrange(12)):
                await trio.lowlevel.checkpoint()
            if number == last:
                control.replace(chance.choice([GONE, access(LESS)]))
                begun = len(given)
        assert (await rm.closed())[0] == 4005
        await trio.testing.wait_all_tasks_blocked()
        assert submitted(daemon) == [f"app-{number}-alice" for number in range(1, begun + 1)]
        assert len(given) == begun
