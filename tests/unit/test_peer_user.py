"""The user at the other end of a TCP connection, as the kernel knows it (SE-52)."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from ykactor.surfaces.net import peer_user
from ykactor.surfaces.net.peer_user import UnknownUserError, tcp_uid

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else, and make a network namespace")
OTHER = 12345
#: An address to listen at, and one that leads there.
ADDRESSES = [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "127.0.0.9"), ("::1", "::1"), ("::ffff:127.0.0.1", "127.0.0.1")]


@contextmanager
def connection(
    listens: str = "127.0.0.1", bound: str = "127.0.0.1", uid: int | None = None
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends: that of a daemon, and that of a client of this user, who is bound to an address."""
    with ExitStack() as held:
        listener = held.enter_context(socket.socket(family(listens)))
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((listens, 0))
        listener.listen()
        if uid is not None:
            os.seteuid(uid)
        try:
            client = held.enter_context(socket.socket(family(bound)))
        finally:
            os.seteuid(os.getuid())
        client.bind((bound, 0))
        client.connect(("::1" if ":" in bound else "127.0.0.1", listener.getsockname()[1]))
        accepted, _ = listener.accept()
        yield held.enter_context(accepted), client


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def reason_of(connected: socket.socket) -> str:
    with pytest.raises(UnknownUserError) as error:
        tcp_uid(connected)
    return str(error.value)


@pytest.mark.parametrize(("listens", "bound"), ADDRESSES)
def test_the_own_user(listens: str, bound: str) -> None:
    """SE-52: whatever address the client has, and also if one end writes IPv4 as IPv6."""
    with connection(listens, bound) as (accepted, _):
        assert tcp_uid(accepted) == os.geteuid()


@ROOT_ONLY
@pytest.mark.parametrize(("listens", "bound"), ADDRESSES)
def test_another_user(listens: str, bound: str) -> None:
    """SE-52: the user that made the socket."""
    with connection(listens, bound, uid=OTHER) as (accepted, client):
        assert tcp_uid(accepted) == OTHER
        assert tcp_uid(client) == 0


@pytest.mark.parametrize("listens", ["127.0.0.1", "::1"])
def test_a_closed_end_is_of_nobody(listens: str) -> None:
    """SE-52: the kernel shows it as one of root, by which anybody could be root: it is enough to send everything and to close."""
    with connection(listens, listens) as (accepted, client):
        client.sendall(b"everything that root may do")
        here, there = (peer_user._end(name) for name in (accepted.getsockname(), accepted.getpeername()))
        client.close()
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as kernel:
            shown = peer_user._find(kernel, there, here)
        assert shown is not None
        assert (shown.uid, shown.inode) == (0, 0)
        assert reason_of(accepted) == "the other end is of another network namespace, or was closed already"


def test_half_a_close_is_one() -> None:
    """SE-52: the states behind it may not be told from those of a closed end on every kernel."""
    with connection() as (accepted, client):
        client.shutdown(socket.SHUT_WR)
        assert "was closed already" in reason_of(accepted)


def test_a_listener_at_the_port_of_the_client_is_not_the_client() -> None:
    """SE-52: the kernel finds a socket that listens there where the connection is gone; it may be one of root."""
    with connection() as (accepted, client):
        name = client.getsockname()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # its end leaves nothing
        client.close()
        with socket.create_server(name):
            reason_of(accepted)


@ROOT_ONLY
def test_another_network_namespace() -> None:
    """SE-52: where the daemon has the same addresses they may be those of somebody else."""
    script = """
import ctypes, socket
from ykactor.surfaces.net.peer_user import UnknownUserError, tcp_uid
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
accepted, _ = listener.accept()
assert tcp_uid(accepted) == 0
if ctypes.CDLL(None).unshare(0x40000000):
    raise SystemExit("unshare")
try:
    print(tcp_uid(accepted))
except UnknownUserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr:
        pytest.skip("this machine lets nobody make a network namespace")
    assert done.stdout == "the listener is of another network namespace than the daemon\n"


def test_a_kernel_that_may_not_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-52: such as ``RestrictAddressFamilies=`` without AF_NETLINK, or a kernel without sock_diag."""

    class Refusing(socket.socket):
        def __init__(self, family: int, *args: object) -> None:
            raise PermissionError(1, "Operation not permitted")

    with connection() as (accepted, _):
        monkeypatch.setattr(peer_user.socket, "socket", Refusing)
        assert reason_of(accepted) == "the kernel was asked with sock_diag and says: Operation not permitted"


def test_a_connection_that_is_broken() -> None:
    """SE-52: it has no other end any more."""
    with connection() as (accepted, client):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        reason_of(accepted)
