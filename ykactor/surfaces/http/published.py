"""What partitions publish for readers: pages that each makes between two of its turns, and who sees what of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response

from ykactor.access.view import View, view_of
from ykactor.actors.commands import Read
from ykactor.actors.gateway import Gateway
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Pausing
from ykactor.surfaces.http.pages import FRESH_S, Page, Pages
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.replies import RefusedError, reply
from ykactor.surfaces.server.caller import Caller
from ykactor.wire.rest.codec import encode, list_parts

#: A partition that waits for the disk answers nothing.
ANSWER_S = 30
#: What all readers together may take of the time of a partition for answers about all that is in it.
READ_SHARE = 0.04
#: How old an answer may be that is shown meanwhile.
STALE_S = 20.0
#: How much they may take at once when they have taken nothing for a while.
BURST_S = 1.0
#: What a reading returns: one payload, the encoded items of a list, or None if there is no such object.
Reading = Callable[[Look], Any]


def caller_of(request: Request) -> Caller:
    """Who sends a request that was let in."""
    caller: Caller = request.scope["caller"]
    return caller


def view_for(request: Request) -> View | None:
    """What is shown to who asks; None: everything."""
    return view_of(caller_of(request).identity)


def check_sees_all(request: Request) -> None:
    """Refuse a reader that is limited to partitions or queues: the answer is about all of them (SE-88)."""
    if view_for(request) is not None:
        raise RefusedError(403, "only readers that are limited neither to partitions nor to queues may read this")


def check_sees_nodes(request: Request) -> None:
    """Refuse a reader that is limited to queues: the answer is in no queue (SE-88)."""
    view = view_for(request)
    if view is not None and view.queues is not None:
        raise RefusedError(403, "readers that are limited to queues may not read this")


class Published:
    """The pages of all partitions."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._pages = Pages()
        self._allowances: dict[PartitionName, Allowance] = {}

    def _allowance(self, partition: PartitionName) -> Allowance:
        for name in self._allowances.keys() - self.gateway.partitions.keys():
            del self._allowances[name]
        return self._allowances.setdefault(partition, Allowance())

    @property
    def cluster_id(self) -> str:
        """The resource manager that is registered; "" without one."""
        current = self.gateway.outboxes.current
        return "" if current is None else current.rm_id

    def partitions(self, request: Request) -> list[PartitionName]:
        """Those that who asks may see."""
        view = view_for(request)
        return [name for name in self.gateway.partitions if view is None or view.shows_partition(name)]

    def partition(self, request: Request) -> PartitionName:
        """The partition of the path."""
        name = PartitionName(request.path_params["partition"])
        if name not in self.partitions(request):
            raise RefusedError(404, "Partition not found")
        return name

    async def answer(
        self,
        request: Request,
        partition: PartitionName,
        key: tuple[Hashable, ...],
        read: Reading,
        missing: str = "",
        *,
        is_small: bool = False,
    ) -> Response:
        """What is read of a partition; 404 with the text ``missing`` if the reading finds nothing.

        Args:
            is_small: the reading looks at one object only; others wait for each other (``Allowance``).
        """
        page = await self.page(request, partition, key, read, is_small=is_small)
        if page.status == 404:
            raise RefusedError(404, missing)
        return await reply(request, page)

    async def answer_of_each(self, request: Request, kind: str, read: Reading) -> Response:
        """A list with what is read of each partition."""
        pages = [await self.page(request, name, (kind,), read) for name in self.partitions(request)]
        return await reply(request, Page(200, [*list_parts(b"".join(page.parts).rstrip(b"\n") for page in pages)]))

    async def page(
        self, request: Request, partition: PartitionName, key: tuple[Hashable, ...], read: Reading, *, is_small: bool = False
    ) -> Page:
        """The page of a partition as who asks sees it; an older one while readers may not take more of its time."""
        view = view_for(request)
        if view is not None and view.queues is None:  # it sees all of the partition
            view = None
        if is_small:
            return await self._read(partition, read, view)
        whole = partition, view, *key
        last = self._pages.last(whole)
        if last is not None and last.status == 200 and last.age_s < STALE_S and not self._allowance(partition).is_free:
            return last
        return await self._pages.get(whole, partial(self._read_in_turn, partition, read, view))

    async def _read_in_turn(self, partition: PartitionName, read: Reading, view: View | None) -> Page:
        allowance = self._allowance(partition)
        with trio.move_on_after(ANSWER_S):
            async with allowance.turn():
                page = await self._read(partition, read, view)
                allowance.charge(page.took_s)
                return page
        raise _no_answer(partition)

    async def kept(self, key: tuple[Hashable, ...], make: Callable[[], Awaitable[Page]], fresh_s: float = FRESH_S) -> Page:
        """A page that is of no partition."""
        return await self._pages.get(key, make, fresh_s)

    async def _read(self, partition: PartitionName, read: Reading, view: View | None) -> Page:
        answer = await self._answered(partition, read, view)
        if answer.found is None:
            return Page(404, [], answer.took_s)
        return Page(200, await _encoded(answer.found), answer.took_s)

    async def ask(self, partition: PartitionName, read: Reading, view: View | None = None) -> Any:
        """What a reading returns; the partition runs it between two turns."""
        return (await self._answered(partition, read, view)).found

    async def _answered(self, partition: PartitionName, read: Reading, view: View | None) -> _Answer:
        answer = _Answer()
        with trio.move_on_after(ANSWER_S) as waiting:
            try:
                await self.gateway.partitions[partition].put(Read(partial(answer.read, read, view), answer.give))
            except (KeyError, trio.ClosedResourceError, trio.BrokenResourceError):
                raise RefusedError(404, "Partition not found") from None
            await answer.given.wait()
        if waiting.cancelled_caught:
            raise _no_answer(partition)
        if isinstance(answer.found, Exception):
            raise answer.found
        return answer


