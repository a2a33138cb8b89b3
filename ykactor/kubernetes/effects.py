"""Carries out what the state wants of the API server: binds before deletes, creations before conditions and Events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any

import trio

from ykactor.kubernetes.api import MERGE_PATCH, STRATEGIC_PATCH, Api, ApiError
from ykactor.kubernetes.binding import ATTEMPTS_MAX, Binder, Feedback
from ykactor.kubernetes.eventseries import EVENTS_MAX, NOTE_MAX, EventWriter, key_of
from ykactor.kubernetes.lanes import Lane, Pace
from ykactor.kubernetes.leader import STOP_S, Leadership
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
    NotWritten,
    Ref,
    SelectNode,
    SetCondition,
    SetGroupCondition,
    Written,
)
from ykactor.kubernetes.process import Process
from ykactor.kubernetes.volumes import SELECTED_NODE

#: Pauses between attempts.
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.2, 30.0
#: Workers of each lane.
_BINDERS, _OTHERS, _TELLERS = 16, 8, 4


class Effects:
    """The requests of the leading adapter.

    Args:
        pace: requests per second; binds and the like never wait for it.
        groups: the path of PodGroups up to their version.
    """

    def __init__(self, api: Api, pace: Pace, process: Process, feedback: Feedback, groups: Callable[[], str]) -> None:
        self._api = api
        self._pace = pace
        self._process = process
        self._feedback = feedback
        self._groups = groups
        self._writer = EventWriter(api, pace, process.identity, process.now, lambda: groups().removeprefix("/apis/"))
        self._binder = Binder(api, pace, feedback, self._pause_s)
        self.binds: Lane[Bind] = Lane(self._binder.bind)
        self.selections: Lane[SelectNode | Nominate] = Lane(self._select_or_nominate)
        self.deletes: Lane[DeletePod] = Lane(self._delete)
        self.creations: Lane[CreatePlaceholder | FailPod] = Lane(self._create_or_fail)
        self.conditions: Lane[SetCondition | SetGroupCondition] = Lane(self._set_condition, newest_first=True)
        self.events: Lane[Event] = Lane(self._write, size=EVENTS_MAX)

        #: The lanes by the name in metrics, with their workers.
        self._lanes: dict[str, tuple[Lane[Any], int]] = {
            "bind": (self.binds, _BINDERS),
            "select": (self.selections, _OTHERS),
            "delete": (self.deletes, _OTHERS),
            "create": (self.creations, _OTHERS),
            "condition": (self.conditions, _TELLERS),
            "event": (self.events, _TELLERS),
        }

    async def run(self, leadership: Leadership) -> None:
        """Carry out effects until cancelled. The requests that are open then have ``STOP_S`` to be answered.

        A bind that has its effect later is not seen by the process that leads next, which places other pods in its room.
        """
        async with trio.open_nursery() as nursery:
            working = trio.CancelScope(shield=True)
            nursery.start_soon(self._work, working, leadership)
            try:
                await trio.sleep_forever()
            finally:
                working.deadline = trio.current_time() + STOP_S
                for lane, _ in self._lanes.values():
                    lane.close()

    async def _work(self, scope: trio.CancelScope, leadership: Leadership) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                for lane, workers in self._lanes.values():
                    for _ in range(workers):
                        nursery.start_soon(lane.work)
        leadership.has_open_requests = scope.cancelled_caught

    def waiting(self) -> dict[str, int]:
        """The number of items that wait in each lane."""
        return {name: len(lane) for name, (lane, _) in self._lanes.items()}

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
        return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempts, 16)) * self._process.rng.uniform(0.5, 1)

    # ---- urgent: tried until it is done or needless

    async def _delete(self, delete: DeletePod, attempts: int) -> float | None:
        """Delete a pod; one that is gone, or another one of its name, is left alone."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": delete.uid}}
        with self._pace.urgent():
            error = await _error_of(self._api.request("DELETE", _pod(delete.ref), body))
        return self._again_s(error, attempts)

    async def _create_or_fail(self, effect: CreatePlaceholder | FailPod, attempts: int) -> float | None:
        if not self._feedback.is_wanted(effect):
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
            ended = CreateEnded(effect.application_id, effect.ref)
            if error is not None:
                ended = ended._replace(reason=str(error), is_final=pause_s is None)
            self._feedback.tell(ended)
        return pause_s

    def _again_s(self, error: ApiError | None, attempts: int) -> float | None:
        """After how many seconds to try again; None if that would not help."""
        return max(error.retry_after_s, self._pause_s(attempts)) if error is not None and error.may_pass else None

    async def _patch_status(self, ref: Ref, uid: str, status: dict[str, Any], version: str = "") -> None:
        """Patch the status of a pod; with ``version`` only if it has not changed since."""
        meta = {"uid": uid, **({"resourceVersion": version} if version else {})}
        await self._api.request("PATCH", f"{_pod(ref)}/status", {"metadata": meta, "status": status}, STRATEGIC_PATCH)

    # ---- what objects say of themselves: tried until it is done or refused, but not for ever where a pod waits for it

    async def _select_or_nominate(self, effect: SelectNode | Nominate, attempts: int) -> float | None:
        if isinstance(effect, Nominate):
            status = {"nominatedNodeName": effect.node or None}
            with self._pace.urgent():
                error = await _error_of(self._patch_status(effect.ref, effect.uid, status))
            return self._end_write(effect, error, self._again_s(error, attempts))
        body = {"metadata": {"uid": effect.uid, "annotations": {SELECTED_NODE: effect.node or None}}}
        with self._pace.urgent():
            error = await _error_of(self._api.request("PATCH", _claim(effect.claim), body, MERGE_PATCH))
        return self._end_write(effect, error, self._some_times_s(error, attempts))

    def _end_write(self, effect: Written, error: ApiError | None, pause_s: float | None) -> float | None:
        """Tell of a write that is not tried again in ``pause_s``, and was not carried out."""
        if error is not None and pause_s is None:
            self._feedback.tell(NotWritten(effect, str(error)))
        return pause_s

    async def _set_condition(self, wanted: SetCondition | SetGroupCondition, attempts: int) -> float | None:
        async with self._pace.spare():
            error = await _error_of(self._patch_condition(wanted))
        return self._end_write(wanted, error, self._again_s(error, attempts))

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
        at = self._process.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}

    # ---- Events: tried some times

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
