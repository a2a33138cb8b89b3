"""Binds a pod, and finds out what became of it when the server does not say that it is bound."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from msgspec import Struct, field

from ykactor.kubernetes.api import Api, ApiError
from ykactor.kubernetes.lanes import Pace
from ykactor.kubernetes.messages import Bind, BindEnded, BindOutcome, CreatePlaceholder, FailPod, Ref, Stimulus
from ykactor.kubernetes.model import Pod
from ykactor.kubernetes.pods import has_ended

#: Answers that refuse a bind before the pod is handed back.
ATTEMPTS_MAX = 5
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
    """A bind that has not ended: how often it was refused, and True if it may have had its effect."""

    refusals: int = 0
    is_unsure: bool = False


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
            if error.status == 409 and bound.refusals < ATTEMPTS_MAX:
                return None  # what was in the way has gone
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
