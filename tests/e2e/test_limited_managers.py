"""Registering, resuming, releasing and epochs of resource managers that are limited to partitions, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from typing import Any

import msgspec
import pytest
import trio.testing
from doubles import FakeDaemon, running_daemon
from msgspec import structs

from ykactor.access.credentials import Credentials
from ykactor.access.model import ANYBODY, Identity, Role
from ykactor.client.connection import open_connection
from ykactor.core.values.names import Names
from ykactor.surfaces.admission.caller import Caller

PARTITIONS = ("default", "gpu", "tpu")
#: By name, the partitions that an identity may act in.
SCOPES = {
    "everything": Names.of(["*"]),
    "default": Names.of(["default"]),
    "gpu": Names.of(["gpu"]),
    "default and gpu": Names.of(["default", "gpu"]),
}
IDENTITIES = {name: structs.replace(ANYBODY, name="ci", partitions=scope) for name, scope in SCOPES.items()}
REGISTER = {"type": "RegisterResourceManagerRequest", "id": "r", "rmID": "rm-1"}
#: What somebody does to a registration of another identity with the same ``rmID``; each has the message of its last line.
ACTS: dict[str, dict[str, Any]] = {
    "register": REGISTER,
    "register with a higher epoch": {**REGISTER, "epoch": 9},
    "register with an epoch that is too low": {**REGISTER, "epoch": 1},
    "resume from the first message": {**REGISTER, "resumeFrom": 0},
    "resume from now": {**REGISTER, "resumeFrom": "now"},
    "resume after what there is": {**REGISTER, "resumeFrom": 10**6},
    "release": {"type": "ReleaseResourceManager", "id": "r", "rmID": "rm-1"},
    "release another one": {"type": "ReleaseResourceManager", "id": "r", "rmID": "rm-2"},
}


class Listener:
    """Lets everybody in as ``identity``, which tests replace."""

    def __init__(self) -> None:
        self.identity: Identity = ANYBODY
        self.caller = Caller(Role.RM, "nobody")

    def admit(self, role: Role, _: Credentials, origin: str) -> Caller:
        self.caller = Caller(role, origin, self.identity)
        return self.caller


class Client:
    """A session, and the messages that it has received."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.received: list[dict[str, Any]] = []

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        await self._connection.send_message(msgspec.json.encode(message).decode())
        while True:
            self.received.append(msgspec.json.decode(await self._connection.get_message()))
            if self.received[-1].get("id") == message["id"]:
                return self.received[-1]

    def partitions(self) -> set[str]:
        """The partitions of the applications that it was told about."""
        told = [entry for message in self.received for entry in message.get("accepted", ())]
        return {entry["applicationID"].removeprefix("app-") for entry in told}


class World:
    """A daemon with three partitions, and clients of it."""

    def __init__(self, daemon: FakeDaemon, listener: Listener, stack: AsyncExitStack) -> None:
        self.daemon = daemon
        self.listener = listener
        self._stack = stack

    async def client(self, identity: Identity, path: str = "/v1/rm") -> Client:
        self.listener.identity = identity
        return Client(await self._stack.enter_async_context(open_connection(self.daemon.url, path)))

    async def holder(self, name: str, **fields: Any) -> Client:
        """A registration with an application in each partition that it may act in."""
        client = await self.client(IDENTITIES[name])
        assert (await client.ask({**REGISTER, **fields})).get("code") is None
        for partition in PARTITIONS:
            if partition in SCOPES[name]:
                new = [{"applicationID": f"app-{partition}", "partitionName": partition, "ugi": {"user": "ci"}}]
                await client.ask({"type": "ApplicationRequest", "id": partition, "new": new})
        return client

    async def effects(self) -> object:
        """The state that a registration can change."""
        await trio.testing.wait_all_tasks_blocked()
        current = self.daemon.outboxes.current
        received = {name: list(double.received) for name, double in self.daemon.doubles.items()}
        return received, current, current and (current.reader, current.sequence)


@asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    listener = Listener()
    async with running_daemon(*PARTITIONS, admit=listener.admit) as daemon, AsyncExitStack() as stack:
        yield World(daemon, listener, stack)


