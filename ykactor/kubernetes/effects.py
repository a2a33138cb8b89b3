"""Carries out what the state wants of the API server: binds before deletes, creations before conditions and Events."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import trio

from ykactor.kubernetes.api import MERGE_PATCH, STRATEGIC_PATCH, Api, ApiError
from ykactor.kubernetes.binding import ATTEMPTS_MAX, Binder, Counts
from ykactor.kubernetes.eventseries import EVENTS_MAX, NOTE_MAX, EventWriter, key_of
from ykactor.kubernetes.lanes import Lane, Pace
from ykactor.kubernetes.messages import (
    Bind,
    CreateEnded,
    CreatePlaceholder,
    DeletePod,
    Dismiss,
    Effect,
    Event,
    FailPod,
    Nominate,
    Ref,
    SelectFailed,
    SelectNode,
    SetCondition,
    SetGroupCondition,
    Stimulus,
)
from ykactor.kubernetes.volumes import SELECTED_NODE

#: Pauses between attempts.
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.2, 30.0
#: Workers of each lane.
_BINDERS, _OTHERS, _TELLERS = 16, 8, 4


class Effects:
    """The requests of the leading adapter.

    Args:
        pace: requests per second; binds and the like never wait for it.
        identity: of this process, in Events.
        tell: called with the results.
        is_wanted: True if a pod is to be bound, created or failed still.
        now: the time of conditions and Events.
        counts: is added to.
        groups: the path of PodGroups up to their version.
    """

    def __init__(
        self,
        api: Api,
        pace: Pace,
        identity: str,
        tell: Callable[[Stimulus], None],
        is_wanted: Callable[[Bind | CreatePlaceholder | FailPod], bool],
        now: Callable[[], datetime],
        rng: random.Random,
        counts: Counts,
        groups: Callable[[], str],
    ) -> None:
        self._api = api
        self._pace = pace
        self._tell = tell
        self._is_wanted = is_wanted
        self._now = now
        self._rng = rng
        self._groups = groups
        self._writer = EventWriter(api, pace, identity, now, lambda: groups().removeprefix("/apis/"))
        self._binder = Binder(api, pace, tell, is_wanted, self._pause_s, counts)
        self.binds: Lane[Bind] = Lane(self._binder.bind)
        self.selections: Lane[SelectNode | Nominate] = Lane(self._select_or_nominate)
        self.deletes: Lane[DeletePod] = Lane(self._delete)
        self.creations: Lane[CreatePlaceholder | FailPod] = Lane(self._create_or_fail)
        self.conditions: Lane[SetCondition | SetGroupCondition] = Lane(self._set_condition, newest_first=True)
        self.events: Lane[Event] = Lane(self._write, size=EVENTS_MAX)

    async def run(self) -> None:
        """Carry out effects until cancelled."""
        lanes: list[tuple[Lane[Any], int]] = [
            (self.binds, _BINDERS),
            (self.selections, _OTHERS),
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
        """The number of items that wait in each lane."""
        return {
            "bind": len(self.binds),
            "select": len(self.selections),
            "delete": len(self.deletes),
            "create": len(self.creations),
            "condition": len(self.conditions),
            "event": len(self.events),
        }

    def put(self, effect: Effect) -> None:
        """Carry out an effect on the API server soon."""
        match effect:
            case Bind(uid=uid):
                self.binds.put(uid, effect)
            case SelectNode(uid=uid) | Nominate(uid=uid):
                self.selections.put(uid, effect)
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
                short = effect._replace(note=effect.note[:NOTE_MAX])
                self.events.put(key_of(short), short)
            case Dismiss(subject):
                for lane in (self.binds, self.selections, self.deletes, self.creations, self.conditions):
                    lane.dismiss(subject)
                self._binder.dismiss(subject)

    def _pause_s(self, attempts: int) -> float:
        return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempts, 16)) * self._rng.uniform(0.5, 1)

    # ---- urgent: tried until it is done or needless

    async def _delete(self, delete: DeletePod, attempts: int) -> float | None:
        """Delete a pod; one that is gone, or another one of its name, is left alone."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": delete.uid}}
        with self._pace.urgent():
            error = await _error_of(self._api.request("DELETE", _pod(delete.ref), body))
        return self._again_s(error, attempts)

    async def _create_or_fail(self, effect: CreatePlaceholder | FailPod, attempts: int) -> float | None:
        if not self._is_wanted(effect):
            return None
        if isinstance(effect, FailPod):
            status = {"phase": "Failed", "reason": effect.reason, "message": effect.message[:NOTE_MAX]}
            with self._pace.urgent():
                error = await _error_of(self._patch_status(effect.ref, effect.uid, status))
            return self._again_s(error, attempts)
        path = f"/api/v1/namespaces/{effect.ref.namespace}/pods"
        with self._pace.urgent():
            error = await _error_of(self._api.request("POST", path, effect.body))
        if error is not None and error.reason == "AlreadyExists":
            error = None
        if error is not None and error.status == 409:  # another pod has changed a ResourceQuota at the same moment
            return self._pause_s(attempts)
        pause_s = self._again_s(error, attempts)
        if pause_s is None or attempts + 1 == ATTEMPTS_MAX:  # a quota or a policy may refuse it for long
            self._tell(CreateEnded(effect.application_id, effect.ref, "" if error is None else str(error)))
        return pause_s

    def _again_s(self, error: ApiError | None, attempts: int) -> float | None:
        """After how many seconds to try again; None if that would not help."""
        return max(error.retry_after_s, self._pause_s(attempts)) if error is not None and error.may_pass else None

    async def _patch_status(self, ref: Ref, uid: str, status: dict[str, Any], version: str = "") -> None:
        """Patch the status of a pod; with ``version`` only if it has not changed since."""
        meta = {"uid": uid, **({"resourceVersion": version} if version else {})}
        await self._api.request("PATCH", f"{_pod(ref)}/status", {"metadata": meta, "status": status}, STRATEGIC_PATCH)

    # ---- tried some times

    async def _select_or_nominate(self, effect: SelectNode | Nominate, attempts: int) -> float | None:
        if isinstance(effect, Nominate):
            status = {"nominatedNodeName": effect.node or None}
            with self._pace.urgent():
                error = await _error_of(self._patch_status(effect.ref, effect.uid, status))
            return self._some_times_s(error, attempts)
        body = {"metadata": {"uid": effect.uid, "annotations": {SELECTED_NODE: effect.node or None}}}
        with self._pace.urgent():
            error = await _error_of(self._api.request("PATCH", _claim(effect.claim), body, MERGE_PATCH))
        pause_s = self._some_times_s(error, attempts)
        if error is not None and pause_s is None:
            self._tell(SelectFailed(effect.claim, effect.node, str(error)))
        return pause_s

    # ---- not urgent: the same

    async def _set_condition(self, wanted: SetCondition | SetGroupCondition, attempts: int) -> float | None:
        async with self._pace.spare():
            error = await _error_of(self._patch_condition(wanted))
        return self._some_times_s(error, attempts)

    async def _patch_condition(self, wanted: SetCondition | SetGroupCondition) -> None:
        if isinstance(wanted, SetCondition):
            condition = self._condition("PodScheduled", "False", wanted.reason, wanted.message)
            await self._patch_status(wanted.ref, wanted.uid, {"conditions": [condition]}, wanted.version)
        else:
            says = ("False", "Unschedulable") if wanted.message else ("True", "Scheduled")
            condition = self._condition("PodGroupScheduled", *says, wanted.message)
            path = f"{self._groups()}/namespaces/{wanted.ref.namespace}/podgroups/{wanted.ref.name}/status"
            await self._api.request("PATCH", path, {"status": {"conditions": [condition]}}, STRATEGIC_PATCH)

    def _condition(self, kind: str, status: str, reason: str, message: str) -> dict[str, str]:
        at = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}

    async def _write(self, event: Event, attempts: int) -> float | None:
        try:
            return await self._writer.write(event)
        except ApiError as error:
            return self._some_times_s(error, attempts)

    def _some_times_s(self, error: ApiError | None, attempts: int) -> float | None:
        return self._again_s(error, attempts) if attempts + 1 < ATTEMPTS_MAX else None


async def _error_of(request: Awaitable[object]) -> ApiError | None:
    """The error with which a request ends."""
    try:
        await request
    except ApiError as error:
        return error
    return None


def _pod(ref: Ref) -> str:
    return f"/api/v1/namespaces/{ref.namespace}/pods/{ref.name}"


def _claim(ref: Ref) -> str:
    return f"/api/v1/namespaces/{ref.namespace}/persistentvolumeclaims/{ref.name}"
