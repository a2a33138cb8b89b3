"""The access file of this machine: its text, the files that it names, and the users of the system."""

from __future__ import annotations

import pwd
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from ykactor.access.access import Access
from ykactor.access.file import Surroundings, load
from ykactor.surfaces.server.files import read_regular
from ykactor.wire.queuefile.text import ConfigError, Mistake

#: Bytes of an access file and of each file that it names.
FILE_MAX = 16 * 2**20

#: What was found at a path: the content, or why it could not be read.
_Found = bytes | OSError


class AccessFile:
    """An access file with the files that it names; these are beside it.

    Attributes:
        path: of the access file.
        access: what they say.

    Raises: as ``load``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Of all files, when they were loaded the last time.
        self._found: Mapping[Path, _Found] = {}
        self.access = Access()
        self.load()

    def load(self) -> Access:
        """Read the files again; ``access`` stays if they are wrong.

        Raises:  ConfigError with all mistakes; OSError if the access file cannot be read.
        """
        found: dict[Path, _Found] = {}
        try:
            text = _text_of(self.path, _noted(found, self.path))
            beside = Surroundings(lambda name: _noted(found, self.path.parent / name), _uid_of)
            self.access = load(text, str(self.path), beside)
        finally:
            self._found = found
        return self.access

    @property
    def content(self) -> bytes:
        """What the files had when they were loaded the last time."""
        return _together(self._found.items())

    def read(self) -> bytes:
        """What these files have now, to be compared with ``content``; no error."""
        return _together((path, _read(path)) for path in self._found)

    def lacks(self, numbers: Collection[int]) -> bool:
        """Whether one of them could not be loaded because of an error with one of these numbers."""
        return any(isinstance(found, OSError) and found.errno in numbers for found in self._found.values())

    def directories(self) -> set[Path]:
        """Where these files are, and where links lead."""
        return {path.parent for file in self._found for path in (file, file.resolve())}


def read(path: Path) -> Access:
    """What the access file says; raises as ``AccessFile.load``."""
    return AccessFile(path).access


def _noted(found: dict[Path, _Found], path: Path) -> bytes:
    found[path] = content = _read(path)
    if isinstance(content, OSError):
        raise content
    return content


def _read(path: Path) -> _Found:
    try:
        return read_regular(path, FILE_MAX)
    except OSError as error:
        return error


def _together(found: Iterable[tuple[Path, _Found]]) -> bytes:
    """All of it; never the same for others."""
    return b"".join(
        b"%s: %d\n%s" % (str(path).encode(), len(content), content) if isinstance(content, bytes) else str(content).encode()
        for path, content in found
    )


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
