"""Every message of every role, over real sockets: what is permitted has its effect, what is not has none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, get_args

import msgspec
import pytest
import trio.testing
from callers import IDENTITIES, WAYS, access, control_of, credentials
from doubles import FakeDaemon, running_daemon
from msgspec import structs

from ykactor.access.credentials import Credentials
from ykactor.access.model import ANYBODY, Identity, Names, Role
from ykactor.client.connection import open_connection
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.sessions.operator_session import OperatorRequests
from ykactor.wire.si import messages as si

REQUESTS = sorted(get_args(si.Request), key=lambda kind: kind.__name__)
OPERATOR_REQUESTS = sorted(get_args(si.OperatorRequest), key=lambda kind: kind.__name__)
#: Of the roles rm and operator, with every right of these.
MANAGER = {
    **IDENTITIES,
    "rm": "roles: [rm], rmIDs: [rm-1], configure: true",
    "operator": "roles: [operator], configure: true",
}


class Door:
    """Admission by one way of proof; ``caller`` is the last one."""

    def __init__(self, name: str | None, way: str) -> None:
        self.control = control_of(access(MANAGER))
        self.caller = Caller(Role.RM, "nobody")
        self._shown = None if name is None else credentials(name, way)

    def admit(self, role: Role, _shown: Credentials, origin: str) -> Caller:
        self.caller = Caller(role, origin) if self._shown is None else self.control.admit(role, self._shown, origin)
        return self.caller


class Line:
    """A client of ``path`` that asks one thing after the other."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer: what has the id of the request, or what comes without one."""
        await self._connection.send_message(msgspec.json.encode(message).decode())
        while True:
            answer: dict[str, Any] = msgspec.json.decode(await self._connection.get_message())
            if answer["type"] in ("Bookmark", "Snapshot", "ErrorResponse") or answer.get("id") == message.get("id"):
                return answer


@asynccontextmanager
async def line_to(daemon: FakeDaemon, path: str) -> AsyncIterator[Line]:
    async with open_connection(daemon.url, path) as connection:
        yield Line(connection)


def example(kind: type[Any], number: int = 0) -> dict[str, Any]:
    """A message that has an effect, or at least an answer."""
    fields = {field.encode_name: "x" for field in structs.fields(kind) if field.required}
    texts: dict[type[Any], dict[str, Any]] = {
        si.RegisterResourceManagerRequest: {"rmID": "rm-1"},
        si.NodeRequest: {"nodes": [{"nodeID": "n1", "action": "CREATE", "schedulableResource": {"vcore": 1}}]},
        si.ApplicationRequest: {"new": [{"applicationID": "app-1", "ugi": {"user": "rm"}}]},
        si.AllocationRequest: {
            "allocations": [{"allocationKey": "a", "applicationID": "app-1", "resourcePerAlloc": {"vcore": 1}}]
        },
        si.PredicatesResponse: {"answers": [{"predicate": "p", "nodeID": "n1", "allocate": True}]},
        si.ScheduleRequest: {"steps": 1},
    }
    return {"type": kind.__name__, "id": f"{kind.__name__}-{number}", **fields, **texts.get(kind, {})}


def effects(daemon: FakeDaemon) -> object:
    """The state of the daemon that a request can change."""
    received = {name: list(double.received) for name, double in daemon.doubles.items()}
    registered = daemon.outboxes.current and (daemon.outboxes.current.rm_id, daemon.outboxes.current.reader)
    return received, registered, list(daemon.configs), daemon.steps, daemon.feed.ring.sequence


async def settled(daemon: FakeDaemon) -> object:
    await trio.testing.wait_all_tasks_blocked()
    return effects(daemon)


REGISTER = {"type": "RegisterResourceManagerRequest", "id": "0", "rmID": "rm-1"}


@pytest.mark.parametrize("way", [*WAYS, "no file"])
async def test_a_resource_manager_may_everything_of_its_table(way: str) -> None:
    """SE-20, SE-63: by every way of proof, and without an access file: no message is refused, and each is carried out."""
    door = Door(None if way == "no file" else "rm", way)
    async with running_daemon(manual=True, admit=door.admit) as daemon, line_to(daemon, "/v1/rm") as rm:
        await rm.ask(REGISTER)
        for kind in sorted(REQUESTS, key=lambda kind: kind is si.DeregisterResourceManagerRequest):
            before = await settled(daemon)
            answer = await rm.ask(example(kind))
            assert answer.get("code") in {
                si.RegisterResourceManagerRequest: ("ALREADY_REGISTERED",),
                si.TerminateApplication: ("REFUSED",),  # by the doubles
                si.MoveApplication: ("REFUSED",),
                si.SetQueueQuotas: ("REFUSED",),
            }.get(kind, (None,))
            changes = kind not in NO_EFFECT
            assert (await settled(daemon) != before) is changes