@pytest.mark.parametrize(("holder", "other", "act"), list(product(SCOPES, SCOPES, ACTS)))
async def test_who_may_touch_a_registration(holder: str, other: str, act: str) -> None:
    """SE-28: only who may act in every partition that the registration serves replaces, resumes or ends it.

    Others change nothing, and learn neither a message, an epoch nor who is registered.
    """
    async with a_world() as world:
        await world.holder(holder, epoch=5)
        before = await world.effects()
        is_release = act.startswith("release")
        client = await world.client(IDENTITIES[other], "/v1/operator" if is_release else "/v1/rm")
        answer = await client.ask({**({} if is_release else {"epoch": 5}), **ACTS[act], "id": "act"})
        if not SCOPES[other].includes(SCOPES[holder]):
            sentence = "ci is limited to partitions, and the registration serves others too"
            assert (answer["type"], answer["code"], answer["message"]) == ("ErrorResponse", "NOT_PERMITTED", sentence)
            assert client.received == [answer]
            assert await world.effects() == before
            return
        expected = {
            "register with an epoch that is too low": "STALE_EPOCH" if SCOPES[holder].includes(SCOPES[other]) else None,
            "resume after what there is": "RESYNC_REQUIRED",
            "release another one": "REFUSED",
        }
        assert answer.get("code") == expected.get(act)
        assert (await world.effects() == before) is (expected.get(act) is not None)
        assert client.partitions() <= {name for name in PARTITIONS if name in SCOPES[other]}
        if act == "resume from the first message":
            assert client.partitions() == {name for name in PARTITIONS if name in SCOPES[holder]}


@pytest.mark.parametrize(("first", "second"), list(product(SCOPES, SCOPES)))
async def test_whom_an_epoch_keeps_out(first: str, second: str) -> None:
    """SC-158: an epoch keeps out lower ones only of who serves no partition beyond those of the process that had it."""
    async with a_world() as world:
        holder = await world.holder(first, epoch=10**18)
        await holder.ask({"type": "DeregisterResourceManagerRequest", "id": "d"})
        answer = await (await world.client(IDENTITIES[second])).ask({**REGISTER, "epoch": 3})
        assert answer.get("code") == ("STALE_EPOCH" if SCOPES[first].includes(SCOPES[second]) else None)


async def test_a_registration_serves_what_its_session_may_meanwhile() -> None:
    """SE-28: an identity that may more than when it registered; then another one with less cannot take its place."""
    async with a_world() as world:
        holder = await world.holder("gpu")
        world.listener.caller.identity = IDENTITIES["default and gpu"]
        new = [{"applicationID": "app-default", "ugi": {"user": "ci"}}]
        await holder.ask({"type": "ApplicationRequest", "id": "more", "new": new})
        answer = await (await world.client(IDENTITIES["gpu"])).ask({**REGISTER, "resumeFrom": 0})
        assert answer["code"] == "NOT_PERMITTED"
        answer = await (await world.client(IDENTITIES["default and gpu"])).ask({**REGISTER, "id": "again", "resumeFrom": 0})
        assert answer["type"] == "Ack"


async def test_an_epoch_grows_with_its_session() -> None:
    """SC-158: an identity that may more than when its newer process registered: the older one cannot come back with that."""
    async with a_world() as world:
        holder = await world.holder("gpu", epoch=5)
        world.listener.caller.identity = IDENTITIES["everything"]
        await holder.ask({"type": "ScheduleRequest", "id": "any", "steps": 1})
        answer = await (await world.client(IDENTITIES["everything"])).ask({**REGISTER, "epoch": 4})
        assert answer["code"] == "STALE_EPOCH"


async def test_a_resumed_registration_serves_what_the_wider_session_may() -> None:
    """SE-28: who resumes with more permissions widens it; nothing narrows it but a fresh registration."""
    async with a_world() as world:
        await world.holder("gpu")
        wide = await world.client(IDENTITIES["everything"])
        assert (await wide.ask({**REGISTER, "resumeFrom": "now"}))["type"] == "Ack"
        refused = await (await world.client(IDENTITIES["gpu"])).ask({**REGISTER, "resumeFrom": "now"})
        assert refused["code"] == "NOT_PERMITTED"
        await wide.ask({"type": "DeregisterResourceManagerRequest", "id": "d"})
        assert (await (await world.client(IDENTITIES["gpu"])).ask(REGISTER))["type"] == "Ack"
