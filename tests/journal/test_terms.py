"""Terms: whatever becomes of a state directory and its copies, no number of a term ever stands for two things (EV-55)."""

from __future__ import annotations

import random
import shutil
from itertools import count
from pathlib import Path

import pytest
from journals import S_NS, compact_json, copied, numbered, opened, turns_of
from seeds import seeds

from ykactor.client import Disconnected
from ykactor.client import addresses as addresses_module
from ykactor.client.addresses import Addresses
from ykactor.journal import maintenance
from ykactor.journal.errors import JournalError
from ykactor.journal.files import Seen
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.terms import GENERATION, NO_TERM, Beginning, Term, Terms
from ykactor.journal.transaction import Batch

STEPS = 60


def test_two_take_overs_are_told_apart() -> None:
    """They and all later starts have the same numbers, and are rivals; a later take-over is after both. Clients see it too."""
    before = Term.after(Term.after(NO_TERM))
    first, second = Term.after(before, takes_over=True), Term.after(before, takes_over=True)
    later, other = Term.after(first), Term.after(Term.after(second))
    assert (before.number, first.number, second.number, later.number) == (2, GENERATION, GENERATION, GENERATION + 1)
    for one, rival in [(first, second), (first, other), (later, second), (later, other)]:
        assert one.is_rival_of(rival)
        addresses = Addresses("ws://a:1,ws://b:1")
        addresses.confirmed(str(one))
        with pytest.raises(Disconnected, match=f"found a daemon of term {rival}, which has begun beside the one of term {one}"):
            addresses.check(str(rival))
        addresses.check(str(Term.after(rival, takes_over=True)))
    addresses = Addresses("ws://a:1,ws://b:1")
    for term in (before, first, later, Term.after(later)):
        assert not term.is_rival_of(later)
        addresses.check(str(term))
        addresses.confirmed(str(term))
        with pytest.raises(Disconnected, match=f"found a daemon of term {term.number}-0"):
            addresses.check(f"{term.number}-{'0' * 16}")
    assert Term.parse(str(later)) == later
    assert addresses_module.GENERATION == GENERATION


class Histories:
    """State directories that are used, killed, copied, put back to a copy of before, and damaged, and all that clients know.

    Each transaction has one event and one message, with a content that no other one has.

    Attributes:
        seen: the content of each event by its term and number, as its daemon has told it.
        known: what clients resume with: a term, a number, and all events up to it.
    """

    def __init__(self, place: Path, rng: random.Random) -> None:
        self._place, self._rng = place, rng
        self._names, self._contents = count(), count()
        self.stores: dict[Path, Store] = {}
        self.copies: list[Path] = []
        self.seen: dict[tuple[str, int], bytes] = {}
        self.known: set[tuple[str, int, tuple[bytes, ...]]] = set()
        self.resumed = self.refused = 0
        self._open(self._new())

    def _new(self) -> Path:
        return self._place / str(next(self._names))

    def _open(self, directory: Path) -> None:
        store = self.stores[directory] = opened(directory)
        events = _events(directory)
        self.known.add((str(store.terms.present), len(events), events))
        for term, number, before in self.known:
            if number <= len(events) and not store.terms.missing("event", number, term):
                assert events[:number] == before, f"{directory} has another event {number} of term {term}"
                self.resumed += 1
            else:
                self.refused += 1
            assert bool(store.terms.missing("event", number, term)) == bool(store.terms.missing("message", number, term))

    def step(self) -> None:
        """Something happens to one of the directories."""
        directory = self._rng.choice(list(self.stores))
        act = self._rng.choice([self._commit, self._commit, self._commit, self._restart, self._kill, self._copy, self._go_back])
        act(directory)

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    def _commit(self, directory: Path) -> None:
        for _ in range(self._rng.randint(1, 4)):
            store = self.stores[directory]
            number, content = store.number + 1, compact_json({"event": next(self._contents)})
            store.commit(Batch(number, number, S_NS, events_count=1, messages_count=1, turns=[content], messages=[content]))
            term = str(store.terms.present)
            assert self.seen.setdefault((term, number), content) == content
            self.known.add((term, number, _events(directory)))

    def _restart(self, directory: Path) -> None:
        self.stores.pop(directory).close()
        self._open(directory)

    def _kill(self, directory: Path) -> None:
        """Continue a copy at another place, perhaps without the newest transactions, or without the witness."""
        died = copied(directory, self._new())
        self.stores.pop(directory).close()
        self._damage(died)
        self._open(died)

    def _damage(self, directory: Path) -> None:
        wal, witness = directory / "journal.db-wal", directory / "witness"
        if self._rng.random() < 0.3 and wal.exists():
            with wal.open("r+b") as file:
                file.truncate(self._rng.randint(0, wal.stat().st_size))
        if self._rng.random() < 0.2:
            witness.write_bytes(witness.read_bytes()[:-3])
        elif self._rng.random() < 0.2:
            witness.unlink()

    def _copy(self, directory: Path) -> None:
        """A copy is kept, and sometimes a daemon goes on with another one beside the first."""
        self.copies.append(copied(directory, self._new()))
        if self._rng.random() < 0.4 and len(self.stores) < 4:
            self._open(copied(directory, self._new()))

    def _go_back(self, directory: Path) -> None:
        """The directory is what it was some time ago."""
        if self.copies:
            self.stores.pop(directory).close()
            self._open(copied(self._rng.choice(self.copies), directory))


