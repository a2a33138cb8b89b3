"""Configurations that await confirmation: without it in time the one before comes back (CF-91).

The way back is a row of the journal (``UnconfirmedRow``), of the same transaction as the configuration itself. The window is
measured by a clock that nobody can set, over restarts too (``Boot``). Where this clock does not go on, the window is over.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.actors.clock import Clock
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.partition.reload import walk
from ykactor.core.values.times import S_NS, US_NS
from ykactor.surfaces.files.daemon_rows import UnconfirmedRow
from ykactor.surfaces.files.recovery import Recovered
from ykactor.wire.si.protocol_error import ProtocolError

#: The seconds that a window may last.
WINDOW_MIN_S, WINDOW_MAX_S = 10.0, 86_400.0
NOTHING_AWAITS = "no configuration awaits confirmation"
NO_JOURNAL = "expected a daemon with --state-dir: without it the configuration of before would be unknown after a restart"


class Window(Struct, frozen=True):
    """The time in which an operator has to confirm a configuration.

    Attributes:
        who: the operator.
        event: the number of the newest event before.
    """

    who: str
    seconds: float
    clock: Clock
    event: int

    def row(self, before: SchedulerConfig, rm_id: str, checksum: str) -> UnconfirmedRow:
        """The way back from the configuration with this checksum, whose window begins now.

        Args:
            rm_id: the resource manager that had sent the configuration of before; "" for the file or an operator.
        """
        window_ns = round(self.seconds * 1e6) * US_NS
        now_ns, boot = self.clock.now_ns(), self.clock.boot()
        ends = now_ns + window_ns, boot.id, boot.elapsed_ns + window_ns
        return UnconfirmedRow(before, rm_id, checksum, self.who, now_ns, *ends, self.event)


def check_window(seconds: float) -> None:
    """Refuse a window that is too short or too long.

    Raises:
        ProtocolError: it is; also if it is no number.
    """
    if not WINDOW_MIN_S <= seconds <= WINDOW_MAX_S:
        found = f"found {seconds:g} seconds, expected {WINDOW_MIN_S:g} to {WINDOW_MAX_S:g}"
        raise ProtocolError("OUT_OF_RANGE", found, "confirmWithinSeconds")


def dead_end(before: SchedulerConfig, after: SchedulerConfig) -> str:
    """The reason why there might be no way back from ``after``; "" if there is one.

    A parent that becomes a leaf cannot become a parent again while applications are in it (CF-61).
    """
    leaves = {(each.name.lower(), queue.path) for each in after.partitions for queue in walk(each.root) if not queue.is_parent}
    for each in before.partitions:
        for queue in walk(each.root):
            if queue.is_parent and (each.name.lower(), queue.path) in leaves:
                how = "could not become a parent again while it has applications, so there might be no way back"
                return f"queue {queue.path} becomes a leaf, and {how}: apply it without --confirm-within"
    return ""


def left_ns(row: UnconfirmedRow, clock: Clock) -> int:
    """The time until the end of the window; 0 after another boot or on another machine: how much time has passed is not known."""
    boot = clock.boot()
    return row.until_boot_ns - boot.elapsed_ns if boot.id == row.boot_id else 0


def is_due(recovered: Recovered, clock: Clock) -> bool:
    """True if a daemon that starts has to go back at once: the window is over, or the way back had begun."""
    row = recovered.unconfirmed
    if row is None:
        return False
    is_going_back = recovered.unfinished is not None and recovered.unfinished.config.checksum == row.config.checksum
    return is_going_back or left_ns(row, clock) <= 0


def seconds_left(row: UnconfirmedRow, clock: Clock) -> float:
    """The seconds until the end of the window; at most 0 if it is over."""
    return left_ns(row, clock) / S_NS
