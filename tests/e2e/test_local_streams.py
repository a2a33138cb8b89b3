"""The files of jobs for standard input, output and error: the user of the job opens them, and nothing waits for them."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from localjobs import job_of
from msgspec import structs
from otherusers import DAEMON, control_group_tree, directory_for_all

from ykactor.local.isolation import Isolation
from ykactor.local.login import Login
from ykactor.local.model import Ended, Job, Task
from ykactor.local.processes import Processes
from ykactor.local.shared import SharedProcesses
from ykactor.local.shared_groups import SharedCgroups
from ykactor.local.streams import Streams
from ykactor.surfaces.cli.jobs.output import Output

TASK = Task("job-1", 0)
LIMIT_S = 180
USERS = [
    "own",
    pytest.param("all", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tasks of other users")),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with control_group_tree(tmp_path_factory.mktemp("cgroup")) as mount:
        yield mount


class World:
    """A directory of the user of a job, and the processes of this job."""

    def __init__(self, base: Path, processes: Processes | SharedProcesses, login: Login | None) -> None:
        self.here = base / "here"
        self.here.mkdir()
        self._login = login
        if login is not None:
            os.chown(self.here, login.uid, login.uid)
        self._processes = processes

    def job(self, script: str, **fields: Any) -> Job:
        return job_of(script, **{"id": "job-1", "login": self._login, "directory": bytes(self.here)} | fields)

    async def ended(self, job: Job, task: Task = TASK) -> Ended:
        """Run a task to its end."""
        self._processes.start(job, task)
        with trio.fail_after(LIMIT_S):
            return structs.replace(await self._processes.wait(task), cpu_ns=None)

    def write(self, name: str, text: str) -> None:
        """A file of the user of the job."""
        (self.here / name).write_text(text)
        os.chown(self.here / name, self.here.stat().st_uid, -1)

    def attempt(self, task: Task = TASK) -> Path:
        return self._processes.job_directory(task.job) / f"{task.index}.{task.attempt}"


@pytest.fixture(params=USERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A local resource manager of one user, and one of all."""
    with directory_for_all() as base:
        if request.param == "own":
            yield World(base, Processes(base / "jobs", Isolation(), 0.3), None)
        else:
            groups = SharedCgroups(request.getfixturevalue("tree"), f"test-{os.getpid()}-{base.name}", frozenset(), 100)
            yield World(base, SharedProcesses(base, groups, 0.3), Login(DAEMON, [], 0o027))


async def test_the_files_that_a_job_names(world: World) -> None:
    """They are relative to its directory, of its user, and the directory of the attempt says where they are."""
    (world.here / "in.0").write_text("read\n")
    world.write("job-1.out", "from before\n")
    streams = Streams(input=b"in.%a", output=b"%j.out", error=b"%2a.err")
    assert await world.ended(world.job("cat; echo oops >&2", streams=streams)) == Ended(0)
    assert (world.here / "job-1.out").read_text() == "read\n"
    assert (world.here / "00.err").read_text() == "oops\n"
    assert (world.attempt() / "out").readlink() == world.here / "job-1.out"
    made = (world.here / "00.err").stat()
    assert made.st_uid == world.here.stat().st_uid
    assert world._login is None or stat.S_IMODE(made.st_mode) == 0o640


async def test_a_command_finds_nothing_else_changed(world: World) -> None:
    """Neither its environment, nor ignored signals, nor further descriptors."""
    script = "env | cut -d= -f1 | sort; grep SigIgn /proc/self/status; ls /proc/self/fd"
    found = []
    for index, streams in enumerate((Streams(), Streams(output=b"named"))):
        task = Task("job-1", index)
        assert await world.ended(world.job(script, streams=streams), task) == Ended(0)
        found.append((world.attempt(task) / "out").read_text())
    assert found[0] == found[1]


