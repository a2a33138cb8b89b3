# a few bytes in a temporary directory
"""One local resource manager for all users: what each of them may see, do and take."""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from daemon import LIMIT_S, real_daemon, run_command
from localjobs import LocalManager, job_of
from otherusers import (
    BIN,
    DAEMON,
    LOGIN,
    NOBODY,
    ask_as,
    connections_as,
    directory_for_all,
    refusal_of,
    skip_without_system,
    submit_as,
)

from ykactor.local import control, serving
from ykactor.local.model import Job, State
from ykactor.surfaces.cli.jobs import asking

if os.geteuid() != 0:
    pytest.skip("only root can run jobs of other users", allow_module_level=True)
skip_without_system()

OPTIONS = ("--system", "--min-uid", "1", "--operators", "bin")
ROOT = 0
ACCESS = f"""
identities:
  - name: local
    roles: [rm, operator]
    rmIDs: [local-{socket.gethostname()}]
    users: ["*"]
    groups: ["*"]
    proofs: [{{user: root}}]
"""


@pytest.fixture
def base() -> Iterator[Path]:
    with directory_for_all() as directory:
        yield directory


def job(script: str = "true", **fields: Any) -> Job:
    return job_of(script, **{"login": LOGIN, "resource": {"vcore": 100, "memory": 2**26}} | fields)


@asynccontextmanager
async def shared_manager(base: Path, url: str = "") -> AsyncIterator[LocalManager]:
    """A local resource manager for all users; without a daemon at an address jobs wait."""
    directory = base / "local"
    directory.mkdir()
    directory.chmod(0o755)
    manager = LocalManager(directory, url or f"unix:{base}/nobody", *OPTIONS)
    with trio.fail_after(LIMIT_S):
        await manager.start()
        try:
            yield manager
        finally:
            await manager.kill()


async def shown_to(uid: int, directory: Path, name: str) -> control.ShownJob:
    answer = await ask_as(uid, directory, control.ShowJob(name))
    assert isinstance(answer, control.ShownJob), answer
    return answer


async def test_users_among_themselves(base: Path) -> None:
    """A user sees of the jobs of others only where they are and what they take, and gets none of them by a token."""
    async with shared_manager(base) as local:
        directory = local.directory
        hers = await submit_as(DAEMON, directory, job(token="the same", name="hers", environ=[b"SECRET=1"]))
        others = await submit_as(BIN, directory, job(token="the same"))
        assert await submit_as(DAEMON, directory, job(token="the same")) == hers != others
        assert (await shown_to(DAEMON, directory, hers)).job.name == "hers"
        assert (await shown_to(ROOT, directory, hers)).job.name == "hers"
        seen = (await shown_to(DAEMON, directory, others)).job
        assert (seen.user, seen.arguments, seen.resource["memory"]) == ("bin", [], 2**26)
        assert (await shown_to(BIN, directory, hers)).job.name == "hers", "bin is in the group of operators"
        listed = await ask_as(DAEMON, directory, control.ListJobs(10))
        assert isinstance(listed, control.JobList)
        assert [(row.user, bool(row.arguments)) for row in listed.jobs] == [("daemon", True), ("bin", False)]


async def test_who_may_change_a_job(base: Path) -> None:
    """The user, operators and root may, without the daemon; an ended job gets no environment of somebody else."""
    async with shared_manager(base) as local:
        directory = local.directory
        for _ in range(3):
            await submit_as(DAEMON, directory, job())
        others = await submit_as(BIN, directory, job())
        changes = (control.Cancel(others), control.Hold(others, True), control.Requeue(others, None, False, []))
        for change, verb in zip(changes, ("cancel", "hold", "requeue"), strict=True):
            expected = f"{others} is a job of bin: only this user and operators may {verb} it"
            assert await refusal_of(DAEMON, directory, change) == expected
        assert isinstance(await ask_as(DAEMON, directory, control.Cancel("job-1")), control.Done)
        assert isinstance(await ask_as(BIN, directory, control.Cancel("job-2")), control.Done)
        environment = {"YKACTOR_LOCAL_DIR": str(directory)}
        assert (await run_command("cancel", "job-3", environment=environment))[0] == "job-3 is ending\n"
        assert [(await local.states(name)) for name in ("job-1", "job-2", "job-3")] == [[State.CANCELLED]] * 3
        again = await refusal_of(BIN, directory, control.Requeue("job-1", None, False, []))
        assert again == "job-1 has ended: only daemon can run it again, with an environment of this user"
        records = await ask_as(DAEMON, directory, control.ListAttempts(10))
        assert isinstance(records, control.AttemptList)
        assert {(each.user, bool(each.reason)) for each in records.attempts} == {("daemon", True), ("bin", False)}


