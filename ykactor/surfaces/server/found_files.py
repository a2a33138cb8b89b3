"""What was found at the paths of several files that belong together, so that a change of any of them is seen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ykactor.surfaces.server.files import read_regular

#: Bytes of each file.
FILE_MAX = 16 * 2**20

#: The content, or why it could not be read.
Found = bytes | OSError


def found_at(path: Path) -> Found:
    """What is there now."""
    try:
        return read_regular(path, FILE_MAX)
    except OSError as error:
        return error


def together(found: Iterable[tuple[Path, Found]]) -> bytes:
    """All of it; never the same for others."""
    return b"".join(
        b"%s: %d\n%s" % (str(path).encode(), len(content), content) if isinstance(content, bytes) else str(content).encode()
        for path, content in found
    )


def directories_of(files: Iterable[Path]) -> set[Path]:
    """Where these files are, and where links lead."""
    return {path.parent for file in files for path in (file, file.resolve())}
