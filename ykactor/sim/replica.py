"""A replica: copies of the partitions of a daemon that run its turns as they come, each of which must decide the same (DU-19)."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.facts import Fact
from ykactor.core.records.base import decode_base, partition_from, renewed
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps
from ykactor.sim.direct import run_turn
from ykactor.sim.replay import ends_partition
from ykactor.wire.history import decode_cause, encode_facts
from ykactor.wire.turns import Base, Renewed, Turn, checksum_of


class Mismatch(Struct, frozen=True):
    """A turn that was decided otherwise here, or that does not follow the one before.

    Attributes:
        turn: as the daemon told it.
        found: the facts of the turn here, as JSON; empty if it was not run.
        expected_number: of the turn that follows here.
    """

    turn: Turn
    found: bytes
    expected_number: int

    def __str__(self) -> str:
        """A sentence for people."""
        turn = self.turn
        if turn.number != self.expected_number:
            return f"partition {turn.partition}: found turn {turn.number}, expected turn {self.expected_number}"
        return (
            f"partition {turn.partition}: turn {turn.number} at {turn.now_ns} was decided otherwise here, with the cause "
            f"{turn.cause.decode(errors='replace')} and the facts {self.found.decode(errors='replace')}"
        )


class Replica:
    """The copies.

    Attributes:
        turns, facts: how many were run, and how many of what was decided were the same.
    """

    def __init__(self) -> None:
        self.turns = self.facts = 0
        self._partitions: dict[PartitionName, Cores] = {}

    @property
    def partitions(self) -> list[PartitionName]:
        """The names of the partitions of which there is a copy."""
        return [*self._partitions]

    def begin(self, base: Base) -> Steps[None]:
        """Make a partition from its state, in place of the copy that there may be.

        Raises:
            UnreadableRowError, DamagedStateError: the state is damaged, or of a later version.
        """
        self._partitions[base.partition] = yield from partition_from(decode_base(base.state))

    def renew(self, message: Renewed) -> Steps[None]:
        """Make a copy anew from its own rows, as the daemon has done: what was known of searches is not in them."""
        core, scheduler, _ = yield from renewed(*self._partitions[message.partition])
        self._partitions[message.partition] = core, scheduler

    def run(self, turn: Turn) -> Mismatch | None:
        """Run a turn. After a mismatch there is no copy of its partition any more.

        Raises:
            UnreadableCauseError: the cause is damaged, or of a later version.
        """
        cores = self._partitions[turn.partition]
        if (following := cores[0].turns + 1) != turn.number:
            return self._differs(Mismatch(turn, b"", following))
        cause, facts = decode_cause(turn.cause), list[Fact]()
        run_turn(cores, turn.now_ns, cause, facts.extend)
        found = encode_facts(facts)
        if checksum_of([found] if facts else []) != turn.checksum:
            return self._differs(Mismatch(turn, found, following))
        self.turns += 1
        self.facts += len(facts)
        if ends_partition(cause):
            del self._partitions[turn.partition]
        return None

    def _differs(self, mismatch: Mismatch) -> Mismatch:
        del self._partitions[mismatch.turn.partition]
        return mismatch
