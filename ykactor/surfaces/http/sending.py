"""Sending large answers, which takes time of the event loop as making them does: 0.5 ms to copy a megabyte into a socket."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ykactor.surfaces.admission.pace import Turns
from ykactor.surfaces.http.load import Effort, Load

#: What all readers together may take of the time for it while the loop is busy, and else; of that for which it has a processor.
BUSY_SHARE, IDLE_SHARE = 0.02, 0.1
#: The time of which the share may be taken at once: a large answer now and then does not wait.
BURST_S = 1.0
#: So much of an answer needs no turn.
FREE_BYTES = 2**16
#: Different large bodies that are being sent have no more bytes together: each is in memory until the last has taken it. Of what
#: others leave of it, a holder (``slots``) has a quarter, or one body.
BYTES_MAX = 2**28
_HOLDER_SHARE = 4
#: What is expected to be taken, in CPU seconds for a byte, until it was measured.
_COST_S = 0.5e-9
#: How much the last measurement counts.
_WEIGHT = 0.1


class _Body(NamedTuple):
    """A large body that is being sent: how many times at once, its bytes, and who was the first to read it."""

    readers: int
    length: int
    holder: str


class Sending:
    """The CPU time of the loop that large answers may take while they are sent. Those who read them take turns."""

    def __init__(self) -> None:
        self.turns = Turns(BURST_S)
        self._load = Load()
        self._cost_s = _COST_S
        #: By the identity of their parts.
        self._bodies: dict[int, _Body] = {}

    async def send(self, holder: str, length: int, sending: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Send a part of so many bytes when it is the turn of who reads it."""
        share = (BUSY_SHARE if self._load.is_busy() else IDLE_SHARE) * self._load.own()
        expected_s, effort = length * self._cost_s, Effort()
        await self.turns.wait(holder, expected_s / share)
        try:
            await effort.awaited(sending())
        finally:
            self.turns.take((effort.seconds - expected_s) / share)
        self._cost_s += _WEIGHT * (effort.seconds / length - self._cost_s)

    def has_room(self, holder: str, parts: Sequence[bytes]) -> bool:
        """True if a body may be sent too: small ones may, and those that somebody else is being sent."""
        length = sum(map(len, parts))
        if length <= FREE_BYTES or id(parts) in self._bodies:
            return True
        held = sum(body.length for body in self._bodies.values() if body.holder == holder)
        others = sum(body.length for body in self._bodies.values()) - held
        if not held:
            return others + length <= max(BYTES_MAX, length)
        return held + length <= (BYTES_MAX - others) // _HOLDER_SHARE

    @contextmanager
    def kept(self, holder: str, parts: Sequence[bytes]) -> Iterator[None]:
        """A body is being sent within this block."""
        key, length = id(parts), sum(map(len, parts))
        if length <= FREE_BYTES:
            yield
            return
        body = self._bodies.get(key, _Body(0, length, holder))
        self._bodies[key] = body._replace(readers=body.readers + 1)
        try:
            yield
        finally:
            body = self._bodies.pop(key)
            if body.readers > 1:
                self._bodies[key] = body._replace(readers=body.readers - 1)
