"""Reads a partition between two of its turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from ykactor.actors.commands import PartitionCommand, Read
from ykactor.actors.mailbox import Mailbox
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps


async def read_partition(
    inbox: Mailbox[PartitionCommand], read: Callable[[PartitionCore, SchedulerState, int], Steps[Any]]
) -> Any:
    """The result of ``read`` (``commands.Read``). Waits without a limit: for room in the inbox, and for the answer.

    If it is cancelled, ``read`` is not begun any more, or goes no further: a partition that has not answered for a while must not
    work for those who have given up.

    Raises:
        Exception: as ``read``. trio.ClosedResourceError, trio.BrokenResourceError: the partition does not run.
    """
    answered, is_awaited, found = trio.Event(), True, []

    def while_awaited(core: PartitionCore, state: SchedulerState, now_ns: int) -> Steps[Any]:
        work = read(core, state, now_ns)
        while is_awaited:
            try:
                items = next(work)
            except StopIteration as stop:
                return stop.value
            yield items
        return None

    def done(result: Any) -> None:
        found.append(result)
        answered.set()

    try:
        await inbox.give(Read(while_awaited, done))
        await answered.wait()
    finally:
        is_awaited = False
    (result,) = found
    if isinstance(result, Exception):
        raise result
    return result
