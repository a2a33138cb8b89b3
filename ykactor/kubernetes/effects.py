"""Carries out what the state wants of the API server: binds before deletes, creations before conditions and Events."""

from __future__ import annotations

import random
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import trio
from msgspec import Struct, field

from ykactor.kubernetes.api import MERGE_PATCH, STRATEGIC_PATCH, Api, ApiError
from ykactor.kubernetes.lanes import Lane, Pace
from ykactor.kubernetes.messages import (
    Bind,
    BindEnded,
    BindOutcome,
    CreateEnded,
    CreatePlaceholder,
    DeletePod,
    Effect,
    Event,
    FailPod,
    Ref,
    SetCondition,
    SetGroupCondition,
    Stimulus,
)

#: Attempts to bind before a pod is handed back, and the pauses between attempts of anything.
ATTEMPTS_MAX = 5
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.2, 30.0
#: An Event about the same is written again, as a series, after this time.
SERIES_S = 15.0
#: Events that are remembered, and that may wait.
EVENTS_MAX = 10_000
NOTE_MAX = 1000
_ASSIGNED = re.compile(r'is already assigned to node "([^"]*)"')
#: Workers of each lane.
_BINDERS, _OTHERS, _TELLERS = 16, 8, 4


class _Written(Struct):
    """An Event that was written: its name, what it said, how often, and when last."""

    name: str
    note: str
    count: int
    at_s: float


class Counts(Struct):
    """What a process has done, in all its times as the leader.

    Attributes:
        binds: by outcome.
        conflicts: answers 409 to binds.
    """

    binds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BindOutcome, 0))
    conflicts: int = 0


