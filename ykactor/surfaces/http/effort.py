"""How long work takes that pauses."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from ykactor.actors.clock import worked_s
from ykactor.core.values.parts import Pausing

R = TypeVar("R")


class Effort:
    """Adds up what work takes of the event loop: without its pauses, and without what other programs take of the machine.

    Attributes:
        seconds: of all work so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def measured(self, work: Pausing[R]) -> Pausing[R]:
        """The same work."""
        while True:
            since_s = worked_s()
            try:
                next(work)
            except StopIteration as stop:
                result: R = stop.value
                return result
            finally:
                self.seconds += worked_s() - since_s
            yield ()

    @types.coroutine
    def awaited(self, work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
        """Await a coroutine of trio; what it waits for is not counted."""
        answer = None
        try:
            while True:
                since_s = worked_s()
                try:
                    wanted = work.send(answer)
                except StopIteration as stop:
                    result: R = stop.value
                    return result
                finally:
                    self.seconds += worked_s() - since_s
                answer = yield wanted
        finally:
            work.close()
