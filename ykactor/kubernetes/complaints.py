"""Complaints about objects of the API server, told in Events by the process that leads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ykactor.kubernetes.messages import Event, Ref


class Complaints:
    """Complaints about objects. They are kept, so that a process that takes over tells what came while nobody led."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, Ref], Sequence[Event]] = {}
        self._unreadable: dict[tuple[str, Ref], Event] = {}
        #: Those that are not told yet, in order.
        self._untold: dict[Event, None] = {}

    def note(self, kind: str, ref: Ref, found: Sequence[Event]) -> None:
        """All that is wrong with an object; what was known before is not told again."""
        before = self._of.pop((kind, ref), ())
        for event in before:
            if event not in found:
                self._untold.pop(event, None)
        if found:
            self._of[kind, ref] = found
            self._untold.update((event, None) for event in found if event not in before)

    def note_unreadable(self, event: Event) -> None:
        """An object cannot be read; told for each of its versions."""
        self._unreadable[event.kind, event.ref] = event
        self._untold[event] = None

    def note_readable(self, kind: str, ref: Ref) -> None:
        """An object can be read, or is gone."""
        event = self._unreadable.pop((kind, ref), None)
        if event is not None:
            self._untold.pop(event, None)

    def keep_unreadable(self, kind: str, refs: Collection[Ref]) -> None:
        """Only these objects of a kind cannot be read."""
        for each, ref in list(self._unreadable):
            if each == kind and ref not in refs:
                self.note_readable(kind, ref)

    def forget_told(self) -> None:
        """Tell everything again."""
        self._untold = dict.fromkeys(event for events in (*self._of.values(), self._unreadable.values()) for event in events)

    def take_untold(self) -> list[Event]:
        """The complaints that are to be told now."""
        untold, self._untold = self._untold, {}
        return list(untold)
