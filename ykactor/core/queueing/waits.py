"""Histories of what asks wait for, as codes, so that it is known of each ask when its wait ends (AP-154).

Many asks wait for the same, so a code is kept once for all of them: of an equivalence class, or of an application that is kept
back. Their ``AskQueue`` follows this history. When it changes to another one, the part before is kept as its past, whatever
the number of its asks. Only a single ask that waits for something of its own has an ``AskWait``. To arrive costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from ykactor.core.messages.changed import Changed
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.values.ids import ApplicationID, QueuePath

#: The newest changes of a history that are kept one by one.
CHANGES_MAX = 16
_NAME_BYTES = 12
_ENCODER = msgspec.json.Encoder()
_NEXT = PendingCode.NEXT

#: By code, for how long something was waited for, in nanoseconds.
Waited = dict[PendingCode, int]


def count(found: Waited, code: PendingCode, ns: int) -> None:
    """Add a time."""
    if ns > 0:
        found[code] = found.get(code, 0) + ns


class CodeHistory(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The codes of one class or application: the last changes, and before these the sums of older ones.

    Attributes:
        first: the code before everything else.
        changes: since when, and the code.
        merged: what is older than ``changes``, from ``merged_from_ns`` on, by code.
    """

    first: PendingCode = _NEXT
    changes: list[tuple[int, PendingCode]] = field(default_factory=list)
    merged_from_ns: int = 0
    merged: Waited = field(default_factory=dict)

    @property
    def code(self) -> PendingCode:
        """The present code."""
        return self.changes[-1][1] if self.changes else self.first

    def is_plain(self) -> bool:
        """True if there was one code only."""
        return not (self.changes or self.merged)

    def copy(self) -> CodeHistory:
        """A copy, which goes on by itself."""
        return CodeHistory(self.first, list(self.changes), self.merged_from_ns, dict(self.merged))

    def change(self, now_ns: int, code: PendingCode) -> None:
        """Begin another code; nothing was waited for one that ends when it begins."""
        changes = self.changes
        while changes and changes[-1][0] >= now_ns:
            changes.pop()
        if (changes or not self.merged) and self.code is code:
            return
        changes.append((now_ns, code))
        if len(changes) > CHANGES_MAX:
            self._merge(*changes.pop(0), changes[0][0])

    def _merge(self, since_ns: int, code: PendingCode, until_ns: int) -> None:
        if not self.merged:
            self.merged_from_ns = since_ns
        count(self.merged, code, until_ns - since_ns)

    def add_to(self, found: Waited, from_ns: int, until_ns: int) -> None:
        """Add what was waited for between two times. The sum is exact; of merged changes the parts are in proportion."""
        for since_ns, code in reversed(self.changes):
            if since_ns < until_ns:
                begin_ns = max(since_ns, from_ns)
                count(found, code, until_ns - begin_ns)
                until_ns = begin_ns
            if since_ns <= from_ns:
                return
        if self.merged and self.merged_from_ns < until_ns:
            begin_ns = max(self.merged_from_ns, from_ns)
            self._share(found, until_ns - begin_ns)
            until_ns = begin_ns
        count(found, self.first, until_ns - from_ns)

    def _share(self, found: Waited, ns: int) -> None:
        """Add a part of what is merged; the last code takes what divisions leave."""
        left = sum(self.merged.values())
        for code, amount in self.merged.items():
            share = ns * amount // left
            count(found, code, share)
            ns, left = ns - share, left - amount

    def extend(self, other: CodeHistory, from_ns: int, until_ns: int) -> None:
        """Go on with what another history has between two times, the first of which is the end of this one."""
        begin_ns = min(other.changes[0][0], until_ns) if other.changes else until_ns
        before: Waited = {}
        other.add_to(before, from_ns, begin_ns)
        if len(before) > 1:
            for (since_ns, code), (end_ns, _) in zip(self.changes, [*self.changes[1:], (from_ns, _NEXT)], strict=True):
                self._merge(since_ns, code, end_ns)
            self.changes.clear()
            if not self.merged:
                self.merged_from_ns = from_ns
            for code, ns in before.items():
                count(self.merged, code, ns)
        elif before:
            self.change(from_ns, next(iter(before)))
        for since_ns, code in other.changes:
            if since_ns < until_ns:
                self.change(max(since_ns, from_ns), code)


class QueuePast(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The past of a queue of asks: what they waited for before it followed its present history, and since when it does."""

    history: CodeHistory
    joined_ns: int


class AskWait(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The wait of one ask that is not that of its queue.

    Attributes:
        since_ns: what it waits for counts from here.
        code: what it waits for; None for what its queue waits for.
        before: what it waited for before.
    """

    since_ns: int
    code: PendingCode | None = None
    before: Waited = field(default_factory=dict)


def name_of(*parts: object) -> str:
    """A short name of what these parts identify, the same in every process."""
    return blake2b(_ENCODER.encode(parts), digest_size=_NAME_BYTES).hexdigest()


class Waits:
    """The histories of a partition that say anything, by the names of their rows.

    Attributes:
        changed: notes changed rows.
        now_ns: the Unix time of the present turn.
        has_nodes: True if there is a node; without one nothing is tried.
        classes: by leaf and class.
        queues: by application and queue of asks.
        is_rebuilding: True while orders are rebuilt, and their classes made again.
    """

    def __init__(self, changed: Changed) -> None:
        self.changed = changed
        self.now_ns = 0
        self.has_nodes = False
        self.classes: KeptRows[tuple[QueuePath, str], CodeHistory] = KeptRows(lambda key: changed.ask_class(*key))
        self.queues: KeptRows[tuple[ApplicationID, str], QueuePast] = KeptRows(lambda key: changed.ask_queue(*key))
        self.is_rebuilding = False
        self._unclaimed: set[tuple[QueuePath, str]] = set()

    def change(self, path: QueuePath, name: str, history: CodeHistory, code: PendingCode) -> None:
        """Begin another code of a class."""
        history.change(self.now_ns, code)
        self.classes[path, name] = history

    # ---- classes that are made again

    def release(self, keys: Iterable[tuple[QueuePath, str]]) -> None:
        """Let the histories of these classes be claimed until ``end_rebuilding``."""
        self.is_rebuilding = True
        self._unclaimed.update(keys)

    def restore(self, rows: Iterable[tuple[tuple[QueuePath, str], CodeHistory]]) -> None:
        """Restore histories; their classes claim them when they are made."""
        self.classes.restore(rows)
        self.release(self.classes)

    def claim(self, path: QueuePath, name: str) -> CodeHistory | None:
        """The history of a class that is made again; None if it has none."""
        if (path, name) not in self._unclaimed:
            return None
        self._unclaimed.discard((path, name))
        return self.classes[path, name]

    def drop(self, path: QueuePath, name: str) -> None:
        """Drop the history of a class that is empty; while orders are rebuilt it may be made once more."""
        if self.is_rebuilding:
            self._unclaimed.add((path, name))
        else:
            del self.classes[path, name]

    def end_rebuilding(self) -> None:
        """Drop the histories of classes that were not made again."""
        for key in self._unclaimed:
            del self.classes[key]
        self._unclaimed.clear()
        self.is_rebuilding = False