async def test_standard_error_goes_with_standard_output(world: World) -> None:
    """Unless it has a file of its own."""
    assert await world.ended(world.job("echo a; echo b >&2; echo c", streams=Streams(output=b"o"))) == Ended(0)
    assert (world.here / "o").read_text() == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("output", "error", "expected"),
    [
        (b"/dev/stdout", b"/dev/stderr", ("a\n", "b\n")),
        (b"/proc/self/fd/1", b"", ("a\nb\n", "")),
        (b"/dev/stderr", b"", ("a\nb\n", "a\nb\n")),
        (b"named", b"/dev/stdout", ("a\nb\n", "a\nb\n")),
    ],
)
async def test_names_of_standard_output(world: World, output: bytes, error: bytes, expected: tuple[str, str]) -> None:
    """They are files of the attempt, or what the option before has named."""
    assert await world.ended(world.job("echo a; echo b >&2", streams=Streams(output=output, error=error))) == Ended(0)
    assert tuple((world.attempt() / name).read_text() for name in ("out", "err")) == expected


async def test_who_empties_a_file(world: World) -> None:
    """The first attempt of a task does; retries append, and so do the tasks of an array that write to one file."""
    for name in ("one", "several"):
        world.write(name, "before\n")
    for task in (TASK, Task("job-1", 0, attempt=1)):
        await world.ended(world.job("echo $YKACTOR_ATTEMPT", streams=Streams(output=b"one")), task)
    assert (world.here / "one").read_text() == "0\n1\n"
    for task in (Task("job-1", 1), Task("job-1", 2)):
        await world.ended(world.job("echo $YKACTOR_TASK", streams=Streams(output=b"several"), first=1, last=2), task)
    assert (world.here / "several").read_text() == "before\n1\n2\n"


@pytest.mark.parametrize(
    ("streams", "reason"),
    [
        (Streams(output=b"no/out"), "--output {}/no/out: No such file or directory"),
        (Streams(output=b"/"), "--output /: Is a directory"),
        (Streams(error=b"fifo"), "--error {}/fifo: No such device or address, or nobody reads this FIFO"),
        (Streams(b"", b"/dev/stderr", b"e"), "--error {}/e: found --output to standard error, expected one file for both"),
        (Streams(input=b"none"), "--input {}/none: No such file or directory"),
        (Streams(input=b"fifo"), "--input {}/fifo: found a directory or a FIFO, expected a file"),
        (Streams(input=b"."), "--input {}/.: found a directory or a FIFO, expected a file"),
        (Streams(output=b"x" * 300), "--output {}/" + "x" * 300 + ": File name too long"),
    ],
)
async def test_a_file_that_cannot_be_opened(world: World, streams: Streams, reason: str) -> None:
    """The attempt fails and says why; the command does not run, and nothing waits for somebody else."""
    os.mkfifo(world.here / "fifo", 0o666)
    os.chmod(world.here / "fifo", 0o666)
    ended = await world.ended(world.job("touch ran", streams=streams))
    assert ended == Ended(125, f"the command cannot be started: {reason.format(world.here)}")
    assert not (world.here / "ran").exists()


async def test_a_file_of_others_is_opened_as_the_user(world: World) -> None:
    """Root has no part in it."""
    if world._login is None:
        pytest.skip("there are no other users")
    secret = world.here.parent / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    for streams in (Streams(input=bytes(secret)), Streams(output=bytes(secret)), Streams(error=bytes(secret))):
        task = Task("job-1", 0, attempt=len(list(world.attempt().parent.glob("*"))))
        assert (await world.ended(world.job("true", streams=streams), task)).reason.endswith(f"{secret}: Permission denied")
    assert secret.read_text() == "secret"


async def test_a_full_disk_is_the_end_of_the_command(world: World) -> None:
    """The error of the kernel is for the command."""
    assert await world.ended(world.job("echo a || exit 7", streams=Streams(output=b"/dev/full"))) == Ended(7)


