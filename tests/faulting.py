"""Actors that fail: what a test calls when an owner, a scheduler or a partition carries out a message."""

from ykactor.actors import owners
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import SchedulerCore


class Bug(Exception):
    """The fault that a test causes."""


class _Inbox:
    """The inbox of an owner, with the hooks around each command."""

    def __init__(self, inbox, before, after):
        self._inbox = inbox
        self._before = before
        self._after = after

    async def get(self):
        owner, command, position, replies = await self._inbox.get()
        self._before(owner, command)
        return owner, command, position, _Replies(replies, lambda: self._after(owner, command))


class _Replies:
    def __init__(self, replies, after):
        self._replies = replies
        self._after = after

    def put(self, position, reply):
        self._after()
        self._replies.put(position, reply)


def nothing(core, message):
    """A hook that does nothing."""


def watch_owners(monkeypatch, before=nothing, after=nothing):
    """Call these with each queue or node and its command; ``after`` when it was carried out, before the reply.

    Owners whose tasks run already are not watched.
    """
    own = owners.own
    monkeypatch.setattr(owners, "own", lambda inbox: own(_Inbox(inbox, before, after)))


def watch_schedulers(monkeypatch, before=nothing, after=nothing):
    """The same with each scheduler and its phase."""
    _watch(monkeypatch, SchedulerCore, "handle", before, after)


def watch_partitions(monkeypatch, before=nothing, after=nothing):
    """The same with each partition and its submissions, its request, or the time for which timers fire."""
    for method in ("ingest", "administer", "fire"):
        _watch(monkeypatch, PartitionCore, method, before, after)


def _watch(monkeypatch, owner, method, before, after):
    original = getattr(owner, method)

    def watched(self, *arguments):
        before(self, arguments)
        reply = yield from original(self, *arguments)
        after(self, arguments)
        return reply

    monkeypatch.setattr(owner, method, watched)
