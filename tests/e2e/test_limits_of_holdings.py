"""Limits on the objects of an identity, with a daemon in its own process: over a restart, another access file, and a replay."""

from __future__ import annotations

import os
import pwd
import signal
from pathlib import Path
from typing import Any

import msgspec
from daemon import application, asks, node, real_daemon, run_command
from msgspec import structs

from ykactor.client import ResourceManager, connect
from ykactor.wire.si import messages as si


def access_text(limits: str) -> str:
    user = pwd.getpwuid(os.geteuid()).pw_name
    identity = f"{{name: ci, roles: [rm], rmIDs: [ci], users: ['*'], groups: ['*'], proofs: [{{user: {user}}}]}}"
    return f"identities: [{identity}]\n{limits}\n"


async def outcome(rm: ResourceManager, *requests: Any) -> tuple[list[str], dict[str, str]]:
    """The accepted entries of the requests, and by name the reasons for the rejected ones."""
    accepted: list[str] = []
    rejected: dict[str, str] = {}
    for request in requests:
        await rm.send(structs.replace(request, id="last"))
        while not (isinstance(message := await anext(rm), si.Ack) and message.id == "last"):
            match message:
                case si.NodeResponse():
                    accepted += [each.node_id for each in message.accepted]
                    rejected |= {each.node_id: each.reason for each in message.rejected}
                case si.ApplicationResponse():
                    accepted += [each.application_id for each in message.accepted]
                    rejected |= {each.application_id: each.reason for each in message.rejected}
                case si.AllocationResponse():
                    rejected |= {each.allocation_key: each.reason for each in message.rejected_allocations}
    return accepted, rejected


def running(*keys: str) -> si.AllocationRequest:
    """Allocations that run already."""
    request = asks(*keys)
    return structs.replace(request, allocations=[structs.replace(each, node_id="n1") for each in request.allocations])


def reason(limit: str, most: int) -> str:
    return f"limit {limit} = {most} of identity ci: found {most}, no room for 1 more"


async def test_what_an_identity_may_hold(tmp_path: Path) -> None:
    """SE-49: one too many is rejected alone, what is reported after a restart too; a raised limit holds at once."""
    file, state, socket = tmp_path / "access.yaml", tmp_path / "state", f"unix:{tmp_path}/ws.sock"
    file.write_text(access_text("limits: {nodes: 1, applications: 2, asks: 2, queues: 1}"))
    options: dict[str, Any] = {"ws": ("--ws", socket)}
    arguments = "--access", file, "--state-dir", state
    async with real_daemon(*arguments, **options) as daemon, connect(socket, rm_id="ci") as rm:
        two = application("app-2", "root.two"), application("app-3"), application("app-4")
        found = await outcome(rm, node(), node("n2"), application(), *two, asks("t1", "t2", "t3"))
        no_queue = f"failed to place application app-2: {reason('queues', 1)}"
        assert found == (
            ["n1", "app-1", "app-3"],
            {"n2": reason("nodes", 1), "app-2": no_queue, "app-4": reason("applications", 2), "t3": reason("asks", 2)},
        )
        daemon.process.send_signal(signal.SIGKILL)
        await daemon.process.wait()
    async with real_daemon(*arguments, **options) as daemon, connect(socket, rm_id="ci") as rm:
        assert await outcome(rm, node(), application(), running("t1", "t2", "t3")) == (["n1", "app-1"], {"t3": reason("asks", 2)})
        file.write_text(access_text("limits: {nodes: 1, applications: 2, asks: 3, queues: 1}"))
        await daemon.wait_logged("access_applied", 2)
        assert await outcome(rm, running("t3", "t4")) == ([], {"t4": reason("asks", 3)})
        assert await daemon.stop() == 0
    audited, _ = await run_command("audit", "--state-dir", state)
    for told in (reason("nodes", 1), reason("asks", 2)):  # the first refusal of each daemon; the others are summed (SE-74)
        assert told in audited
    replayed, _ = await run_command("replay", state, "-o", "json")
    assert msgspec.json.decode(replayed)["difference"] is None
