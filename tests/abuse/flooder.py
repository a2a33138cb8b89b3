"""A client that sends as much as it can until it is killed: ``flooder.py KIND PORT NUMBER [AUTHORITY]``.

It reads what comes back only to go on. NUMBER is that of the last message to the resource manager ``rm-1``, AUTHORITY a file with
the authority of a daemon with TLS.
"""

import itertools
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import suppress

import msgspec
from rawframes import FEED_PATH, RM_PATH, frame, handshake

from ykactor.client import tls_context

#: Bytes of small messages in one write; entries in a request, and in the largest ones.
_BATCH, _ENTRIES, _MOST = 2**16, 2000, 100_000
#: The socket takes or has nothing now.
_BUSY = (BlockingIOError, TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def subscriptions(number: int) -> Iterator[object]:
    """Right ones, each with another filter."""
    for count in itertools.count():
        yield {"type": "Subscribe", "applications": [f"app-{count}-{item}" for item in range(64)]}


def wrong_subscriptions(number: int) -> Iterator[object]:
    """Subscriptions with a kind that does not exist."""
    for count in itertools.count():
        yield {"type": "Subscribe", "kinds": ["APP"] * 63 + [f"KIND-{count}"]}


def registrations(number: int) -> Iterator[object]:
    """The registration of a second resource manager, which ends the session."""
    yield {"type": "RegisterResourceManagerRequest", "rmID": "rm-2"}


def requests(number: int) -> Iterator[object]:
    """Large ones of the resource manager, which change every node; each has an answer for each node."""
    yield {"type": "RegisterResourceManagerRequest", "rmID": "rm-1", "resumeFrom": number}
    for count in itertools.count():
        size = {"vcore": count % 1000}
        action = "UPDATE" if count else "CREATE_DRAIN"
        nodes = [{"nodeID": f"n-{item}", "action": action, "schedulableResource": size} for item in range(_ENTRIES)]
        yield {"type": "NodeRequest", "nodes": nodes}


def wrong_requests(number: int) -> Iterator[object]:
    """Large ones whose last entry is wrong."""
    yield {"type": "RegisterResourceManagerRequest", "rmID": "rm-1", "resumeFrom": number}
    nodes: list[object] = [{"nodeID": f"n-{item}", "action": "UPDATE"} for item in range(_ENTRIES)]
    yield from itertools.repeat({"type": "NodeRequest", "nodes": [*nodes, {"nodeID": 5, "action": "UPDATE"}]})


def largest_requests(number: int) -> Iterator[object]:
    """Requests with as many entries as are allowed, about unknown objects; now and then the last one is wrong."""
    yield {"type": "RegisterResourceManagerRequest", "rmID": "rm-1", "resumeFrom": number}
    size = {"vcore": 1000, "memory": "1Gi"}
    nodes: list[object] = [{"nodeID": f"x-{item}", "action": "UPDATE", "schedulableResource": size} for item in range(_MOST)]
    asks = [{"allocationKey": f"x-{item}", "applicationID": "x", "resourcePerAlloc": size} for item in range(_MOST)]
    releases = [{"allocationKey": f"x-{item}", "applicationID": "x"} for item in range(_MOST)]
    yield from itertools.cycle(
        [
            {"type": "NodeRequest", "nodes": nodes},
            {"type": "AllocationRequest", "allocations": asks},
            {"type": "AllocationRequest", "allocations": [{**ask, "partitionName": "x"} for ask in asks]},
            {"type": "AllocationRequest", "releases": {"allocationsToRelease": releases}},
            {"type": "ApplicationRequest", "remove": [{"applicationID": f"x-{item}"} for item in range(_MOST)]},
            {"type": "UpdateConfigurationRequest", "config": "#" + "a comment\n#" * 1_000_000, "ifChecksum": "x"},
            {"type": "NodeRequest", "nodes": [*nodes[1:], {"nodeID": 5, "action": "UPDATE"}]},
        ]
    )


KINDS = {
    "subscriptions": (FEED_PATH, subscriptions),
    "wrong subscriptions": (FEED_PATH, wrong_subscriptions),
    "registrations": (RM_PATH, registrations),
    "requests": (RM_PATH, requests),
    "wrong requests": (RM_PATH, wrong_requests),
    "largest requests": (RM_PATH, largest_requests),
}


def flood(kind: str, port: int, number: int, authority: str | None = None) -> None:
    """Send without end."""
    path, messages = KINDS[kind]
    print("begins", flush=True)
    while True:  # one connection after the other, of messages that end
        connection = socket.create_connection(("127.0.0.1", port))
        if authority is not None:
            connection = tls_context(authority).wrap_socket(connection, server_hostname="localhost")
        with connection:
            connection.sendall(handshake(path))
            batch = b""
            for message in messages(number):
                batch += frame(msgspec.json.encode(message))
                if len(batch) >= _BATCH:
                    _send(connection, batch)
                    batch = b""
            connection.sendall(batch)
            with suppress(ConnectionResetError):
                while connection.recv(2**20):
                    pass


def _send(connection: socket.socket, data: bytes) -> None:
    """Send all, and meanwhile read what has come."""
    connection.setblocking(False)
    view = memoryview(data)
    while view:
        try:
            view = view[connection.send(view) :]
        except _BUSY:
            connection.settimeout(0.001)
        with suppress(*_BUSY):
            connection.recv(2**20)
        connection.setblocking(False)


if __name__ == "__main__":
    _, kind, port, number, *authority = sys.argv
    flood(kind, int(port), int(number), *authority)
