"""The files that a job has for its standard input, output and error: paths with patterns, as Slurm has them."""

import os
import re
from collections.abc import Mapping

from msgspec import Struct

#: Bytes of a path, as many as the kernel takes.
PATH_MAX = 4095
#: Those of what a job has without names.
_STANDARD = b"/dev/stdout", b"/dev/stderr"
#: What follows a ``%``: a number of digits, and a letter.
_PATTERN = re.compile(rb"%(\d{0,2})([jAaxuNn%])")
_LETTERS = "%j or %A (the job), %a (index), %n (attempt), %x (name), %u (user), %N (node) or %%"


class Streams(Struct, frozen=True, omit_defaults=True):
    """The patterns of a job; an empty one stands for what is usual: nothing to read, and files of the attempt.

    Attributes:
        error: empty also stands for ``output``, if there is one.
    """

    input: bytes = b""
    output: bytes = b""
    error: bytes = b""

    @property
    def are_named(self) -> tuple[bool, bool]:
        """True of standard output, and of standard error, if it goes to a file that the job names."""
        output = self.output not in (b"", *_STANDARD)
        return output, output if self.error in (b"", _STANDARD[0]) else self.error != _STANDARD[1]


def pattern(text: str) -> bytes:
    """The pattern that a person has written.

    Raises:  ValueError.
    """
    found = os.fsencode(text)
    if wrong := "expected a path" if not found else wrong_pattern(found):
        raise ValueError(f"found {text[:100]!r}, {wrong}")
    return found


def wrong_pattern(found: bytes) -> str:
    """The sentence about a wrong pattern that says what is expected; "" if it is right."""
    if len(found) > PATH_MAX or b"\0" in found:
        return f"expected a path of at most {PATH_MAX} bytes without NUL"
    if b"%" in _PATTERN.sub(b"", found):
        return f"expected after each % one of {_LETTERS}"
    return ""


def is_shared(found: bytes, count: int) -> bool:
    """True if the tasks of a job, ``count`` of them, write to one file."""
    return bool(found) and count > 1 and all(match[2] != b"a" for match in _PATTERN.finditer(found))


def absolute(directory: bytes, found: bytes) -> bytes:
    """A pattern that is relative to a directory; an empty one stays."""
    return os.path.join(directory.replace(b"%", b"%%"), found) if found else b""


def expanded(found: bytes, values: Mapping[bytes, str | int]) -> bytes:
    """The path of a pattern.

    Args:
        values: of each letter; a number has zeros before it if the pattern says so.
    """

    def text(match: re.Match[bytes]) -> bytes:
        value = values[match[2]]
        return os.fsencode(str(value).zfill(int(match[1] or 0)) if isinstance(value, int) else value)

    return _PATTERN.sub(text, found)
