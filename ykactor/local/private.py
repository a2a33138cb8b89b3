"""The state directory, which is for its owner alone: jobs with their environments come through it.

Both ends check it, before anything is read or sent: whoever could enter would get the environment of a job, and whoever could
replace the socket would get those to come.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ykactor.local.machine import user_name
from ykactor.wire.sockets import Credentials

#: The rights that only the owner may have.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NotPrivate(Exception):
    """A directory, or the process behind its socket, is of somebody else, or open to others; the message says what was found."""


@contextmanager
def private_directory(directory: Path) -> Iterator[int]:
    """A directory of the own user that nobody else can enter or replace; its descriptor.

    Raises:
        NotPrivate. OSError: it cannot be entered.
    """
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise NotPrivate(f"{directory}: found a directory of {user_name(status.st_uid)}, expected one of {_me()}")
        if status.st_mode & _OTHERS:
            found = f"{stat.S_IMODE(status.st_mode):o}"
            raise NotPrivate(
                f"{directory}: found the mode {found}, expected 700, because jobs have secrets: chmod 700 makes it so"
            )
        for parent in directory.resolve().parents:
            mode = parent.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                raise NotPrivate(
                    f"{directory}: found that everybody may replace what is in {parent}, expected the mode 755 there"
                )
        yield descriptor
    finally:
        os.close(descriptor)


def check_peer(peer: Credentials) -> None:
    """NotPrivate if the process at the other end of a socket is of another user."""
    if peer.uid != os.geteuid():
        raise NotPrivate(f"found process {peer.pid} of {user_name(peer.uid)} at the other end, expected one of {_me()}")


def _me() -> str:
    return user_name(os.geteuid())