async def test_a_fifo_that_somebody_reads(world: World) -> None:
    """The command writes to it as to a pipe; ``logs`` does not read what is for somebody else."""
    os.mkfifo(world.here / "fifo", 0o666)
    os.chown(world.here / "fifo", world.here.stat().st_uid, -1)
    reader = os.open(world.here / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    assert await world.ended(world.job("echo a", streams=Streams(output=b"fifo"))) == Ended(0)
    assert os.read(reader, 100) == b"a\n"
    os.close(reader)


class Terminal:
    """A terminal of the user of a job: the end that a command shows, and the path of the other one."""

    def __init__(self, uid: int) -> None:
        self.here, self.end = os.openpty()
        self.path = os.ttyname(self.end)
        os.set_blocking(self.here, False)
        os.chown(self.path, uid, -1)

    async def read_until(self, text: bytes) -> bytes:
        """All that is written until the text comes."""
        found = b""
        with trio.fail_after(LIMIT_S):
            while text not in found:
                await trio.lowlevel.wait_readable(self.here)
                with suppress(BlockingIOError):
                    found += os.read(self.here, 2**16)
        return found


@pytest.fixture
def terminal(world: World) -> Iterator[Terminal]:
    made = Terminal(world.here.stat().st_uid)
    yield made
    for descriptor in (made.here, made.end):
        with suppress(OSError):  # a test may have closed it
            os.close(descriptor)


_WAITING = "echo up; while :; do sleep 0.1; done"


async def test_a_job_with_a_terminal(world: World, terminal: Terminal) -> None:
    """The terminal is that of its session: Ctrl-C is for its command, and nobody else can have it meanwhile."""
    job = world.job(f"trap 'read line; echo got $line; exit 7' INT; {_WAITING}", terminal=terminal.path.encode())
    async with trio.open_nursery() as nursery:
        ended: list[Ended] = []

        async def run() -> None:
            ended.append(await world.ended(job))

        nursery.start_soon(run)
        await terminal.read_until(b"up")
        gone = Ended(125, "the command cannot be started: its terminal is gone")
        assert await world.ended(job, Task("job-1", 0, attempt=1)) == gone
        os.write(terminal.here, b"\x03")
        await terminal.read_until(b"^C")
        os.write(terminal.here, b"this\n")
        await terminal.read_until(b"got this")
    assert ended == [Ended(7)]


async def test_a_job_ends_with_its_terminal(world: World, terminal: Terminal) -> None:
    """The command that shows it was killed; afterwards there is none to begin with."""
    job = world.job(_WAITING, terminal=terminal.path.encode())
    async with trio.open_nursery() as nursery:

        async def close() -> None:
            await terminal.read_until(b"up")
            os.close(terminal.end)
            os.close(terminal.here)

        nursery.start_soon(close)
        assert (await world.ended(job)).exit_code is None
    assert "its terminal is gone" in (await world.ended(job, Task("job-1", 0, attempt=1))).reason


async def test_a_terminal_of_somebody_else_is_out_of_reach(world: World, terminal: Terminal) -> None:
    """The kernel says whose it is."""
    if world.here.stat().st_uid == 0:
        pytest.skip("root reaches all")
    os.chown(terminal.path, 0, -1)
    assert (await world.ended(world.job("true", terminal=terminal.path.encode()))).exit_code == 125


def test_what_is_in_no_file_is_not_printed(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A FIFO is not opened: who writes to it would notice. ``/dev/null`` needs no word."""
    os.mkfifo(tmp_path / "fifo")
    for index, target in enumerate(("/dev/null", str(tmp_path / "fifo"), str(tmp_path / "gone"))):
        (tmp_path / f"{index}.0").mkdir()
        (tmp_path / f"{index}.0" / "out").symlink_to(target)
        Output(tmp_path, index).copy()
    with pytest.raises(OSError, match="No such device"):
        os.open(tmp_path / "fifo", os.O_WRONLY | os.O_NONBLOCK)
    errors = capfdbinary.readouterr().err.decode().splitlines()
    said = "what the task has written cannot be read: out: found a link to"
    assert errors == [
        f"{said} {tmp_path}/fifo, expected a regular file",
        f"{said} {tmp_path}/gone (No such file or directory), expected a regular file",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_output_of_others_is_not_read(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """An operator of a shared machine sees jobs of others, and not what they write."""
    with directory_for_all() as directory:
        (directory / "0.0").mkdir(mode=0o700)
        (directory / "0.0" / "out").touch()
        os.seteuid(DAEMON)
        try:
            Output(directory, 0).finish()
        finally:
            os.seteuid(0)
    assert b"cannot be read: out: Permission denied, expected a file of user 1" in capfdbinary.readouterr().err
