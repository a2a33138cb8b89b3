"""A parent queue: it owns its settings and the set of its children."""

from typing import Any, TypeVar

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.holds import Hold
from ykactor.core.messages.states import QueueState
from ykactor.core.objects.commands import Adopt, Close, Configure, Disown, QueueCommand, SetHold
from ykactor.core.values.ids import QueuePath

R = TypeVar("R")


class ParentCore:
    """A parent queue: its settings and its children. Read freely between commands; written only by ``handle``."""

    def __init__(self, config: QueueConfig) -> None:
        self.path = config.path
        self.config = config
        self.state = QueueState.ACTIVE
        self.hold: Hold | None = None
        #: In the order in which they came.
        self.children: dict[QueuePath, None] = {}

    def handle(self, command: QueueCommand[R]) -> R:
        """Carry out one command. Returns its reply."""
        reply: R = self._carry_out(command)
        return reply

    def _carry_out(self, command: QueueCommand[Any]) -> Any:
        match command:
            case Configure():
                self.config = command.config
                self.state = command.state
            case SetHold(hold):
                self.hold = hold
            case Adopt(children):
                self.children.update(dict.fromkeys(children))
            case Disown(children):
                for child in children:
                    del self.children[child]
            case Close():
                self.children.clear()
            case _:
                raise TypeError(f"{command} is not for a parent")
        return None
