"""Terms: to which history the number of an event or message belongs.

A number alone does not say it. A state directory may be copied, or go back in time (a snapshot of the disk, ``cp -a``, rsync),
and two histories that were one then give the same numbers to different events. So each start begins a *term*, in which all
numbers up to the next start are given, and the journal remembers where each began. A client says in which term it was told a
number; a history has this number of this term if the term began in it, and did not end before (the leader epochs of Kafka's
KIP-101).
"""

import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ykactor.journal.errors import damaged
from ykactor.journal.transaction import crc_of

#: Terms that are remembered, the newest; who comes with an older one begins anew.
TERMS_MAX = 1000
#: A take-over begins a term whose number is the next multiple of this one, which starts of the older daemon never reach.
GENERATION = 2**20
#: Bytes of chance in a term, and in that of a take-over.
_NONCE_BYTES = 8
_LINEAGE_BYTES = 4

_BEGUN = "SELECT number, first_transaction, first_event, first_message, nonce, crc FROM term ORDER BY number"
_BEGIN = "INSERT INTO term(number, first_transaction, first_event, first_message, nonce, crc) VALUES(?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM term WHERE number NOT IN (SELECT number FROM term ORDER BY number DESC LIMIT ?)"

Kind = Literal["event", "message"]


class Term(Struct, frozen=True, order=True):
    """One start of a daemon, which no other start repeats, in whatever copy of the state directory.

    Terms are ordered: that of a later start is higher. Two starts from copies of one directory may have the same number, but not
    the same nonce. Two standbys that take over may give their terms the same number, and so may later starts there: the nonces of
    these begin with the lineage of their take-over, which no other one has.
    """

    number: int
    nonce: str

    @classmethod
    def after(cls, before: "Term", *, takes_over: bool = False) -> "Term":
        """A new term, higher than the one before, and if it takes over, than those of later starts there."""
        above = (before.generation + 1) * GENERATION if takes_over else before.number + 1
        lineage = secrets.token_hex(_LINEAGE_BYTES) if takes_over else before.lineage
        nonce = secrets.token_hex(_NONCE_BYTES)
        return cls(above, f"{lineage}-{nonce}" if lineage else nonce)

    @property
    def lineage(self) -> str:
        """The take-over after which this term has begun; "" before any."""
        return self.nonce.rpartition("-")[0]

    def is_rival_of(self, other: "Term") -> bool:
        """True if they are of two take-overs, neither of which is after the other."""
        return self.generation == other.generation and self.lineage != other.lineage

    @property
    def generation(self) -> int:
        """The number of take-overs up to this term."""
        return self.number // GENERATION

    @classmethod
    def parse(cls, text: str) -> "Term":
        """The term of a text that ``str`` has made."""
        number, _, nonce = text.partition("-")
        return cls(int(number), nonce)

    def __str__(self) -> str:
        return f"{self.number}-{self.nonce}"


#: Before the first term of a journal.
NO_TERM = Term(0, "")


class Beginning(Struct, frozen=True):
    """The beginning of a term: the numbers of its first transaction, event and message."""

    term: Term
    transaction: int
    event: int
    message: int

    def columns(self) -> tuple[int | str, ...]:
        """The columns of the table ``term``, with the CRC."""
        numbers = (self.term.number, self.transaction, self.event, self.message)
        return *numbers, self.term.nonce, crc_of(*numbers, self.term.nonce.encode())


