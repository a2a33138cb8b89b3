"""A parent queue: it owns its settings and the set of its children."""

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.states import QueueState
from ykactor.core.objects.commands import Adopt, Close, Configure, Disown, ParentCommand
from ykactor.core.values.ids import QueuePath


class ParentCore:
    """A parent queue: its settings and who its children are. Read freely between commands; written only by ``handle``."""

    def __init__(self, config: QueueConfig) -> None:
        self.path = config.path
        self.config = config
        self.state = QueueState.ACTIVE
        #: In the order in which they came.
        self.children: dict[QueuePath, None] = {}

    def handle(self, command: ParentCommand) -> object:
        """Carry out one command; there is nothing to answer."""
        match command:
            case Configure():
                self.config = command.config or self.config
                self.state = command.state
            case Adopt(children):
                self.children.update(dict.fromkeys(children))
            case Disown(children):
                for child in children:
                    del self.children[child]
            case Close():
                self.children.clear()
        return None
