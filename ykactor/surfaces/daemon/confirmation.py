"""The end of a configuration's wait for confirmation: it is confirmed, or the one of before comes back (CF-91)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import trio

from ykactor.actors.clock import LOOK_S, Clock
from ykactor.actors.partitions import Partitions
from ykactor.actors.ring import EventRecordLike, Ring
from ykactor.core.inspection.process_status import UnconfirmedStatus
from ykactor.core.messages.states import QueueState
from ykactor.core.objects.queues import LeafCore
from ykactor.core.values.times import utc_text
from ykactor.core.values.words import plural, some
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.daemon.reloading import Reloading
from ykactor.surfaces.daemon.windows import NOTHING_AWAITS, Window, check_window, seconds_left
from ykactor.surfaces.files.daemon_rows import UnconfirmedRow
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.wire.si.protocol_error import ProtocolError

log = get_logger(__name__)

#: How soon the way back is tried again after partitions have refused it.
RETRY_S = 10.0
#: The events that are looked at before other tasks may run.
_STEP_EVENTS = 2000
#: Queues that are named one by one.
_QUEUES_MAX = 20


class Confirmation:
    """Confirms a configuration, or puts the one before back into force.

    Args:
        ring: the newest events.
        audit: is told that nobody has confirmed.
    """

    def __init__(self, reloading: Reloading, partitions: Partitions, clock: Clock, ring: Ring, audit: Audit) -> None:
        self._reloading = reloading
        self._partitions = partitions
        self._clock = clock
        self._ring = ring
        self._audit = audit
        #: Why partitions have refused the way back at the end of the window; "" if they have not.
        self._problem = ""

    def window(self, who: str, seconds: float) -> Window:
        """The time in which an operator has to confirm a configuration.

        Raises:
            ProtocolError: it is too short or too long.
        """
        check_window(seconds)
        return Window(who, seconds, self._clock, self._ring.sequence)

    async def settled(self) -> None:
        """Wait until no configuration awaits confirmation."""
        await self._reloading.settled()

    def check_settled(self) -> None:
        """Raises ProtocolError while a configuration awaits confirmation."""
        self._reloading.check_settled()

    def status(self) -> UnconfirmedStatus | None:
        """The configuration that awaits confirmation; None if none does."""
        row = self._reloading.unconfirmed
        if row is None:
            return None
        before, times = row.config.checksum, {"since": row.since_ns, "until": row.until_ns}
        return UnconfirmedStatus(checksum=row.checksum, replaced=before, who=row.who, **times, problem=self._problem)

    async def confirm(self, if_checksum: str) -> str:
        """Keep the configuration; returns its checksum.

        Raises:
            ProtocolError: none awaits confirmation, another one than ``if_checksum`` is in force, or the window is over.
        """
        self._reloading.check_checksum(if_checksum)
        row, checksum = self._reloading.unconfirmed, self._reloading.config.checksum
        if row is None:
            if if_checksum:
                return checksum
            raise ProtocolError("REFUSED", NOTHING_AWAITS)
        if seconds_left(row, self._clock) <= 0:
            over = f"the window of configuration {row.checksum[:8]} is over"
            raise ProtocolError("REFUSED", f"{over}: {row.config.checksum[:8]} comes back")
        await self._reloading.confirm(row)
        return checksum

    async def roll_back(self) -> tuple[str, list[str]]:
        """Put the configuration of before back into force.

        Returns its checksum, and sentences about what stays of the other one.

        Raises:
            ProtocolError: none awaits confirmation, or partitions refuse the one of before.
            trio.ClosedResourceError: the daemon stops.
        """
        row = self._reloading.unconfirmed
        if row is None:
            raise ProtocolError("REFUSED", NOTHING_AWAITS)
        checksum = await self._reloading.roll_back(row)
        self._problem = ""
        remains = [each async for each in self._remains(row)]
        replaced = {"replaced": row.checksum, "who": row.who}
        log_event(log, logging.WARNING, "config_rolled_back", checksum=checksum, **replaced, remains=remains)
        return checksum, remains

    async def run(self) -> None:
        """Put the configuration of before back into force at the end of each window, until cancelled."""
        while True:
            row = self._reloading.unconfirmed
            if row is None:
                await self._reloading.changed.park()
            elif (left_s := seconds_left(row, self._clock)) > 0:
                with trio.move_on_after(min(left_s, LOOK_S)):  # the clock of the machine goes on while it sleeps
                    await self._reloading.changed.park()
            elif not await self.end():
                await trio.sleep(RETRY_S)

    async def end(self) -> bool:
        """End the window of a configuration that nobody has confirmed; False if partitions refuse the one of before."""
        row = self._reloading.unconfirmed
        try:
            await self.roll_back()
        except ProtocolError as error:
            if self._reloading.unconfirmed is row:
                if error.message != self._problem:
                    log_event(log, logging.ERROR, "config_not_rolled_back", code=error.code, reason=error.message)
                self._problem = error.message
                return False
            self._problem = ""
            if error.code != "INTERRUPTED":
                return True  # an operator has rolled it back, or confirmed it, in the last moment
        except trio.ClosedResourceError:
            return False  # the daemon stops, and the next one does it
        if row is not None:
            await self._audit.not_confirmed(row.who, row.checksum, row.config.checksum)
        return True

    # ---- what stays of it

    async def _remains(self, row: UnconfirmedRow) -> AsyncIterator[str]:
        since = f"since {utc_text(row.since_ns)}"
        first = max(row.event + 1, self._ring.lowest)
        if first > row.event + 1:
            yield f"the first events {since} are not kept any more: there may be more than this"
        found: dict[str, list[str]] = {"ALLOC_PREEMPT": [], "APP_REJECT": []}
        async for event in self._events(first):
            if event.type == "APP" and event.event_change_detail in found:
                found[event.event_change_detail].append(event.reference_id or event.object_id)
        for names, noun, verb in zip(found.values(), ("task", "application"), ("preempted", "rejected"), strict=True):
            if names:
                yield f"{plural(len(names), noun)} {'was' if len(names) == 1 else 'were'} {verb} {since}: {some(names)}"
        draining = [*self._draining()]
        for queue in draining[:_QUEUES_MAX]:
            yield queue
        if len(draining) > _QUEUES_MAX:
            yield f"{len(draining) - _QUEUES_MAX} more queues drain"

    async def _events(self, first: int) -> AsyncIterator[EventRecordLike]:
        """The events from a number on that are still kept, those of a few together."""
        for number in range(first, self._ring.sequence + 1):
            if number % _STEP_EVENTS == 0:
                await trio.lowlevel.checkpoint()
            if number >= self._ring.lowest:
                yield self._ring.event(number)

    def _draining(self) -> Iterator[str]:
        for name, actor in self._partitions.actors.items():
            for path, queue in actor.core.registry.queues.items():
                if isinstance(queue, LeafCore) and queue.state is QueueState.DRAINING and queue.applications:
                    where = "" if name == "default" else f"partition {name}: "
                    yield f"{where}queue {path} drains: {plural(len(queue.applications), 'application')}"
