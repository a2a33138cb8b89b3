"""The directory of the jobs is for its owner alone, and so is its socket: both ends look before anything is told."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import msgspec
import pytest
import trio
from daemon import LIMIT_S, run_command
from localjobs import job_of, local_manager

from ykactor.local import control, serving
from ykactor.local.access import Access
from ykactor.local.machine import user_name
from ykactor.local.private import NotPrivate, private_directory

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")


def _open(directory: Path) -> None:
    directory.chmod(0o750)


def _readable(directory: Path) -> None:
    directory.chmod(0o704)


def _foreign(directory: Path) -> None:
    os.chown(directory, NOBODY, NOBODY)


def _replaceable(directory: Path) -> None:
    directory.parent.chmod(0o777)


@pytest.mark.parametrize("spoil", [_open, _readable, pytest.param(_foreign, marks=as_root), _replaceable])
async def test_both_ends_refuse_a_directory_that_is_not_private(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """The manager does not start there, changes nothing and runs nothing; a command sends nothing."""
    directory = tmp_path / "parent" / "l"
    directory.mkdir(mode=0o700, parents=True)
    async with local_manager(directory, f"unix:{tmp_path}/nobody") as local:
        spoil(directory)
        before = directory.stat()
        _, said = await run_command("run", "--local-dir", directory, "--detach", "--", "true", expect=1)
        assert f"Error: {directory}: found " in said
        await local.kill()
        _, said = await run_command("local", "--url", f"unix:{tmp_path}/nobody", "--local-dir", directory, expect=1)
        assert f"Error: {directory}: found " in said
        assert "Traceback" not in said
        after = directory.stat()
        assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (before.st_mode, before.st_uid, before.st_mtime_ns)


def test_only_the_owner_may_enter(tmp_path: Path) -> None:
    """The sticky bit of a parent such as /tmp keeps others from replacing it."""
    tmp_path.chmod(0o1777)
    directory = tmp_path / "l"
    refused = pytest.raises(NotPrivate, match="found the mode 710, expected 700")
    expected: list[tuple[int, AbstractContextManager[object]]] = [
        (0o700, nullcontext()),
        (0o500, nullcontext()),
        (0o710, refused),
    ]
    for mode, expectation in expected:
        directory.mkdir()
        directory.chmod(mode)
        with expectation, private_directory(directory) as descriptor:
            assert os.fstat(descriptor).st_ino == directory.stat().st_ino
        directory.rmdir()


@contextmanager
def as_nobody(prepare: Callable[[], socket.socket], then: Callable[[socket.socket], bytes]) -> Iterator[Callable[[], bytes]]:
    """A process that prepares a socket as root and goes on as another user; the block can ask what that has led to."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            made = prepare()
            os.setuid(NOBODY)
            os.write(writing, b"!")
            os.write(writing, then(made) or b"nothing")
        os._exit(0)
    try:
        assert os.read(reading, 1) == b"!"
        yield lambda: os.read(reading, 1000)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@as_root
def test_a_manager_of_another_user_is_told_nothing(tmp_path: Path) -> None:
    """Whoever has made the socket: the kernel says who listens."""
    tmp_path.chmod(0o700)

    def prepare() -> socket.socket:
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(str(tmp_path / control.NAME))
        return bound

    def listen(bound: socket.socket) -> bytes:
        bound.listen()
        return bound.accept()[0].recv(1000)

    async def submit() -> None:
        with trio.fail_after(LIMIT_S):
            while True:
                try:
                    await control.ask(tmp_path, control.Submit(job_of("true", environ=[b"SECRET=1"])))
                except control.NoManager:  # it does not listen yet
                    await trio.sleep(0.01)

    with as_nobody(prepare, listen) as received:
        with pytest.raises(NotPrivate, match=f"of {user_name(NOBODY)} at the other end"):
            trio.run(submit)
        assert received() == b"nothing"


class Taking:
    """Notes the requests of clients that were not refused."""

    def __init__(self) -> None:
        self.requests: list[control.Request] = []

    async def ready(self, request: control.Request) -> None:
        self.requests.append(request)

    async def answer(self, caller: serving.Caller, request: control.Request) -> control.Answer:
        self.requests.append(request)
        return control.JobList([])


@as_root
def test_a_command_of_another_user_is_refused() -> None:
    """Also one that has got to the socket in some way, here because it is in no directory."""
    name = f"\0test-{os.getpid()}"
    taken = Taking()

    async def serve(asked: Callable[[], bytes]) -> bytes:
        with trio.socket.socket(socket.AF_UNIX) as bound:
            await bound.bind(name)
            bound.listen()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serving.serve, trio.SocketListener(bound), taken, Access(None, ""))
                with trio.fail_after(LIMIT_S):
                    answer = await trio.to_thread.run_sync(asked, abandon_on_cancel=True)
                nursery.cancel_scope.cancel()
        return answer

    def ask(connected: socket.socket) -> bytes:
        while connected.connect_ex(name):
            time.sleep(0.01)
        connected.sendall(b'{"type":"ListJobs","limit":1}\n')
        return connected.recv(1000)

    with as_nobody(lambda: socket.socket(socket.AF_UNIX), ask) as asked:
        answer = msgspec.json.decode(trio.run(serve, asked), type=control.Answer)
    assert isinstance(answer, control.Refused)
    assert f"of user {NOBODY}, expected one of user 0" in answer.message
    assert taken.requests == []