class Terms:
    """The newest terms of a history, the oldest first; there is at least one.

    Attributes:
        present: the newest.
    """

    def __init__(self, beginnings: Sequence[Beginning]) -> None:
        self.present = beginnings[-1].term
        self._beginnings = beginnings
        #: The beginning of the next term, by the text of each term; None for the present one.
        self._ends = dict(
            zip((str(beginning.term) for beginning in beginnings), [*beginnings[1:], None], strict=True),
        )

    @classmethod
    def first(cls) -> "Terms":
        """The terms of a daemon that keeps nothing: a new one."""
        return cls([Beginning(Term.after(NO_TERM), 1, 1, 1)])

    def first_events(self) -> list[tuple[str, int]]:
        """Each term with the number of its first event, the oldest first."""
        return [(str(beginning.term), beginning.event) for beginning in self._beginnings]

    def __contains__(self, term: str) -> bool:
        return term in self._ends

    def are_before(self, term: str) -> bool:
        """True if a term, which a client has sent, is higher than all of these: this history may come to have it."""
        try:
            return Term.parse(term) > self.present
        except ValueError:
            return False

    def missing(self, kind: Kind, number: int, term: str) -> str:
        """The reason for which this history has no message with this number of this term, as a sentence; "" if it may have it.

        Numbers of the present term are not compared with the newest one, which the caller knows.
        """
        if term not in self._ends:
            why = "the daemon has begun anew, or goes on from another state directory"
            return f"found term {term}, which this history does not have: {why}"
        end = self._ends[term]
        last = None if end is None else (end.event if kind == "event" else end.message) - 1
        if last is None or number <= last:
            return ""
        ended = f"which has ended with {kind} {last} in this history"
        return f"found {kind} {number} of term {term}, {ended}: the daemon goes on from an older copy"

    def superseded_by(self, beginnings: Sequence[Beginning]) -> Term | None:
        """The term in which another daemon has taken over this history, according to those of its journal; None if none has."""
        is_same = any(str(beginning.term) in self._ends for beginning in beginnings)
        newest = beginnings[-1].term if beginnings else self.present
        return newest if is_same and newest.generation > self.present.generation else None

    def has_outrun(self, beginnings: Sequence[Beginning]) -> bool:
        """True if a journal with these terms has taken over a history that this one has taken over too, and at least as often."""
        common = [beginning.term.generation for beginning in beginnings if str(beginning.term) in self._ends]
        if not common:
            return False
        theirs = beginnings[-1].term
        return str(theirs) not in self._ends and common[-1] < theirs.generation <= self.present.generation

    def strange(self, number: int, beginnings: Sequence[Beginning]) -> str:
        """The reason for which a journal is no beginning of this history, as a sentence; "" if it is one.

        Args:
            number: its newest transaction; the caller knows that this history has as many.
            beginnings: of its terms, the oldest first.
        """
        if not number:
            return ""
        common = [beginning for beginning in beginnings if str(beginning.term) in self._ends]
        if not common:
            return "it has no term in common with this history"
        later = beginnings[-1].term
        if self.has_outrun(beginnings):
            return f"it has taken over in term {later}, and this daemon has done so in {self.present}: only one of them can go on"
        end = self._ends[str(common[-1].term)]
        if end is not None and number >= end.transaction:
            last = end.transaction - 1
            return f"it has transaction {number} of term {common[-1].term}, which has ended with {last} in this history"
        if later != common[-1].term:
            return f"it has term {later}, which this history does not have: a daemon has written to it"
        return ""


def read_beginnings(connection: sqlite3.Connection, path: Path) -> list[Beginning]:
    """The terms that a journal remembers, the oldest first. Raises:  JournalError if one is damaged, sqlite3.Error."""
    found = []
    for number, transaction, event, message, nonce, crc in connection.execute(_BEGUN):
        if not isinstance(nonce, bytes) or crc_of(number, transaction, event, message, nonce) != crc:
            raise damaged(path, f"term {number} is not as it was written")
        found.append(Beginning(Term(number, nonce.decode()), transaction, event, message))
    return found


def write_beginnings(connection: sqlite3.Connection, beginnings: Sequence[Beginning]) -> None:
    """Remember these terms instead of all others. In a transaction of the caller. Raises:  sqlite3.Error."""
    connection.execute("DELETE FROM term")
    connection.executemany(_BEGIN, [beginning.columns() for beginning in beginnings])


def write_beginning(connection: sqlite3.Connection, beginning: Beginning) -> None:
    """Begin a term, and forget the oldest. In a transaction of the caller. Raises:  sqlite3.Error."""
    connection.execute(_BEGIN, beginning.columns())
    connection.execute(_FORGET, (TERMS_MAX,))
