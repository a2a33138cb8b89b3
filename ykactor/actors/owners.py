"""The tasks that own queues and nodes, and how commands reach them.

Each queue and each node has its own task with its own memory channel; no other task writes its core, which comes with each
command: after a renewal of the partition it is another one of the same name. ``Owners.carry_out`` runs a core's generator: it
sends each list of commands, collects the replies, and sorts them in the order of the commands, so that results do not depend on
the order in which trio runs tasks.
"""

from __future__ import annotations

from typing import Any, TypeVar

import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule, wait_task_rescheduled

from ykactor.actors.mailbox import Mailbox
from ykactor.actors.pauses import collect_young, pause
from ykactor.core.objects.commands import Close, Decommission, SubmitBatch
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.queues import LeafCore
from ykactor.core.objects.registry import Core, Exchange, Registry, Sends

R = TypeVar("R")

#: Commands in flight from one requester, and submissions in them. Bounds every inbox, and the time between two checks of the
#: sockets (about 10 us for each task that a command wakes, and for each submission).
IN_FLIGHT_MAX = 256

#: Commands that end the owner and its task.
_LAST_COMMANDS = (Decommission, Close)


class Replies:
    """The replies to commands that are in flight; the requester waits until all of them are there."""

    __slots__ = ("_missing", "_received", "_requester")

    def __init__(self, count: int) -> None:
        self._received: list[Any] = [None] * count
        self._missing = count
        self._requester: Task | None = None

    def put(self, position: int, reply: Any) -> None:
        """Reply to the command with this position in the list of commands."""
        self._received[position] = reply
        self._missing -= 1
        if not self._missing and self._requester is not None:
            reschedule(self._requester)

    async def all(self) -> list[Any]:
        """Wait for all replies; in the order of the commands."""
        if self._missing:
            self._requester = current_task()
            await wait_task_rescheduled(self._give_up)
        return self._received

    def _give_up(self, _: RaiseCancelT) -> Abort:
        self._requester = None
        return Abort.SUCCEEDED


#: A command in flight to an owner, with its position in the list of commands and where its reply goes.
Envelope = tuple[Core, Any, int, Replies]


async def own(inbox: Mailbox[Envelope]) -> None:
    """The task of one owner: receive a command, carry it out, reply. Ends with the owner's last command."""
    while True:
        owner, command, position, replies = await inbox.get()
        if isinstance(owner, LeafCore):
            work = owner.work(command)
            try:
                while True:
                    next(work)
                    await pause()
            except StopIteration as stop:
                reply = stop.value
        else:
            reply = owner.handle(command)
        replies.put(position, reply)
        if type(command) in _LAST_COMMANDS:
            return
        del owner, command, replies, reply  # a task that waits does not keep them


def _wave_end(sends: Sends[Any], start: int) -> int:
    """The end of a wave of commands: as many as owners carry out between two checks of the sockets, one at least."""
    size = 0
    for position in range(start, len(sends)):
        _, command = sends[position]
        size += 1 + len(command.entries) if type(command) is SubmitBatch else 1
        if size > IN_FLIGHT_MAX and position > start:
            return position
    return len(sends)


class Owners:
    """All queue and node tasks of one partition. A task starts with the first command to its owner."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._inboxes: dict[Core, Mailbox[Envelope]] = {}

    async def carry_out(self, generator: Exchange[R]) -> R:
        """Run a core's generator, which yields commands and receives their replies in the same order; return its result."""
        try:
            sends = next(generator)
            while True:
                if sends:
                    sends = generator.send(await self._exchange(sends))
                else:
                    await pause()
                    sends = generator.send([])
        except StopIteration as stop:
            result: R = stop.value
            return result

    async def _exchange(self, sends: Sends[Any]) -> list[Any]:
        """Send commands in waves, and return all replies in the order of the commands."""
        received, start, inboxes = list[Any](), 0, self._inboxes
        while start < len(sends):
            if start:
                collect_young()
            end = _wave_end(sends, start)
            replies = Replies(end - start)
            for position in range(start, end):
                core, command = sends[position]
                inbox = inboxes.get(core) or self._open_inbox(core)
                inbox.put_nowait((core, command, position - start, replies))
            received += await replies.all()
            start = end
        for core, command in sends:
            if type(command) in _LAST_COMMANDS:
                del inboxes[core]
        return received

    def _open_inbox(self, core: Core) -> Mailbox[Envelope]:
        kind, name = ("node", core.node_id) if isinstance(core, NodeCore) else ("queue", core.path)
        # room for two requesters, the partition and its scheduler
        inbox = self._inboxes[core] = Mailbox(f"{kind} {name}", 2 * IN_FLIGHT_MAX)
        self._nursery.start_soon(own, inbox, name=inbox.name)
        return inbox

    def take_over(self, registry: Registry) -> None:
        """Each task has the owner of the same name in ``registry`` from now on; between two turns.

        Raises:
            KeyError: it has no such owner, and nothing has changed.
        """
        inboxes = self._inboxes
        self._inboxes = {
            registry.nodes[core.node_id] if isinstance(core, NodeCore) else registry.queues[core.path]: inbox
            for core, inbox in inboxes.items()
        }
