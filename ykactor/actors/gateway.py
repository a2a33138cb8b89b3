"""The interfaces of the daemon that sessions and the REST API use: what is read, which a replica has too, and what acts."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import trio
from msgspec import Struct

from ykactor.actors.commands import PartitionCommand
from ykactor.actors.feed import FeedActor
from ykactor.actors.health import HealthChecks
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.outbox import OutboxRegistry
from ykactor.actors.partition import Standing
from ykactor.actors.standbys import Standbys
from ykactor.actors.turn_stream import TurnStream
from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.inspection.process_status import Registration, StandbysStatus, UnconfirmedStatus
from ykactor.core.messages.submissions import Submission
from ykactor.core.objects.registry import Registry
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.names import ANY, Names
from ykactor.journal.terms import Terms


class ReadConfig(Protocol):
    """A configuration that was read and is not in force yet."""

    async def apply(self, *, afresh: bool = False, window: Any = None) -> str:
        """Apply it, or change nothing. Returns the checksum of the configuration in force when all partitions have published.

        Args:
            afresh: remove all nodes and applications first, so that nothing that runs prevents the change (SC-141).
            window: in which it has to be confirmed (``Confirming.window``); None: it stays.

        Raises:
            wire.si.protocol_error.ProtocolError: it cannot replace the configuration in force.
        """


class Confirming(Protocol):
    """The wait of a configuration for confirmation (CF-91).

    Each method raises ``wire.si.protocol_error.ProtocolError`` where none awaits it, or another one does.
    """

    def window(self, who: str, seconds: float) -> Any:
        """The time in which an operator has to confirm a configuration, for ``ReadConfig.apply``; refused out of its bounds."""

    async def settled(self) -> None:
        """Wait until no configuration awaits confirmation."""

    def check_settled(self) -> None:
        """Refuse what cannot wait while a configuration awaits confirmation."""

    async def confirm(self, if_checksum: str) -> str:
        """Keep the configuration; returns its checksum. Refused when its window is over."""

    async def roll_back(self) -> tuple[str, list[str]]:
        """Put the configuration of before back into force, or change nothing.

        Returns its checksum, and sentences about what stays of the other one.
        """


class ConfigText(Protocol):
    """A configuration, as readers are shown it."""

    @property
    def text(self) -> str: ...
    @property
    def checksum(self) -> str: ...


class Point(Struct, frozen=True):
    """A place in the history of a daemon.

    Attributes:
        term: to which the numbers belong; "" for the present one.
        event: the number of an event.
        turns: of each partition, the number of a turn (DU-24).
        is_beside: whether more is read than the partitions that ``turns`` names: what the daemon shows beside them has to be as
            new.
    """

    term: str = ""
    event: int = 0
    turns: Mapping[str, int] = {}
    is_beside: bool = False


#: Whether it is there, may come later, or is of another history.
Reached = Literal["there", "late", "elsewhere"]


class ReadGateway(Protocol):
    """The interface that readers need."""

    @property
    def partitions(self) -> Mapping[PartitionName, Mailbox[PartitionCommand]]:
        """The inbox of every partition, in the order of the configuration."""

    @property
    def feed(self) -> FeedActor:
        """The event feed."""

    @property
    def health(self) -> HealthChecks:
        """The health of the daemon."""

    @property
    def waits(self) -> str:
        """The reason for which nobody but standbys is let in yet, as a sentence; "" if everybody is."""

    @property
    def terms(self) -> Terms:
        """The terms of the history to which the numbers of events and messages belong."""

    @property
    def started_ns(self) -> int:
        """The Unix time at which the daemon was started."""

    @property
    def registration(self) -> Registration | None:
        """The resource manager that is registered; None if none is."""

    @property
    def standbys_status(self) -> StandbysStatus | None:
        """The standbys of a daemon; None if there can be none."""

    @property
    def unconfirmed(self) -> UnconfirmedStatus | None:
        """The configuration that is in force and awaits confirmation (CF-91); None if none does."""

    def standing(self, partition: PartitionName) -> Standing:
        """The state of a partition, and since when."""

    def registry(self, partition: PartitionName) -> Registry:
        """The owners in a partition, to be read only."""

    @property
    def config(self) -> ConfigText:
        """The configuration in force."""

    def queue_paths(self, partition: PartitionName) -> Iterable[str]:
        """The paths of all queues of a partition."""

    def now_ns(self) -> int:
        """The current Unix time of the daemon's clock."""

    def unavailable(self, partition: PartitionName) -> str:
        """The reason for which a partition cannot be read at present, which a replica may have; "" if it can."""

    def turn_of(self, partition: PartitionName) -> int:
        """The number of the newest turn of a partition; 0 if there is none."""

    async def reach(self, point: Point) -> Reached:
        """Wait, but not for long, until that is there of which who reads may have been told elsewhere."""


