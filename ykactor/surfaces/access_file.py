"""The access file of this machine: its text, the files that it names, and the users of the system."""

from __future__ import annotations

import pwd
from pathlib import Path

from ykactor.access.access import Access
from ykactor.access.file import Surroundings, load
from ykactor.surfaces.server.files import read_regular
from ykactor.wire.queuefile.text import ConfigError, Mistake

#: Bytes of an access file and of each file that it names.
FILE_MAX = 16 * 2**20


def read(path: Path) -> Access:
    """What the access file says; the names of files in it are beside it.

    Raises:  ConfigError with all mistakes; OSError if it cannot be read.
    """
    try:
        text = read_regular(path, FILE_MAX).decode()
    except UnicodeDecodeError as error:
        raise ConfigError([Mistake(str(path), 1, 1, "", f"not UTF-8 text: {error.reason} at byte {error.start}", "P1")]) from None
    return load(text, str(path), Surroundings(lambda name: read_regular(path.parent / name, FILE_MAX), _uid_of))


def _uid_of(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):  # ValueError: the name has a null character
        return None
