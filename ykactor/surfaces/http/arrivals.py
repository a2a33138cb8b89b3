"""Waits for what arrives on many connections, with few steps of the event loop."""

from __future__ import annotations

import select

import trio
from trio.lowlevel import Abort, RaiseCancelT, Task

from ykactor.surfaces.http.load import Load

#: How often connections go on while the loop is busy, how many at once, and how much later the next ones.
TOGETHER_S = 0.2
GROUP_MAX, GROUP_S = 10, 0.005


class Arrivals:
    """While the loop is busy, connections on which something has arrived go on together.

    One alone finds nothing of what it needs in the processor's caches: it takes three times as long, and the scheduler
    afterwards finds less of its own. And trio would wake each for itself only to let it wait for the others, so all their
    sockets are in one ``epoll`` here, which a single task waits for.
    """

    def __init__(self) -> None:
        self._load = Load()
        self._sockets = select.epoll()
        #: By the number of the descriptor.
        self._waiting: dict[int, Task] = {}

    async def wait(self, socket: trio.socket.SocketType) -> None:
        """Until the socket seems to have something to read, and ``run`` lets it go on. One task may wait for a socket."""
        descriptor = socket.fileno()
        self._sockets.register(descriptor, select.EPOLLIN)
        self._waiting[descriptor] = trio.lowlevel.current_task()

        def give_up(_: RaiseCancelT) -> Abort:
            self._forget(descriptor)
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)

    def _forget(self, descriptor: int) -> Task:
        self._sockets.unregister(descriptor)
        return self._waiting.pop(descriptor)

    async def run(self) -> None:
        """Let connections go on, until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._sockets)
            is_busy = self._load.is_busy()
            if is_busy:
                await trio.sleep_until((trio.current_time() // TOGETHER_S + 1) * TOGETHER_S)
            arrived = [descriptor for descriptor, _ in self._sockets.poll(0)]
            for start in range(0, len(arrived), GROUP_MAX):
                for descriptor in arrived[start : start + GROUP_MAX]:
                    if descriptor in self._waiting:  # or it has given up meanwhile
                        trio.lowlevel.reschedule(self._forget(descriptor))
                await trio.sleep(GROUP_S if is_busy else 0)
