"""The socket between the commands about jobs and the local resource manager."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from ykactor.local import control, serving
from ykactor.local.serving import Caller

LIMIT_S = 180


class Echo:
    """Answers with the request; ``ready`` waits for those that wait."""

    def __init__(self) -> None:
        self.waits, self.has_left = trio.Event(), trio.Event()

    async def ready(self, request: control.Request) -> None:
        if isinstance(request, control.ShowJob) and request.waits:
            self.waits.set()
            try:
                await trio.sleep_forever()
            finally:
                self.has_left.set()

    async def answer(self, caller: Caller, request: control.Request) -> control.Answer:
        return control.Refused(f"{caller.uid} {request}")


class Gate:
    """Serves everybody; connections are kept for user 0."""

    def refusal(self, caller: Caller) -> str:
        return ""

    def comes_first(self, caller: Caller) -> bool:
        return caller.uid == 0


@asynccontextmanager
async def answering(directory: Path, echo: Echo) -> AsyncIterator[None]:
    """Answer requests until the block ends; no test takes longer than its limit."""
    with trio.fail_after(LIMIT_S):
        async with serving.listening(directory) as listener, trio.open_nursery() as nursery:
            nursery.start_soon(serving.serve, listener, echo, Gate())
            yield
            nursery.cancel_scope.cancel()


async def connect(directory: Path) -> trio.SocketStream:
    return await trio.open_unix_socket(str(directory / control.NAME))


async def refusal(stream: trio.SocketStream) -> str:
    """The reason that the server gives before it closes a connection."""
    answer = msgspec.json.decode(await control.read_line(stream, 10_000), type=control.Answer)
    assert isinstance(answer, control.Refused)
    return answer.message


async def is_answered(directory: Path) -> bool:
    """True if a request is answered by its handler, with the user of this process."""
    answer = await control.ask(directory, control.ListJobs(3))
    return isinstance(answer, control.Refused) and answer.message.startswith(f"{os.geteuid()} ListJobs(")


async def test_who_goes_away_is_not_waited_for(tmp_path: Path) -> None:
    """The end of a job may be days away; who waits for it keeps nobody else from asking."""
    echo = Echo()
    async with answering(tmp_path, echo), trio.open_nursery() as nursery:
        nursery.start_soon(control.ask, tmp_path, control.ShowJob("job-1", True))
        await echo.waits.wait()
        assert await is_answered(tmp_path)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await echo.has_left.wait()


@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        b"\xff\n",
        b'{"type":"ListJobs","limit":1267650600228229401496703205376}\n',
        b'{"type":"ListAttempts","limit":1,"since_ns":9223372036854775808}\n',
        b'{"type":"ListJobs","limit":"many"}\n',
        b'{"type":"ShowJob","job":"j","x":' + b"[" * 10_000 + b"\n",
    ],
)
async def test_what_is_no_request_is_refused(tmp_path: Path, line: bytes) -> None:
    """And the next client is answered."""
    async with answering(tmp_path, Echo()):
        async with await connect(tmp_path) as stream:
            await stream.send_all(line)
            assert (await refusal(stream)).startswith("found no request")
        assert await is_answered(tmp_path)


@pytest.mark.parametrize("size", [100_000, 1_000_000])
async def test_a_request_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The bytes that are kept of it have a limit, and its client reads why."""
    monkeypatch.setattr(serving, "START_MAX", 100)
    monkeypatch.setattr(serving, "LINE_MAX", 1000)
    async with answering(tmp_path, Echo()):
        answer = await control.ask(tmp_path, control.ShowJob("x" * size))
        assert isinstance(answer, control.Refused)
        assert answer.message.startswith("found a request of more than 1000 bytes")
        assert await is_answered(tmp_path)


async def test_half_a_request_takes_the_turn_of_its_user_for_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a request holds nobody up, and the rest of a long one only until its time is over."""
    monkeypatch.setattr(serving, "START_MAX", 100)
    monkeypatch.setattr(serving, "LINE_S", 0.2)
    async with answering(tmp_path, Echo()), await connect(tmp_path) as half, await connect(tmp_path) as long:
        await half.send_all(b'{"type"')
        assert await is_answered(tmp_path)
        await long.send_all(b"x" * 101)
        assert await refusal(half) == "found no request within 0.2 s"
        assert await is_answered(tmp_path)
        assert await refusal(long) == "found no whole request within 0.2 s"


async def test_who_does_not_read_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of such a client waits until then, and is answered."""
    monkeypatch.setattr(serving, "ANSWER_S", 0.2)
    monkeypatch.setattr(serving, "START_MAX", 2**22)
    async with answering(tmp_path, Echo()), await connect(tmp_path) as stream:
        await control.send(stream, control.ShowJob("x" * 2**21))
        assert await is_answered(tmp_path)


async def test_a_user_has_so_many_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told so; a connection that ends makes room for the next one."""
    monkeypatch.setattr(serving, "CONNECTIONS_EACH", 3)
    async with answering(tmp_path, Echo()), AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(await connect(tmp_path))
        async with await connect(tmp_path) as stream:
            assert await refusal(stream) == "found 3 connections of this user, expected at most 3"
        await stack.aclose()
        while not await is_answered(tmp_path):  # noqa: ASYNC110 (nothing tells when the ends were seen)
            await trio.sleep(0.001)


def test_users_share_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes as many as it gets: one that comes later finds some, and the last ones are kept for those who come first."""
    monkeypatch.setattr(serving, "CONNECTIONS_MAX", 300)
    monkeypatch.setattr(serving, "CONNECTIONS_KEPT", 20)
    clients = serving._Clients(Echo(), Gate())
    with ExitStack() as stack:

        def taken(uid: int) -> int:
            count = 0
            while not clients._no_room(Caller(uid, 1)):
                stack.enter_context(clients._counted(uid))
                count += 1
            return count

        assert [taken(uid) for uid in range(1, 11)] == [140, 70, 35, 18, 9, 4, 2, 1, 1, 0]
        assert "found 1 connections of this user, expected less than the 0 that are left" in clients._no_room(Caller(9, 1))
        assert taken(0) == 10
    assert clients._no_room(Caller(10, 1)) == ""


@pytest.mark.parametrize("has_begun", [False, True])
async def test_without_a_manager_nobody_waits(tmp_path: Path, has_begun: bool) -> None:
    """A client may ask again if there was no manager, or if it has ended before its answer."""
    path = tmp_path / control.NAME
    leaving: Callable[[trio.SocketStream], Awaitable[None]] = trio.SocketStream.aclose
    with trio.fail_after(LIMIT_S):
        async with serving.listening(tmp_path) as listener, trio.open_nursery() as nursery:
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
    async with answering(directory, Echo()):
        assert await is_answered(directory)
    assert list(directory.iterdir()) == []
