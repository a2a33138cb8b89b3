"""Changes of the configuration of a running daemon: from the watched file, on SIGHUP, or by a resource manager.

A configuration is read, compared with the one in force, and applied in all partitions or in none (CF-58). Every attempt is
logged; one that fails is also reported as an event.
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

#: The number of changes of one configuration that are logged one by one.
CHANGES_LOGGED_MAX = 200
_NOT_READ = "the process that reads the configuration failed"


class _Change(NamedTuple):
    """A requested change. ``reading`` is cancelled when its caller no longer waits; ``report`` takes its result."""

    text: str
    if_checksum: str
    source: str
    afresh: bool
    reading: trio.CancelScope
    report: Callable[[str | Exception], None]


class Reloading:
    """Applies changes of the configuration, one after the other.

    Args:
        config: the first configuration.
        partitions: the running partitions.
        refused: reports to followers that a configuration was refused, and why.

    Attributes:
        config: the configuration in force.
    """

    def __init__(self, config: SchedulerConfig, partitions: Partitions, refused: Callable[[str], Awaitable[None]]) -> None:
        self.config = config
        self._partitions = partitions
        self._refused = refused
        self._turn = trio.Lock()
        self._nursery: trio.Nursery

    def begin(self, nursery: trio.Nursery) -> None:
        """Run changes as tasks of this nursery, from now on."""
        self._nursery = nursery

    async def apply(self, text: str, if_checksum: str, source: str, *, afresh: bool = False) -> str:
        """Apply a configuration, or change nothing; returns the checksum of the configuration in force.

        The change runs in its own task: if the caller is cancelled, reading stops, but a change under way is completed.

        Args:
            source: the name of the file, or of the sender, for messages.
            afresh: as in ``Gateway.apply_config``.

        Raises:
            ProtocolError: the configuration is wrong, cannot replace the one in force, or ``if_checksum`` does not match.
            trio.ClosedResourceError: the daemon stops.
        """
        reading = trio.CancelScope()
        report, results = trio.open_memory_channel[str | Exception](1)
        self._nursery.start_soon(self._change, _Change(text, if_checksum, source, afresh, reading, report.send_nowait))
        try:
            result = await results.receive()
        finally:
            reading.cancel()  # has an effect only if this call is cancelled
        if isinstance(result, ProtocolError):
            log_event(log, logging.ERROR, "config_refused", source=source, code=result.code, reason=result.message)
            await self._refused(result.message)
        if isinstance(result, Exception):
            raise result
        return result

    async def _change(self, change: _Change) -> None:
        try:
            change.report(await self._switch(change))
        except (ProtocolError, trio.ClosedResourceError, trio.BrokenResourceError) as refusal:
            change.report(refusal)

    async def _switch(self, change: _Change) -> str:
        async with self._turn:  # held while reading too, so that the last request wins
            if change.if_checksum and change.if_checksum.upper() != self.config.checksum:
                found = f"found {change.if_checksum}, the configuration in force has {self.config.checksum}"
                raise ProtocolError("CHECKSUM_MISMATCH", found, "ifChecksum")
            with change.reading:
                config = await _load(change.text, change.source)
            if change.reading.cancelled_caught:
                raise ProtocolError("UNAVAILABLE", "the request was cancelled", "config")
            if config.checksum == self.config.checksum:  # CF-53
                log_event(log, logging.INFO, "config_unchanged", source=change.source, checksum=config.checksum)
                return config.checksum
            before = set(self._partitions.inboxes)
            objection = await self._partitions.switch(config, afresh=change.afresh)
            if objection:
                raise ProtocolError("CONFIG_REFUSED", objection, "config")
            self._log_applied(config, change.source, before)
            self.config = config
            return config.checksum

    def _log_applied(self, config: SchedulerConfig, source: str, before: set[PartitionName]) -> None:
        actors = self._partitions.actors
        for name in sorted(before ^ set(actors)):
            log_event(log, logging.INFO, "partition_added" if name in actors else "partition_removed", partition=name)
        queues = sum(len(actor.core.registry.queues) for actor in actors.values())
        log_event(log, logging.INFO, "config_applied", source=source, checksum=config.checksum, queues=queues)
        for warning in config.warnings:
            log_event(log, logging.WARNING, "config_warning", reason=warning)


async def _load(text: str, source: str) -> SchedulerConfig:
    try:
        return await load_config(text, source)
    except queuefile.ConfigError as error:
        raise ProtocolError("CONFIG_REFUSED", error.summary(), "config") from None
    except CalledProcessError as error:
        last_line = (error.stderr or b"").decode(errors="replace").strip().rpartition("\n")[2]
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: {error} {last_line}".rstrip(), "config") from None
    except (OSError, ValueError, trio.TooSlowError) as error:
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: {error or type(error).__name__}", "config") from None


def log_changes(partition: PartitionName, fact: ConfigurationChanged) -> None:
    """Log the changes in a partition, at most the first ``CHANGES_LOGGED_MAX``."""
    for change in fact.changes[:CHANGES_LOGGED_MAX]:
        log_event(log, logging.INFO, "config_change", partition=partition, change=change)
    if len(fact.changes) > CHANGES_LOGGED_MAX:
        more = len(fact.changes) - CHANGES_LOGGED_MAX
        log_event(log, logging.INFO, "config_change", partition=partition, change=f"and {more} more")