NO_EFFECT = si.RegisterResourceManagerRequest, si.TerminateApplication, si.MoveApplication, si.SetQueueQuotas
FULL = structs.replace(ANYBODY, name="ci")
#: Messages that name a partition, or mean ``default``.
IN_PARTITIONS = {
    si.NodeRequest,
    si.ApplicationRequest,
    si.AllocationRequest,
    si.TerminateApplication,
    si.MoveApplication,
    si.SetQueueQuotas,
    si.PredicatesResponse,
}


def strangers(kind: type[Any]) -> dict[str, Identity]:
    """The identities that lack one thing that the message needs of a resource manager."""
    found = {f"as {role}": structs.replace(FULL, roles=frozenset([role])) for role in Role if role != Role.RM}
    found["without the role"] = structs.replace(FULL, roles=frozenset(Role) - {Role.RM})
    if kind in IN_PARTITIONS:
        found["without the partition"] = structs.replace(FULL, partitions=Names.of(["gpu"]))
    if kind is si.UpdateConfigurationRequest:
        found["without configure"] = structs.replace(FULL, configure=False)
    return found


@pytest.mark.parametrize("kind", [kind for kind in REQUESTS if kind is not si.RegisterResourceManagerRequest])
async def test_what_is_refused_has_no_effect(kind: type[Any]) -> None:
    """SE-63: whoever lacks what a message needs gets ``NOT_PERMITTED``, and everything is as before; then the next one passes."""
    door = Door(None, "")
    async with running_daemon(manual=True, admit=door.admit) as daemon, line_to(daemon, "/v1/rm") as rm:
        await rm.ask(REGISTER)
        before = await settled(daemon)
        for number, (name, identity) in enumerate(strangers(kind).items()):
            door.caller.identity = identity
            answer = await rm.ask(example(kind, number))
            assert (name, answer.get("code"), answer["id"]) == (name, "NOT_PERMITTED", f"{kind.__name__}-{number}")
            assert await settled(daemon) == before
        door.caller.identity = ANYBODY
        assert (await rm.ask(example(kind, 99))).get("code") != "NOT_PERMITTED"


ANSWERS = {
    si.Subscribe: "Bookmark",
    si.ReadConfiguration: "Configuration",
    si.CheckHealth: "Health",
    si.ReadUsage: "Usage",
    si.Explain: "ErrorResponse",
}
#: The fields that a message needs.
FIELDS = {si.Explain: {"name": "nobody", "partitionName": "none"}}


@pytest.mark.parametrize("kind", [*REQUESTS, *ANSWERS])
@pytest.mark.parametrize("way", [*WAYS, "no file"])
async def test_what_a_follower_may_send(kind: type[Any], way: str) -> None:
    """SE-20: ``Subscribe`` and four questions, and nothing else: the path has no other message."""
    door = Door(None if way == "no file" else "reader", way)
    async with running_daemon(admit=door.admit) as daemon, line_to(daemon, "/v1/feed") as follower:
        before = await settled(daemon)
        answer = await follower.ask({"type": kind.__name__, **FIELDS.get(kind, {})} if kind in ANSWERS else example(kind))
        assert answer["type"] == ANSWERS.get(kind, "ErrorResponse")
        assert await settled(daemon) == before


EXPLAIN = {"type": "Explain", "name": "app-1"}


@pytest.mark.parametrize("role", [role for role in Role if role != Role.READER])
async def test_followers_of_other_roles(role: Role) -> None:
    """SE-63: a follower whose identity is no reader (any more) gets no event, no snapshot and no name of a queue."""
    door = Door(None, "")
    async with running_daemon(admit=door.admit) as daemon, line_to(daemon, "/v1/feed") as follower:
        await settled(daemon)
        door.caller.identity = structs.replace(FULL, roles=frozenset([role]))
        wanted = ({"from": "now"}, {"from": "snapshot"}, {"from": 0}, {"from": "now", "queues": ["nowhere"]})
        subscriptions = [{"type": "Subscribe", **each} for each in wanted]
        for message in [*subscriptions, {"type": "ReadConfiguration"}, {"type": "CheckHealth"}, {"type": "ReadUsage"}, EXPLAIN]:
            answer = await follower.ask(message)
            assert (answer["code"], answer["message"]) == ("NOT_PERMITTED", "ci does not have the role reader")