async def test_who_may_submit_what(base: Path) -> None:
    """A user who may not connect, root, an old command, and what only operators may are refused, each with its reason."""
    async with shared_manager(base) as local:
        directory = local.directory
        expected = [
            (NOBODY, job(), "who may be anybody in a namespace"),
            (ROOT, job(), "tasks are not started as root"),
            (DAEMON, job(login=None), "the command is older"),
            (DAEMON, job(priority=1), "only operators may give a higher one"),
            (DAEMON, job(resource={"memory": 0}), "expected at least 1Mi on a shared machine"),
            (DAEMON, job(last=2**40), "expected at least one, with indexes of 0 to"),
            (12345, job(), "expected one that getent passwd knows"),
        ]
        for uid, wanted, reason in expected:
            assert reason in await refusal_of(uid, directory, control.Submit(wanted))
        await submit_as(BIN, directory, job(priority=1))
        first = await submit_as(DAEMON, directory, job(last=9_999))
        await submit_as(DAEMON, directory, job(last=9_999))
        full = await refusal_of(DAEMON, directory, control.Submit(job()))
        assert full == "found 20000 tasks of daemon, expected room for 1 more of 20000 for each user"
        assert await submit_as(BIN, directory, job()) != first
        await local.kill()
        await local.start()
        assert await refusal_of(DAEMON, directory, control.Submit(job())) == full


async def test_one_user_does_not_keep_others_away(base: Path) -> None:
    """All its connections with half a request, and one that takes its turn, are its own loss."""
    async with shared_manager(base) as local, AsyncExitStack() as stack:
        for number, stream in enumerate(
            connections_as(DAEMON, local.directory, 250) + connections_as(DAEMON, local.directory, serving.CONNECTIONS_EACH - 250)
        ):
            await stack.enter_async_context(stream)
            await stream.send_all(b"x" * (1 if number else serving.START_MAX + 1))
        assert "connections of this user" in await refusal_of(DAEMON, local.directory, control.ListJobs(1))
        assert await submit_as(BIN, local.directory, job()) == "job-1"


async def test_a_job_runs_as_its_user_and_outlives_the_manager(base: Path) -> None:
    """The daemon is told the user and the groups; what the job writes is the user's; the one after a kill goes on with it."""
    socket_of_daemon = base / "ws.sock"
    go = base / "go"
    (base / "access.yaml").write_text(ACCESS)
    (base / "access.yaml").chmod(0o600)
    arguments = ("--access", str(base / "access.yaml"))
    async with (
        real_daemon(*arguments, ws=("--ws", f"unix:{socket_of_daemon}")) as daemon,
        shared_manager(base, f"unix:{socket_of_daemon}") as local,
    ):
        job_id = await submit_as(DAEMON, local.directory, job(f"id -un; umask; until [ -e {go} ]; do sleep 0.05; done"))
        await local.has_state(job_id, State.RUNNING)
        await local.kill()
        await local.start()
        await local.has_said("registered", 2)  # from then on the daemon has nothing of the one that was killed
        while job_id not in (await daemon.state())["applications"]:  # noqa: ASYNC110 (it is not told of what ends before that)
            await trio.sleep(0.02)
        go.touch()
        assert await local.states(job_id) == [State.COMPLETED]
        directory = local.directory / "jobs" / job_id / "0.0"
        assert (directory / "out").read_text() == "daemon\n0027\n"
        assert (directory / "out").stat().st_uid == directory.stat().st_uid == DAEMON
        listed, _ = await run_command("app", job_id, "-o", "json", "--url", daemon.url)
        told = msgspec.json.decode(listed)
        assert (told["user"], told["groups"]) == ("daemon", ["daemon"])


def test_the_directory_without_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The own one if something listens there, else that of the machine if something does there: a socket alone says nothing."""
    own, of_all = tmp_path / "own" / "ykactor-local", tmp_path / "all"
    own.mkdir(parents=True)
    of_all.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(own.parent))
    monkeypatch.setattr(asking, "DIRECTORY", of_all)
    with socket.socket(socket.AF_UNIX) as left, socket.socket(socket.AF_UNIX) as of_machine:
        left.bind(str(own / control.NAME))
        assert asking.default_directory() == own
        of_machine.bind(str(of_all / control.NAME))
        of_machine.listen()
        assert asking.default_directory() == of_all
        left.listen()
        assert asking.default_directory() == own
