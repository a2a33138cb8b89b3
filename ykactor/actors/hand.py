"""The commands that a partition has taken from its inbox and not finished; they outlive a failure of the partition.

Submissions that follow each other are handled together if their senders have the same limits. If a turn with several messages
fails, each of them is tried again alone, so that the one that makes the partition fail can be told from the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Struct

from ykactor.actors.commands import Administer, Intake, PartitionCommand, Quiesce, Read, RunCycles, SwitchConfig, TakeSnapshot
from ykactor.actors.receipts import Accepted
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.submissions import AddApplication, Submission, UpdateNode

#: Submissions handled before other tasks run (about 10 us each).
CHUNK_MAX = 500
#: Groups, tags and attributes of submissions that are handled together, unless a single one has more: each phase of a turn, its
#: events and its record look at all of them.
TEXTS_MAX = 50_000

#: Commands that are handled alone.
Alone = SwitchConfig | Administer | RunCycles | TakeSnapshot | Read | Quiesce
_ALONE = (SwitchConfig, Administer, RunCycles, TakeSnapshot, Read, Quiesce)
Message = Submission | Alone


class Culprit(NamedTuple):
    """A message that makes the partition fail, and the command that it came with, which may be the message itself."""

    message: Message
    command: PartitionCommand


class _Left(Struct):
    """The number of submissions of an ``Intake`` that are not handled."""

    intake: Intake
    count: int


class Hand:
    """Commands in the order in which they were taken. An ``Intake`` stands behind those of its submissions that are left."""

    def __init__(self) -> None:
        self._items: deque[Message | Intake] = deque()
        #: The same ``Intake``s, each with the number of its submissions that are left.
        self._intakes: deque[_Left] = deque()
        #: How many of the first messages are being handled.
        self._begun = 0
        #: How many of the first messages are handled alone, because one of them may have made the partition fail.
        self._suspects = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def take(self, commands: Iterable[PartitionCommand]) -> None:
        """Add commands behind the others; what is read comes last of them, so that readers do not cut input into more turns.

        Their submissions are taken out of them, so that few are freed at a time.
        """
        for command in sorted(commands, key=_is_read):
            if isinstance(command, Intake):
                self._items.extend(command.submissions)
                self._intakes.append(_Left(command, len(command.submissions)))
                command.submissions.clear()
            self._items.append(command)

    def next(self) -> list[Submission] | Alone:
        """The messages to handle now: submissions, possibly none, or a command."""
        first = self._items[0]
        if isinstance(first, _ALONE):
            self._begun = 1
            return first
        portion = self._portion(1 if self._suspects else self._count_alike())
        self._begun = len(portion)
        return portion

    def _portion(self, count_max: int) -> list[Submission]:
        portion: list[Any] = []
        texts = 0
        for item in self._items:
            kind = type(item)  # ``isinstance`` takes several times as long, and there can be many
            if kind is Intake:
                continue
            if kind in _ALONE or len(portion) == count_max:
                break
            if kind is not Ask or item.tags:  # type: ignore[union-attr]  # the type is exact
                texts += _texts(item)
                if texts > TEXTS_MAX and portion:
                    break
            portion.append(item)
        return portion

    def _count_alike(self) -> int:
        """The number of the first submissions that can be handled together."""
        count, limits = 0, None
        for each in self._intakes:
            if each.count and count and each.intake.limits != limits:
                break
            if each.count:
                limits = each.intake.limits
            count += each.count
            if count >= CHUNK_MAX:
                return CHUNK_MAX
        return count

    def sender(self) -> Intake:
        """The command with the first of the submissions that ``next`` returned; the others have the same limits."""
        return next(each.intake for each in self._intakes if each.count)

    def parts(self) -> list[tuple[Accepted, bool]]:
        """The requests of which something is in what ``next`` returned, and whether that is the rest of it."""
        found: list[tuple[Accepted, bool]] = []
        begun = self._begun
        for each in self._intakes:
            if not begun:
                break
            part = min(begun, each.count)
            if part and each.intake.accepted is not None:
                found.append((each.intake.accepted, part == each.count))
            begun -= part
        return found

    def finish(self) -> list[Intake]:
        """Note that what ``next`` returned was handled. Returns the commands that are finished by that."""
        items, left = self._items, self._begun
        finished: list[Any] = []
        if items and not isinstance(items[0], _ALONE):
            self._count_down(left)
        while items and (left or type(items[0]) is Intake):
            item = items.popleft()
            if type(item) is Intake:
                self._intakes.popleft()
                finished.append(item)
            else:
                left -= 1
        self._suspects = max(0, self._suspects - self._begun)
        self._begun = 0
        return finished

    def fail(self) -> Culprit | None:
        """Note that what ``next`` returned has failed.

        Returns the message that has now failed alone, after it had failed before; None: all is to be tried again.
        """
        begun, self._begun = self._begun, 0
        if not (begun and self._suspects):
            self._suspects = begun
            return None
        position = self._first()
        message = self._items[position]
        assert not isinstance(message, Intake)
        behind = (item for item in islice(self._items, position, None) if isinstance(item, Intake))
        return Culprit(message, message if isinstance(message, _ALONE) else next(behind))

    def take_out(self) -> None:
        """Do not handle the first message; the ``Intake`` that it came with stays."""
        position = self._first()
        if not isinstance(self._items[position], _ALONE):
            self._count_down(1)
        del self._items[position]
        self._suspects -= 1

    def _count_down(self, count: int) -> None:
        """So many of the first submissions are handled, or will not be."""
        for each in self._intakes:
            part = min(count, each.count)
            each.count -= part
            count -= part
            if not count:
                break

    def _first(self) -> int:
        return next(position for position, item in enumerate(self._items) if not isinstance(item, Intake))

    def give_up(self) -> list[PartitionCommand]:
        """Take out everything; returns the commands that are not finished."""
        left = [item for item in self._items if isinstance(item, (Intake, *_ALONE))]
        self._items.clear()
        self._intakes.clear()
        self._begun = self._suspects = 0
        return left


def _texts(item: Any) -> int:
    """The groups, tags and attributes of a submission."""
    match item:
        case Ask():
            return len(item.tags)
        case AddApplication():
            return len(item.groups) + len(item.tags)
        case UpdateNode():
            return len(item.attributes)
    return 0


def _is_read(command: PartitionCommand) -> bool:
    return isinstance(command, Read)
