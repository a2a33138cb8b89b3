"""Answers of commands that a test looks at."""

from collections.abc import Callable

from ykactor.actors.commands import Awaited, Failure
from ykactor.core.values.ids import PartitionName


class Heard(Awaited):
    """Notes everything.

    Args:
        note: called with the partition when the command is done.
    """

    def __init__(self, note: Callable[[PartitionName], object] = lambda _: None) -> None:
        super().__init__()
        self.failures: list[Failure] = []
        self.reasons: list[str] = []
        self._note = note

    def failed(self, failure: Failure) -> None:
        self.failures.append(failure)

    def exceeded(self, _: PartitionName, reason: str) -> None:
        self.reasons.append(reason)

    def done(self, partition: PartitionName, turn: int = 0) -> None:
        self._note(partition)
        super().done(partition, turn)
