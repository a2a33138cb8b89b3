"""The addresses at which a daemon may be: its own, and those of daemons that may take over for it."""

import re
from typing import NamedTuple

from ykactor.client.errors import Disconnected

#: A comma before another address; the path of a Unix socket may have one too.
_BETWEEN = re.compile(r",(?=(?:wss?://|unix:))")


def split_addresses(text: str) -> list[str]:
    """The addresses of a text such as ``ws://a:9081,ws://b:9081``."""
    return _BETWEEN.split(text)


#: A take-over begins terms from the next multiple of this number on.
GENERATION = 2**20


class Addresses:
    """The addresses that a session tries, one after the other, and the newest term that a daemon has confirmed to it.

    With several addresses a daemon of an older term is refused, for which another one has taken over, and so is one that has
    taken over the same history beside that one (DU-23). With one address the daemon may have been put back to an older copy,
    which its answers tell (EV-55).

    Attributes
    ----------
    current : str
        The address to be tried next, or in use.
    """

    def __init__(self, text: str) -> None:
        self._all = split_addresses(text)
        self.current = self._all[0]
        self._newest = ""
        self._failed = 0

    def check(self, term: str) -> None:
        """Raise `Disconnected` if the daemon of this term, which the handshake has told, is older than one before, or a rival."""
        if len(self._all) == 1 or not self._newest or term == self._newest:
            return
        newest, found = _parsed(self._newest), _parsed(term)
        if found.generation == newest.generation and (found.lineage != newest.lineage or found.number == newest.number):
            beside = f"beside the one of term {self._newest} before it; only one of them can go on"
            raise Disconnected(f"{self.current}: found a daemon of term {term}, which has begun {beside}")
        if found.number < newest.number:
            raise Disconnected(f"{self.current}: found a daemon of term {term}, another one has taken over for it")

    def confirmed(self, term: str) -> None:
        """A daemon of this term has confirmed something, which is durable."""
        self._newest = max(self._newest, term, key=lambda each: _parsed(each).number)
        self._failed = 0

    def failed(self) -> bool:
        """Go on with the next address. True if there is one that was not tried since a daemon has confirmed something."""
        self._failed += 1
        self.current = self._all[(self._all.index(self.current) + 1) % len(self._all)]
        return self._failed < len(self._all)


class _Term(NamedTuple):
    """A term as ``journal.terms.Term`` has it: its number, by which terms are ordered, and the take-over after which it is."""

    number: int
    lineage: str

    @property
    def generation(self) -> int:
        """The number of take-overs up to this term."""
        return self.number // GENERATION


def _parsed(term: str) -> _Term:
    """A term from its text; 0 if the daemon does not tell it."""
    number, _, nonce = term.partition("-")
    return _Term(int(number) if number.isdecimal() else 0, nonce.rpartition("-")[0])
