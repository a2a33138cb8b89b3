"""The limits of sessions (SE-48): how large messages may be, how fast they may come, and how much of them waits in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from ykactor.access.limits import Limits
from ykactor.core.messages.acts import Act
from ykactor.core.messages.submissions import exceeded
from ykactor.surfaces.admission.audit import AuditLog
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.pacing import TokenBucket
from ykactor.surfaces.log.logs import LimitedLog
from ykactor.surfaces.metrics.instruments import SessionCounts
from ykactor.wire.si.lengths import REQUEST_MAX

logger = logging.getLogger(__name__)

#: The most messages that are received together; with fewer bytes left they are received one by one. A step of a session
#: (``MessageQueue``) has no more.
_TOGETHER_MAX, _TOGETHER_BYTES = 64, 2**14


class SessionLimits:
    """The limits of a session. They are those of its caller at the moment, whatever they were when the session began.

    Args:
        counts: gets how often the session waits.
        bytes_max: of one message, whatever its caller may send; None: only the caller counts.

    Attributes:
        path: what the caller connected to, for log and audit.
    """

    def __init__(self, caller: Caller, audit: AuditLog, path: str, counts: SessionCounts, bytes_max: int | None = None) -> None:
        self._caller = caller
        self._audit = audit
        self.path = path
        self._counts = counts
        self._bytes_max = bytes_max
        self._messages = TokenBucket(lambda: caller.identity.limits.messages_per_second)
        self._bytes = TokenBucket(lambda: caller.identity.limits.bytes_per_second)
        self._log = LimitedLog(logger, logging.INFO, "session_throttled", lines=1, within_s=60.0)

    def refusal(self, size: int) -> str:
        """The refusal of a message of so many bytes that is too large; "" if it is not."""
        if self._bytes_max is not None and size > self._bytes_max:
            return f"a message has more than {self._bytes_max} bytes"
        identity = self._caller.identity
        if size > REQUEST_MAX and not identity.configure:
            return f"a message without a configuration has more than {REQUEST_MAX} bytes"
        most = identity.limits.message_bytes
        return exceeded("messageBytes", most, identity.name, "a message has more") if size > most else ""

    def refused(self, reason: str) -> None:
        """Tell the audit that something was refused, which ends the session."""
        self._audit.refused(self._caller, Act.SEND, self.path, reason)

    @property
    def together_max(self) -> int:
        """The number of messages that may be received together, when none has to wait."""
        return max(1, int(min(self._messages.tokens, _TOGETHER_MAX))) if self._bytes.tokens >= _TOGETHER_BYTES else 1

    def received(self, count: int, size: int) -> None:
        """So many messages were received, which have so many bytes."""
        self._messages.take(count)
        self._bytes.take(size)

    def has_to_wait(self) -> bool:
        """True if the next message has to wait."""
        if self._messages.tokens >= 1 and self._bytes.tokens >= 1:  # they are only taken when something was received
            return False
        return max(self._messages.delay_s(1), self._bytes.delay_s(1)) > 0

    async def wait(self) -> None:
        """Wait until the next message may be received: count it, and log it now and then."""
        limits = self._caller.identity.limits
        if self._messages.delay_s(1) >= self._bytes.delay_s(1):
            name, most = "messagesPerSecond", limits.messages_per_second
        else:
            name, most = "bytesPerSecond", limits.bytes_per_second
        reason = exceeded(name, most, self._caller.identity.name, "what follows has to wait")
        self._counts.waits += 1
        self._log.log(peer=self._caller.origin, path=self.path, reason=reason)
        await self._messages.wait(1)
        await self._bytes.wait(1)


# ---- the memory of what peers have sent and sessions have not finished, for the whole daemon


class Reader(Protocol):
    """A connection that gathers messages of its peer."""

    def refuse(self, code: int, reason: str) -> None:
        """Drop the peer, and forget what it has sent (``InputMemory.forget``)."""


#: The close code: the peer may try again later.
TRY_AGAIN_LATER = 1013


class InputMemory:
    """Counts the bytes of all input, and drops the peer with the most of it when there is too much.

    So a few peers that never finish their messages cannot keep others from sending: they are the ones that hold most.
    Requests that partitions have not finished count too (``Backlog``), but are taken and never dropped; a session holds a bounded
    part of them.

    Args:
        in_force: the limits of the access file, as they are now; ``waitingBytes`` counts (SE-48).
    """

    def __init__(self, in_force: Callable[[], Limits]) -> None:
        self._in_force = in_force
        #: Bytes of each reader, and of all of them and of requests.
        self._held: dict[Reader, int] = {}
        self._total = 0

    def add(self, reader: Reader, size: int) -> None:
        """``reader`` has got bytes of a message. May drop it, or another one."""
        self._held[reader] = self._held.get(reader, 0) + size
        self._total += size
        bytes_max = self._in_force().waiting_bytes
        while self._total > bytes_max and any(self._held.values()):
            largest = max(self._held, key=self._held.__getitem__)
            largest.refuse(TRY_AGAIN_LATER, f"limit waitingBytes = {bytes_max}: all peers have sent more, this one most")

    def release(self, reader: Reader, size: int) -> None:
        """A message of ``reader`` has been handled."""
        if reader in self._held:
            self._held[reader] -= size
            self._total -= size

    def forget(self, reader: Reader) -> None:
        """The connection of ``reader`` has ended."""
        self._total -= self._held.pop(reader, 0)

    def add_requests(self, size: int) -> None:
        """Requests of this size are waited for; a negative one: no more."""
        self._total += size
