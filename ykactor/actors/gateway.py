"""What the sockets need of the daemon: the one door between sessions and actors."""

from collections.abc import Mapping
from typing import Any, Protocol

from ykactor.actors.commands import PartitionCommand
from ykactor.actors.feed import FeedActor
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.outbox import OutboxRegistry
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.submissions import Submission
from ykactor.core.values.ids import PartitionName


class Gateway(Protocol):
    """Implemented by the daemon."""

    @property
    def partitions(self) -> Mapping[PartitionName, Mailbox[PartitionCommand]]:
        """The inbox of every partition, in the order of the configuration."""

    @property
    def feed(self) -> FeedActor:
        """The event feed."""

    @property
    def outboxes(self) -> OutboxRegistry[Any]:
        """Who is registered, and what it is told (``wire.si`` responses)."""

    @property
    def manual(self) -> bool:
        """Whether cycles run only when they are asked for."""

    def now_ns(self) -> int:
        """Unix time, from the daemon's clock."""

    async def apply_config(self, text: str, if_checksum: str, *, afresh: bool = False) -> str:
        """Put a queue configuration into force and return its checksum; returns when every partition has published it.

        Args:
            text: the configuration; empty is the built-in default.
            if_checksum: apply only if this is the checksum of what runs; empty applies in any case.
            afresh: whoever brings it begins anew, nothing that runs can be in the way of a change (SC-141).

        Raises:
            wire.codec.ProtocolError: the text is wrong or the checksum is another; nothing has changed.
        """

    async def with_groups(self, partition: PartitionName, submissions: list[Submission]) -> list[Submission]:
        """The same with the groups of users who come without, if the partition's resolver asks the operating system (QU-93)."""

    async def with_own_groups(self, partition: PartitionName, who: UserGroups) -> UserGroups:
        """An administrator with the groups that the operating system knows, under the same conditions."""

    async def run_steps(self, steps: int) -> None:
        """Run this many passes of at most one decision each in every partition; returns when they are published."""
