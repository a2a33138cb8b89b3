"""Answers of the API server as stimuli: pages of lists, and events of watches. An object that cannot be read is skipped alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from ykactor.kubernetes.messages import Changed, Gone, Kind, Ref, Stimulus, Unreadable
from ykactor.kubernetes.model import ListMeta, Object, Page, Status, WatchEvent

T = TypeVar("T")
F = TypeVar("F", bound=Object)
_WRONG = (msgspec.DecodeError, UnicodeError, RecursionError)


class ReadError(ValueError):
    """An answer cannot be read."""


def read(data: bytes | Raw, kind: type[T]) -> T:
    """JSON as this type.

    Raises:
        ReadError
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except _WRONG as error:
        raise ReadError(str(error)) from None


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

    def __init__(self, kind: Kind, object_type: type[Object]) -> None:
        self._kind = kind
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
        except _WRONG:
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
        except _WRONG:
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
        except _WRONG as error:
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
