"""The places of HTTP connections: how many in all, how many of each identity, and of each network until it is known who asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ykactor.access.model import Identity
from ykactor.surfaces.server.doors import Origin
from ykactor.surfaces.server.networks import network_of

#: Connections at a time, and those of one network that have not shown whose they are.
CONNECTIONS_MAX = 500
UNKNOWN_MAX = 250

#: "network" or "identity", and its name.
_Key = tuple[str, str]


class ConnectionPlaces:
    """Counts the connections that are open (SE-96)."""

    def __init__(self) -> None:
        self._open: Counter[_Key] = Counter()

    def refusal(self, origin: Origin) -> str:
        """Why there is no place for one more connection; "" if there is."""
        if self._open.total() >= CONNECTIONS_MAX:
            return f"{CONNECTIONS_MAX} connections are open, no more are allowed"
        network = network_of(origin.text)
        if self._open["network", network] >= UNKNOWN_MAX:
            return f"{UNKNOWN_MAX} connections of {network} have not shown whose they are, no more are allowed"
        return ""

    @contextmanager
    def taken(self, origin: Origin) -> Iterator[ConnectionPlace]:
        """A connection takes up a place within this block."""
        place = ConnectionPlace(self._open, ("network", network_of(origin.text)))
        try:
            yield place
        finally:
            place.give_back()


class ConnectionPlace:
    """The place of one connection, which counts for its network until its first request tells whose it is."""

    def __init__(self, counts: Counter[_Key], key: _Key) -> None:
        self._counts = counts
        self._key = key
        counts[key] += 1

    def claim(self, identity: Identity) -> bool:
        """Count it for the identity, if it counts for none yet; whether that may have the place."""
        kind, _ = self._key
        if kind == "identity":
            return True
        key = ("identity", identity.name)
        if self._counts[key] >= identity.limits.connections:
            return False
        self.give_back()
        self._key = key
        self._counts[key] += 1
        return True

    def give_back(self) -> None:
        """It is free again."""
        self._counts[self._key] -= 1
        if not self._counts[self._key]:
            del self._counts[self._key]