@pytest.mark.parametrize("config", ["", "text"])
async def test_who_may_not_register_learns_nothing(config: str) -> None:
    """SE-64: the same answer whether the name is free, somebody else's, or held; nothing changes, nothing of it is read."""
    door = Door(None, "")
    answers = []
    async with running_daemon(admit=door.admit) as daemon:
        for holder in (None, "secret-1", "rm-9"):
            async with line_to(daemon, "/v1/rm") as first:
                if holder is not None:
                    await first.ask({**REGISTER, "rmID": holder})
                before = await settled(daemon)
                async with line_to(daemon, "/v1/rm") as rm:
                    await trio.testing.wait_all_tasks_blocked()
                    door.caller.identity = structs.replace(FULL, rm_ids=Names.of(["rm-2"]))
                    answers.append(await rm.ask({**REGISTER, "rmID": "rm-9", "config": config}))
                    assert await settled(daemon) == before
                if holder is not None:
                    await first.ask({"type": "DeregisterResourceManagerRequest", "id": "1"})
    assert answers[0]["code"] == "NOT_PERMITTED"
    assert answers.count(answers[0]) == 3


async def test_nothing_is_submitted_for_others() -> None:
    """SE-65: of the applications of a message those that may not be are rejected alone, with the reason."""
    door = Door("rm", "token")
    async with running_daemon(admit=door.admit) as daemon, line_to(daemon, "/v1/rm") as rm:
        await rm.ask(REGISTER)
        new = [{"applicationID": f"app-{user}", "ugi": {"user": user}} for user in ("rm", "eve", "rm2")]
        await rm.ask({"type": "ApplicationRequest", "id": "1", "new": new})
        (double,) = daemon.doubles.values()
        *_, first, second, third = double.received
        assert (first.application_id, first.groups) == ("app-rm", ("rm",))
        reasons = [(refused.rejected.application_id, refused.rejected.reason) for refused in (second, third)]
        assert reasons == [
            ("app-eve", "rm may not submit for user 'eve'"),
            ("app-rm2", "rm may not submit for user 'rm2'"),
        ]


def of_operator(kind: type[Any], number: int = 0) -> dict[str, Any]:
    """A message of an operator that is as it should be."""
    texts: dict[type[Any], dict[str, Any]] = {
        si.NodeRequest: {"nodes": [{"nodeID": "n1", "action": "DRAIN_NODE"}]},
        si.SetPriority: {"priority": 1},
    }
    return example(kind, number) | texts.get(kind, {})


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> list[type[Any]]:
    """The types of what operators have requested and may."""
    found: list[type[Any]] = []

    async def carry_out(_: OperatorRequests, request: si.OperatorRequest) -> si.Ack:
        found.append(type(request))
        return si.Ack(id=request.id)

    monkeypatch.setattr(OperatorRequests, "carry_out", carry_out)
    return found


@pytest.mark.parametrize("way", [*WAYS, "no file"])
async def test_an_operator_may_what_is_in_its_table(way: str, carried_out: list[type[Any]]) -> None:
    """SE-20, SE-71: by every way of proof all of it is carried out; what is not in it is no message."""
    door = Door(None if way == "no file" else "operator", way)
    async with running_daemon(admit=door.admit) as daemon, line_to(daemon, "/v1/operator") as operator:
        assert {(await operator.ask(of_operator(kind)))["type"] for kind in OPERATOR_REQUESTS} == {"Ack"}
        assert carried_out == OPERATOR_REQUESTS
        others = {*REQUESTS} - {*OPERATOR_REQUESTS}
        assert {(await operator.ask(example(kind)))["code"] for kind in others} == {"UNKNOWN_TYPE"}
        assert carried_out == OPERATOR_REQUESTS


@pytest.mark.parametrize("kind", OPERATOR_REQUESTS)
async def test_operators_without_a_right(kind: type[Any], carried_out: list[type[Any]]) -> None:
    """SE-63: who is no operator any more, or may not what the message needs, is refused; then the next one passes."""
    lacking = [structs.replace(FULL, roles=frozenset(Role) - {Role.OPERATOR})]
    if kind is si.UpdateConfigurationRequest:
        lacking.append(structs.replace(FULL, configure=False))
    door = Door(None, "")
    async with running_daemon(admit=door.admit) as daemon, line_to(daemon, "/v1/operator") as operator:
        for number, identity in enumerate(lacking):
            await trio.testing.wait_all_tasks_blocked()
            door.caller.identity = identity
            answer = await operator.ask(of_operator(kind, number))
            assert (answer["code"], answer["id"]) == ("NOT_PERMITTED", f"{kind.__name__}-{number}")
        assert carried_out == []
        door.caller.identity = ANYBODY
        assert (await operator.ask(of_operator(kind, 99)))["type"] == "Ack"
        assert carried_out == [kind]
