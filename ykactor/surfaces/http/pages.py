"""Pages: what partitions have answered, encoded once for all who read it.

A page is made when somebody asks and the last one is older than ``FRESH_S``, by one task for all who ask then.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, ItemsView

import trio
from msgspec import Struct, field

from ykactor.actors.clock import worked_s

#: What a page is of: the partition, or a word, and more.
Key = tuple[Hashable, ...]
#: How long a page is shown.
FRESH_S = 0.1
#: Pages that are kept: those of 100,000 asks and of 5,000 nodes have 70 MiB together.
_PAGES_MAX = 256
_BYTES_MAX = 128 * 2**20
#: Smaller pages are not compressed.
GZIP_BYTES_MIN = 1400
_GZIP_LEVEL = 1
#: So many bytes take less time to compress, 0.5 ms, than a thread takes from this one.
_INLINE_BYTES = 2**16
#: The format of gzip, with the largest window.
_GZIP_WBITS = 31


class Page(Struct, eq=False):
    """An answer.

    Attributes:
        status: of HTTP.
        parts: of the body, in order: a large one is never in one piece, which would take long to make.
        took_s: how long it took to make it, without waiting for others; also to compress it, if somebody wants that.
        charge: is told how long it took to compress it; None: nobody is.
        made_s, fresh_until_s: when it was made and until when it is shown, of trio's clock.
    """

    status: int
    parts: list[bytes]
    took_s: float = 0.0
    made_s: float = 0.0
    fresh_until_s: float = 0.0
    charge: Callable[[float], None] | None = None
    _zipped: list[bytes] | None = None
    _zipping: trio.Lock = field(default_factory=trio.Lock)

    async def zipped(self) -> list[bytes]:
        """The body, compressed once for all who ask; in a thread if it is long, as it may have many megabytes."""
        async with self._zipping:
            if self._zipped is None:
                if self.length <= _INLINE_BYTES:
                    zipped, took_s = _zipped(self.parts)
                else:
                    zipped, took_s = await trio.to_thread.run_sync(_zipped, self.parts)
                self._zipped = zipped
                self.took_s += took_s
                if self.charge is not None:
                    self.charge(took_s)
            return self._zipped

    @property
    def is_fresh(self) -> bool:
        """True if it may be shown."""
        return trio.current_time() < self.fresh_until_s

    @property
    def age_s(self) -> float:
        """The seconds since it was made."""
        return trio.current_time() - self.made_s

    @property
    def length(self) -> int:
        """Bytes of the body."""
        return sum(map(len, self.parts))

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return self.length + sum(map(len, self._zipped or ()))


def _zipped(parts: list[bytes]) -> tuple[list[bytes], float]:
    since_s, compressor = worked_s(), zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WBITS)
    zipped = b"".join([*map(compressor.compress, parts), compressor.flush()])  # as few pieces as it can be sent in
    return [zipped], worked_s() - since_s


class Pages:
    """The pages that were asked for, each made by one task at a time."""

    def __init__(self) -> None:
        self._pages: OrderedDict[Key, Page] = OrderedDict()
        #: Set when the page that is being made is there.
        self._making: dict[Key, trio.Event] = {}

    async def get(self, key: Key, make: Callable[[], Awaitable[Page]], fresh_s: float = FRESH_S) -> Page:
        """The page of a key, made by ``make`` if there is none that is fresh. What ``make`` raises reaches who has called it."""
        while (page := self.last(key)) is None or not page.is_fresh:
            making = self._making.get(key)
            if making is None:
                return await self._make(key, make, fresh_s)
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

    async def _make(self, key: Key, make: Callable[[], Awaitable[Page]], fresh_s: float) -> Page:
        made = self._making[key] = trio.Event()
        try:
            page = await make()
        finally:
            del self._making[key]
            made.set()
        page.made_s = trio.current_time()
        page.fresh_until_s = page.made_s + fresh_s
        self._keep(key, page)
        return page

    def _keep(self, key: Key, page: Page) -> None:
        self._pages[key] = page
        while len(self._pages) > _PAGES_MAX or (len(self._pages) > 1 and self._size() > _BYTES_MAX):
            self._pages.popitem(last=False)

    def _size(self) -> int:
        return sum(page.size for page in self._pages.values())
