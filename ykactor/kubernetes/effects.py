"""Carries out what the state wants of the API server: binds before deletes, creations before conditions and Events."""

from __future__ import annotations

import math
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC
from typing import Any
from urllib.parse import quote

import trio
from msgspec import Struct, field

from ykactor.client.reconnecting import backoff_s
from ykactor.kubernetes.api import MERGE_PATCH, STRATEGIC_PATCH, Api, ApiError
from ykactor.kubernetes.lanes import Lane, Pace
from ykactor.kubernetes.leader import DURATION_S, STOP_S, Leadership
from ykactor.kubernetes.messages import (
    Bind,
    BindEnded,
    BindOutcome,
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
    Stimulus,
    Written,
)
from ykactor.kubernetes.model import Pod
from ykactor.kubernetes.pods import has_ended
from ykactor.kubernetes.process import Process, micro
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
        self._writer = EventWriter(api, pace, process, groups)
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
        leadership.has_open_requests = scope.cancelled_caught or self._binder.may_come_late()

    def waiting(self) -> dict[str, int]:
        """The number of items that wait in each lane."""
        return {name: len(lane) for name, (lane, _) in self._lanes.items()}

    def put(self, effect: Effect) -> None:
        """Carry out an effect on the API server soon."""
        match effect:
            case Bind():
                self.binds.put(effect.uid, effect)
            case SelectNode() | Nominate():
                self.selections.put(effect.uid, effect)
            case DeletePod():
                self.deletes.put(effect.uid, effect)
            case CreatePlaceholder() | FailPod():
                self.creations.put(effect.ref if isinstance(effect, CreatePlaceholder) else effect.uid, effect)
            case SetCondition() | SetGroupCondition():
                self.conditions.put(effect.uid if isinstance(effect, SetCondition) else effect.ref, effect)
            case Event():
                short = effect._replace(note=effect.note[:NOTE_MAX])
                self.events.put(key_of(short), short)
            case Dismiss(subject):
                for lane in (self.binds, self.selections, self.deletes, self.creations, self.conditions):
                    lane.dismiss(subject)
                self._binder.dismiss(subject)

    def _pause_s(self, attempts: int) -> float:
        return backoff_s(attempts, BACKOFF_FIRST_S, BACKOFF_MAX_S, self._process.rng)

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


# ---- binds

#: Answers that refuse a bind before the pod is handed back.
ATTEMPTS_MAX = 5
#: No answer, or that of a server that goes on with the request, which takes it too long.
_UNENDED = (0, 504)
_ASSIGNED = re.compile(r'is already assigned to node "([^"]*)"')


class Counts(Struct):
    """Counters of a process, over all its times as the leader.

    Attributes:
        binds: by outcome.
        conflicts: answers 409 to binds.
    """

    binds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BindOutcome, 0))
    conflicts: int = 0


class Feedback(Struct, frozen=True):
    """The state, for what carries out its effects.

    Attributes:
        tell: called with the results.
        is_wanted: True if a pod is to be bound, created or failed still; the server would bind one that has ended.
        counts: is added to.
    """

    tell: Callable[[Stimulus], None]
    is_wanted: Callable[[Bind | CreatePlaceholder | FailPod], bool]
    counts: Counts = field(default_factory=Counts)


class _Open(Struct):
    """A bind that has not ended.

    Attributes:
        refusals: how often it was refused.
        is_unsure: an attempt may have had its effect.
        late_until_s: an attempt that the server has not ended may have its effect up to this time.
    """

    refusals: int = 0
    is_unsure: bool = False
    late_until_s: float = -math.inf


class _Pods(Struct):
    items: list[Pod] | None = None


