"""Turns that a replica has missed are read from the history, if its copies have run a beginning of that (DU-19)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from journals import S_NS, opened

from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited
from ykactor.core.values.ids import PartitionName
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.transaction import Batch
from ykactor.surfaces.sessions import missed_turns
from ykactor.surfaces.sessions.missed_turns import MissedTurns, NotKeptError
from ykactor.wire.history import encode_facts
from ykactor.wire.turns import Facts, LastTurn, Renewed, Resumed, Turn, TurnMessage, Wanted, checksum_of

DEFAULT = PartitionName("default")
CAUSE = b'{"timers_due":true}'


def facts(count: int) -> bytes:
    """Facts that have an event each."""
    return encode_facts([Audited(1, "me", "here", "", Act.CONNECT, "x")] * count)


def recorded(number: int | None, count: int = 0) -> bytes:
    """A turn, or with None facts of no turn, as the journal has it."""
    turn = b"" if number is None else b'"number":%d,"now_ns":%d,"cause":%b,' % (number, number * S_NS, CAUSE)
    return b'{"partition":"default",%b"facts":%b}' % (turn, facts(count))


#: The turns of each transaction, and how many events it has: its events begin with 1, 3, 4, 4, 6 and 9.
TRANSACTIONS: list[tuple[list[bytes], int]] = [
    ([recorded(1, 2)], 2),
    ([recorded(2), recorded(3, 1), recorded(4)], 1),
    ([recorded(5)], 0),
    ([recorded(None, 1), recorded(6, 1)], 2),
    ([recorded(7, 2), recorded(8, 1)], 3),
    ([recorded(9, 1)], 1),
]
FIRSTS = {1: 1, 2: 3, 3: 3, 4: 4, 5: 4, 6: 5, 7: 6, 8: 8, 9: 9}
COUNTS = {1: 2, 3: 1, 6: 1, 7: 2, 8: 1, 9: 1}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store, event = opened(tmp_path), 1
    for number, (turns, count) in enumerate(TRANSACTIONS, 1):
        bases = {1: b"base"} if number == 5 else {}
        store.commit(Batch(event, 1, at_ns=number * S_NS, events_count=count, turns=turns, bases=bases))
        event += count
    yield store
    store.close()


def last(number: int, now_ns: int | None = None) -> LastTurn:
    checksum = checksum_of([facts(COUNTS.get(number, 0))])
    return LastTurn(number, number * S_NS if now_ns is None else now_ns, checksum, FIRSTS.get(number, 10))


def turn(number: int) -> Turn:
    return Turn(DEFAULT, number, number * S_NS, CAUSE, last(number).checksum, FIRSTS[number])


def missed(directory: Path, event: int, copy: LastTurn, newest: int = len(TRANSACTIONS)) -> list[TurnMessage]:
    with Reader.open(directory) as reader:
        found = MissedTurns(reader, newest, Wanted(event, copies={DEFAULT: copy}))
        parts = [message for part in found.parts() for message in part]
    return [msgspec.msgpack.decode(message, type=TurnMessage) for message in parts]


def test_what_follows_is_sent_as_it_was_recorded(store: Store, tmp_path: Path) -> None:
    """Turns that were not run, with the numbers of their events, facts of no turn, and where the partition was made anew."""
    others = [Facts(DEFAULT, facts(1), 4), turn(6), turn(7), Renewed(DEFAULT), turn(8), turn(9)]
    assert missed(tmp_path, 2, last(1)) == [Resumed(), *map(turn, (2, 3, 4, 5)), *others]
    assert missed(tmp_path, 3, last(4)) == [Resumed(), turn(5), *others]
    assert missed(tmp_path, 3, last(5)) == [Resumed(), *others]
    assert missed(tmp_path, 9, last(9)) == [Resumed()]


def test_what_nobody_may_be_told_yet_is_left_out(store: Store, tmp_path: Path) -> None:
    """Nothing is sent of transactions that no standby has."""
    assert missed(tmp_path, 3, last(5), newest=4) == [Resumed(), Facts(DEFAULT, facts(1), 4), turn(6)]


@pytest.mark.parametrize(
    ("event", "copy"),
    [
        (3, last(4, now_ns=7)),  # another turn with this number
        (9, last(10)),  # one that was lost here, without an event
        (4, last(5)),  # in the middle of a transaction
        (5, last(8)),  # it has run turns whose events the replica does not have
        (5, last(4)),  # it lacks a turn whose events the replica has
        (12, last(9)),  # events that were lost here
    ],
)
def test_a_copy_of_another_history_does_not_go_on(store: Store, tmp_path: Path, event: int, copy: LastTurn) -> None:
    """A copy must have run all turns up to the newest event of the replica, and only turns of this history."""
    with pytest.raises(NotKeptError):
        missed(tmp_path, event, copy)


def test_history_that_is_deleted(store: Store, tmp_path: Path) -> None:
    """Deleted turns cannot be sent; it has to be known which turns were before."""
    store.trim(bytes_max=10**9, age_max_ns=0, now_ns=2 * S_NS)
    assert missed(tmp_path, 3, last(5))[1] == Facts(DEFAULT, facts(1), 4)
    store.trim(bytes_max=10**9, age_max_ns=0, now_ns=4 * S_NS)
    with pytest.raises(NotKeptError):
        missed(tmp_path, 3, last(5))


def test_too_much_was_missed(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base is worth more than very many turns."""
    monkeypatch.setattr(missed_turns, "MISSED_BYTES_MAX", 200)
    assert missed(tmp_path, 9, last(9)) == [Resumed()]
    with pytest.raises(NotKeptError):
        missed(tmp_path, 2, last(1))
