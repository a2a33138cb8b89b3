"""The refusals at a replica: in its log, and told its daemon, which audits them (SE-74)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ykactor.core.messages.facts import Audited
from ykactor.surfaces.admission.audit import AuditLog
from ykactor.surfaces.admission.pacing import TokenBucket
from ykactor.wire.turns import Refused, encode

#: So many are kept until the daemon has been told; of more the oldest are in the log only.
KEPT_MAX = 1000
#: So many are told in a second, after a pause as many as in so many seconds; each stands for all of its origin in a minute.
RATE = 5.0
BURST_S = 10.0


class Stream(Protocol):
    """A connection to the daemon."""

    async def send(self, data: bytes) -> None: ...


class Refusals(AuditLog):
    """Logs as ``AuditLog``, and keeps refusals for the daemon."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        super().__init__(now_ns)
        self._kept: deque[Refused] = deque(maxlen=KEPT_MAX)
        self._pace = TokenBucket(lambda: RATE, BURST_S)

    async def send(self, stream: Stream) -> None:
        """Tell the daemon of refusals, as many as the pace allows now. One is lost if the connection ends meanwhile."""
        while self._kept and not self._pace.delay_s(1):
            self._pace.take(1)
            await stream.send(encode(self._kept.popleft()))

    async def _tell(self, fact: Audited) -> None:
        await super()._tell(fact)
        if fact.refusal:
            self._kept.append(Refused(fact.who, fact.origin, fact.role, fact.act, fact.target, fact.refusal, fact.times))
