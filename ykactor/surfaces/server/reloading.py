"""The one path of a configuration into the daemon, whoever brings it: the watched file, SIGHUP, a resource manager.

It is read, compared with what runs, and put into force in all partitions or in none (CF-58). Every attempt is a line of the log,
and one that fails is an event as well.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from subprocess import CalledProcessError
from typing import NamedTuple

import trio

from ykactor.actors.partitions import Partitions
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.facts import ConfigurationChanged
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.server.config_loader import load_config
from ykactor.surfaces.server.logs import get_logger, log_event
from ykactor.wire import queuefile
from ykactor.wire.si.codec import ProtocolError

log = get_logger(__name__)

#: Changes of one configuration that are logged one by one.
CHANGES_LOGGED_MAX = 200
_NOT_READ = "the configuration could not be read in a process of its own"


class _Change(NamedTuple):
    """A configuration on its way; ``reading`` ends when nobody waits for it any more, ``tell`` takes the outcome."""

    text: str
    if_checksum: str
    source: str
    afresh: bool
    reading: trio.CancelScope
    tell: Callable[[str | Exception], None]


class Reloading:
    """Changes of configuration, one after the other.

    Args:
        config: what runs.
        partitions: where it runs.
        refused: tells followers that a configuration was refused, and why.

    Attributes:
        config: what runs.
    """

    def __init__(self, config: SchedulerConfig, partitions: Partitions, refused: Callable[[str], Awaitable[None]]) -> None:
        self.config = config
        self._partitions = partitions
        self._refused = refused
        self._turn = trio.Lock()
        self._nursery: trio.Nursery

    def begin(self, nursery: trio.Nursery) -> None:
        """Changes are tasks of this nursery from now on."""
        self._nursery = nursery

    async def apply(self, text: str, if_checksum: str, source: str, *, afresh: bool = False) -> str:
        """Put a configuration into force, or change nothing; answers the checksum of what runs.

        The change is a task of its own: a caller that is cancelled ends the reading, but leaves no half of a change.

        Args:
            source: the file or who sent it, for messages.
            afresh: as in ``Gateway.apply_config``.

        Raises:
            ProtocolError: it is wrong, cannot follow what runs, or ``if_checksum`` is not what runs.
            trio.ClosedResourceError: we are stopping.
        """
        reading = trio.CancelScope()
        tell, answers = trio.open_memory_channel[str | Exception](1)
        self._nursery.start_soon(self._change, _Change(text, if_checksum, source, afresh, reading, tell.send_nowait))
        try:
            answer = await answers.receive()
        finally:
            reading.cancel()  # it has ended long ago, unless we are cancelled
        if isinstance(answer, ProtocolError):
            log_event(log, logging.ERROR, "config_refused", source=source, code=answer.code, reason=answer.message)
            await self._refused(answer.message)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _change(self, change: _Change) -> None:
        try:
            change.tell(await self._switch(change))
        except (ProtocolError, trio.ClosedResourceError, trio.BrokenResourceError) as refusal:
            change.tell(refusal)

    async def _switch(self, change: _Change) -> str:
        async with self._turn:  # reading too: what was said last is what runs
            if change.if_checksum and change.if_checksum.upper() != self.config.checksum:
                found = f"found {change.if_checksum}, what runs is {self.config.checksum}"
                raise ProtocolError("CHECKSUM_MISMATCH", found, "ifChecksum")
            with change.reading:
                config = await _load(change.text, change.source)
            if change.reading.cancelled_caught:
                raise ProtocolError("UNAVAILABLE", "nobody waits for it any more", "config")
            if config.checksum == self.config.checksum:  # CF-53
                log_event(log, logging.INFO, "config_unchanged", source=change.source, checksum=config.checksum)
                return config.checksum
            before = set(self._partitions.inboxes)
            objection = await self._partitions.switch(config, afresh=change.afresh)
            if objection:
                raise ProtocolError("CONFIG_REFUSED", objection, "config")
            self._tell_applied(config, change.source, before)
            self.config = config
            return config.checksum

    def _tell_applied(self, config: SchedulerConfig, source: str, before: set[PartitionName]) -> None:
        actors = self._partitions.actors
        for name in sorted(before ^ set(actors)):
            log_event(log, logging.INFO, "partition_added" if name in actors else "partition_removed", partition=name)
        queues = sum(len(actor.core.registry.queues) for actor in actors.values())
        log_event(log, logging.INFO, "config_applied", source=source, checksum=config.checksum, queues=queues)
        for warning in config.warnings:
            log_event(log, logging.WARNING, "config_value_replaced", reason=warning)


async def _load(text: str, source: str) -> SchedulerConfig:
    try:
        return await load_config(text, source)
    except queuefile.ConfigError as error:
        raise ProtocolError("CONFIG_REFUSED", str(error), "config") from None
    except CalledProcessError as error:
        last_words = (error.stderr or b"").decode(errors="replace").strip().rpartition("\n")[2]
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: {error} {last_words}".rstrip(), "config") from None
    except (OSError, ValueError, trio.TooSlowError) as error:
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: {error or type(error).__name__}", "config") from None


def log_changes(partition: PartitionName, fact: ConfigurationChanged) -> None:
    """What is different in a partition from now on; of very many changes the first."""
    for change in fact.changes[:CHANGES_LOGGED_MAX]:
        log_event(log, logging.INFO, "config_change", partition=partition, change=change)
    if len(fact.changes) > CHANGES_LOGGED_MAX:
        more = len(fact.changes) - CHANGES_LOGGED_MAX
        log_event(log, logging.INFO, "config_change", partition=partition, change=f"and {more} more")
