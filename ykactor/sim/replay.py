"""Replay: the recorded causes of turns, run again in a plain loop, must give the recorded facts.

Each partition is made from a recorded base, as it was when its daemon started or made it anew; from there its causes decide
everything. A later base is compared with what the replay has at that point, and then taken, because the daemon
went on from it, too. ``reproduce`` runs the turn of a post-mortem again.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

from msgspec import Struct

from ykactor.core.messages.facts import Fact
from ykactor.core.messages.submissions import ApplyConfig, RemovePartition
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.records.base import Base, decode_base, differing_row, encode_base, made_from, partition_from
from ykactor.core.turn.scheduler import Cores, SchedulerCore, without_anything
from ykactor.core.turn.turn import Cause, Input
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.sim.direct import run_turn
from ykactor.wire.history import RecordedTurn, decode_cause, decode_facts, encode_facts
from ykactor.wire.post_mortem import PostMortem, UnreadablePostMortemError, decode_post_mortem

#: In a difference: there is no such fact or row.
NOTHING = b"null"


class Difference(Struct, frozen=True):
    """The first thing that is not as it was recorded.

    Attributes:
        turn: in which it was found.
        what: a fact by its place in the turn, a row of the state before the turn by its key, or the number of the turn.
        expected: what was recorded, as JSON; ``NOTHING`` if it is too much.
        found: the same of the replay; ``NOTHING`` if it is missing.
    """

    turn: RecordedTurn
    what: str
    expected: bytes
    found: bytes


class Replay:
    """The partitions of a daemon, as far as they have a base.

    Attributes:
        turns, facts: how many were compared.
        partitions: after the turns so far.
    """

    def __init__(self) -> None:
        self.turns = self.facts = 0
        self.partitions: dict[PartitionName, Cores] = {}

    def begin(self, turn: RecordedTurn, base: bytes) -> Difference | None:
        """The daemon has made the partition from ``base`` before the turn. Returns what is another than here.

        Raises:
            UnreadableRowError, DamagedStateError: the base is damaged, or of a later version.
        """
        recorded = decode_base(base)
        known = self.partitions.get(turn.partition)
        made = finished(partition_from(recorded))
        self.partitions[turn.partition] = made
        is_new = made[0].turns == 0
        return None if known is None or is_new else _differing_row(turn, recorded, *known)

    def repeat(self, turn: RecordedTurn) -> Difference | None:
        """Run a turn again. Returns the first difference; a turn of a partition without a base is passed over.

        Raises:
            UnreadableCauseError, HistoryError: the turn is damaged, or of another version.
        """
        known = self.partitions.get(turn.partition)
        if known is None or turn.number is None:
            return None
        if known[0].turns + 1 != turn.number:
            return Difference(turn, "number of the turn", b"%d" % turn.number, b"%d" % (known[0].turns + 1))
        cause = decode_cause(turn.cause)
        facts: list[Fact] = []
        run_turn(known, turn.now_ns, cause, facts.extend)
        self.turns += 1
        self.facts += len(facts)
        if ends_partition(cause):
            del self.partitions[turn.partition]
        return _differing_fact(turn, facts)


def ends_partition(cause: Cause) -> bool:
    """True if the partition has left the configuration; one of the same name that is added later begins anew."""
    return isinstance(cause, Input) and any(isinstance(submission, RemovePartition) for submission in cause.submissions)


def _differing_row(turn: RecordedTurn, recorded: Base, partition: PartitionCore, scheduler: SchedulerCore) -> Difference | None:
    found = differing_row(recorded, decode_base(finished(encode_base(partition, scheduler.state))))
    return None if found is None else Difference(turn, f"row {found[0].decode()}", *found[1:])


def _differing_fact(turn: RecordedTurn, facts: list[Fact]) -> Difference | None:
    if encode_facts(facts) == bytes(turn.facts):
        return None
    for number, (expected, found) in enumerate(zip_longest(decode_facts(turn.facts), facts), 1):
        if expected != found:
            return Difference(turn, f"fact {number}", _text(expected), _text(found))
    return None


def _text(fact: Fact | None) -> bytes:
    return NOTHING if fact is None else encode_facts([fact])[1:-1]


def reproduce(path: Path) -> Exception | None:
    """Make the partition of a post-mortem from its rows, and run the turn that failed.

    Returns:
        the exception that the turn raises; None if it raises none.

    Raises:
        OSError: the file cannot be read.
        UnreadablePostMortemError: it is damaged, of a later version, or has no turn.
        UnreadableCauseError, UnreadableRowError, DamagedStateError: what it holds is damaged, or of another version.
    """
    found = decode_post_mortem(path.read_bytes())
    if found.now_ns is None:
        raise UnreadablePostMortemError("found a failure between two turns, expected one in a turn")
    cause = decode_cause(bytes(found.cause))
    cores = _partition(found, cause)
    try:
        run_turn(cores, found.now_ns, cause, lambda _: None)
    except Exception as failure:
        return failure
    return None


def _partition(found: PostMortem, cause: Cause) -> Cores:
    """The partition before the turn; one that failed in its first turn has no rows yet."""
    if found.rows:
        rows = ((bytes(key), bytes(row)) for key, row in found.rows)
        return finished(made_from(rows, reserves=found.reserves))[:2]
    match cause:
        case Input(submissions=[ApplyConfig(config), *_]):
            return without_anything(config, reserves=found.reserves)
    raise UnreadablePostMortemError("found no rows, expected the state of the partition")
