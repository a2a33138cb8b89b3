"""The socket between the commands about jobs and the local resource manager."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import trio

from ykactor.local import control


@asynccontextmanager
async def answering(directory: Path, handle: control.Handler) -> AsyncIterator[None]:
    """Answer requests until the block ends."""
    async with control.listening(directory) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(control.serve, listener, handle)
        yield
        nursery.cancel_scope.cancel()


async def echo(request: control.Request) -> control.Answer:
    return control.Refused(str(request))


async def test_who_goes_away_is_not_waited_for(tmp_path: Path) -> None:
    """The end of a job may be days away."""
    has_begun, has_ended = trio.Event(), trio.Event()

    async def wait(request: control.Request) -> control.Answer:
        has_begun.set()
        try:
            await trio.sleep_forever()
        finally:
            has_ended.set()
        raise AssertionError

    with trio.fail_after(180):
        async with answering(tmp_path, wait), trio.open_nursery() as nursery:
            nursery.start_soon(control.ask, tmp_path, control.ShowJob("job-1", True))
            await has_begun.wait()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await has_ended.wait()


@pytest.mark.parametrize("line", [b"{}\n", b"\xff\n", b'{"type":"ListJobs","limit":"many"}\n'])
async def test_what_is_no_request_is_refused(tmp_path: Path, line: bytes) -> None:
    """And the next client is answered."""
    async with answering(tmp_path, echo):
        async with await trio.open_unix_socket(str(tmp_path / control.NAME)) as stream:
            await stream.send_all(line)
            answer = msgspec.json.decode(await stream.receive_some(), type=control.Answer)
        assert answer.message.startswith("found no request")
        assert isinstance(await control.ask(tmp_path, control.ListJobs(3)), control.Refused)


async def test_an_endless_line_ends_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that are kept of a line have a limit."""
    monkeypatch.setattr(control, "LINE_MAX", 1000)
    async with answering(tmp_path, echo):
        async with await trio.open_unix_socket(str(tmp_path / control.NAME)) as stream:
            await stream.send_all(b"x" * 1001)
            with suppress(trio.BrokenResourceError):  # what it had not read
                assert await stream.receive_some() == b""
        assert isinstance(await control.ask(tmp_path, control.ListJobs(3)), control.Refused)


@pytest.mark.parametrize("has_begun", [False, True])
async def test_without_a_manager_nobody_waits(tmp_path: Path, has_begun: bool) -> None:
    """A client may ask again if there was no manager, or if it has ended before its answer."""
    path = tmp_path / control.NAME
    leaving: Callable[[trio.SocketStream], Awaitable[None]] = trio.SocketStream.aclose
    with trio.fail_after(180):
        async with control.listening(tmp_path) as listener, trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, leaving, [listener])
            if not has_begun:
                path.unlink()
            with pytest.raises(control.NoManager) as failure:
                await control.ask(tmp_path, control.ListJobs(1))
            nursery.cancel_scope.cancel()
    assert failure.value.has_begun == has_begun


async def test_the_path_may_be_longer_than_that_of_a_socket(tmp_path: Path) -> None:
    """A deep directory has a socket too, although its path has more bytes than the kernel takes."""
    directory = tmp_path / ("x" * 150)
    directory.mkdir(mode=0o700)
    async with answering(directory, echo):
        assert isinstance(await control.ask(directory, control.ListJobs(3)), control.Refused)
    assert list(directory.iterdir()) == []
