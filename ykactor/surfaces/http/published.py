"""The answers about partitions: pages that each makes between two of its turns, cut to what the caller may see."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Hashable, ItemsView, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response

from ykactor.access.view import View
from ykactor.actors.commands import read_partition
from ykactor.actors.gateway import ReadGateway
from ykactor.core.objects.application import Application
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID, PartitionName, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.surfaces.admission.pacing import FairQueue, TokenBucket
from ykactor.surfaces.http.app import caller_of, view_for
from ykactor.surfaces.http.load import CpuMeter, LoopLoad
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.replies import LEFT_OUT, Page, reply
from ykactor.surfaces.http.turns import asked_of, note_read
from ykactor.surfaces.net.requests import RETRY, RefusedError
from ykactor.wire.rest.codec import Item, Shortened, encode, joined_lists, list_parts, object_parts

#: A partition that waits for the disk answers nothing.
ANSWER_S = 30
NO_PARTITION, NO_QUEUE = "Partition not found", "Queue not found"
#: What a reading returns: one payload, the encoded items of a list (all, or ``Shortened``), or None if there is no such object.
Reading = Callable[[Look], Any]


class Published:
    """The pages of all partitions."""

    def __init__(self, gateway: ReadGateway) -> None:
        self.gateway = gateway
        self._pages = Pages()
        self._loop = LoopLoad()
        self._budgets: dict[PartitionName, ReadBudget] = {}

    def _budget(self, partition: PartitionName) -> ReadBudget:
        for name in self._budgets.keys() - self.gateway.partitions.keys():
            del self._budgets[name]
        if (found := self._budgets.get(partition)) is None:
            found = self._budgets[partition] = ReadBudget()
        return found

    @property
    def cluster_id(self) -> str:
        """The resource manager that is registered; "" without one."""
        registered = self.gateway.registration
        return "" if registered is None else registered.rm_id

    @property
    def build_information(self) -> dict[str, str]:
        """The build information of the registered resource manager, and its id; {} without one."""
        registered = self.gateway.registration
        return {} if registered is None else {**registered.build_info, "rmId": registered.rm_id}

    def partitions(self, request: Request) -> list[PartitionName]:
        """The partitions that the caller may read."""
        view = view_for(request)
        return [name for name in self.gateway.partitions if view is None or view.shows_partition(name)]

    def named_partitions(self, request: Request, wanted: str) -> list[PartitionName]:
        """The wanted partition, if the caller may read it; with "" all of these."""
        names = [name for name in self.partitions(request) if wanted.lower() in ("", name.lower())]
        if wanted and not names:
            raise RefusedError(404, NO_PARTITION)
        return names

    def partition(self, request: Request) -> PartitionName:
        """The partition of the path."""
        name = PartitionName(request.path_params["partition"])
        if name not in self.partitions(request):
            raise RefusedError(404, NO_PARTITION)
        if why := self.gateway.unavailable(name):
            raise _unavailable(why)
        return name

    def registry(self, request: Request) -> Registry:
        """The owners in the partition of the path, to be read only."""
        return self.gateway.registry(self.partition(request))

    def check_queue(self, request: Request, path: QueuePath) -> None:
        """Refuse a queue that does not exist, or that who asks does not see."""
        view, registry = view_for(request), self.registry(request)
        is_seen = view is None or view.shows_queue(path)
        if not is_seen or path not in registry.queues:
            raise RefusedError(404, NO_QUEUE)

    def seen_application(self, request: Request, name: ApplicationID) -> Application | None:
        """The application, as it is at present; None if it does not exist, or the caller may not see it."""
        view, registry = view_for(request), self.registry(request)
        path = registry.applications.get(name, QueuePath(""))
        is_seen = view is None or view.shows_queue(path)
        return registry.leaf(path).applications.get(name) if is_seen and path else None

    async def answer(
        self,
        request: Request,
        key: Key,
        read: Reading,
        missing: str = "",
        *,
        is_small: bool = False,
    ) -> Response:
        """The answer of a reading of the partition of the path; 404 with the text ``missing`` if the reading finds nothing.

        Args:
            is_small: the reading takes less than 1 ms, and is made for each request; others wait for each other (``ReadBudget``).
        """
        page = await self.page(request, self.partition(request), key, read, is_small=is_small)
        if page.status == 404:
            raise RefusedError(404, missing)
        return await reply(request, page, headers=age_of([] if is_small else [page]))

    async def answer_of_each(self, request: Request, key: Key, read: Reading) -> Response:
        """A list with what is read of each partition."""
        pages = await self._pages_of(request, key, read, "")
        whole = Page(200, [*list_parts(b"".join(page.parts).rstrip(b"\n") for page in pages)])
        return await reply(request, whole, headers=age_of(pages))

    async def joined_lists(self, request: Request, key: Key, read: Reading, wanted: str) -> Response:
        """A list with the items of the lists that are read of each partition, or of the wanted one (``named_partitions``)."""
        pages = await self._pages_of(request, key, read, wanted)
        whole = pages[0] if len(pages) == 1 else Page(200, [*joined_lists(page.parts for page in pages)])
        return await reply(request, whole, headers={**age_of(pages), **left_out_of(pages)})

    async def _pages_of(self, request: Request, key: Key, read: Reading, wanted: str) -> list[Page]:
        return [await self.page(request, name, key, read) for name in self.named_partitions(request, wanted)]

    async def page(self, request: Request, partition: PartitionName, key: Key, read: Reading, *, is_small: bool = False) -> Page:
        """The page of a partition as who asks sees it; an older one while readers may not take more of its time."""
        view = view_for(request)
        if view is not None and view.queues is None:  # it sees all of the partition
            view = None
        page = await self._page(request, partition, key, read, view, is_small=is_small)
        note_read(request, partition, page.turn)
        return page

    async def _page(
        self, request: Request, partition: PartitionName, key: Key, read: Reading, view: View | None, *, is_small: bool
    ) -> Page:
        if is_small:
            return await self._read(partition, read, view, CpuMeter())
        turn = asked_of(request, partition)
        # By its inbox, which another partition with this name does not have, nor another copy of it: their turns are others.
        whole = (self.gateway.partitions.get(partition), view, *key)
        who, asked_s = caller_of(request).identity.name, trio.current_time()
        budget = self._budget(partition)
        last = self._pages.last(whole)
        if last is not None and turn <= last.turn:
            age = last.age_s / self._stale_s(partition)
            if last.is_fresh or (age < 1 and not budget.may_renew(age, who)):
                return last
        with trio.move_on_after(ANSWER_S):  # also for others who are making the page
            async with budget.queue.entry(who):
                last = self._pages.last(whole)
                if last is not None and last.made_s >= asked_s and last.turn >= turn:
                    return last
                return await self._pages.get(whole, partial(self._read_in_turn, partition, read, view), turn)
        raise _no_answer(partition)

    def _stale_s(self, partition: PartitionName) -> float:
        """The seconds that a page may be old; computed from all that are asked for, so not for each request."""
        budget = self._budget(partition)
        if budget.is_review_due():
            inbox = self.gateway.partitions.get(partition)
            taken_s = sum(page.took_s for key, page in self._pages.items() if key[0] is inbox and page.age_s < STALE_MAX_S)
            budget.review(taken_s)
        return budget.stale_s

    async def _read_in_turn(self, partition: PartitionName, read: Reading, view: View | None) -> Page:
        budget, meter = self._budget(partition), CpuMeter()
        async with budget.queue.first():
            charge = partial(budget.charge, share=READ_SHARE if self._loop.is_busy() else IDLE_SHARE)
            try:
                page = await self._read(partition, read, view, meter)
            finally:  # also if it was cut off
                charge(meter.seconds)
            page.charge = charge
            return page

    async def kept(self, key: Key, make: Callable[[], Awaitable[Page]]) -> Page:
        """A page that is of no partition."""
        return await self._pages.get(key, make)

    async def _read(self, partition: PartitionName, read: Reading, view: View | None, meter: CpuMeter) -> Page:
        found, turn = await self._answered(partition, read, view, meter)
        if found is None:
            return Page(404, [], meter.seconds, turn)
        items, left_out = found if isinstance(found, Shortened) else (found, 0)
        return Page(200, await _encoded(items), meter.seconds, turn, left_out=left_out)

    async def ask(self, partition: PartitionName, read: Reading, view: View | None = None) -> Any:
        """The result of a reading, which the partition runs between two turns."""
        found, _ = await self._answered(partition, read, view, CpuMeter())
        return found

    async def _answered(self, partition: PartitionName, read: Reading, view: View | None, meter: CpuMeter) -> tuple[Any, int]:
        """The result of a reading, and the number of the turn before it."""
        inbox = self.gateway.partitions.get(partition)
        with trio.move_on_after(ANSWER_S), suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            if inbox is not None:
                answered: tuple[Any, int] = await read_partition(inbox, partial(_reading, read, view, meter))
                return answered
        if partition not in self.gateway.partitions:
            raise RefusedError(404, NO_PARTITION)
        if why := self.gateway.unavailable(partition):
            raise _unavailable(why)
        raise _no_answer(partition)


def age_of(pages: Sequence[Page]) -> dict[str, str]:
    """The header with the age of the oldest page in whole seconds; none without pages."""
    return {"Age": str(int(max(page.age_s for page in pages)))} if pages else {}


def left_out_of(pages: Sequence[Page]) -> dict[str, str]:
    """The header that says how many older items the lists do not have; none if they have all."""
    count = sum(page.left_out for page in pages)
    return {LEFT_OUT: f"{count} older ones are not in this list"} if count else {}


def _unavailable(why: str) -> RefusedError:
    return RefusedError(503, why, RETRY)


def _no_answer(partition: PartitionName) -> RefusedError:
    return RefusedError(503, f"partition {partition} has not answered within {ANSWER_S} s: it waits, or others read much of it")


async def _encoded(found: Any) -> list[bytes]:
    """The body of an answer; a reading has encoded what takes long, whole or each item of a list."""
    if isinstance(found, Item):
        made = object_parts(found)
    elif isinstance(found, list) and found and isinstance(found[0], Item):
        made = list_parts(found)
    else:
        return [encode(found)]
    parts = list[bytes]()
    for part in made:
        if parts:  # most have one, and nobody to let run
            await trio.lowlevel.checkpoint()
        parts.append(part)
    return parts


def _reading(
    read: Reading, view: View | None, meter: CpuMeter, core: PartitionCore, state: SchedulerState, now_ns: int
) -> Steps[tuple[Any, int]]:
    """The reading as one that pauses."""
    found = read(Look(core, state, now_ns, view))
    if isinstance(found, Generator):
        found = yield from meter.measured(found)
    return found, core.turns


# ---- the time of a partition that readers may take, and how old their answers become meanwhile

#: What all readers together may take for answers about all that is in a partition, of the time, and while the loop is not busy.
READ_SHARE = 0.015
IDLE_SHARE = 0.2
#: How old an answer may be that is shown meanwhile: so much, or up to so much where all that are asked for take longer to make.
STALE_S = 20.0
STALE_MAX_S = 120.0
#: How often that is reckoned.
REVIEW_S = 1.0
#: How much they may take at once when they have taken nothing for a while, and in how many seconds that is made up for.
BURST_S = 2.0
_BURST_S = BURST_S / READ_SHARE


class ReadBudget:
    """The time that readers may take of a partition for answers about all that is in it, one after the other.

    Attributes:
        queue: of the identities that read; its tokens are seconds in which no more is read than may be.
        stale_s: how old an answer may be.
    """

    def __init__(self) -> None:
        self.queue = FairQueue(TokenBucket(lambda: 1.0, _BURST_S))
        self.stale_s = STALE_S
        self._reviewed_s = -inf

    def may_renew(self, age: float, name: str) -> bool:
        """True if a page may be made again that could be shown as it is. Nobody has to wait for that, and the oldest come first.

        Args:
            age: 0 to 1, when it can be shown no longer; the older it is, the less of the burst has to be left.
            name: of the identity that asks for it.
        """
        return not self.queue.entry(name).locked() and not self.queue.bucket.delay_s((1 - age) * _BURST_S)

    def is_review_due(self) -> bool:
        """True if ``review`` should be told what all answers took."""
        return trio.current_time() >= self._reviewed_s + REVIEW_S

    def review(self, taken_s: float) -> None:
        """Answers may be as old as it takes to make all that are asked for again, and some more.

        Args:
            taken_s: what these took when they were made.
        """
        self.stale_s = min(STALE_MAX_S, max(STALE_S, 1.2 * taken_s / READ_SHARE))
        self._reviewed_s = trio.current_time()

    def charge(self, took_s: float, share: float) -> None:
        """So much was taken, of which this is the share that they may have."""
        self.queue.bucket.take(took_s / share)


# ---- the pages that are kept, each encoded once for all who read it
#
# A page is made when somebody asks and the last one is not fresh any more, by one task for all who ask then.

#: What a page is of: the inbox of a partition, or a word, and more.
Key = tuple[Hashable, ...]
#: Pages that are kept: those of 100,000 asks and of 5,000 nodes have 70 MiB together.
_PAGES_MAX = 256
_BYTES_MAX = 128 * 2**20


class Pages:
    """The pages that were asked for, each made by one task at a time."""

    def __init__(self) -> None:
        self._pages: OrderedDict[Key, Page] = OrderedDict()
        #: Set when the page that is being made is there.
        self._making: dict[Key, trio.Event] = {}

    async def get(self, key: Key, make: Callable[[], Awaitable[Page]], turn: int = 0) -> Page:
        """The page of a key, made by ``make`` if there is none that is fresh. What ``make`` raises reaches who has called it.

        Args:
            turn: the number of a turn that the page must have, and a new one has.
        """
        while (page := self.last(key)) is None or not page.is_fresh or page.turn < turn:
            making = self._making.get(key)
            if making is None:
                return await self._make(key, make)
            await making.wait()
        return page

    def last(self, key: Key) -> Page | None:
        """The page that was made last, also if it is not fresh; None if there is none any more."""
        page = self._pages.get(key)
        if page is not None:
            self._pages.move_to_end(key)
        return page

    def items(self) -> ItemsView[Key, Page]:
        """All that are kept; those that were not asked for for the longest time come first, and are forgotten first."""
        return self._pages.items()

    async def _make(self, key: Key, make: Callable[[], Awaitable[Page]]) -> Page:
        made = self._making[key] = trio.Event()
        try:
            page = await make()
        finally:
            del self._making[key]
            made.set()
        page.made_s = trio.current_time()
        self._keep(key, page)
        return page

    def _keep(self, key: Key, page: Page) -> None:
        self._pages[key] = page
        while len(self._pages) > _PAGES_MAX or (len(self._pages) > 1 and self._size() > _BYTES_MAX):
            self._pages.popitem(last=False)

    def _size(self) -> int:
        return sum(page.size for page in self._pages.values())
