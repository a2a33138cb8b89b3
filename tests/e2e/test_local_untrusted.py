"""Files that a job can write are untrusted: it can spoil its own end, and nothing else."""

import os
import socket
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import trio
from daemon import LIMIT_S
from localjobs import job_of, left_over, local_manager

from ykactor.local import control
from ykactor.local.isolation import Isolation
from ykactor.local.machine import boot_id
from ykactor.local.model import Ended, State, Task
from ykactor.local.processes import NotStarted, Processes
from ykactor.local.store import Store
from ykactor.surfaces.cli.jobs.output import Output

TASK = Task("job-1", 0)
#: What no shell would write.
CONTENTS = [
    *(
        b"",
        b"\n",
        b"3",
        b"3\n\n",
        b"3\n4\n",
        b" 3\n",
        b"+3\n",
        b"-3\n",
        b"0x3\n",
        b"1_0\n",
        b"3\0\n",
        b"\xff\n",
        b"\xff" * 64,
        b"12345678\n",
    ),
    *("\u0663\n".encode(), "\u00b3\n".encode(), b"9" * 5000, b"9" * 5000 + b"\n", b"0" * 5000 + b"3\n", b"nan\n", b"1e2\n"),
]


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        short = os.open(path.parent, os.O_PATH)
        bound.bind(f"/proc/self/fd/{short}/{path.name}")
        os.close(short)


def _huge(path: Path) -> None:
    path.write_bytes(b"3\n")
    os.truncate(path, 2**40)


def _closed(path: Path) -> None:
    path.write_bytes(b"3\n")
    path.chmod(0 if os.geteuid() else 0o600)
    if not os.geteuid():
        os.chown(path, 65534, 65534)


#: What may be in the place of a file.
KINDS: dict[str, Callable[[Path], None]] = {
    **{repr(content[:12]): lambda path, content=content: path.write_bytes(content) for content in CONTENTS},  # type: ignore[misc]
    "fifo": os.mkfifo,
    "directory": lambda path: path.mkdir(),
    "socket": _socket,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "link to a number": lambda path: (path.with_name("number").write_bytes(b"3\n"), path.symlink_to("number")),  # type: ignore[func-returns-value]
    "huge": _huge,
    "of another user": _closed,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["exit", "pid"])
def test_what_cannot_be_read_is_an_unknown_end(tmp_path: Path, name: str, kind: str) -> None:
    """The reason names the file and what was found there; reading neither waits nor fails."""
    processes = Processes(tmp_path / "jobs", Isolation(), 0.3)
    attempt = processes.attempt(TASK)
    attempt.mkdir(parents=True)
    for other, content in (("pid", b"4194303\n"), ("exit", b"3\n")):
        if other != name:
            (attempt / other).write_bytes(content)
    KINDS[kind](attempt / name)
    ended = processes.ended(TASK)
    assert ended.exit_code is None
    assert ended.reason.startswith(f"its state cannot be read: {name}: ")
    assert processes.has_begun(TASK)


def test_all_that_a_shell_writes_is_read(tmp_path: Path) -> None:
    """Exit codes, and a reason that a terminal can show; a file that is not there is no mistake."""
    processes = Processes(tmp_path / "jobs", Isolation(), 0.3)
    attempt = processes.attempt(TASK)
    attempt.mkdir(parents=True)
    assert "begun" in processes.ended(TASK).reason
    (attempt / "pid").write_bytes(b"4194303\n")
    assert "vanished" in processes.ended(TASK).reason
    (attempt / "exit").write_bytes(b"256\n")
    assert "cannot be read" in processes.ended(TASK).reason
    for code in (0, 1, 9, 10, 99, 100, 255):
        (attempt / "exit").write_bytes(b"%d\n" % code)
        assert processes.ended(TASK) == Ended(code)
    (attempt / "exit").write_bytes(b"125 no \x1b[2Jfile\xff\n")
    assert processes.ended(TASK) == Ended(125, "no \\x1b[2Jfile\ufffd")


