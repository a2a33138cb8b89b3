"""The tasks that own queues and nodes, and how commands reach them.

Each queue and each node has a task of its own that waits on its own memory channel; the core that the task wraps is written by
nobody else. ``Owners.carry_out`` runs a core's generator: it sends each list of commands out, gathers the answers, and puts
them back into the order of the commands, so that what comes of it does not depend on the order in which trio runs tasks.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar, cast

import trio

from ykactor.actors.mailbox import Mailbox
from ykactor.core.objects.commands import Close, Decommission
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.registry import Core, Sends

R = TypeVar("R")

#: Commands under way at once from one requester: bounds every inbox, and how long trio runs tasks before it looks at sockets
#: (about 10 us for each task that a command wakes).
UNDER_WAY_MAX = 256

#: The last command that an owner gets: its task ends with it.
_LAST_COMMANDS = (Decommission, Close)

Replies = Mailbox[tuple[int, object]]


class Envelope(NamedTuple):
    """A command under way: its place among its neighbours, and where room is reserved for its answer."""

    command: object
    place: int
    replies: Replies


async def own(core: Core, inbox: Mailbox[Envelope]) -> None:
    """The task of one owner: take a command, carry it out, answer. Ends with the owner's last command."""
    handle = cast("Any", core).handle
    while True:
        command, place, replies = await inbox.get()
        replies.put_nowait((place, handle(command)))
        if type(command) in _LAST_COMMANDS:
            return


class Owners:
    """All queue and node tasks of one partition. A task begins with the first command to its owner."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._inboxes: dict[Core, Mailbox[Envelope]] = {}

    async def carry_out(self, generator: Generator[Sends, list[object], R], replies: Replies) -> R:
        """Run a core's generator to its end.

        Args:
            generator: yields commands, is sent their answers in the same order.
            replies: the requester's own mailbox for answers, with room for ``UNDER_WAY_MAX``.
        """
        try:
            sends = next(generator)
            while True:
                sends = generator.send(await self._exchange(sends, replies))
        except StopIteration as stop:
            return cast("R", stop.value)

    async def _exchange(self, sends: Sends, replies: Replies) -> list[object]:
        if not sends:  # the core only lets others have their turn
            await trio.lowlevel.checkpoint()
        answers: list[object] = [None] * len(sends)
        for start in range(0, len(sends), UNDER_WAY_MAX):
            chunk = sends[start : start + UNDER_WAY_MAX]
            for place, (core, command) in enumerate(chunk, start):
                self._inbox_of(core).put_nowait(Envelope(command, place, replies))
            missing = len(chunk)
            while missing:
                batch = await replies.take_batch(missing)
                missing -= len(batch)
                for place, answer in batch:
                    answers[place] = answer
            for core, command in chunk:
                if type(command) in _LAST_COMMANDS:
                    del self._inboxes[core]
        return answers

    def _inbox_of(self, core: Core) -> Mailbox[Envelope]:
        inbox = self._inboxes.get(core)
        if inbox is None:
            kind, name = ("node", core.node_id) if isinstance(core, NodeCore) else ("queue", core.path)
            # two requesters: the partition and its scheduler, never at the same time, but each with its own bound
            inbox = self._inboxes[core] = Mailbox(f"{kind} {name}", 2 * UNDER_WAY_MAX)
            self._nursery.start_soon(own, core, inbox, name=inbox.name)
        return inbox