def turns_of(gateway: ReadGateway, shown: Names = ANY) -> dict[str, int]:
    """The number of the newest turn of each partition with one of these names."""
    return {name: gateway.turn_of(name) for name in gateway.partitions if name in shown}


class Gateway(ReadGateway, Protocol):
    """The interface that those need that act, and replicas; implemented by the daemon."""

    @property
    def outboxes(self) -> OutboxRegistry[Any]:
        """The outbox of the registered resource manager (``wire.si`` responses)."""

    @property
    def turns(self) -> TurnStream:
        """The stream of turns."""

    @property
    def standbys(self) -> Standbys | None:
        """The standbys of the journal; None without one."""

    @property
    def begun(self) -> trio.Event:
        """Set when clients other than standbys are let in."""

    @property
    def turns_before(self) -> Mapping[str, int]:
        """The number of the last turn of each partition before the present term."""

    @property
    def confirmation(self) -> Confirming:
        """The wait of the configuration in force for confirmation."""

    @property
    def is_switching(self) -> bool:
        """True while a configuration is put into force: partitions may have it, and ``config`` is the one before."""

    @property
    def changed(self) -> trio.lowlevel.ParkingLot:
        """Parks who waits for another configuration, registration or state of the journal."""

    def cycles(self) -> dict[PartitionName, dict[str, float]]:
        """The durations of the cycles of each partition (``TurnTimes.of_cycles``)."""

    def measured(self) -> bytes:
        """The metrics of the process, as a replica shows them, of the last second."""

    def supersede(self, term: str) -> None:
        """End at once: another daemon has taken over in this term."""

    def hand_over(self) -> None:
        """End in good order, so that a standby can take over; from now on nobody is told anything that no standby has."""

    def handed_over(self) -> None:
        """The standby that takes over has everything: this history goes on there."""

    @property
    def manual(self) -> bool:
        """True if cycles run only on request (``run_steps``)."""

    @property
    def config(self) -> SchedulerConfig:
        """The configuration in force."""

    def ahead_ns(self) -> int:
        """The time by which this clock is ahead of the corrected clock of the machine."""

    def reading_config(self, text: str, if_checksum: str = "", rm_id: str = "") -> AbstractAsyncContextManager[ReadConfig]:
        """Read a queue configuration, which can take minutes; it can be applied within the block.

        Until the end of the block other changes of the configuration wait.

        Args:
            text: the configuration; empty is the built-in default.
            if_checksum: only if this is the checksum of the current configuration; empty in any case.
            rm_id: the resource manager that has sent it, which is told when another sender replaces it; "" if it is from an
                operator.

        Raises:
            wire.si.protocol_error.ProtocolError: the text is invalid or the checksum differs.
        """

    async def reload_file(self) -> str:
        """Read the queue file again and put it into force, or change nothing; returns the checksum in force.

        Raises:
            wire.si.protocol_error.ProtocolError: there is none, it cannot be read, or it is invalid.
        """

    async def with_groups(self, partition: PartitionName, submissions: list[Submission]) -> list[Submission]:
        """Add the operating system's groups to users without groups, if the partition's resolver does so (QU-93)."""

    async def with_own_groups(self, partition: PartitionName, who: UserGroups) -> UserGroups:
        """An administrator with the groups of the operating system, under the same condition as ``with_groups``."""

    async def run_steps(self, steps: int) -> None:
        """Run ``steps`` cycles of at most one decision each in every partition; returns when they are published."""
