"""Keeps the state in step with the objects of one kind: lists and watches them, and lists again after it has missed something."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import trio
from msgspec import Struct

from ykactor.kubernetes.api import Api, ApiError
from ykactor.kubernetes.messages import Kind, Listed, Stimulus, Unreadable
from ykactor.kubernetes.model import Object, Status
from ykactor.kubernetes.outage import Outages
from ykactor.kubernetes.process import Process
from ykactor.kubernetes.reading import Reader, ReadError

#: Objects in one page of a list.
PAGE_SIZE = 500
#: A watch ends after about so many seconds, and is opened again from where it was: then it is known to work.
WATCH_S = 50
#: The server says nothing for so long beyond that: the connection is lost.
SILENCE_S = 20.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.5, 30.0
#: A watch that has lasted for so long works, and is opened again without a pause.
STEADY_S = 5.0
_GONE = 410


class Source(Struct, frozen=True):
    """A kind of objects.

    Attributes:
        path: of the list, such as ``/api/v1/pods``.
        type: what is read of each object.
        may_go: the server may have this kind no longer (404), which ends its reflector.
    """

    kind: Kind
    path: str
    type: type[Object]
    may_go: bool = False


class _Missed(Exception):
    """Events were missed: the kind has to be listed again."""


class Reflector:
    """Lists and watches one kind.

    Args:
        tell: called with what has happened.
        outages: are told when it cannot be read.

    Attributes:
        kind: of the objects.
        alive_s: when the server has last shown that the watch works, on the clock of trio; None: not yet.
        lists: how often it has listed.
    """

    def __init__(self, api: Api, source: Source, tell: Callable[[Stimulus], None], process: Process, outages: Outages) -> None:
        self._api = api
        self._source = source
        self.kind = source.kind
        self._tell = tell
        self._warn, self._rng = process.warn, process.rng
        self._outages = outages
        self._reader = Reader(source.kind, source.type)
        self._version = ""
        self.alive_s: float | None = None
        self.lists = 0
        self._attempts = 0
        #: Cancelled when the kind is to be listed again.
        self._round = trio.CancelScope()
        #: Set by the first list that begins after a refresh was asked for; None while none is. What arrives late cannot undo it.
        self._refreshed: trio.Event | None = None

    async def run(self) -> None:
        """List and watch until cancelled, or until the server does not have this kind."""
        is_there = True
        while is_there:
            with trio.CancelScope() as self._round:
                is_there = await self._list_and_watch()

    async def refresh(self) -> None:
        """List again, and return when that is told: a watch may be behind, but a list has all that is there when it begins.

        A later call takes the place of one that waits.
        """
        refreshed = self._refreshed = trio.Event()
        self._round.cancel()
        await refreshed.wait()

    async def _list_and_watch(self) -> bool:
        """List if that is necessary, watch until something is wrong, and pause; False if the server does not have this kind."""
        began_s, least_s = trio.current_time(), 0.0
        try:
            refreshed = self._refreshed
            if refreshed is not None or not self._version:
                await self._list()
            if refreshed is not None:
                refreshed.set()
                if self._refreshed is refreshed:
                    self._refreshed = None
            await self._watch()
        except _Missed:
            self._version = ""
        except ReadError as error:
            self._version = ""
            self._warn(f"{self.kind}: an answer cannot be read: {error}")
        except ApiError as error:
            if error.status == 404 and self._source.may_go:
                self._outages.over(self.kind)
                return False
            if error.status == _GONE:
                self._version = ""
            self._outages.failed(self.kind, error)
            least_s = max(error.retry_after_s, BACKOFF_FIRST_S / 2)
        is_steady = trio.current_time() - began_s >= STEADY_S
        await trio.sleep(least_s if is_steady else max(least_s, self._pause_s()))
        if is_steady:
            self._attempts = 0
        return True

    def _pause_s(self) -> float:
        """Longer after each attempt since a watch has lasted."""
        self._attempts += 1
        return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(self._attempts - 1, 16)) * self._rng.uniform(0.5, 1)

    # ---- lists

    async def _list(self) -> None:
        objects, unreadable, continues = list[Object](), list[Unreadable](), ""
        while True:
            query = {"limit": str(PAGE_SIZE), **({"continue": continues} if continues else {})}
            try:
                body = await self._api.request("GET", f"{self._source.path}?{urlencode(query)}")
            except ApiError as error:
                if error.status == _GONE and continues:
                    raise _Missed from None  # the pages do not belong together any more
                raise
            page = self._reader.page(body)
            objects += page.objects
            unreadable += page.unreadable
            continues = page.continues
            if not continues:
                break
        self.lists += 1
        self._version = page.version
        self._show_life()
        self._tell(Listed(self._source.kind, objects, [each.ref for each in unreadable]))
        for each in unreadable:
            self._skip(each)

    def _skip(self, unreadable: Unreadable) -> None:
        """An object cannot be read: told by an Event about it, if it has a name."""
        if unreadable.ref.name:
            self._tell(unreadable)
        else:
            self._warn(f"{self.kind}: an object cannot be read and is skipped: {unreadable.reason}")

    # ---- watches

    async def _watch(self) -> None:
        """Watch from the last version until the server ends the stream.

        Raises:
            ApiError, ReadError, _Missed
        """
        seconds = round(WATCH_S * self._rng.uniform(0.8, 1.2))
        query = {"watch": "1", "resourceVersion": self._version, "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        async with self._api.watch(f"{self._source.path}?{urlencode(query)}", seconds + SILENCE_S) as lines:
            self._show_life()
            async for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        found = self._reader.event(line)
        if isinstance(found, Status):
            if found.code == _GONE:
                raise _Missed
            raise ApiError(found.code or 500, found.reason, found.message)
        self._show_life()
        self._version = found.version or self._version
        if isinstance(found.stimulus, Unreadable):
            self._skip(found.stimulus)
        elif found.stimulus is not None:
            self._tell(found.stimulus)

    def _show_life(self) -> None:
        self.alive_s = trio.current_time()
        self._outages.over(self.kind)
