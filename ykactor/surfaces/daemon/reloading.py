"""Changes of the configuration of a running daemon: from the queue file, by an operator, or by a resource manager.

A configuration is read, compared with the one in force, and applied in all partitions or in none (CF-58). While a text is read,
which can take minutes, only other changes of the configuration wait. Every attempt is logged; one that fails is also reported as
an event. With each change it is noted which text of the queue file was read last: the file replaces no later change (CF-90).
While one awaits confirmation there is no other, but the way back (CF-91).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio
from msgspec import structs

from ykactor.actors.partitions import Partitions
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.acts import Act
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import utc_text
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.daemon.windows import NO_JOURNAL, NOTHING_AWAITS, Window, dead_end
from ykactor.surfaces.files import config_loader
from ykactor.surfaces.files.daemon_rows import ChangeRow, DaemonRows, UnconfirmedRow
from ykactor.surfaces.files.helper_process import HelperProcessError
from ykactor.surfaces.files.watcher import ConfigWatcher, TryAgainError
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si.protocol_error import ProtocolError

log = get_logger(__name__)

#: A load that goes on is logged after this many seconds, and again at this interval.
PROGRESS_FIRST_S = 2.0
PROGRESS_S = 10.0
_NOT_READ = "the process that reads the configuration failed"


class Source(NamedTuple):
    """The source of a configuration.

    Attributes:
        name: of the file or of the field in a request, for messages.
        rm_id: the resource manager that has sent it; "" if it is from the queue file or an operator.
    """

    name: str
    rm_id: str = ""


class _Switch(NamedTuple):
    """A change of the partitions to ``config``; ``report`` takes its result. ``afresh`` as in ``SwitchConfig``.

    Attributes:
        before: what awaited confirmation when the change was asked for.
        after: what does when it is done.
    """

    config: SchedulerConfig
    source: str
    change: ChangeRow
    afresh: bool
    before: UnconfirmedRow | None
    after: UnconfirmedRow | None
    report: Callable[[str | Exception], None]


class Reloading:
    """Reads configurations and puts them into force, one after the other.

    Args:
        config: the first configuration.
        change: the change that has put it into force.
        partitions: the running partitions.
        refused: reports to followers that a configuration was refused, and why.
        replaced: tells a resource manager why its configuration is no longer in force.
        rows: keeps the configuration in force, and the one that is being put into force.
        unconfirmed: the way back from ``config`` if that awaits confirmation, or from the one that is being put into force.

    Attributes:
        config: the configuration in force.
        unconfirmed: the way back from it while it awaits confirmation; None if it does not.
        refusal: why the text of the queue file that was read last was refused; "" if it was not.
        changed: parks who waits for another configuration, or for the end of the wait for confirmation.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        change: ChangeRow,
        partitions: Partitions,
        refused: Callable[[str], Awaitable[None]],
        replaced: Callable[[str, str], None],
        rows: DaemonRows,
        unconfirmed: UnconfirmedRow | None = None,
    ) -> None:
        self.config = config
        self.unconfirmed = unconfirmed
        self.refusal = ""
        self.changed = trio.lowlevel.ParkingLot()
        self._change = change
        #: The checksum of the text of the queue file that was read last, also if it was refused; noted with the next change.
        self._file = change.checksum
        #: Why partitions have refused that text; "" if they have not.
        self._file_refusal = ""
        self._rows = rows
        self._partitions = partitions
        self._refused = refused
        self._replaced = replaced
        #: Held while a configuration is read and applied, by one request after the other, so that the last one wins.
        self._turn = trio.Lock()
        #: Held by the task that changes the partitions. It goes on if the request that started it is cancelled.
        self._switching = trio.Lock()
        self._nursery: trio.Nursery

    def run_in(self, nursery: trio.Nursery) -> None:
        """Run changes as tasks of this nursery, from now on."""
        self._nursery = nursery

    @asynccontextmanager
    async def reading(self, text: str, if_checksum: str, source: Source) -> AsyncIterator[ReadConfig]:
        """Wait for earlier changes and read a configuration; within the block it can be applied.

        Raises:
            ProtocolError: the configuration is wrong, ``if_checksum`` does not match, or another one awaits confirmation. A
                ``ProtocolError`` of the block is logged and reported in the same way.
        """
        try:
            async with self._turn:
                async with self._switching:
                    self.check_settled()
                    self.check_checksum(if_checksum)
                yield ReadConfig(await self._load(text, source.name), source, self._switch)
        except ProtocolError as error:
            await self._report(error, source.name)
            raise

    async def apply_file(self, text: str, name: str, *, is_asked: bool) -> str:
        """Put the queue file into force, or change nothing; returns the checksum of the configuration in force (CF-90).

        Args:
            is_asked: whether somebody asks for it; otherwise a file that has not changed since it was read changes nothing.

        Raises:
            ProtocolError, trio.ClosedResourceError: as ``reading`` and ``ReadConfig.apply``.
        """
        try:
            async with self.reading(text, "", Source(name)) as read:
                if not is_asked and self.has_read(read.config):
                    log_event(log, logging.INFO, "config_unchanged", source=name, checksum=read.config.checksum)
                    checksum, self.refusal = self.config.checksum, self._file_refusal
                else:
                    checksum = await self._apply_file(read.config.checksum, read.apply)
        except ProtocolError as error:
            self.refusal = _told(error)
            raise
        return checksum

    async def _apply_file(self, checksum: str, apply: Callable[[], Awaitable[str]]) -> str:
        """Put the text of the queue file with this checksum into force by ``apply``."""
        before, self._file = self._file, checksum
        try:
            in_force = await apply()
        except ProtocolError as error:
            self.refusal = self._file_refusal = _told(error)
            if error.code == "UNAVAILABLE":
                self._file = before  # it will be read again
            raise
        self.refusal = self._file_refusal = ""
        return in_force

    @property
    def is_switching(self) -> bool:
        """True while a configuration is put into force."""
        return self._switching.locked()

    def has_read(self, config: SchedulerConfig) -> bool:
        """True if this text of the queue file was read last."""
        return config.checksum == self._file

    async def _report(self, error: ProtocolError, source: str) -> None:
        is_refused = error.code != "INTERRUPTED"
        event = "config_refused" if is_refused else "config_incomplete"
        log_event(log, logging.ERROR, event, source=source, code=error.code, reason=error.message)
        if is_refused:
            await self._refused(error.message)

    def check_checksum(self, if_checksum: str) -> None:
        """Refuse what is meant for another configuration than the one in force.

        Raises:
            ProtocolError: it has another checksum than this one; "" is that of any.
        """
        if if_checksum and if_checksum.upper() != self.config.checksum:
            found = f"found {if_checksum}, the configuration in force has {self.config.checksum}"
            raise ProtocolError("CHECKSUM_MISMATCH", found, "ifChecksum")

    async def _load(self, text: str, source: str) -> SchedulerConfig:
        progress = trio.CancelScope()
        self._nursery.start_soon(_log_progress, progress, text, source)
        try:
            return await _load(text, source)
        finally:
            progress.cancel()

    async def _switch(self, config: SchedulerConfig, source: Source, afresh: bool, window: Window | None) -> str:
        after = None
        if window is not None and config.checksum != self.config.checksum:
            if not self._rows.are_kept:
                raise ProtocolError("REFUSED", NO_JOURNAL, "confirmWithinSeconds")
            if no_return := dead_end(self.config, config):
                raise ProtocolError("CONFIG_REFUSED", no_return, "config")
            after = window.row(self.config, self._change.rm_id, config.checksum)
        return await self._switch_to(config, source.name, ChangeRow(self._file, source.rm_id), afresh=afresh, after=after)

    async def _switch_to(
        self,
        config: SchedulerConfig,
        source: str,
        change: ChangeRow,
        *,
        afresh: bool = False,
        after: UnconfirmedRow | None = None,
    ) -> str:
        report, results = trio.open_memory_channel[str | Exception](1)
        switch = _Switch(config, source, change, afresh, self.unconfirmed, after, report.send_nowait)
        # ``start`` returns when the task holds the lock: until then it is cancelled with its caller, from then on it is not.
        await self._nursery.start(self._run_switch, switch)
        result = await results.receive()
        if isinstance(result, Exception):
            raise result
        return result

    def begin(self) -> None:
        """Note the first configuration of a new journal, with which the partitions begin."""
        self._file = self.config.checksum
        self._change = ChangeRow(self._file)
        self._rows.end_switch(self.config, self._change)

    async def resume(self, config: SchedulerConfig, change: ChangeRow) -> None:
        """Finish a change that the daemon before this one has begun; one that is refused is logged and reported."""
        self._file = change.checksum
        await self._reported(partial(self._switch_to, config, "journal", change, after=self.unconfirmed), "journal")

    async def resume_file(self, config: SchedulerConfig, name: str) -> None:
        """Put the queue file into force if it was changed while no daemon ran; one that is refused is logged and reported."""
        if not self.has_read(config):
            apply = partial(self._switch_to, config, name, ChangeRow(config.checksum))
            await self._reported(partial(self._apply_file, config.checksum, apply), name)

    async def catch_up(self) -> None:
        """Put the configuration in force into force in partitions that have failed to apply it (DU-17)."""
        if self._partitions.are_behind(self.config):
            again = partial(self._switch_to, self.config, "journal", self._change, after=self.unconfirmed)
            await self._reported(again, "journal")

    # ---- confirmation

    async def settled(self) -> None:
        """Wait until no configuration awaits confirmation."""
        while self.unconfirmed is not None:
            await self.changed.park()

    def check_settled(self) -> None:
        """Raises ProtocolError while a configuration awaits confirmation."""
        row = self.unconfirmed
        if row is not None:
            until = f"awaits confirmation until {utc_text(row.until_ns)}: confirm it or roll it back first"
            raise ProtocolError("AWAITS_CONFIRMATION", f"the configuration {row.checksum[:8]} of {row.who} {until}", "config")

    async def confirm(self, row: UnconfirmedRow) -> None:
        """Keep the configuration that awaits confirmation.

        Raises:
            ProtocolError: it does so no more, because it was rolled back meanwhile.
        """
        async with self._switching:
            if self.unconfirmed is not row:
                raise ProtocolError("REFUSED", NOTHING_AWAITS)
            self._rows.note_unconfirmed(None)
            self.unconfirmed = None
            self.changed.unpark_all()

    async def roll_back(self, row: UnconfirmedRow) -> str:
        """Put the configuration of before into force; returns its checksum.

        Raises:
            ProtocolError, trio.ClosedResourceError: as ``ReadConfig.apply``.
        """
        return await self._switch_to(row.config, "journal", ChangeRow(self._file, row.rm_id))

    async def _reported(self, apply: Callable[[], Awaitable[str]], source: str) -> None:
        """Log and report a refusal, if there is one."""
        try:
            await apply()
        except ProtocolError as error:
            await self._report(error, source)

    async def _run_switch(self, switch: _Switch, *, task_status: trio.TaskStatus[None]) -> None:
        async with self._switching:
            task_status.started()
            try:
                switch.report(await self._apply(switch))
            except (ProtocolError, trio.ClosedResourceError, trio.BrokenResourceError) as refusal:
                switch.report(refusal)

    async def _apply(self, switch: _Switch) -> str:
        config = switch.config
        if self.unconfirmed is not switch.before:
            raise ProtocolError("REFUSED", "another change of the configuration came first", "config")
        if config.checksum == self.config.checksum and not self._partitions.are_behind(config):  # CF-53
            log_event(log, logging.INFO, "config_unchanged", source=switch.source, checksum=config.checksum)
            self._change = structs.replace(switch.change, rm_id=switch.change.rm_id or self._change.rm_id)
            self._rows.end_switch(config, self._change)
            self._await_confirmation(switch.after)
            return config.checksum
        before = set(self._partitions.inboxes)
        self._rows.begin_switch(config, switch.change)
        if switch.after is not None:
            self._rows.note_unconfirmed(switch.after)
        resuming = self._partitions.resuming
        objection = await self._partitions.switch(config, afresh=switch.afresh)
        if objection:
            self._rows.end_switch(self.config, self._change)
            row = self.unconfirmed
            self._await_confirmation(None if row is None or row.checksum != self.config.checksum else row)
            code = "UNAVAILABLE" if resuming or self._partitions.resuming else "CONFIG_REFUSED"
            raise ProtocolError(code, objection, "config")
        self._rows.end_switch(config, switch.change)
        self._log_applied(config, switch.source, before)
        self._put_in_force(config, switch.change)
        self._await_confirmation(switch.after)
        if self._partitions.stopped:
            found = "\n".join(self._partitions.stopped.values())
            raise ProtocolError("INTERRUPTED", f"the configuration is in force, but for one part: {found}", "config")
        return config.checksum

    def _await_confirmation(self, row: UnconfirmedRow | None) -> None:
        """Note with the end of a change what awaits confirmation then."""
        self._rows.note_unconfirmed(row)
        self.unconfirmed = row
        self.changed.unpark_all()

    def _put_in_force(self, config: SchedulerConfig, change: ChangeRow) -> None:
        before, sender = self.config.checksum, self._change.rm_id
        self.config, self._change = config, change
        self.changed.unpark_all()
        if sender and sender != change.rm_id and before != config.checksum:
            reason = f"the queue file or an operator has replaced the configuration {before} of {sender}"
            self._replaced(sender, f"{reason}: {config.checksum} is in force")

    def _log_applied(self, config: SchedulerConfig, source: str, before: set[PartitionName]) -> None:
        actors = self._partitions.actors
        for name in sorted(before ^ set(actors)):
            log_event(log, logging.INFO, "partition_added" if name in actors else "partition_removed", partition=name)
        queues = sum(len(actor.core.registry.queues) for actor in actors.values())
        log_event(log, logging.INFO, "config_applied", source=source, checksum=config.checksum, queues=queues)
        for warning in config.warnings:
            log_event(log, logging.WARNING, "config_warning", reason=warning)


