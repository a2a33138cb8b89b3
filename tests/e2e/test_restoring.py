"""Restoring what is whole of a state directory: a backup, without its witness, with a damaged log (DU-3, DU-12)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daemon import RunningDaemon, application, asks, next_allocated, node, real_daemon, run_command

from ykactor.client import RequestRefused, connect
from ykactor.client.resource_manager import ResourceManager
from ykactor.surfaces.cli import exit_codes


async def work(rm: ResourceManager, name: str) -> None:
    await rm.request(node(f"n-{name}", vcore=2000))
    await rm.request(application(name))
    await rm.request(asks(*(f"{name}-{number}" for number in range(3)), of=name))
    await next_allocated(rm, 2)


def running(state: dict[str, Any]) -> dict[str, set[str]]:
    """The tasks that run on each node, but for the last one."""
    return {name: set(found["allocations"]) for name, found in state["nodes"].items() if name != "n-last"}


async def kill(daemon: RunningDaemon) -> None:
    daemon.process.kill()
    await daemon.process.wait()


async def test_a_backup_has_everything(tmp_path: Path) -> None:
    """Nodes, applications, tasks and the registration; who was told no more than the backup has goes on, who was begins anew."""
    state, copy, restored = tmp_path / "state", tmp_path / "copy.db", tmp_path / "restored"
    async with real_daemon("--state-dir", state) as first, connect(first.url, rm_id="rm-1") as rm:
        await work(rm, "early")
        before, kept, term = await first.state(), rm.sequence, rm.term
        await run_command("journal", "backup", state, copy)
        _, errors = await run_command("journal", "backup", state, copy, expect=exit_codes.USAGE)
        assert errors == f"Error: {copy}: File exists, expected a file that is not there yet\n"
        await work(rm, "late")
        told = rm.sequence
        await kill(first)
    output, _ = await run_command("journal", "restore", copy, restored)
    assert " records, as of 20" in output
    async with real_daemon("--state-dir", restored) as second:
        assert running(await second.state()) == running(before) == {"n-early": {"early-0", "early-1"}}
        (found,) = second.logged("state_recovered")
        assert (found["nodes"], found["apps"]) == (1, 1)
        assert found["as_of"] in output
        (loss,) = second.logged("journal_loss")
        assert loss["reason"].startswith("no witness, so this is a backup")
        with pytest.raises(RequestRefused, match="RESYNC_REQUIRED"):
            async with connect(second.url, rm_id="rm-1", resume_from=told, term=term):
                raise NotImplementedError
        async with connect(second.url, rm_id="rm-1", resume_from=kept, term=term) as rm:
            await work(rm, "other")
            assert set((await second.state())["nodes"]) == {"n-early", "n-other"}


def remove(witness: Path, log: Path) -> None:
    witness.unlink()


def damage(witness: Path, log: Path) -> None:
    witness.write_bytes(b"rubbish")


def cut(witness: Path, log: Path) -> None:
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 5000)


def change(witness: Path, log: Path) -> None:
    with log.open("r+b") as file:
        file.seek(-3000, 2)
        file.write(b"rubbish")


@pytest.mark.parametrize("act", [remove, damage, cut, change])
async def test_what_is_whole_is_there(tmp_path: Path, act: Callable[[Path, Path], None]) -> None:
    """A daemon that was killed, and then a part of its directory is lost: the log says so, and the state is what is left."""
    async with real_daemon("--state-dir", tmp_path) as first, connect(first.url, rm_id="rm-1") as rm:
        await work(rm, "a")
        await work(rm, "b")
        before = await first.state()
        kept, term = rm.sequence, rm.term
        await rm.request(node("n-last", vcore=1))
        await kill(first)
    act(tmp_path / "witness", tmp_path / "journal.db-wal")
    async with real_daemon("--state-dir", tmp_path) as second:
        assert second.logged("journal_loss")
        state = await second.state()
        assert set(state["applications"]) == {"a", "b"}
        assert running(state) == running(before)
        async with connect(second.url, rm_id="rm-1", resume_from=kept, term=term) as rm:
            await rm.request(node("n-more", vcore=1))
