"""The table of the handbook for users of Slurm: each command of it runs, in the order of the table."""

import re
import shlex
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from daemon import real_daemon
from localjobs import local_manager

from ykactor.local.model import State
from ykactor.surfaces.cli.main import main

CHAPTER = Path(__file__).parents[2] / "ykactor" / "handbook" / "jobs.md"
QUEUES = """
partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: batch}, {name: dev}]}]}]
"""


def rows() -> list[tuple[str, str]]:
    """The commands of Slurm, each with the one here."""
    section = CHAPTER.read_text().partition("## A day with Slurm\n")[2].partition("\n\nThere is no counterpart")[0]
    return re.findall(r"^\| (`.+`) \| `ykactor (.+)` \|$", section, re.MULTILINE)


async def test_each_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs are there: ``job-1`` and ``job-2`` have ended, ``job-3`` has tasks 1 to 5, of which some wait."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues.yaml").write_text(QUEUES)
    (tmp_path / "job.sh").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "job.sh").chmod(0o755)
    failures = []
    async with (
        real_daemon("--config", tmp_path / "queues.yaml", "--state-dir", tmp_path / "state") as daemon,
        local_manager(tmp_path / "local", daemon.url, "--resource", "vcore=4", "--resource", "memory=64Gi") as manager,
    ):
        monkeypatch.setenv("YKACTOR_URL", daemon.url)
        monkeypatch.setenv("YKACTOR_LOCAL_DIR", str(manager.directory))
        for _ in "12":
            await manager.states(await manager.submit("true", queue="root.dev"))
        job = await manager.submit("sleep 1000", queue="root.batch", first=1, last=5, resource={"vcore": 1000})
        await manager.has_state(job, State.RUNNING)
        node_id = next(iter((await daemon.state())["nodes"]))
        for _, line in rows():
            arguments = [node_id if word == "n1" else word for word in shlex.split(line)]
            if arguments[:2] == ["run", "--queue"] and "--dry-run" not in arguments:
                arguments[1:1] = ["--vcore", "0"]  # what is there is busy
            done = await trio.to_thread.run_sync(lambda words=arguments: CliRunner().invoke(main, words, prog_name="ykactor"))
            if done.exit_code or "Traceback" in done.output:
                failures.append(f"{line}: {done.exit_code}\n{done.output}{done.exception!r}")
    assert failures == []
    assert len(rows()) >= 20