class ReadConfig(NamedTuple):
    """A configuration that was read and is not in force yet (``Reloading.reading``)."""

    config: SchedulerConfig
    source: Source
    switch: Callable[[SchedulerConfig, Source, bool, Window | None], Awaitable[str]]

    async def apply(self, *, afresh: bool = False, window: Window | None = None) -> str:
        """Apply the configuration, or change nothing; returns the checksum of the configuration in force.

        A change under way is completed even if the caller is cancelled.

        Args:
            afresh: as in ``SwitchConfig``.
            window: unless it is confirmed in it, the one before comes back; None: it stays.

        Raises:
            ProtocolError: the configuration cannot replace the one in force. With the code ``INTERRUPTED`` it has, but for a
                partition that has failed to apply it, and is stopped.
            trio.ClosedResourceError: the daemon stops.
        """
        return await self.switch(self.config, self.source, afresh, window)


async def _log_progress(scope: trio.CancelScope, text: str, source: str) -> None:
    with scope:
        began_s = trio.current_time()
        await trio.sleep(PROGRESS_FIRST_S)
        while True:
            elapsed_s = round(trio.current_time() - began_s)
            log_event(log, logging.INFO, "config_loading", source=source, bytes=len(text.encode()), seconds=elapsed_s)
            await trio.sleep(PROGRESS_S)


