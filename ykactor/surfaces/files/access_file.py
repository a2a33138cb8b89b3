"""The access file of this machine: its text, the files that it names, and the users of the system."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection
from functools import partial
from pathlib import Path

from ykactor.access.access import Access
from ykactor.access.file import Environment, load
from ykactor.surfaces.files.regular import FilesTogether, Found
from ykactor.wire.queuefile.text import ConfigError, Mistake


class AccessFile(FilesTogether):
    """An access file with the files that it names; these are beside it.

    Args:
        others: the numbers of users that may own these files, beside root and the user of this process (SE-36).

    Attributes:
        path: of the access file.
        access: what they say.

    Raises: as ``load``.
    """

    def __init__(self, path: Path, others: Collection[int] = ()) -> None:
        super().__init__()
        self.path = path
        self._owners = {0, os.geteuid(), *others}
        self.access = Access()
        self.load()

    def load(self) -> Access:
        """Read the files again; ``access`` stays if they are wrong.

        Raises:  ConfigError with all mistakes; OSError if the access file cannot be read, or others may write it.
        """
        found: dict[Path, Found] = {}
        noted = partial(self._noted, found)
        try:
            text = _text_of(self.path, noted(self.path))
            beside = Environment(lambda name: noted(self.path.parent / name), _uid_of)
            self.access = load(text, str(self.path), beside)
        finally:
            self._found = found
        return self.access

    def lacks(self, numbers: Collection[int]) -> bool:
        """True if one of them could not be loaded because of an error with one of these numbers."""
        return any(isinstance(found, OSError) and found.errno in numbers for found in self._found.values())

    def owners(self, path: Path) -> Collection[int] | None:
        return self._owners

    def _noted(self, found: dict[Path, Found], path: Path) -> bytes:
        found[path] = content = self._found_at(path)
        if isinstance(content, OSError):
            raise content
        return content


def read(path: Path) -> Access:
    """Read the access file, also one of another owner than this user; raises as ``AccessFile.load``."""
    return AccessFile(path, others=[path.stat().st_uid]).access


def _text_of(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError([Mistake(str(path), 1, 1, "", f"not UTF-8 text: {error.reason} at byte {error.start}", "P1")]) from None


def _uid_of(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):  # ValueError: the name has a null character
        return None
