"""One of several replicas leads: the holder of a Lease, with a number that is higher for each takeover.

A holder is one process, not a name. One that is started again under the same name waits until the Lease has run out, as any other
one does, because requests of the holder may still have their effect.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import trio
from msgspec import Struct

from ykactor.kubernetes.api import Api, ApiError
from ykactor.kubernetes.model import Lease
from ykactor.kubernetes.process import Outages, Process, micro

DURATION_S, RENEW_S = 15, 5.0
#: Who waits looks so often, because the Lease runs out by the time when its last renewal was seen.
LOOK_S = 2.0
#: A leader that could not renew for this part of the duration stops before another one may begin.
_TRUST = 2 / 3
#: What it has begun may go on for the rest of the duration: then another one may begin.
STOP_S = DURATION_S * (1 - _TRUST)
_RETRY_S = 1.0
#: Who lets another one lead does not take the Lease before this time.
PAUSE_S = 2.0 * DURATION_S
#: The annotation with the number of the newest takeover.
EPOCH = "ykactor.io/epoch"


class LeaseName(Struct, frozen=True):
    """The Lease, and who wants it: several processes may have the same ``identity``, which people read."""

    namespace: str
    name: str
    identity: str

    @property
    def path(self) -> str:
        """The path of all leases of the namespace."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"


class Leadership(Struct):
    """A time as the leader.

    Attributes:
        epoch: higher than that of each time before.
        has_open_requests: requests of it may have their effect after its end: another one may lead when a Lease has run out.
    """

    epoch: int
    has_open_requests: bool = False


async def lead_alone(lead: Callable[[Leadership], Awaitable[None]]) -> None:
    """Lead without a Lease. The next process may begin at once, so this one stays until a Lease would have run out."""
    leadership = Leadership(0)
    try:
        await lead(leadership)
    finally:
        if leadership.has_open_requests:
            with trio.CancelScope(shield=True):
                await trio.sleep(DURATION_S - STOP_S)


