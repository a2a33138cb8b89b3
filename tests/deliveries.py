"""The delivery of facts and events, as the feed of a test has it."""

from collections.abc import Callable, Sequence
from typing import Any

from ykactor.actors.ring import EventRecordLike
from ykactor.core.messages.facts import Fact
from ykactor.core.values.ids import PartitionName
from ykactor.wire.si.events import events, mentioned


class FakeDelivery:
    """Renders and delivers as the test wants."""

    def __init__(
        self,
        render: Callable[[Fact, PartitionName, int], Sequence[EventRecordLike]] = events,
        deliver: Callable[[PartitionName, list[Fact]], object] = lambda *_: None,
        mentioned: Callable[[list[Any]], set[str]] = mentioned,
    ) -> None:
        self.render = render
        self.deliver = deliver
        self.mentioned = mentioned


def nothing(_: list[Any]) -> set[str]:
    """Events are about nothing."""
    return set()
