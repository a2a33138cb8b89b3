"""What partitions publish for readers: pages that each makes between two of its turns, and who sees what of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from math import inf
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response

from ykactor.access.view import View, view_of
from ykactor.actors.gateway import Gateway
from ykactor.actors.reading import read_partition
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import Pausing
from ykactor.surfaces.http.effort import Effort
from ykactor.surfaces.http.load import Load
from ykactor.surfaces.http.pages import FRESH_S, Key, Page, Pages
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.replies import RefusedError, reply
from ykactor.surfaces.server.caller import Caller
from ykactor.wire.rest.codec import PART_BYTES, Item, Pieces, encode, list_parts

#: A partition that waits for the disk answers nothing.
ANSWER_S = 30
#: What all readers together may take for answers about all that is in a partition, of the time, and while the loop is not busy.
READ_SHARE = 0.015
IDLE_SHARE = 0.2
#: How old an answer may be that is shown meanwhile: so much, or up to so much where all that are asked for take longer to make.
STALE_S = 20.0
STALE_MAX_S = 120.0
#: How often that is reckoned.
REVIEW_S = 1.0
#: How much they may take at once when they have taken nothing for a while.
BURST_S = 2.0
#: Entries of what a resource manager has told of itself that are shown.
_BUILD_MAX = 64
NO_QUEUE = "Queue not found"
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
        self._load = Load()
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

    @property
    def build_information(self) -> dict[str, str]:
        """What the registered resource manager has told of itself, and its id; {} without one."""
        current = self.gateway.outboxes.current
        return {} if current is None else {**dict(islice(current.build_info.items(), _BUILD_MAX)), "rmId": current.rm_id}

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

    def check_queue(self, request: Request, partition: PartitionName, path: QueuePath) -> None:
        """Refuse a queue that does not exist, or that who asks does not see."""
        view = view_for(request)
        if path not in self.gateway.registry(partition).queues or not (view is None or view.shows_queue(path)):
            raise RefusedError(404, NO_QUEUE)

    async def answer(
        self,
        request: Request,
        partition: PartitionName,
        key: Key,
        read: Reading,
        missing: str = "",
        *,
        is_small: bool = False,
    ) -> Response:
        """What is read of a partition; 404 with the text ``missing`` if the reading finds nothing.

        Args:
            is_small: the reading takes less than 1 ms, and is made for each request; others wait for each other (``Allowance``).
        """
        page = await self.page(request, partition, key, read, is_small=is_small)
        if page.status == 404:
            raise RefusedError(404, missing)
        return await reply(request, page, headers=_age([] if is_small else [page]))

    async def answer_of_each(self, request: Request, kind: str, read: Reading) -> Response:
        """A list with what is read of each partition."""
        pages = [await self.page(request, name, (kind,), read) for name in self.partitions(request)]
        whole = Page(200, [*list_parts(b"".join(page.parts).rstrip(b"\n") for page in pages)])
        return await reply(request, whole, headers=_age(pages))

    async def page(self, request: Request, partition: PartitionName, key: Key, read: Reading, *, is_small: bool = False) -> Page:
        """The page of a partition as who asks sees it; an older one while readers may not take more of its time."""
        view = view_for(request)
        if view is not None and view.queues is None:  # it sees all of the partition
            view = None
        if is_small:
            return await self._read(partition, read, view)
        whole = partition, view, *key
        last = self._pages.last(whole)
        if last is not None and last.status == 200:
            age = last.age_s / self._stale_s(partition)
            if age < 1 and not self._allowance(partition).may_renew(age):
                return last
        with trio.move_on_after(ANSWER_S):  # also for others who are making the page
            return await self._pages.get(whole, partial(self._read_in_turn, partition, read, view))
        raise _no_answer(partition)

    def _stale_s(self, partition: PartitionName) -> float:
        """How old a page may be; from all that are asked for, so not computed for each request."""
        allowance = self._allowance(partition)
        if trio.current_time() >= allowance.reviewed_s + REVIEW_S:
            taken_s = sum(page.took_s for key, page in self._pages.items() if key[0] == partition and page.age_s < STALE_MAX_S)
            allowance.review(taken_s)
        return allowance.stale_s

    async def _read_in_turn(self, partition: PartitionName, read: Reading, view: View | None) -> Page:
        allowance = self._allowance(partition)
        async with allowance.turn():
            share = READ_SHARE if self._load.is_busy() else IDLE_SHARE
            page = await self._read(partition, read, view)
            page.charge = partial(allowance.charge, share=share)
            page.charge(page.took_s)
            return page

    async def kept(self, key: Key, make: Callable[[], Awaitable[Page]], fresh_s: float = FRESH_S) -> Page:
        """A page that is of no partition."""
        return await self._pages.get(key, make, fresh_s)

    async def _read(self, partition: PartitionName, read: Reading, view: View | None) -> Page:
        effort = Effort()
        found = await self._answered(partition, read, view, effort)
        if found is None:
            return Page(404, [], effort.seconds)
        return Page(200, await _encoded(found), effort.seconds)

    async def ask(self, partition: PartitionName, read: Reading, view: View | None = None) -> Any:
        """What a reading returns; the partition runs it between two turns."""
        return await self._answered(partition, read, view, Effort())

    async def _answered(self, partition: PartitionName, read: Reading, view: View | None, effort: Effort) -> Any:
        with trio.move_on_after(ANSWER_S):
            try:
                inbox = self.gateway.partitions[partition]
                return await read_partition(inbox, partial(_reading, read, view, effort))
            except (KeyError, trio.ClosedResourceError, trio.BrokenResourceError):
                raise RefusedError(404, "Partition not found") from None
        raise _no_answer(partition)


def _age(pages: Sequence[Page]) -> dict[str, str]:
    """How old the oldest is, in whole seconds, for who asks; nothing where there are none."""
    return {"Age": str(int(max(page.age_s for page in pages)))} if pages else {}


def _no_answer(partition: PartitionName) -> RefusedError:
    return RefusedError(503, f"partition {partition} has not answered within {ANSWER_S} s: it waits, or others read much of it")


class Allowance:
    """The time that readers may take of a partition for answers about all that is in it, one after the other.

    Attributes:
        stale_s: how old an answer may be.
        reviewed_s: since when, of trio's clock.
    """

    def __init__(self) -> None:
        self.stale_s = STALE_S
        self.reviewed_s = -inf
        self._turn = trio.Lock()
        #: When everything that was taken is made up for.
        self._even_at_s = 0.0

    def may_renew(self, age: float) -> bool:
        """Whether a page may be made again that could be shown as it is. Nobody has to wait for that, and the oldest come first.

        Args:
            age: 0 to 1, when it can be shown no longer; the older it is, the less of ``BURST_S`` has to be left.
        """
        return not self._turn.locked() and trio.current_time() >= self._even_at_s - age * BURST_S / READ_SHARE

    def review(self, taken_s: float) -> None:
        """Answers may be as old as it takes to make all that are asked for again, and some more.

        Args:
            taken_s: what these took when they were made.
        """
        self.stale_s = min(STALE_MAX_S, max(STALE_S, 1.2 * taken_s / READ_SHARE))
        self.reviewed_s = trio.current_time()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Read within the block, when everything before is made up for."""
        async with self._turn:
            await trio.sleep_until(self._due_s)
            yield

    @property
    def _due_s(self) -> float:
        return self._even_at_s - BURST_S / READ_SHARE

    def charge(self, took_s: float, share: float) -> None:
        """So much was taken, of which this is the share that they may have."""
        self._even_at_s = max(self._even_at_s, trio.current_time()) + took_s / share


async def _encoded(found: Any) -> list[bytes]:
    """The body of an answer; a reading has encoded what takes long, whole or each item of a list."""
    if isinstance(found, bytes):
        return [found + b"\n"] if len(found) < PART_BYTES else [found, b"\n"]
    if isinstance(found, Pieces):
        return [*found.pieces, b"\n"]
    if not (isinstance(found, list) and found and isinstance(found[0], Item)):
        return [encode(found)]
    parts = []
    for part in list_parts(found):
        parts.append(part)
        await trio.lowlevel.checkpoint()
    return parts


def _reading(
    read: Reading, view: View | None, effort: Effort, core: PartitionCore, state: SchedulerState, now_ns: int
) -> Pausing[Any]:
    """The reading as one that pauses."""
    found = read(Look(core, state, now_ns, view))
    if isinstance(found, Generator):
        found = yield from effort.measured(found)
    return found
