"""Writes Events: what is said again is counted as a series, and of what changes often there is one in a while."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import UTC, datetime

import trio
from msgspec import Struct

from ykactor.kubernetes.api import STRATEGIC_PATCH, Api, ApiError
from ykactor.kubernetes.lanes import Pace
from ykactor.kubernetes.messages import Event

#: Why a pod waits changes often: it is said once in this time.
SERIES_S = 15.0
_CHANGES = "FailedScheduling"
#: Events that are remembered.
EVENTS_MAX = 10_000
NOTE_MAX = 1000
_VERSIONS = {
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    **dict.fromkeys(("StorageClass", "CSIDriver", "CSINode", "CSIStorageCapacity"), "storage.k8s.io/v1"),
}


class _Written(Struct):
    """An Event that was written: its name, what it said, how often, and when last."""

    name: str
    note: str
    count: int
    at_s: float


def key_of(event: Event) -> Hashable:
    """Equal for Events of which the last one says all."""
    return event.kind, event.ref, event.uid, event.reason, "" if event.reason == _CHANGES else event.note


class EventWriter:
    """Writes Events, and remembers the newest of them, so that what is said again is counted.

    Args:
        pace: Events wait for it.
        identity: of this process.
        now: the time of Events.
        groups_version: the version of PodGroups.
    """

    def __init__(
        self, api: Api, pace: Pace, identity: str, now: Callable[[], datetime], groups_version: Callable[[], str]
    ) -> None:
        self._api = api
        self._pace = pace
        self._identity = identity
        self._now = now
        self._groups_version = groups_version
        self._written: OrderedDict[Hashable, _Written] = OrderedDict()

    async def write(self, event: Event) -> float | None:
        """Write an Event, or count one that says the same; returns the seconds until it may be written, None if it is.

        Raises:
            ApiError
        """
        key = key_of(event)
        written = self._written.get(key)
        if written is not None and event.reason == _CHANGES and trio.current_time() < written.at_s + SERIES_S:
            return written.at_s + SERIES_S - trio.current_time()
        async with self._pace.spare():
            now_s = trio.current_time()
            if written is not None and written.note == event.note:
                await self._count(event, written)
            else:
                written = await self._post(event)
        written.at_s = now_s
        self._written[key] = written
        self._written.move_to_end(key)
        if len(self._written) > EVENTS_MAX:
            self._written.popitem(last=False)
        return None

    async def _count(self, event: Event, written: _Written) -> None:
        written.count += 1
        series = {"series": {"count": written.count, "lastObservedTime": self._micro()}}
        try:
            await self._api.request("PATCH", f"{_events(event)}/{written.name}", series, STRATEGIC_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            fresh = await self._post(event)  # the server has forgotten it
            written.name, written.count = fresh.name, 1

    async def _post(self, event: Event) -> _Written:
        name = f"{event.ref.name[:200].rstrip('-.')}.{secrets.token_hex(8)}"
        namespace = event.ref.namespace or "default"
        version = self._groups_version() if event.kind == "PodGroup" else _VERSIONS.get(event.kind, "v1")
        regarding = {"apiVersion": version, "kind": event.kind, "namespace": namespace, "name": event.ref.name}
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": self._micro(),
            "reportingController": "ykactor",
            "reportingInstance": self._identity[:128],
            "action": event.action,
            "reason": event.reason,
            "type": "Warning" if event.is_warning else "Normal",
            "regarding": regarding | ({"uid": event.uid} if event.uid else {}),
            "note": event.note,
        }
        await self._api.request("POST", _events(event), body)
        return _Written(name, event.note, 1, 0.0)

    def _micro(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _events(event: Event) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{event.ref.namespace or 'default'}/events"