class Binder:
    """Binds pods, and knows of each open bind how often it was refused.

    Args:
        pace: binds take from it without waiting.
        pause_s: the pause after a number of attempts.
    """

    def __init__(self, api: Api, pace: Pace, feedback: Feedback, pause_s: Callable[[int], float]) -> None:
        self._api = api
        self._pace = pace
        self._feedback = feedback
        self._pause_s = pause_s
        self._open: dict[str | Ref, _Open] = {}

    async def bind(self, bind: Bind, attempts: int) -> float | None:
        """Try to bind a pod; returns the seconds until the next attempt, None if it has ended."""
        if not self._feedback.is_wanted(bind):
            self._end(bind, BindEnded(bind.key, BindOutcome.GONE, reason="the pod has ended"))
            return None
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": bind.ref.name, "namespace": bind.ref.namespace, "uid": bind.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
        path = f"/api/v1/namespaces/{bind.ref.namespace}/pods/{bind.ref.name}/binding"
        try:
            with self._pace.urgent():
                await self._api.request("POST", path, body)
        except ApiError as error:
            ended = await self._result(bind, error)
            if ended is None:
                return max(error.retry_after_s, self._pause_s(attempts))
        else:
            ended = BindEnded(bind.key, BindOutcome.DONE, bind.node)
        self._end(bind, ended)
        return None

    def dismiss(self, subject: str | Ref) -> None:
        """A pod is gone, and its bind is tried no more."""
        self._open.pop(subject, None)

    def may_come_late(self) -> bool:
        """True if a bind may have its effect although no request is open."""
        return any(trio.current_time() < each.late_until_s for each in self._open.values())

    def _end(self, bind: Bind, ended: BindEnded) -> None:
        self._open.pop(bind.uid, None)
        self._feedback.counts.binds[ended.outcome] += 1
        self._feedback.tell(ended)

    async def _result(self, bind: Bind, error: ApiError) -> BindEnded | None:
        """The result of an attempt that has failed; None if it has to be tried again.

        While there is no answer, the bind may have had its effect: another pod would be placed in its room if it were given up.
        """
        bound = self._open.setdefault(bind.uid, _Open())
        bound.is_unsure |= error.is_unknown
        if error.status in _UNENDED:
            bound.late_until_s = trio.current_time() + DURATION_S
        if not error.status:
            return None
        bound.refusals += 1
        if error.may_pass and bound.refusals < ATTEMPTS_MAX:
            return None
        if error.status == 409:
            self._feedback.counts.conflicts += 1
            assigned = _ASSIGNED.search(error.message)
            if assigned is not None:
                return BindEnded(bind.key, BindOutcome.TAKEN, assigned[1])
        if error.status == 409 or bound.is_unsure:
            try:
                found = await self._look(bind)
            except ApiError:
                return None  # the server does not say what became of the pod
            if found is not None:
                return found
            if trio.current_time() < bound.late_until_s or (error.status == 409 and bound.refusals < ATTEMPTS_MAX):
                return None  # it may be bound yet, or what was in the way has gone
        outcome = BindOutcome.GONE if error.status == 404 else BindOutcome.FAILED
        return BindEnded(bind.key, outcome, reason=str(error))

    async def _look(self, bind: Bind) -> BindEnded | None:
        """Read the pod: what keeps it from being bound; None for nothing."""
        query = f"fieldSelector={quote(f'metadata.name={bind.ref.name}', safe='')}"
        there = await self._api.read(f"/api/v1/namespaces/{bind.ref.namespace}/pods?{query}", _Pods)
        pod = next((each for each in there.items or () if each.metadata.uid == bind.uid), None)
        if pod is None or pod.metadata.deletion_timestamp or has_ended(pod):
            return BindEnded(bind.key, BindOutcome.GONE, reason="the pod is gone or ends")
        if pod.spec.node_name:
            return BindEnded(bind.key, BindOutcome.TAKEN, pod.spec.node_name)
        return BindEnded(bind.key, BindOutcome.GATED, reason="the pod has gates") if pod.spec.scheduling_gates else None


# ---- Events

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
        groups: as of ``Effects``.
    """

    def __init__(self, api: Api, pace: Pace, process: Process, groups: Callable[[], str]) -> None:
        self._api = api
        self._pace = pace
        self._process = process
        self._groups = groups
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
        series = {"series": {"count": written.count, "lastObservedTime": micro(self._process.now())}}
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
        version = self._groups().removeprefix("/apis/") if event.kind == "PodGroup" else _VERSIONS.get(event.kind, "v1")
        regarding = {"apiVersion": version, "kind": event.kind, "namespace": namespace, "name": event.ref.name}
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": micro(self._process.now()),
            "reportingController": "ykactor",
            "reportingInstance": self._process.identity[:128],
            "action": event.action,
            "reason": event.reason,
            "type": "Warning" if event.is_warning else "Normal",
            "regarding": regarding | ({"uid": event.uid} if event.uid else {}),
            "note": event.note,
        }
        await self._api.request("POST", _events(event), body)
        return _Written(name, event.note, 1, 0.0)


def _events(event: Event) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{event.ref.namespace or 'default'}/events"
