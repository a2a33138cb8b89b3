"""The conditions under which root runs a local resource manager for all users of a machine.

Root must not run a program, or follow the orders of a daemon, that another user could have put in the place of the right one.
"""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from ykactor.client.addresses import split_addresses
from ykactor.wire.sockets import UNIX, unix_path

#: The default directory of jobs.
DIRECTORY = Path("/var/lib/ykactor-local")
_ROOT = 0
_SECURE = "wss"


class NotSafe(Exception):
    """Root should not do this; the message says what was found, and what is expected."""


def check_start(url: str) -> None:
    """Check the user, the program and the address of the daemon.

    Raises:  NotSafe.
    """
    if os.geteuid() != _ROOT:
        raise NotSafe(f"found the user {os.geteuid()}, expected root: only root can start tasks as other users")
    check_files({sys.executable} | {path for module in list(sys.modules.values()) if (path := getattr(module, "__file__", None))})
    for address in split_addresses(url):
        check_address(address)


def check_files(paths: set[str]) -> None:
    """Check that only root can write to files, and to the directories on the way to them.

    Raises:  NotSafe.
    """
    ways = {Path(way) for path in paths for way in (os.path.abspath(path), os.path.realpath(path))}
    for path in sorted(ways | {parent for each in ways for parent in each.parents}):
        if (reason := _writable(path, {_ROOT})) is not None:
            raise NotSafe(f"{path}: found {reason}, expected that only root may change this program and its interpreter")


def check_address(address: str) -> None:
    """Check that no other user can be the daemon at an address while it is away.

    Raises:  NotSafe.
    """
    if not address.startswith(UNIX):
        if urlsplit(address).scheme != _SECURE:
            raise NotSafe(f"{address}: found a port that any user may bind, expected unix:PATH or wss://")
        return
    directory = Path(unix_path(address)).absolute().parent
    for parent in _there(directory):
        owner = parent.stat().st_uid
        trusted = {_ROOT, owner} if parent == directory else {_ROOT}
        if (reason := _writable(parent, trusted)) is not None:
            raise NotSafe(f"{address}: found {reason} in {parent}, expected that only root and the daemon may write there")
    if not directory.is_dir() and next(_there(directory)).stat().st_mode & stat.S_ISVTX:
        raise NotSafe(f"{address}: found no {directory}, which any user could make, expected a directory of the daemon")


def _there(path: Path) -> Iterator[Path]:
    """The directory, and those above it, that exist, the innermost first."""
    return (each for each in (path, *path.parents) if each.is_dir())


def _writable(path: Path, trusted: set[int]) -> str | None:
    """Others than the trusted users who may write to a file, or in a directory; None if nobody else may."""
    status = path.stat()
    if status.st_uid not in trusted:
        return f"an owner with the number {status.st_uid}"
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # nobody can replace what is of another user there
    if status.st_mode & stat.S_IWOTH and not is_sticky:
        return "a right to write for everybody"
    if status.st_mode & stat.S_IWGRP and status.st_gid != _ROOT and not is_sticky:
        return f"a right to write for the group {status.st_gid}"
    return None