def _no_answer(partition: PartitionName) -> RefusedError:
    return RefusedError(503, f"partition {partition} has not answered within {ANSWER_S} s: it waits, or others read much of it")


class Allowance:
    """The time that readers may take of a partition for answers about all that is in it: one after the other, ``READ_SHARE``."""

    def __init__(self) -> None:
        self._turn = trio.Lock()
        #: When everything that was taken is made up for.
        self._even_at_s = 0.0

    @property
    def is_free(self) -> bool:
        """Whether nobody has to wait."""
        return not self._turn.locked() and trio.current_time() >= self._due_s

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Read within the block, when everything before is made up for."""
        async with self._turn:
            await trio.sleep_until(self._due_s)
            yield

    @property
    def _due_s(self) -> float:
        return self._even_at_s - BURST_S / READ_SHARE

    def charge(self, took_s: float) -> None:
        """So much was taken."""
        self._even_at_s = max(self._even_at_s, trio.current_time()) + took_s / READ_SHARE


async def _encoded(found: Any) -> list[bytes]:
    """The body of an answer; a reading has encoded what takes long, whole or each item of a list."""
    if isinstance(found, bytes):
        return [found, b"\n"]
    if not (isinstance(found, list) and all(type(item) is bytes for item in found)):
        return [encode(found)]
    parts = []
    for part in list_parts(found):
        parts.append(part)
        await trio.lowlevel.checkpoint()
    return parts


class _Answer:
    """What a partition has read; nobody may wait for it any more."""

    def __init__(self) -> None:
        self.given = trio.Event()
        self.found: Any = None
        self.took_s = 0.0

    def read(self, read: Reading, view: View | None, core: PartitionCore, state: SchedulerState, now_ns: int) -> Pausing[Any]:
        """The reading as one that pauses, and notes how long it took."""
        found = read(Look(core, state, now_ns, view))
        if isinstance(found, Generator):
            found = yield from self._timed(found)
        return found

    def _timed(self, reading: Pausing[Any]) -> Pausing[Any]:
        """The reading, with its time without the pauses, in which others run."""
        while True:
            since_s = trio.current_time()
            try:
                next(reading)
            except StopIteration as stop:
                return stop.value
            finally:
                self.took_s += trio.current_time() - since_s
            yield ()

    def give(self, found: Any) -> None:
        """Called by the partition."""
        self.found = found
        self.given.set()
