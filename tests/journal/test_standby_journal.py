"""The journal of a standby: whatever happens to both, it is the beginning of the daemon's, or the whole of it (DU-20)."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from journals import S_NS, batch, copied, numbered, opened
from seeds import seeds

from ykactor.journal import schema
from ykactor.journal.copying import copy_rest
from ykactor.journal.errors import DiskError
from ykactor.journal.files import is_following, read_superseded, write_superseded
from ykactor.journal.maintenance import verify
from ykactor.journal.store import Store
from ykactor.journal.terms import Terms
from ykactor.journal.transaction import Transaction

STEPS = 150
#: The tables that have no more than a daemon wants to keep of its history.
STATE = ("record", "term")


def followed(directory: Path) -> Store:
    """The journal of a standby."""
    return Store.open(directory, "off", now_ns=1, holder="standby")


def rows(directory: Path, table: str) -> list[tuple[Any, ...]]:
    with closing(schema.connect(directory / schema.NAME, "ro")) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


class Pair:
    """A daemon and its standby: each is killed and trims its history, and the standby joins by a copy or goes on."""

    def __init__(self, place: Path, rng: random.Random) -> None:
        self._place, self._rng = place, rng
        self._daemon_dir, self._standby_dir = place / "daemon-0", place / "standby-0"
        self._daemon, self._standby = opened(self._daemon_dir), followed(self._standby_dir)
        #: Those that the standby has not got yet, encoded; None: it has to join first.
        self._waiting: list[bytes] | None = None
        self._kills = 0
        self.copies = self.went_on = 0

    def step(self) -> None:
        """Something happens."""
        acts = [self._commit, self._commit, self._commit, self._deliver, self._deliver, self._join, self._join, self._trim]
        self._rng.choice([*acts, *([self._kill] if self._rng.random() < 0.5 else [])])()
        assert not Terms(self._daemon.beginnings).strange(self._standby.number, self._standby.beginnings)

    def _commit(self) -> None:
        transaction = self._daemon.transaction(numbered(self._daemon.number + 1))
        self._daemon.write(transaction)
        if self._waiting is not None:
            self._waiting.append(transaction.encode())

    def _deliver(self) -> None:
        if self._waiting is None:
            return
        delivered, self._waiting = self._waiting, []
        for data in delivered:
            self._standby.write(Transaction.decode(data))
        self.check()

    def _join(self) -> None:
        if self._waiting is not None:
            return
        self._standby.follow(self._daemon.beginnings, self._daemon.number)
        if self._standby.number < self._daemon.number:
            copy = self._place / "copy.db"
            assert copy_rest(self._daemon_dir, copy, self._standby.number) == self._daemon.number
            self._standby.take_in(copy)
            copy.unlink()
            self.copies += 1
        else:
            self.went_on += 1
        self._waiting = []
        self.check()

    def _trim(self) -> None:
        for store in (self._daemon, self._standby):
            store.trim(10**9, self._rng.randint(5, 50) * S_NS, store.number * S_NS)

    def _kill(self) -> None:
        """Kill one of them; the connection ends, often when the standby has everything."""
        self._kills += 1
        if self._rng.random() < 0.7:
            self._deliver()
        self._waiting = None
        if self._rng.random() < 0.5:
            self._daemon_dir = copied(self._daemon_dir, self._place / f"daemon-{self._kills}")
            self._daemon.close()
            self._daemon = opened(self._daemon_dir)
        else:
            self._standby_dir = copied(self._standby_dir, self._place / f"standby-{self._kills}")
            self._standby.close()
            self._standby = followed(self._standby_dir)

    def check(self) -> None:
        """Check that the standby, which has got everything, has the same state, and of the history what both keep."""
        for table in STATE:
            assert rows(self._standby_dir, table) == rows(self._daemon_dir, table)
        for table in ("log", "base", "mention"):
            ours, theirs = rows(self._standby_dir, table), rows(self._daemon_dir, table)
            assert ours[-min(len(ours), len(theirs)) :] == theirs[-min(len(ours), len(theirs)) :]
        assert list(verify(self._standby_dir)) == []

    def close(self) -> None:
        self._daemon.close()
        self._standby.close()


@pytest.mark.parametrize("seed", seeds(4))
def test_a_standby_has_the_beginning(tmp_path: Path, seed: int) -> None:
    """A standby's journal is never refused, and is the same when it has all rows, byte for byte."""
    pair = Pair(tmp_path, random.Random(seed))
    for _ in range(STEPS):
        pair.step()
    pair.close()
    assert pair.copies
    assert pair.went_on