def _events(directory: Path) -> tuple[bytes, ...]:
    return tuple(turn for _, turns in turns_of(directory) for turn in turns)


@pytest.mark.parametrize("seed", seeds(4))
def test_no_number_of_a_term_stands_for_two_things(tmp_path: Path, seed: int) -> None:
    """A reader that resumes with a term and a number continues what it has seen, or is told that this history lacks it."""
    histories = Histories(tmp_path, random.Random(seed))
    try:
        for _ in range(STEPS):
            histories.step()
    finally:
        histories.close()
    assert histories.resumed > STEPS
    assert histories.refused > STEPS


def test_each_start_begins_a_higher_term(tmp_path: Path) -> None:
    """Also after a kill, and in a directory whose database is older than its witness; it is there before anything else is."""
    terms: list[Term] = []
    for number in (1, 2):
        store = opened(tmp_path / "state")
        terms.append(store.terms.present)
        with Reader.open(tmp_path / "state") as reader:
            assert reader.beginnings()[-1].term == store.terms.present
        store.commit(numbered(number))
        old = copied(tmp_path / "state", tmp_path / f"old-{number}")
        store.close()
    (old / "journal.db").write_bytes((tmp_path / "old-1" / "journal.db").read_bytes())
    (old / "journal.db-wal").write_bytes((tmp_path / "old-1" / "journal.db-wal").read_bytes())
    store = opened(old)
    assert store.loss == "transactions 2 to 2 were committed, but are not in the journal any more"
    terms.append(store.terms.present)
    store.close()
    assert sorted(terms) == terms
    assert [term.number for term in terms] == [1, 2, 3]
    assert len({term.nonce for term in terms}) == 3


def test_two_starts_from_one_copy_are_two_terms(tmp_path: Path) -> None:
    """The same number, told apart by chance."""
    opened(tmp_path / "a").close()
    copied(tmp_path / "a", tmp_path / "b")
    stores = [opened(tmp_path / name) for name in "ab"]
    first, second = (store.terms.present for store in stores)
    assert (first.number, second.number) == (2, 2)
    assert first != second
    for store in stores:
        store.close()


