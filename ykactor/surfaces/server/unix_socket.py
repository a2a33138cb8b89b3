"""Unix sockets in the file system: how one gets its name, and when it loses it."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class SocketFileError(Exception):
    """There cannot be a socket with this name, as long as nobody changes what is there."""


class SocketInUseError(Exception):
    """Another process listens on the socket."""


@contextmanager
def listening(path: str, mode: int, group: int | None) -> Iterator[socket.socket]:
    """A Unix socket that listens, with its file; at the end both are removed, the file only if it is still this one (SE-51).

    It gets its name when owner and mode are as they should be, so nobody can connect before. The file of a daemon that was killed
    is replaced.

    Args:
        group: the number of the group of the file; None: that of the daemon.

    Raises:
        SocketFileError: something else has the name.
        SocketInUseError
        OSError: the directory, the mode or the group does not allow it.
    """
    name = Path(path).name
    directory = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check_free(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            identity = _bind(sock, directory, name, mode, group)
            try:
                yield sock
            finally:
                sock.close()  # first: who finds the file without a daemon may take it over
                if _identity(directory, name) == identity:
                    os.unlink(name, dir_fd=directory)
    finally:
        os.close(directory)


def _bind(sock: socket.socket, directory: int, name: str, mode: int, group: int | None) -> tuple[int, int] | None:
    """Give the socket its file, and let it listen; the identity of the file."""
    unfinished = f".ykactor-{secrets.token_hex(4)}"
    # Through the directory: the path of a socket has a limit, which the temporary name must not make smaller.
    sock.bind(f"/proc/self/fd/{directory}/{unfinished}")
    try:
        if group is not None:
            os.chown(unfinished, -1, group, dir_fd=directory, follow_symlinks=False)
        os.chmod(unfinished, mode, dir_fd=directory)
        sock.listen(socket.SOMAXCONN)
        identity = _identity(directory, unfinished)
        os.rename(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        os.unlink(unfinished, dir_fd=directory)
        raise
    return identity


def _identity(directory: int, name: str) -> tuple[int, int] | None:
    """Which file has the name now, if any."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _check_free(path: str) -> None:
    """Refuse a name that is taken, but for that of a socket of this user on which nobody listens."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketFileError("found something that is no socket, expected nothing or the socket of a daemon that has ended")
    if found.st_uid != os.geteuid():
        raise SocketFileError(f"found a socket of another user (uid {found.st_uid}), expected nothing or one of this user")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return
        except OSError:
            pass  # it has too many connections that wait, or is one of another type: somebody has it open
    raise SocketInUseError