def test_a_transaction_comes_in_its_place(tmp_path: Path) -> None:
    """One that is not the next, or is not as it was written, is refused and changes nothing."""
    store, standby = opened(tmp_path / "daemon"), followed(tmp_path / "standby")
    standby.follow(store.beginnings, store.number)
    first = store.transaction(numbered(1))
    store.write(first)
    second = store.transaction(numbered(2))
    with pytest.raises(ValueError, match="found transaction 2, expected 1"):
        standby.write(second)
    with pytest.raises(ValueError, match="transaction 1 is not as it was written"):
        Transaction.decode(_damaged(first))
    standby.write(first)
    assert standby.number == 1
    store.close()
    standby.close()


def _damaged(transaction: Transaction) -> bytes:
    """A transaction whose time is another one."""
    number, at_ns, *others = transaction.log
    return Transaction((number, at_ns + 1, *others), [], None, None).encode()


def test_a_copy_that_is_not_taken_in_whole_is_not_there(tmp_path: Path) -> None:
    """A damaged copy changes nothing, and the standby can take in another one."""
    store, standby = opened(tmp_path / "daemon"), followed(tmp_path / "standby")
    for number in range(1, 20):
        store.commit(batch(number, {b'["default","task",%d]' % number: b'{"text":"%b"}' % (b"x" * 5000)}))
    copy = tmp_path / "copy.db"
    copy_rest(tmp_path / "daemon", copy, 0)
    whole = copy.read_bytes()
    copy.write_bytes(whole[: len(whole) // 2])
    standby.follow(store.beginnings, store.number)
    with pytest.raises(DiskError):
        standby.take_in(copy)
    assert (standby.number, rows(tmp_path / "standby", "log"), rows(tmp_path / "standby", "record")) == (0, [], [])
    store.close()
    standby.close()


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_journal_may_take_over_what_it_has_had_as_a_whole(tmp_path: Path, is_copied: bool) -> None:
    """DU-23: before it has all that the daemon had when it joined, it follows nobody, and a note that it was superseded stays."""
    store, standby, place = opened(tmp_path / "daemon"), followed(tmp_path / "standby"), tmp_path / "standby"
    transactions = [store.transaction(numbered(1))]
    store.write(transactions[0])
    transactions.append(store.transaction(numbered(2)))
    store.write(transactions[1])
    write_superseded(place, "term 7-x")
    standby.follow(store.beginnings, store.number)
    assert (is_following(place), read_superseded(place) != "") == (False, True)
    if is_copied:
        copy_rest(tmp_path / "daemon", tmp_path / "copy", 0)
        standby.take_in(tmp_path / "copy")
    else:
        standby.write(transactions[0])
        assert not is_following(place)
        standby.write(transactions[1])
    assert (is_following(place), read_superseded(place)) == (True, "")
    standby.close()
    store.close()


def test_a_late_transaction_of_an_older_daemon_is_refused(tmp_path: Path) -> None:
    """DU-23: when the standby has been told of another term, what is of the one before is not written."""
    older, standby = opened(tmp_path / "daemon"), followed(tmp_path / "standby")
    standby.follow(older.beginnings, older.number)
    late = older.transaction(numbered(1))
    standby.begin_term(takes_over=True)
    with pytest.raises(ValueError, match="found a transaction of term 1, expected 1048576-"):
        standby.write(late)
    assert standby.number == 0
    older.close()
    standby.close()


def test_a_take_over_is_above_all_later_starts_of_the_older_daemon(tmp_path: Path) -> None:
    """DU-23: the older one begins terms of its own, which stay below; each knows from the terms who has taken over."""
    older, standby = opened(tmp_path / "daemon"), followed(tmp_path / "standby")
    older.commit(numbered(1))
    copy_rest(tmp_path / "daemon", tmp_path / "copy", 0)
    standby.take_in(tmp_path / "copy")
    standby.begin_term(takes_over=True)
    for _ in range(5):
        older.close()
        older = opened(tmp_path / "daemon")
    assert older.terms.present < standby.terms.present
    assert older.terms.superseded_by(standby.beginnings) == standby.terms.present
    assert standby.terms.superseded_by(older.beginnings) is None
    assert "a daemon has written to it" in standby.terms.strange(older.number, older.beginnings)
    foreign = opened(tmp_path / "foreign")
    assert foreign.terms.superseded_by(standby.beginnings) is None
    assert foreign.terms.superseded_by([]) is None
    for store in (older, standby, foreign):
        store.close()