@pytest.mark.parametrize("kind", ["fifo", "directory", "zeros", "link to nothing", "link to a number", "of another user"])
@pytest.mark.parametrize("name", ["out", "err"])
def test_a_job_cannot_redirect_what_the_next_one_writes(tmp_path: Path, name: str, kind: str) -> None:
    """The next attempt of the job, or another job, is not started if its file is redirected, and nothing waits."""
    processes = Processes(tmp_path / "jobs", Isolation(), 0.3)
    attempt = processes.attempt(TASK)
    attempt.mkdir(parents=True)
    KINDS[kind](attempt / name)
    with pytest.raises(NotStarted, match=f"{name}: found"):
        processes.start(job_of("true"), TASK)


@pytest.mark.parametrize("kind", ["fifo", "directory", "socket", "zeros", "link to itself", "of another user"])
def test_output_that_was_replaced_is_not_read(tmp_path: Path, kind: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The complaint comes once, and what else there is comes all the same."""
    (tmp_path / "0.0").mkdir()
    KINDS[kind](tmp_path / "0.0" / "out")
    (tmp_path / "0.0" / "err").write_bytes(b"oops\n")
    output = Output(tmp_path, 0)
    for _ in range(2):
        output.copy()
    written = capfdbinary.readouterr()
    assert written.out == b""
    assert written.err.count(b"what the task has written cannot be read: out: found ") == 1
    assert written.err.endswith(b"oops\n")


def test_a_second_name_is_not_written_to(tmp_path: Path) -> None:
    """A link to the database would have got the output of a job."""
    (tmp_path / "jobs.sqlite").write_bytes(b"kept")
    processes = Processes(tmp_path / "jobs", Isolation(), 0.3)
    processes.attempt(TASK).mkdir(parents=True)
    (processes.attempt(TASK) / "out").hardlink_to(tmp_path / "jobs.sqlite")
    with pytest.raises(NotStarted, match="another name"):
        processes.start(job_of("echo spoilt"), TASK)
    assert (tmp_path / "jobs.sqlite").read_bytes() == b"kept"


#: The same in a shell, of the file $F.
ACTS = {
    "digits": 'head -c 5000 /dev/zero | tr "\\0" 9 > "$F"',
    "no text": "printf '\\377\\n' > \"$F\"",
    "fifo": 'mkfifo "$F"',
    "zeros": 'ln -s /dev/zero "$F"',
    "directory": 'mkdir "$F"',
    "init": 'echo 1 > "$F"',
    "the manager": 'cut -d" " -f4 "/proc/$PPID/stat" > "$F"',
    "changing": 'for i in $(seq 200); do echo $i > "$F"; done; echo x > "$F"',
    "missing": ":",
}


async def test_a_job_can_spoil_only_its_own_end(tmp_path: Path) -> None:
    """Under one manager, which is killed in between: it goes on, the jobs of others complete, and no process is left."""
    directory = tmp_path / "l"
    directory.mkdir(mode=0o700)
    hostile = {
        f"{name}-{number}": f'F="$YKACTOR_ATTEMPT_DIR/{name}"; sleep {pause}; rm -f "$F"; {act}; '
        + ("kill -9 $PPID; sleep 100" if name == "exit" else "sleep 0.1; exit 3")
        for number, (name, act, pause) in enumerate(product(("exit", "pid"), ACTS.values(), ("0", "1")))
    }
    #: A process whose name is no text, beside all of them.
    strange = 'F="$YKACTOR_ATTEMPT_DIR/$(printf "\\377")"; cp "$(command -v sleep)" "$F"; exec "$F" 2'
    store = Store(directory)
    for name, script in {**hostile, "good": "sleep 1.5", "strange": strange}.items():
        store.commit([job_of(script, id=name, token=name)], [Task(name, 0, State.RUNNING, boot=boot_id())], [], 0)
    store.close()
    async with local_manager(directory, f"unix:{tmp_path}/nobody") as local:
        await trio.sleep(0.5)
        await local.kill()
        await local.start()
        with trio.fail_after(LIMIT_S):
            found = {name: (await local.show(name, waits=True)).tasks[0] for name in (*hostile, "good", "strange")}
        assert {found.pop(name).state for name in ("good", "strange")} == {State.COMPLETED}
        assert {task.state for task in found.values()} <= {State.LOST, State.FAILED}
        assert isinstance(await control.ask(directory, control.ListJobs(1)), control.JobList)
        assert left_over(directory) == []
