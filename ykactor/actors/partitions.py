"""The running partitions, and the atomic change of all of them to another configuration (CF-58)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import trio

from ykactor.actors.commands import PartitionCommand, SwitchConfig
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.partition import PartitionActor
from ykactor.actors.supervision import Supervisor
from ykactor.actors.switch import TwoPhaseSwitch
from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.partition.reload import changeover
from ykactor.core.values.ids import PartitionName


async def _at_once(_: PartitionName) -> None:
    """Publishes at once what partitions publish, and keeps nothing of them."""


class Partitions:
    """A set of partition tasks.

    Args:
        make: makes a partition that does not run yet.
        forget: called with the name of a partition that has ended because it left the configuration, after all that it published.
        published: waits until the feed has published everything that it was given by a partition.
        welcome: tells a partition that has come with a configuration who is connected, by its inbox.

    Attributes:
        actors, inboxes: by name, in the order of creation.
    """

    def __init__(
        self,
        make: Callable[[PartitionConfig], PartitionActor],
        forget: Callable[[PartitionName], Awaitable[None]] = _at_once,
        published: Callable[[PartitionName], Awaitable[None]] = _at_once,
        welcome: Callable[[Mailbox[PartitionCommand]], None] = lambda _: None,
    ) -> None:
        self.actors: dict[PartitionName, PartitionActor] = {}
        self.inboxes: dict[PartitionName, Mailbox[PartitionCommand]] = {}
        self._make = make
        self._published = published
        self._welcome = welcome
        self._forget = forget
        self._supervisor: Supervisor | None = None

    async def start(self, nursery: trio.Nursery, config: SchedulerConfig, supervisor: Supervisor | None = None) -> None:
        """Start every partition of the first configuration. Without a supervisor the failure of one ends the nursery."""
        self._nursery, self._run = nursery, PartitionActor.run if supervisor is None else supervisor.run
        self._supervisor = supervisor
        for partition in config.partitions:
            await self._start(partition)

    async def _start(self, config: PartitionConfig) -> None:
        actor = self._make(config)
        await self._nursery.start(partial(self._run, actor), name=f"partition {config.name}")
        self.actors[config.name] = actor
        self.inboxes[config.name] = actor.inbox

    @property
    def stopped(self) -> Mapping[PartitionName, str]:
        """The partitions that are stopped, with the reason (``Supervisor.stopped``)."""
        return {} if self._supervisor is None else self._supervisor.stopped

    @property
    def resuming(self) -> frozenset[PartitionName]:
        """The partitions that start again by themselves (``Supervisor.resuming``)."""
        return frozenset() if self._supervisor is None else frozenset(self._supervisor.resuming)

    def are_behind(self, config: SchedulerConfig) -> bool:
        """True if a partition that runs has not applied its part of a configuration that is in force."""
        kept = changeover(self.actors, config).kept
        return any(self.actors[name].core.registry.config != kept[name] for name in kept.keys() - self.stopped.keys())

    async def switch(self, config: SchedulerConfig, *, more_follows: bool = False, afresh: bool = False) -> str:
        """Change to another configuration. Returns why a partition cannot, and nothing has changed; else "".

        Partitions that are no longer listed end, with everything that they run (CF-56). Returns when all effects are published.
        A partition that has agreed and then fails is stopped (``stopped``), and the others change.

        Args:
            more_follows, afresh: as in ``SwitchConfig``.

        Raises:
            trio.ClosedResourceError: the partitions are being closed.
        """
        change = changeover(self.actors, config)
        switch = TwoPhaseSwitch(change.kept)
        try:
            for name, partition in change.kept.items():
                await self.inboxes[name].put(SwitchConfig(partition, switch, more_follows, afresh))
            objection = await switch.outcome()
            switch.commit(accepted=not objection)
        finally:
            switch.commit(accepted=False)
        await switch.finished()
        if objection:
            return objection
        for partition in change.added:
            await self._start(partition)
            self._welcome(self.inboxes[partition.name])
        for name in self.actors:
            await self._published(name)
        for name in change.removed:
            await self._remove(name)
        return ""

    async def _remove(self, name: PartitionName) -> None:
        actor = self.actors.pop(name)
        del self.inboxes[name]
        actor.remove()
        await actor.finished.wait()
        await self._published(name)
        await self._forget(name)

    def close(self) -> None:
        """Let no partition accept more input."""
        for inbox in self.inboxes.values():
            inbox.close()

    async def finished(self) -> None:
        """Wait until every partition has ended."""
        for actor in list(self.actors.values()):  # a copy: the set may change meanwhile
            await actor.finished.wait()
