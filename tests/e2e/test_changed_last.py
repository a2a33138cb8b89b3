"""Whoever changed the configuration last stays (CF-90): the queue file, SIGHUP, an operator or the resource manager."""

from __future__ import annotations

from pathlib import Path

import trio
from daemon import RunningDaemon, real_daemon
from test_hot_reload import by_rename
from world import queue, tree

from ykactor.client import connect, operate
from ykactor.client.resource_manager import ResourceManager
from ykactor.wire.queuefile import load
from ykactor.wire.si import messages as si

#: Longer than it takes until a change of the file is seen and applied (0.2 to 0.5 s): then "nothing came" means something.
QUIET_S = 1.5


def text(vcore: int) -> str:
    return tree(queue("a", max={"vcore": vcore}))


FIRST = text(1)


async def in_force(daemon: RunningDaemon) -> int:
    found: int = (await daemon.state())["queues"]["root.a"]["max"]["vcore"]
    return found


async def test_a_file_that_an_operator_has_read_replaces_no_later_change(queue_file: Path) -> None:
    """The event of its change comes after the resource manager's configuration was acknowledged, and changes nothing."""
    async with (
        real_daemon("--config", queue_file) as daemon,
        operate(daemon.url) as operator,
        connect(daemon.url, rm_id="rm-1") as rm,
    ):
        by_rename(queue_file, text(2))
        await operator.request(si.ReloadConfiguration())
        assert await in_force(daemon) == 2
        await rm.request(si.UpdateConfigurationRequest(config=text(3)))
        await trio.sleep(QUIET_S)
        assert await in_force(daemon) == 3


async def replacement(rm: ResourceManager) -> si.ErrorResponse:
    """The message that the configuration of a resource manager was replaced."""
    while True:
        message = await rm.__anext__()
        if isinstance(message, si.ErrorResponse):
            return message


async def test_a_resource_manager_is_told_that_its_configuration_was_replaced(queue_file: Path, tmp_path: Path) -> None:
    """A change by the file or by an operator is told at once; one while no daemon ran, at the next session."""
    arguments = ("--config", queue_file, "--state-dir", tmp_path / "state")
    sums = [load(text(vcore)).checksum for vcore in range(8)]
    async with real_daemon(*arguments) as daemon, operate(daemon.url) as operator, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(si.UpdateConfigurationRequest(config=text(2)))
        by_rename(queue_file, text(3))
        told = await replacement(rm)
        reason = "the queue file or an operator has replaced the configuration {} of rm-1: {} is in force"
        assert (told.code, told.path, told.id) == ("CONFIG_REPLACED", "config", "")
        assert told.message == reason.format(sums[2], sums[3])
        await rm.request(si.UpdateConfigurationRequest(config=text(4)))
        await operator.request(si.UpdateConfigurationRequest(config=text(5)))
        assert (await replacement(rm)).message == reason.format(sums[4], sums[5])
        await rm.request(si.UpdateConfigurationRequest(config=text(6)))
        last = {"resume_from": rm.sequence, "term": rm.term}
        daemon.process.kill()
    await trio.Path(queue_file).write_text(text(7))
    async with real_daemon(*arguments) as daemon, connect(daemon.url, rm_id="rm-1", **last) as rm:
        assert (await replacement(rm)).message == reason.format(sums[6], sums[7])
        assert await in_force(daemon) == 7