class Effects:
    """The requests of the leading adapter.

    Args:
        pace: requests per second; binds and the like never wait for it.
        identity: of this process, in Events.
        tell: called with the results.
        now: the time of conditions and Events.
        counts: is added to.
        groups_path: the path of the PodGroups of a namespace.
    """

    def __init__(
        self,
        api: Api,
        pace: Pace,
        identity: str,
        tell: Callable[[Stimulus], None],
        now: Callable[[], datetime],
        rng: random.Random,
        counts: Counts,
        groups_path: Callable[[str], str],
    ) -> None:
        self._api = api
        self._pace = pace
        self._identity = identity
        self._tell = tell
        self._now = now
        self._rng = rng
        self._written: OrderedDict[tuple[str, str], _Written] = OrderedDict()
        self._counts = counts
        self._groups_path = groups_path
        self.binds: Lane[Bind] = Lane(self._bind)
        self.deletes: Lane[DeletePod] = Lane(self._delete)
        self.creations: Lane[CreatePlaceholder | FailPod] = Lane(self._create_or_fail)
        self.conditions: Lane[SetCondition | SetGroupCondition] = Lane(self._set_condition, newest_first=True)
        self.events: Lane[Event] = Lane(self._write, size=EVENTS_MAX)

    async def run(self) -> None:
        """Carry out effects until cancelled."""
        lanes: list[tuple[Lane[Any], int]] = [
            (self.binds, _BINDERS),
            (self.deletes, _OTHERS),
            (self.creations, _OTHERS),
            (self.conditions, _TELLERS),
            (self.events, _TELLERS),
        ]
        async with trio.open_nursery() as nursery:
            for lane, workers in lanes:
                for _ in range(workers):
                    nursery.start_soon(lane.work)

    def waiting(self) -> dict[str, int]:
        """How much waits in each lane."""
        return {
            "bind": len(self.binds),
            "delete": len(self.deletes),
            "create": len(self.creations),
            "condition": len(self.conditions),
            "event": len(self.events),
        }

    def put(self, effect: Effect) -> None:
        """Carry out an effect on the API server soon."""
        match effect:
            case Bind(key=key):
                self.binds.put(key, effect)
            case DeletePod(uid=uid):
                self.deletes.put(uid, effect)
            case CreatePlaceholder(ref=ref):
                self.creations.put(ref, effect)
            case FailPod(uid=uid):
                self.creations.put(uid, effect)
            case SetCondition(uid=uid):
                self.conditions.put(uid, effect)
            case SetGroupCondition(ref=ref):
                self.conditions.put(ref, effect)
            case Event():
                self.events.put((effect.ref, effect.uid, effect.reason), effect)

    # ---- urgent

    async def _bind(self, bind: Bind) -> None:
        """Bind a pod. After an attempt without an answer it may be bound, so it is tried until the server says what holds."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": bind.ref.name, "namespace": bind.ref.namespace, "uid": bind.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
        ended, attempt, may_be_bound = BindEnded(bind.key, BindOutcome.DONE, bind.node), 0, False
        while True:
            self._pace.take()
            try:
                await self._api.request("POST", f"{_pod(bind.ref)}/binding", body)
            except ApiError as error:
                ended, attempt = self._bind_failed(bind, error), attempt + 1
                may_be_bound |= error.is_unknown
                if ended.outcome is BindOutcome.FAILED and (may_be_bound or (error.may_pass and attempt < ATTEMPTS_MAX)):
                    await trio.sleep(max(error.retry_after_s, self._pause_s(attempt)))
                    continue
            break
        self._counts.binds[ended.outcome] += 1
        self._tell(ended)

    def _bind_failed(self, bind: Bind, error: ApiError) -> BindEnded:
        """Three kinds of conflict have one reason, and are told apart by their message."""
        if error.status == 409:
            self._counts.conflicts += 1
            assigned = _ASSIGNED.search(error.message)
            if assigned is not None:
                return BindEnded(bind.key, BindOutcome.TAKEN, assigned[1])
            outcome = BindOutcome.GATED if "schedulingGates" in error.message else BindOutcome.GONE
            return BindEnded(bind.key, outcome, reason=error.message)
        outcome = BindOutcome.GONE if error.status == 404 else BindOutcome.FAILED
        return BindEnded(bind.key, outcome, reason=str(error))

    async def _delete(self, delete: DeletePod) -> None:
        """Delete a pod; one that is gone, or another one of its name, is left alone."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": delete.uid}}
        await self._until_done(partial(self._api.request, "DELETE", _pod(delete.ref), body))

    async def _create_or_fail(self, effect: CreatePlaceholder | FailPod) -> None:
        if isinstance(effect, FailPod):
            status = {"phase": "Failed", "reason": effect.reason, "message": effect.message[:NOTE_MAX]}
            await self._until_done(partial(self._patch_status, effect.ref, effect.uid, status))
            return
        path = f"/api/v1/namespaces/{effect.ref.namespace}/pods"
        error = await self._until_done(partial(self._api.request, "POST", path, effect.body))
        reason = "" if error is None or error.status == 409 else str(error)
        self._tell(CreateEnded(effect.application_id, effect.ref, reason))

    async def _until_done(self, request: Callable[[], Awaitable[object]]) -> ApiError | None:
        """Try again while the server may still take it; returns the error with which it does not."""
        attempt = 0
        while True:
            self._pace.take()
            try:
                await request()
            except ApiError as error:
                if not error.may_pass:
                    return error
                await trio.sleep(max(error.retry_after_s, self._pause_s(attempt)))
                attempt += 1
            else:
                return None

    def _pause_s(self, attempt: int) -> float:
        return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempt, 16)) * self._rng.uniform(0.5, 1)

    async def _patch_status(self, ref: Ref, uid: str, status: dict[str, Any], version: str = "") -> None:
        """Patch the status of a pod; with ``version`` only if it has not changed since."""
        meta = {"uid": uid, **({"resourceVersion": version} if version else {})}
        await self._api.request("PATCH", f"{_pod(ref)}/status", {"metadata": meta, "status": status}, STRATEGIC_PATCH)

    # ---- not urgent: tried once, as what is written next says more

    async def _set_condition(self, wanted: SetCondition | SetGroupCondition) -> None:
        if isinstance(wanted, SetGroupCondition):
            await self._set_group_condition(wanted)
            return
        await self._pace.wait()
        condition = self._condition("PodScheduled", wanted.reason, wanted.message)
        try:
            await self._patch_status(wanted.ref, wanted.uid, {"conditions": [condition]}, wanted.version)
        except ApiError as error:
            if error.may_pass:
                await trio.sleep(max(error.retry_after_s, self._pause_s(0)))

    async def _set_group_condition(self, wanted: SetGroupCondition) -> None:
        await self._pace.wait()
        condition = self._condition("PodGroupScheduled", "Unschedulable", wanted.message)
        path = f"{self._groups_path(wanted.ref.namespace)}/{wanted.ref.name}/status"
        try:
            await self._api.request("PATCH", path, {"status": {"conditions": [condition]}}, MERGE_PATCH)
        except ApiError as error:
            if error.may_pass:
                await trio.sleep(max(error.retry_after_s, self._pause_s(0)))

    def _condition(self, kind: str, reason: str, message: str) -> dict[str, str]:
        at = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"type": kind, "status": "False", "reason": reason, "message": message, "lastTransitionTime": at}

    async def _write(self, event: Event) -> None:
        """Write an Event, or count one that says the same."""
        key = event.uid or f"{event.kind}/{event.ref}", event.reason
        written, now_s = self._written.get(key), trio.current_time()
        if written is not None and now_s - written.at_s < SERIES_S and event.reason == "FailedScheduling":
            return
        await self._pace.wait()
        try:
            if written is not None and written.note == event.note:
                await self._count(event, written)
            else:
                written = await self._post(event)
        except ApiError as error:
            if error.may_pass:
                await trio.sleep(max(error.retry_after_s, self._pause_s(0)))
            return
        written.at_s = now_s
        self._written[key] = written
        self._written.move_to_end(key)
        if len(self._written) > EVENTS_MAX:
            self._written.popitem(last=False)

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
        name = f"{event.ref.name[:200]}.{secrets.token_hex(8)}"
        namespace = event.ref.namespace or "default"
        version = _VERSIONS.get(event.kind, "v1")
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
            "note": event.note[:NOTE_MAX],
        }
        await self._api.request("POST", _events(event), body)
        return _Written(name, event.note, 1, 0.0)

    def _micro(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_VERSIONS = {"PodGroup": "scheduling.k8s.io/v1alpha2"}


def _pod(ref: Ref) -> str:
    return f"/api/v1/namespaces/{ref.namespace}/pods/{ref.name}"


def _events(event: Event) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{event.ref.namespace or 'default'}/events"
