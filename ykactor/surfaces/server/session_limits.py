"""What one session may send (SE-48): how large its messages may be, and how fast they may come."""

from __future__ import annotations

import logging
import math

import trio

from ykactor.core.messages.held_limits import exceeded
from ykactor.core.messages.kinds import Act
from ykactor.surfaces.metrics.session_counts import SessionCounts
from ykactor.surfaces.server.audit import Audit
from ykactor.surfaces.server.caller import Caller
from ykactor.surfaces.server.limited_log import LimitedLog
from ykactor.wire.si.lengths import REQUEST_MAX

logger = logging.getLogger(__name__)

#: The shortest wait: a shorter one is left to the next message.
_WAIT_MIN_S = 1e-3


class SessionLimits:
    """The limits of a session. They are those of its caller at the moment, whatever they were when the session began.

    Args:
        path: what the caller connected to, for log and audit.
        counts: gets how often the session waits.
        bytes_max: of one message, whatever its caller may send; None: only the caller counts.
    """

    def __init__(self, caller: Caller, audit: Audit, path: str, counts: SessionCounts, bytes_max: int | None = None) -> None:
        self._caller = caller
        self._audit = audit
        self._path = path
        self._counts = counts
        self._bytes_max = bytes_max
        self._messages = Bucket()
        self._bytes = Bucket()
        self._log = LimitedLog(logger, logging.INFO, "session_throttled", lines=1, within_s=60.0)

    def refusal(self, size: int) -> str:
        """Why a message of so many bytes is too large; "" if it is not."""
        if self._bytes_max is not None and size > self._bytes_max:
            return f"a message has more than {self._bytes_max} bytes"
        identity = self._caller.identity
        if size > REQUEST_MAX and not identity.configure:
            return f"a message without a configuration has more than {REQUEST_MAX} bytes"
        most = identity.limits.message_bytes
        return exceeded("messageBytes", most, identity.name, "a message has more") if size > most else ""

    def refused(self, reason: str) -> None:
        """What the session has sent was refused, which ends it."""
        self._audit.refused(self._caller, Act.SEND, self._path, reason)

    def received(self, size: int) -> None:
        """A message of so many bytes was received."""
        self._messages.take(1)
        self._bytes.take(size)

    def delay_s(self) -> float:
        """How long to wait before the next message is received; 0: not at all."""
        delay_s, _, _ = self._strictest()
        return delay_s if delay_s >= _WAIT_MIN_S else 0.0

    def waits(self) -> None:
        """The session begins to wait: count it, and log it now and then."""
        _, name, most = self._strictest()
        reason = exceeded(name, most, self._caller.identity.name, "what follows has to wait")
        self._counts.waits += 1
        self._log.log(peer=self._caller.origin, path=self._path, reason=reason)

    def _strictest(self) -> tuple[float, str, int]:
        """The longest delay in seconds, and the name and the number of its limit."""
        limits = self._caller.identity.limits
        return max(
            (self._messages.delay_s(limits.messages_per_second), "messagesPerSecond", limits.messages_per_second),
            (self._bytes.delay_s(limits.bytes_per_second), "bytesPerSecond", limits.bytes_per_second),
        )


class Bucket:
    """A token bucket that holds what may be sent in one second, and begins full. More may be taken out, and is owed then."""

    def __init__(self) -> None:
        self._tokens = math.inf
        self._filled_s = trio.current_time()

    def take(self, count: int) -> None:
        """Take tokens out."""
        self._tokens -= count

    def delay_s(self, rate: int) -> float:
        """Seconds until there is a token, if so many are added in a second."""
        now_s = trio.current_time()
        self._tokens = min(rate, self._tokens + (now_s - self._filled_s) * rate)
        self._filled_s = now_s
        return max(0.0, (1 - self._tokens) / rate)
