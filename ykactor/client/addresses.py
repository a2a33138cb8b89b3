"""The addresses at which a daemon may be: its own, and those of daemons that may take over for it."""

import re

from ykactor.client.errors import Disconnected

#: A comma before another address; the path of a Unix socket may have one too.
_BETWEEN = re.compile(r",(?=(?:wss?://|unix:))")


def split_addresses(text: str) -> list[str]:
    """The addresses of a text such as ``ws://a:9081,ws://b:9081``."""
    return _BETWEEN.split(text)


class Addresses:
    """The addresses that a session tries, one after the other, and the newest term that a daemon has confirmed to it.

    With several addresses a daemon of an older term is refused: another one has taken over for it (DU-23). With one address the
    daemon may have been put back to an older copy, which its answers tell (EV-55).

    Attributes
    ----------
    current : str
        The address to be tried next, or in use.
    """

    def __init__(self, text: str) -> None:
        self._all = split_addresses(text)
        self.current = self._all[0]
        self._newest = 0
        self._failed = 0

    def check(self, term: str) -> None:
        """Raise `Disconnected` if the daemon of this term, which the handshake has told, is older than one before it."""
        number = _number(term)
        if len(self._all) > 1 and number < self._newest:
            raise Disconnected(f"{self.current}: found a daemon of term {term}, another one has taken over for it")

    def confirmed(self, term: str) -> None:
        """A daemon of this term has confirmed something, which is durable."""
        self._newest = max(self._newest, _number(term))
        self._failed = 0

    def failed(self) -> bool:
        """Go on with the next address. True if there is one that was not tried since a daemon has confirmed something."""
        self._failed += 1
        self.current = self._all[(self._all.index(self.current) + 1) % len(self._all)]
        return self._failed < len(self._all)


def _number(term: str) -> int:
    """The number of a term, by which terms are ordered; 0 if the daemon does not tell it."""
    number = term.partition("-")[0]
    return int(number) if number.isdecimal() else 0
