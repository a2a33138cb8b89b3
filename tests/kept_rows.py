"""The rows of a partition, kept as a journal keeps them: only from what each turn says it has changed."""

from __future__ import annotations

from typing import Any

from ykactor.core.inspection.invariants import violations
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.records.base import made_from
from ykactor.core.records.encoding import decode, encode, pairs
from ykactor.core.records.export import changes, everything
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.parts import finished


def all_rows(core: PartitionCore, scheduler: SchedulerCore) -> dict[bytes, bytes]:
    """The rows to keep, read from the owners."""
    return dict(pairs(encode(core.name, everything(core, scheduler.state))))


def values_of(rows: dict[bytes, bytes]) -> dict[bytes, Any]:
    """Rows without the order within sets."""
    return {key: decode(key, data)[2] for key, data in rows.items()}


class KeptRows:
    """The rows after the last turn.

    Args:
        every: after so many turns the rows are compared with the owners, and a partition is made from them.
    """

    def __init__(self, every: int) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.turns = 0
        self.every = every

    def follow(self, core: PartitionCore, scheduler: SchedulerCore) -> None:
        """A turn has ended."""
        for key, data in pairs(encode(core.name, changes(core, scheduler.state))):
            if data == b"null":
                self.rows.pop(key, None)
            else:
                self.rows[key] = data
        self.turns += 1
        if self.turns % self.every == 0:
            self.check(core, scheduler)
            self.restored(reserves=scheduler.state.reserves)

    def check(self, core: PartitionCore, scheduler: SchedulerCore) -> None:
        """Check that the turns have noted every change."""
        expected, found = values_of(all_rows(core, scheduler)), values_of(self.rows)
        for key in sorted(expected.keys() | found.keys()):
            assert found.get(key) == expected.get(key), f"row {key.decode()}: kept {found.get(key)}, expected {expected.get(key)}"

    def restored(self, *, reserves: bool = True) -> tuple[PartitionCore, SchedulerCore]:
        """A partition made from the rows; it has the same rows, and keeps every invariant."""
        core, scheduler, _ = finished(made_from(self.rows.items(), reserves=reserves))
        found = violations(core, scheduler)
        assert not found, "\n".join(found)
        self.check(core, scheduler)
        return core, scheduler
