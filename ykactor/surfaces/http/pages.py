"""Pages: what partitions have answered, encoded once for all who read it.

A page is made by its partition between two turns, when somebody asks and the last one is too old. It may be shown for
``FRESH_S``, and longer if it took long to make: then for ``SHARE`` times as long as it took, so that readers never take more than
a small part of a partition's time, however many they are and whatever they ask.
"""

from __future__ import annotations

import gzip
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

import trio
from msgspec import Struct

#: How long a page is shown at least, and for how many times the time that it took.
FRESH_S = 0.1
SHARE = 20
#: Pages that are kept.
_PAGES_MAX = 256
_BYTES_MAX = 64 * 2**20
#: Smaller pages are not compressed.
GZIP_BYTES_MIN = 1400
_GZIP_LEVEL = 4


class Page(Struct, eq=False):
    """An answer.

    Attributes:
        status: of HTTP.
        body: what is sent.
        fresh_until_s: until when it is shown, of trio's clock.
    """

    status: int
    body: bytes
    fresh_until_s: float = 0.0
    _zipped: bytes | None = None

    async def zipped(self) -> bytes:
        """The body, compressed once, in a thread: it may have many megabytes."""
        if self._zipped is None:
            compress = gzip.compress
            self._zipped = await trio.to_thread.run_sync(lambda: compress(self.body, _GZIP_LEVEL, mtime=0))
        return self._zipped

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return len(self.body) + len(self._zipped or b"")


class Pages:
    """The pages that were asked for, each made by one task at a time."""

    def __init__(self) -> None:
        self._pages: OrderedDict[Hashable, Page] = OrderedDict()
        self._bytes = 0
        #: Set when the page that is being made is there.
        self._making: dict[Hashable, trio.Event] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[Page]]) -> Page:
        """The page of a key, made by ``make`` if there is none that is fresh. What ``make`` raises reaches who has called it."""
        while (page := self._fresh(key)) is None:
            making = self._making.get(key)
            if making is None:
                return await self._make(key, make)
            await making.wait()
        return page

    def _fresh(self, key: Hashable) -> Page | None:
        page = self._pages.get(key)
        return page if page is not None and trio.current_time() < page.fresh_until_s else None

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[Page]]) -> Page:
        made = self._making[key] = trio.Event()
        since_s = trio.current_time()
        try:
            page = await make()
        finally:
            del self._making[key]
            made.set()
        now_s = trio.current_time()
        page.fresh_until_s = now_s + max(FRESH_S, SHARE * (now_s - since_s))
        self._keep(key, page)
        return page

    def _keep(self, key: Hashable, page: Page) -> None:
        self._pages[key] = page
        self._pages.move_to_end(key)
        while len(self._pages) > _PAGES_MAX or (len(self._pages) > 1 and sum(p.size for p in self._pages.values()) > _BYTES_MAX):
            self._pages.popitem(last=False)