def test_transactions_and_the_witness_name_their_term(tmp_path: Path) -> None:
    """Each transaction has the number of the term in which it was committed, and the witness has the term of the last one."""
    for number in (1, 2):
        store = opened(tmp_path)
        store.commit(numbered(number))
        store.close()
    with Reader.open(tmp_path) as reader:
        assert [row.term for row in reader.rows()] == [1, 2]
    assert Seen.of(tmp_path).term == store.terms.present


@pytest.mark.parametrize("version", [1, 2])
def test_transactions_and_witnesses_of_an_earlier_version_have_no_term(tmp_path: Path, version: int) -> None:
    """Transactions from before version 3 have the number 0, those after them the number of the present term."""
    shutil.copy(Path(__file__).parent / "fixtures" / f"version-{version}.db", tmp_path / "journal.db")
    witness = tmp_path / "witness"
    store = opened(tmp_path)
    store.commit(numbered(4))
    store.close()
    with Reader.open(tmp_path) as reader:
        assert [row.term for row in reader.rows()] == [0, 0, 0, store.terms.present.number]
    progress, _, _ = witness.read_bytes().partition(b"\n")
    witness.write_bytes(progress + b"\n")
    assert (Seen.of(tmp_path).number, Seen.of(tmp_path).term) == (4, None)


def test_a_journal_of_another_history_is_a_loss(tmp_path: Path) -> None:
    """The database was replaced by that of a copy that has gone on for longer: its numbers alone would not show it."""
    opened(tmp_path / "a").close()
    copied(tmp_path / "a", tmp_path / "b")
    for name, last in (("a", 1), ("b", 3)):
        store = opened(tmp_path / name)
        for number in range(1, last + 1):
            store.commit(numbered(number))
        store.close()
    term = Seen.of(tmp_path / "a").term
    (tmp_path / "a" / "journal.db").write_bytes((tmp_path / "b" / "journal.db").read_bytes())
    expected = f"transaction 1 of term {term} was committed, and is not in this journal: it is another copy"
    assert list(maintenance.verify(tmp_path / "a")) == [expected]
    store = opened(tmp_path / "a")
    store.close()
    assert store.loss == expected


def test_terms_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are remembered; who comes with an older one begins anew."""
    for module in ("terms", "store"):
        monkeypatch.setattr(f"ykactor.journal.{module}.TERMS_MAX", 3)
    texts = []
    for _ in range(5):
        store = opened(tmp_path)
        texts.append(str(store.terms.present))
        store.close()
    store = opened(tmp_path)
    assert [bool(store.terms.missing("event", 0, text)) for text in texts] == [True, True, True, False, False]
    store.close()


def test_why_a_number_is_missing() -> None:
    """The reason says in words where the term has ended in this history."""
    one, two = Term(1, "x"), Term(2, "y")
    terms = Terms([Beginning(one, 1, 1, 1), Beginning(two, 4, 8, 5)])
    assert {terms.missing("event", number, str(two)) for number in (0, 7, 8, 99)} == {""}
    assert [terms.missing(kind, number, str(one)) for kind, number in (("event", 7), ("message", 4))] == ["", ""]
    assert terms.missing("event", 8, str(one)) == (
        f"found event 8 of term {one}, which has ended with event 7 in this history: the daemon goes on from an older copy"
    )
    assert terms.missing("message", 5, str(one)).startswith(f"found message 5 of term {one}, which has ended with message 4")
    assert Terms.first().missing("event", 0, "1-x") == (
        "found term 1-x, which this history does not have: the daemon has begun anew, or goes on from another state directory"
    )


def test_a_damaged_term_is_damage(tmp_path: Path) -> None:
    """The numbers of a damaged term would admit rows that do not exist."""
    store = opened(tmp_path)
    store.commit(numbered(1))
    store._connection.execute("UPDATE term SET first_event = 9")
    store.close()
    assert list(maintenance.verify(tmp_path)) == ["term 1 is not as it was written"]
    with pytest.raises(JournalError, match="found damage: term 1 is not as it was written"):
        opened(tmp_path)