class Leader:
    """Takes and renews the Lease.

    Args:
        process: says when it begins and ends to lead; its random numbers tell the holder from others of the same identity.
        outages: are told when the Lease cannot be had.

    Attributes:
        leads: True while it holds the Lease.
    """

    def __init__(self, api: Api, name: LeaseName, process: Process, outages: Outages) -> None:
        self._api = api
        self._name = name
        self._holder = f"{name.identity}_{process.rng.getrandbits(64):016x}"
        self._process = process
        self._outages = outages
        self._what = f"the Lease {name.name}"
        #: What the Lease said when it was last seen to change, and when it runs out if it does not change again.
        self._seen: tuple[str, str] | None = None
        self._runs_out_s = 0.0
        self.leads = False

    async def run(self, lead: Callable[[Leadership], Awaitable[None]]) -> None:
        """Wait for the Lease, and lead while it is held, again and again.

        Args:
            lead: cancelled when the Lease is lost, and then ends within ``STOP_S``. It returns to let another process lead: the
                Lease is not taken again for ``PAUSE_S``.
        """
        while True:
            if await self.lead_once(lead):
                await trio.sleep(PAUSE_S)

    async def lead_once(self, lead: Callable[[Leadership], Awaitable[None]]) -> bool:
        """Wait for the Lease, and lead while it is held; True if ``lead`` has returned by itself."""
        gives_up = False
        held = await self._acquire()
        self._process.say(f"leads with epoch {held.epoch}")
        async with trio.open_nursery() as nursery:
            self.leads = True
            nursery.start_soon(self._renew, held, nursery.cancel_scope)
            try:
                await lead(held)
                gives_up = True
            finally:
                self.leads = False
                if not held.has_open_requests:
                    with trio.CancelScope(shield=True), trio.move_on_after(RENEW_S):
                        await self._release(held)
            nursery.cancel_scope.cancel()
        self._process.say("does not lead any more")
        return gives_up

    async def _acquire(self) -> _Held:
        while True:
            try:
                held = await self._try()
            except ApiError as error:
                held = None
                self._outages.failed(self._what, error)
            else:
                self._outages.over(self._what)
            if held is not None:
                return held
            look_s, now_s = LOOK_S * self._process.rng.uniform(0.8, 1.2), trio.current_time()
            await trio.sleep_until(min(now_s + look_s, self._runs_out_s if self._runs_out_s > now_s else math.inf))

    async def _try(self) -> _Held | None:
        """Take the Lease if nobody holds it, or its holder has not renewed it for its duration."""
        lease = await self._read()
        now_s = trio.current_time()
        if lease is not None and not self._has_run_out(lease, now_s):
            return None
        before = 0 if lease is None else _epoch_of(lease)
        now = self._process.now()
        held = _Held(max(before + 1, int(now.timestamp())), acquired=now, renewed_s=now_s)
        return held if await self._write(held, lease) else None

    def _has_run_out(self, lease: Lease, now_s: float) -> bool:
        spec = lease.spec
        if not spec.holder_identity or spec.holder_identity == self._holder:  # a request without an answer has taken it
            return True
        seen = spec.holder_identity, spec.renew_time or ""
        if seen != self._seen:
            self._seen, self._runs_out_s = seen, now_s + (spec.lease_duration_seconds or DURATION_S)
        return now_s >= self._runs_out_s

    async def _renew(self, held: _Held, scope: trio.CancelScope) -> None:
        """Renew until that fails for too long, or another one holds the Lease."""
        why = ""
        while not why:
            with trio.move_on_at(held.renewed_s + DURATION_S * _TRUST) as trusting:
                await trio.sleep(RENEW_S if trio.current_time() - held.renewed_s < RENEW_S else _RETRY_S)
                if not await self._try_renew(held):
                    why = "another one holds the Lease"
            if trusting.cancelled_caught:
                why = f"the Lease could not be renewed for {DURATION_S * _TRUST:.0f} s"
        self._process.warn(why)
        scope.cancel()

    async def _try_renew(self, held: _Held) -> bool:
        """Renew if the server answers; False if another one holds the Lease."""
        began_s = trio.current_time()
        with trio.move_on_after(RENEW_S):
            try:
                lease = await self._read()
                if lease is not None and self._is_of_another(lease, held):
                    return False
                if await self._write(held, lease):
                    held.renewed_s = began_s
            except ApiError:
                pass
        return True

    def _is_of_another(self, lease: Lease, held: _Held) -> bool:
        """True if another process has taken the Lease, and may have given it up since."""
        return lease.spec.holder_identity not in (self._holder, "", None) or _epoch_of(lease) > held.epoch

    async def _release(self, held: _Held) -> None:
        try:
            lease = await self._read()
            if lease is not None and lease.spec.holder_identity == self._holder and not self._is_of_another(lease, held):
                await self._write(held, lease, holder="")
        except ApiError:
            pass  # it runs out

    async def _read(self) -> Lease | None:
        try:
            return await self._api.read(f"{self._name.path}/{self._name.name}", Lease)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, held: _Held, lease: Lease | None, holder: str | None = None) -> bool:
        """Write the Lease over what was read; False if it has changed meanwhile."""
        body = self._body(held, lease, self._holder if holder is None else holder)
        try:
            if lease is None:
                await self._api.request("POST", self._name.path, body)
            else:
                await self._api.request("PUT", f"{self._name.path}/{self._name.name}", body)
        except ApiError as error:
            if error.status == 409:
                return False
            raise
        return True

    def _body(self, held: _Held, lease: Lease | None, holder: str) -> dict[str, Any]:
        is_other = lease is None or lease.spec.holder_identity != holder
        transitions = (lease.spec.lease_transitions or 0 if lease is not None else 0) + (1 if is_other and holder else 0)
        annotations = {EPOCH: str(held.epoch)}
        meta: dict[str, Any] = {"name": self._name.name, "namespace": self._name.namespace, "annotations": annotations}
        if lease is not None:
            meta["resourceVersion"] = lease.metadata.resource_version
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION_S,
            "acquireTime": micro(held.acquired),
            "renewTime": micro(self._process.now()),
            "leaseTransitions": transitions,
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


class _Held(Leadership, kw_only=True):
    """The Lease while it is held; ``renewed_s`` is when its last renewal began."""

    acquired: datetime
    renewed_s: float


def _epoch_of(lease: Lease) -> int:
    text = lease.metadata.annotations.get(EPOCH, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
