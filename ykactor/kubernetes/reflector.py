"""Keeps the state in step with the objects of one kind: lists and watches them, and lists again after it has missed something.

An object that cannot be read is skipped alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
import trio
from msgspec import Raw, Struct

from ykactor.client.reconnecting import backoff_s
from ykactor.kubernetes.api import WRONG, Api, ApiError, ReadError, read
from ykactor.kubernetes.messages import TYPES, Changed, Gone, Kind, Listed, Ref, Stimulus, Unreadable
from ykactor.kubernetes.model import ListMeta, Object, Page, Status, WatchEvent
from ykactor.kubernetes.process import Outages, Process

# ---- objects in answers

F = TypeVar("F", bound=Object)


class Items(NamedTuple):
    """A page of a list; ``continues`` names the next one, "" if it is the last."""

    objects: list[Object]
    unreadable: list[Unreadable]
    version: str
    continues: str


class News(NamedTuple):
    """An event of a watch, and the version up to which the watch has come; a bookmark has no stimulus."""

    stimulus: Stimulus | None
    version: str


class _ReadablePage(Struct, Generic[F]):
    """A page in which all items can be read."""

    metadata: ListMeta = ListMeta()
    items: Sequence[F] | None = None


class _ReadableEvent(Struct, Generic[F]):
    """An event with an object that can be read."""

    type: str
    object: F


class Reader:
    """Reads objects of one kind. Nearly all can be read, so that is tried first, in one pass over the bytes."""

    def __init__(self, kind: Kind) -> None:
        self._kind, object_type = kind, TYPES[kind]
        self._objects = msgspec.json.Decoder(object_type)
        page, event = _ReadablePage[object_type], _ReadableEvent[object_type]  # type: ignore[valid-type]
        self._pages: msgspec.json.Decoder[_ReadablePage[Object]] = msgspec.json.Decoder(page)
        self._events: msgspec.json.Decoder[_ReadableEvent[Object]] = msgspec.json.Decoder(event)

    def page(self, body: bytes) -> Items:
        """Read a page of a list.

        Raises:
            ReadError: it is no page.
        """
        try:
            page = self._pages.decode(body)
        except WRONG:
            return self._page_by_items(body)
        objects = list(page.items or ())
        if not all(each.metadata.name for each in objects):
            return self._page_by_items(body)
        return Items(objects, [], page.metadata.resource_version, page.metadata.continue_)

    def _page_by_items(self, body: bytes) -> Items:
        page = read(body, Page)
        objects, unreadable = list[Object](), list[Unreadable]()
        for item in page.items or ():
            found = self._object(item)
            if isinstance(found, Unreadable):
                unreadable.append(found)
            else:
                objects.append(found)
        return Items(objects, unreadable, page.metadata.resource_version, page.metadata.continue_)

    def event(self, line: bytes) -> News | Status:
        """Read a line of a watch; the status of an event of the type ERROR is returned.

        Raises:
            ReadError: it is no event.
        """
        try:
            event = self._events.decode(line)
        except WRONG:
            return self._event_by_parts(line)
        meta = event.object.metadata
        match event.type:
            case "ADDED" | "MODIFIED" if meta.name:
                return News(Changed(self._kind, event.object), meta.resource_version)
            case "DELETED" if meta.name:
                return News(Gone(self._kind, Ref(meta.namespace, meta.name), meta.uid), meta.resource_version)
        return self._event_by_parts(line)

    def _event_by_parts(self, line: bytes) -> News | Status:
        """An event of another type, or with an object that cannot be read."""
        event = read(line, WatchEvent)
        if event.type == "ERROR":
            return read(event.object, Status)
        name = _name_of(event.object)
        if event.type == "BOOKMARK":  # it has hardly more than a version, and null where other objects have lists
            return News(None, name.resource_version)
        found = self._object(event.object)
        if event.type == "DELETED" and name.name:
            return News(Gone(self._kind, Ref(name.namespace, name.name), name.uid), name.resource_version)
        return News(found if isinstance(found, Unreadable) else Changed(self._kind, found), name.resource_version)

    def _object(self, item: Raw) -> Object | Unreadable:
        """An object; one without a name cannot be read either."""
        try:
            found = self._objects.decode(item)
        except WRONG as error:
            name = _name_of(item)
            return Unreadable(self._kind, Ref(name.namespace, name.name), name.uid, str(error))
        meta = found.metadata
        return found if meta.name else Unreadable(self._kind, Ref(meta.namespace, ""), meta.uid, "found no name")


class _Name(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(Struct):
    """The part that is read of an object that cannot be read as a whole."""

    metadata: _Name


def _name_of(item: Raw) -> _Name:
    """The name of any object; empty if not even that can be read."""
    try:
        return read(item, _Named).metadata
    except ReadError:
        return _Name()


# ---- reflectors

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
        may_go: the server may have this kind no longer (404), which ends its reflector.
    """

    kind: Kind
    path: str
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
        self._reader = Reader(source.kind)
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
        return backoff_s(self._attempts - 1, BACKOFF_FIRST_S, BACKOFF_MAX_S, self._rng)

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


# ---- the version in which a server has a kind

_FORM = re.compile(r"v([0-9]{1,4})(?:(alpha|beta)([0-9]{1,4}))?")
VERSION_PAUSE_S = 5.0


class _Version(Struct):
    version: str


class _Group(Struct):
    versions: list[_Version] = []


class _Resource(Struct):
    name: str


class _Resources(Struct):
    resources: list[_Resource] = []


async def find_version(api: Api, group: str, resource: str, outages: Outages) -> str:
    """The newest version that has a resource, as ``policy/v1``; "" if none has it. Waits until the server answers."""
    what, found = f"the versions of {resource}", None
    while found is None:
        try:
            found = await _find(api, group, resource)
        except ApiError as error:
            if error.status == 404:
                found = ""
            else:
                outages.failed(what, error)
                await trio.sleep(max(error.retry_after_s, VERSION_PAUSE_S))
    outages.over(what)
    return found


async def _find(api: Api, group: str, resource: str) -> str:
    found = await api.read(f"/apis/{group}", _Group)
    for version in sorted((each.version for each in found.versions), key=_age):
        there = await api.read(f"/apis/{group}/{version}", _Resources)
        if any(each.name == resource for each in there.resources):
            return f"{group}/{version}"
    return ""


def _age(version: str) -> tuple[int, int, int]:
    """Sort key: stable versions first, then beta, then alpha, each the newest first."""
    found = _FORM.fullmatch(version)
    if found is None:
        return 3, 0, 0
    kind = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return kind, -int(found[1]), -int(found[3] or 0)
