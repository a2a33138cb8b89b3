"""Takes the requests by which a standby is asked to take over (``asking``)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from ykactor.surfaces.net.doors import listening
from ykactor.surfaces.standby.asking import NAME, READ_BYTES, Answer, TakeOver

#: How long a request may take, in seconds.
REQUEST_S = 10.0


class Asked:
    """A request, which waits for its answer."""

    def __init__(self, request: TakeOver) -> None:
        self.request = request
        self._answer = Answer("the standby ends")
        self._is_answered = trio.Event()

    def answer(self, answer: Answer) -> None:
        """Answer; only the first answer counts."""
        if not self._is_answered.is_set():
            self._answer = answer
            self._is_answered.set()

    async def answered(self) -> Answer:
        """Wait for the answer."""
        await self._is_answered.wait()
        return self._answer


class Requests:
    """Takes requests, one at a time: another one that comes meanwhile is refused.

    Attributes:
        refusal: why.
    """

    def __init__(self, directory: Path) -> None:
        self.refusal = "another take-over is under way"
        self._path = directory / NAME
        self._asked_in, self._asked = trio.open_memory_channel[Asked](0)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take requests until cancelled. Raises:  OSError; SocketFileError, SocketInUseError."""
        with listening(str(self._path), 0o600, None) as sock:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    nursery.start_soon(self._serve, await listener.accept())

    async def next(self) -> Asked:
        """Wait for a request."""
        return await self._asked.receive()

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):  # who has asked has gone
                asked = await self._received(stream)
                if asked is not None:
                    await stream.send_all(msgspec.json.encode(await asked.answered()))

    async def _received(self, stream: trio.SocketStream) -> Asked | None:
        """The request that comes; None if none does in time."""
        with trio.move_on_after(REQUEST_S), suppress(msgspec.DecodeError):
            asked = Asked(msgspec.json.decode(await stream.receive_some(READ_BYTES), type=TakeOver))
            try:
                self._asked_in.send_nowait(asked)
            except trio.WouldBlock:
                asked.answer(Answer(self.refusal))
            return asked
        return None
