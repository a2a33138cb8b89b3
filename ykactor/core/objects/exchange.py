"""Exchanges: a core has commands carried out by owners without knowing how they are transported.

A core's work is a generator: it yields commands and is sent their replies in the same order. The actors carry the commands
over memory channels, ``sim.direct`` calls the owners in a loop.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeVar

from ykactor.core.objects.commands import NodeCommand, QueueCommand
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.registry import QueueCore

R = TypeVar("R")

#: A command and its owner.
Send = tuple[QueueCore, QueueCommand[R]] | tuple[NodeCore, NodeCommand[R]]
Sends = Sequence[Send[R]]

#: Work that returns an ``R`` at its end. It yields an empty list where other tasks may run: a pause. Nothing that the work reads
#: changes meanwhile. Where it pauses depends on its input only (``values.parts``).
Exchange = Generator[Sends[Any], list[Any], R]


def send(sends: Sends[R]) -> Exchange[list[R]]:
    """Have commands of one kind of reply carried out. Returns their replies, in the order of the commands."""
    replies: list[R] = yield sends
    return replies


class Owner(Protocol):
    """A queue or a node, for code that only delivers commands."""

    def handle(self, command: Any) -> Any:
        """Carry out one command. Returns its reply."""
