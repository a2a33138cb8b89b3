"""The commands that a partition has taken from its inbox and not finished; they outlive a failure of the partition.

Submissions that follow each other are handled together if their senders have the same limits. If a turn with several messages
fails, each of them is tried again alone, so that the one that makes the partition fail can be told from the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
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
Message = Submission | Alone


class Culprit(NamedTuple):
    """A message that makes the partition fail, and the command that it came with, which may be the message itself."""

    message: Message
    command: PartitionCommand


class _Taken(Struct):
    """A command with its messages that are not handled: the submissions of an ``Intake``; any other command is one message."""

    command: PartitionCommand
    left: deque[Any]


class Hand:
    """Commands in the order in which they were taken."""

    def __init__(self) -> None:
        self._taken: deque[_Taken] = deque()
        #: How many of the first messages are being handled.
        self._begun = 0
        #: How many of the first messages are handled alone, because one of them may have made the partition fail.
        self._suspects = 0

    def __bool__(self) -> bool:
        return bool(self._taken)

    def take(self, commands: Iterable[PartitionCommand]) -> None:
        """Add commands behind the others; what is read comes last of them, so that readers do not cut input into more turns.

        Their submissions are taken out of them, so that few are freed at a time.
        """
        for command in sorted(commands, key=lambda command: isinstance(command, Read)):
            if isinstance(command, Intake):
                self._taken.append(_Taken(command, deque(command.submissions)))
                command.submissions.clear()
            else:
                self._taken.append(_Taken(command, deque([command])))

    def next(self) -> list[Submission] | Alone:
        """The messages to handle now: submissions, possibly none, or a command."""
        first = self._taken[0].command
        if not isinstance(first, Intake):
            self._begun = 1
            return first
        portion = self._portion(1 if self._suspects else CHUNK_MAX)
        self._begun = len(portion)
        return portion

    def _portion(self, count_max: int) -> list[Submission]:
        """The first submissions that can be handled together, which have the same limits."""
        portion: list[Submission] = []
        texts, limits = 0, None
        for each in self._taken:
            if not isinstance(each.command, Intake) or (portion and each.left and each.command.limits != limits):
                break
            for item in each.left:
                if len(portion) == count_max:
                    return portion
                if type(item) is not Ask or item.tags:  # ``isinstance`` takes several times as long, and there can be many
                    texts += _texts(item)
                    if texts > TEXTS_MAX and portion:
                        return portion
                portion.append(item)
                limits = each.command.limits
        return portion

    def sender(self) -> Intake:
        """The command with the first of the submissions that ``next`` returned; the others have the same limits."""
        command = self._taken[self._first()].command
        assert isinstance(command, Intake)
        return command

    def parts(self) -> list[tuple[Accepted, bool]]:
        """The requests of which something is in what ``next`` returned, and whether that is the rest of it."""
        found: list[tuple[Accepted, bool]] = []
        begun = self._begun
        for each in self._taken:
            if not begun:
                break
            part = min(begun, len(each.left))
            if part and isinstance(each.command, Intake) and each.command.accepted is not None:
                found.append((each.command.accepted, part == len(each.left)))
            begun -= part
        return found

    def finish(self) -> list[Intake]:
        """Note that what ``next`` returned was handled. Returns the commands that are finished by that."""
        taken, finished, handled = self._taken, list[Intake](), self._begun
        while taken and (handled or not taken[0].left):
            command, left = taken[0].command, taken[0].left
            while handled and left:
                left.popleft()
                handled -= 1
            if not left:
                taken.popleft()
                if isinstance(command, Intake):
                    finished.append(command)
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
        first = self._taken[self._first()]
        return Culprit(first.left[0], first.command)

    def take_out(self) -> None:
        """Do not handle the first message; the ``Intake`` that it came with stays."""
        position = self._first()
        self._taken[position].left.popleft()
        if not isinstance(self._taken[position].command, Intake):
            del self._taken[position]
        self._suspects -= 1

    def _first(self) -> int:
        """The position of the first command with a message that is left."""
        return next(position for position, each in enumerate(self._taken) if each.left)

    def give_up(self) -> list[PartitionCommand]:
        """Take out everything; returns the commands that are not finished."""
        commands = [each.command for each in self._taken]
        self._taken.clear()
        self._begun = self._suspects = 0
        return commands


def _texts(item: Submission) -> int:
    """The groups, tags and attributes of a submission."""
    match item:
        case Ask():
            return len(item.tags)
        case AddApplication():
            return len(item.groups) + len(item.tags)
        case UpdateNode():
            return len(item.attributes)
    return 0
