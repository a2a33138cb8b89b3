"""Slots: how many sessions and connections of a kind are open at a time, and how many of them a holder has (SE-48, SE-96).

A holder is an identity, and without one an address block (``Caller.holder``). One rule holds for all kinds: a holder has at most
a quarter of what the others leave. So nobody keeps others out, and many holders share what there is.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from ykactor.surfaces.net.descriptors import fitting

#: What the others leave is divided by it.
_SHARE = 4


class Slots:
    """The slots of one kind.

    Args:
        noun: what takes them, in the plural, for messages.
        most: how many there may be at present, if there are descriptors for them. A lower number takes nothing away.
    """

    def __init__(self, noun: str, most: Callable[[], int]) -> None:
        self._noun = noun
        self._wanted = most
        #: By holder, the oldest first.
        self._held: dict[str, dict[Slot, None]] = {}
        self._count = 0

    def _most(self) -> int:
        return fitting(self._wanted())

    def held(self, holder: str) -> int:
        """The number of slots that a holder has."""
        return len(self._held.get(holder, ()))

    def refusal(self, holder: str) -> str:
        """Why a holder gets no further slot; "" if it gets one."""
        held, most = self.held(holder), self._most()
        if self._count >= most:
            return f"{most} {self._noun} are open, no more are allowed"
        if held >= max(1, (most - self._count + held) // _SHARE):
            return f"{held} {self._noun} of {holder} are open, no more are allowed: a quarter of what others leave of {most}"
        return ""

    def take(self, holder: str, end: Callable[[], object] = lambda: None) -> Slot:
        """Take a slot, until the end of the block that it is entered for.

        Args:
            end: called when another one needs the slot (``make_room``).
        """
        return Slot(self, holder, end)

    def make_room(self, holder: str) -> str:
        """If a holder would get no further slot, end the oldest one of it, or of who has most where there is none at all.

        For what has shown nothing yet: the latest may be the one that will. Returns why it was ended; "" if there was room.
        """
        refusal = self.refusal(holder)
        if refusal and self._held:
            held = max(self._held.values(), key=len) if self._count >= self._most() else self._held[holder]
            oldest = next(iter(held))
            oldest.release()
            oldest.end()
        return refusal

    def add(self, slot: Slot) -> None:
        """Count a slot."""
        self._held.setdefault(slot.holder, {})[slot] = None
        self._count += 1

    def discard(self, slot: Slot) -> None:
        """Count a slot no longer, if it is counted."""
        held = self._held.get(slot.holder, {})
        if slot in held:
            del held[slot]
            self._count -= 1
        if not held:
            self._held.pop(slot.holder, None)


class Slot:
    """One slot.

    Attributes:
        slots: of which it is one.
        end: ends what has it.
    """

    def __init__(self, slots: Slots, holder: str, end: Callable[[], object]) -> None:
        self.slots = slots
        self.holder = holder
        self.end = end
        slots.add(self)

    def move(self, slots: Slots, holder: str) -> None:
        """Give it back, and take one of others, which must have one."""
        self.release()
        self.slots, self.holder = slots, holder
        slots.add(self)

    def release(self) -> None:
        """Give it back; nothing if that was done before."""
        self.slots.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.release()
