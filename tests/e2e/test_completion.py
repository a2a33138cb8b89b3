"""Shell completion: the script, and the names that come from a daemon and a local resource manager."""

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from click.shell_completion import BashComplete
from click.testing import CliRunner
from daemon import application, asks, node, real_daemon
from localjobs import local_manager

from ykactor.client import connect
from ykactor.surfaces.cli import completing
from ykactor.surfaces.cli.main import main

QUEUES = """
partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: batch}, {name: dev}]}]}]
"""


async def completions(words: Sequence[str], incomplete: str = "") -> list[str]:
    """The words that a shell offers."""
    complete = BashComplete(main, {}, "ykactor", "_YKACTOR_COMPLETE")
    found = await trio.to_thread.run_sync(complete.get_completions, [*words], incomplete)
    return [item.value for item in found]


async def test_names_come_from_the_daemon(tmp_path: Path) -> None:
    """Queues, applications, nodes, users and partitions of the daemon that the command line names; options too."""
    (tmp_path / "queues.yaml").write_text(QUEUES)
    async with real_daemon("--config", tmp_path / "queues.yaml") as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        for request in (node("n1"), application("app-1", "root.dev"), asks("t1")):
            await rm.request(request)

        async def complete(*words: str, incomplete: str = "") -> list[str]:
            return await completions([words[0], "--url", daemon.url, *words[1:]], incomplete)

        assert await complete("run", "--queue", incomplete="root.b") == ["root.batch"]
        assert await complete("queues", "--queue") == ["root", "root.batch", "root.dev"]
        assert await complete("app") == await complete("asks", "--app") == ["app-1"]
        assert await complete("drain") == await complete("node") == ["n1"]
        assert await complete("apps", "--user") == ["alice"]
        assert await complete("cancel", "--partition") == ["default"]
        assert await complete("explain", incomplete="n") == ["n1"]
        assert "--sort" in await complete("queues", incomplete="--s")


async def test_jobs_and_their_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local resource manager names the newest job first, and the tasks of one."""
    monkeypatch.setenv("YKACTOR_URL", "ws://127.0.0.1:1")
    monkeypatch.setenv("YKACTOR_LOCAL_DIR", str(tmp_path / "local"))
    assert await completions(["logs"]) == []
    async with real_daemon() as daemon, local_manager(tmp_path / "local", daemon.url) as manager:
        for last in 0, 1:
            await manager.submit("true", first=0, last=last)
        for command in "logs", "wait", "jobs", "cancel":
            assert await completions([command]) == ["job-2", "job-1"]
            assert await completions([command], "job-2.") == ["job-2.0", "job-2.1"]


async def test_a_daemon_that_does_not_answer_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell waits for a moment only, and a wrong option is no traceback."""
    monkeypatch.setattr(completing, "ANSWER_S", 0.01)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert await completions(["app", "--url", f"ws://127.0.0.1:{silent.getsockname()[1]}"]) == []
    assert await completions(["app", "--url", "nonsense"]) == []
    assert await completions(["app", "--tls-key", "/dev/null"]) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script(shell: str) -> None:
    """The shell can read it, where it is installed."""
    done = CliRunner().invoke(main, ["completion", shell], prog_name="ykactor")
    assert done.exit_code == 0
    assert f"_YKACTOR_COMPLETE={shell}_complete" in done.stdout
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=done.stdout, text=True, check=True, env=dict(os.environ))