async def _load(text: str, source: str) -> SchedulerConfig:
    try:
        return await config_loader.load_config(text, source)
    except queuefile.ConfigError as error:
        raise ProtocolError("CONFIG_REFUSED", error.summary(), "config") from None
    except trio.TooSlowError:
        # Not UNAVAILABLE, after which a file is read again: the same text would take as long again.
        found = (
            f"found {len(text.encode())} bytes, whose reading took longer than {config_loader.LOAD_S:g} s, expected at most that"
        )
        raise ProtocolError("CONFIG_REFUSED", found, "config") from None
    except (HelperProcessError, ValueError) as error:
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: {error}", "config") from None


def _told(error: ProtocolError) -> str:
    """The reason of an error for which the configuration is not in force; "" if it is."""
    return "" if error.code == "INTERRUPTED" else error.message


# ---- the queue file, whose changes are followed, and which is read again on request


class QueueFile:
    """Puts the content of the file into force.

    Args:
        path: None: there is no file.

    Attributes:
        watcher: of the file; None while it is not followed.
    """

    def __init__(self, path: Path | None, reloading: Reloading, audit: Audit) -> None:
        self._path = path
        self._reloading = reloading
        self._audit = audit
        self.watcher: ConfigWatcher | None = None

    async def follow(
        self, nursery: trio.Nursery, notifier: Notifier, status: Callable[[], str], known: str, stopping: trio.Event
    ) -> None:
        """Apply changes as a task of the nursery, until ``stopping``; returns when the file is watched.

        Args:
            status: of the daemon, for systemd.
            known: the text that was read last.
        """
        if self._path is not None:
            changed = partial(self._on_changed, self._path, notifier, status)
            refusal, ready = lambda: self._reloading.refusal, self._reloading.settled
            self.watcher = ConfigWatcher(self._path, known, changed, refusal, ready)
            await nursery.start(self.watcher.run, stopping, name="config watcher")

    async def _on_changed(self, path: Path, notifier: Notifier, status: Callable[[], str], text: str, is_asked: bool) -> None:
        """A valid file is applied between two cycles; another changes nothing, is logged and is reported as an event (CF-52)."""
        before = self._reloading.config.checksum
        notifier.reloading()
        try:
            await self._reloading.apply_file(text, str(path), is_asked=is_asked)
        except ProtocolError as error:  # logged
            if error.code in ("UNAVAILABLE", "AWAITS_CONFIRMATION"):
                raise TryAgainError from None
        except trio.ClosedResourceError:
            pass  # the daemon stops
        finally:
            notifier.ready(status())
        after = self._reloading.config.checksum
        if after != before:
            await self._audit.changed_file(Act.CONFIGURE, path, before, after)

    async def read_again(self) -> str:
        """Read the file again, for ``Gateway.reload_file``."""
        if self.watcher is None:
            raise ProtocolError("REFUSED", _NO_FILE)
        async with self.watcher.turn:
            try:
                text = (await self.watcher.read_complete()).decode()
            except (OSError, UnicodeDecodeError) as error:
                raise ProtocolError("UNAVAILABLE", f"the queue file cannot be read: {error}") from None
            if not text:  # for the daemon it would be the built-in configuration
                raise ProtocolError("UNAVAILABLE", "the queue file is empty")
            return await self._reloading.apply_file(text, str(self._path), is_asked=True)


_NO_FILE = "the daemon has no queue file to read again"
