"""Entries that the daemon was told to forget, until it has confirmed.

A decision about it may be on its way meanwhile. Nothing is told again before the daemon has confirmed, so that no decision about
an earlier life of a node, an application or an ask is taken for one about the present life.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Thing(Enum):
    """The kinds of things that the daemon can be told to forget."""

    NODE = 1
    APPLICATION = 2
    ASK = 3


class Entry(NamedTuple):
    """A node or an application by its name, or an ask by its key."""

    thing: Thing
    name: str


class Leaving:
    """The entries that are in requests without an answer. Requests are carried out in their order."""

    def __init__(self) -> None:
        self._requests: dict[Entry, str] = {}
        self._unsent: list[Entry] = []
        self._sent: dict[str, list[Entry]] = {}
        self._count = 0

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._requests

    def add(self, thing: Thing, name: str) -> None:
        """The requests that are sent next tell the daemon to forget this."""
        entry = Entry(thing, name)
        self._requests[entry] = ""
        self._unsent.append(entry)

    def seal(self) -> str:
        """The id for the last of the requests that are sent now; "" if none of them tells the daemon to forget anything."""
        if not self._unsent:
            return ""
        self._count += 1
        request_id = f"forget-{self._count}"
        self._requests.update(dict.fromkeys(self._unsent, request_id))
        self._sent[request_id], self._unsent = self._unsent, []
        return request_id

    def confirm(self, request_id: str) -> list[Entry]:
        """Returns what may be told again because the daemon has answered a request; without what is in a later request too."""
        entries = [entry for entry in self._sent.pop(request_id, ()) if self._requests.get(entry) == request_id]
        for entry in entries:
            del self._requests[entry]
        return entries
