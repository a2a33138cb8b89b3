"""A copy of a partition of a daemon that runs its turns as they come, each of which must decide the same (DU-19)."""

from __future__ import annotations

import traceback

from msgspec import Struct

from ykactor.actors.durations import TurnTimes
from ykactor.core.messages.facts import Fact
from ykactor.core.records.base import decode_base, partition_from, renewed
from ykactor.core.turn.scheduler import Cores
from ykactor.core.turn.turn import CycleDue
from ykactor.core.turn.turn import turn as begun
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps
from ykactor.sim.direct import carry_out, turn_in_steps
from ykactor.sim.replay import ends_partition
from ykactor.wire.history import decode_cause, encode_facts
from ykactor.wire.turns import Base, LastTurn, Turn, checksum_of


class MismatchError(Exception):
    """A turn was decided otherwise here, or does not follow the one before, or failed; the copy is worth nothing any more."""


class Decided(Struct, frozen=True):
    """The facts of a turn; ``is_last``: the partition has left the configuration with it."""

    facts: list[Fact]
    is_last: bool


class Copy:
    """A copy.

    Attributes:
        name: of the partition.
        cores: they may be read between two turns, when ``settle`` was called.
        last: the last turn; None before the first one here.
        cycles: number of cycles that were run here.
        times: how long its turns take here; all of a cycle counts as its plan.
    """

    def __init__(self, cores: Cores) -> None:
        self.name: PartitionName = cores[0].name
        self.cores = cores
        self.last: LastTurn | None = None
        self.cycles = 0
        self.times = TurnTimes()

    @property
    def turned_ns(self) -> int:
        """The Unix time of its last turn; 0 before the first one here."""
        return 0 if self.last is None else self.last.now_ns

    @property
    def turns(self) -> int:
        """The number of the last turn."""
        return self.cores[0].turns

    def renew(self) -> Steps[None]:
        """Make it anew from its own rows, as the daemon has done: what was known of searches is not in them."""
        core, scheduler, _ = yield from renewed(*self.cores)
        self.cores = core, scheduler

    def settle(self) -> None:
        """Let nodes agree with the scheduler before anybody reads them."""
        carry_out(self.cores[0].registry.unsent.show())

    def run(self, turn: Turn) -> Steps[Decided]:
        """Run a turn.

        Raises:
            MismatchError: see there.
            UnreadableCauseError: the cause is damaged, or of a later version.
        """
        if (following := self.turns + 1) != turn.number:
            raise MismatchError(f"partition {turn.partition}: found turn {turn.number}, expected turn {following}")
        cause, facts = decode_cause(turn.cause), list[Fact]()
        is_cycle = isinstance(cause, CycleDue)
        self.times.begin("plan" if is_cycle else "ingest")
        try:
            yield from turn_in_steps(self.cores, begun(*self.cores, turn.now_ns, cause), facts.extend)
        except Exception as failure:
            found = "".join(traceback.format_exception(failure))
        else:
            encoded = encode_facts(facts)
            if checksum_of([encoded] if facts else []) == turn.checksum:
                self.last = LastTurn(turn.number, turn.now_ns, turn.checksum, turn.first_event)
                self.times.end()
                if is_cycle:
                    self.cycles += 1
                    self.times.note_cycle(facts)
                return Decided(facts, ends_partition(cause))
            found = f"the facts {encoded.decode(errors='replace')}"
        raise MismatchError(
            f"partition {turn.partition}: turn {turn.number} at {turn.now_ns} was decided otherwise here, with the cause "
            f"{turn.cause.decode(errors='replace')} and {found}"
        )


def copied(base: Base) -> Steps[Copy]:
    """The copy that begins with this state.

    Raises:
        UnreadableRowError, DamagedStateError: the state is damaged, or of a later version.
    """
    return Copy((yield from partition_from(decode_base(base.state))))
