"""The tasks that own queues and nodes, and how commands reach them.

Each queue and each node has its own task with its own memory channel; no other task writes its core. ``Owners.carry_out`` runs
a core's generator: it sends each list of commands, collects the replies, and sorts them in the order of the commands, so that
results do not depend on the order in which trio runs tasks.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeVar

import trio

from ykactor.actors.driving import drive, pause
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.memory import collect_young
from ykactor.core.objects.commands import Close, Decommission
from ykactor.core.objects.exchange import Exchange, Owner, Sends
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.registry import Core

R = TypeVar("R")

#: Commands in flight from one requester. Bounds every inbox, and the time between two checks of the sockets (about 10 us for each
#: task that a command wakes).
IN_FLIGHT_MAX = 256

#: Commands that end the owner and its task.
_LAST_COMMANDS = (Decommission, Close)

Replies = Mailbox[tuple[int, Any]]


class Envelope(NamedTuple):
    """A command in flight, with its position in the list of commands and the mailbox for its reply."""

    command: Any
    position: int
    replies: Replies


async def own(owner: Owner, inbox: Mailbox[Envelope]) -> None:
    """The task of one owner: receive a command, carry it out, reply. Ends with the owner's last command."""
    while True:
        command, position, replies = await inbox.get()
        reply = await drive(owner.work(command), pause) if isinstance(owner, LeafCore) else owner.handle(command)
        replies.put_nowait((position, reply))
        if type(command) in _LAST_COMMANDS:
            return


class Owners:
    """All queue and node tasks of one partition. A task starts with the first command to its owner."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._inboxes: dict[Core, Mailbox[Envelope]] = {}

    async def carry_out(self, generator: Exchange[R], replies: Replies) -> R:
        """Run a core's generator to its end and return its result.

        Args:
            generator: yields commands and receives their replies in the same order.
            replies: the requester's own mailbox for replies, with room for ``IN_FLIGHT_MAX``.
        """
        return await drive(generator, partial(self._exchange, mailbox=replies))

    async def _exchange(self, sends: Sends[Any], mailbox: Replies) -> list[Any]:
        if not sends:
            await pause()
        replies: list[Any] = [None] * len(sends)
        for start in range(0, len(sends), IN_FLIGHT_MAX):
            if start:
                collect_young()
            chunk = sends[start : start + IN_FLIGHT_MAX]
            for position, (core, command) in enumerate(chunk, start):
                self._inbox_of(core).put_nowait(Envelope(command, position, mailbox))
            missing = len(chunk)
            while missing:
                batch = await mailbox.take_batch(missing)
                missing -= len(batch)
                for position, reply in batch:
                    replies[position] = reply
            for core, command in chunk:
                if type(command) in _LAST_COMMANDS:
                    del self._inboxes[core]
        return replies

    def _inbox_of(self, core: Core) -> Mailbox[Envelope]:
        inbox = self._inboxes.get(core)
        if inbox is None:
            kind, name = ("node", core.node_id) if isinstance(core, NodeCore) else ("queue", core.path)
            # room for two requesters, the partition and its scheduler
            inbox = self._inboxes[core] = Mailbox(f"{kind} {name}", 2 * IN_FLIGHT_MAX)
            self._nursery.start_soon(own, core, inbox, name=inbox.name)
        return inbox
