"""Scripts whose text a job keeps: each attempt has a copy of its own, so what becomes of the file later changes nothing."""

import os
from pathlib import Path

from ykactor.local.model import Job

#: Bytes of a script: as many as arguments may have together.
SCRIPT_MAX = 2**17
#: The copy in the directory of an attempt.
FILE = "script"
_MARK = b"#!"
#: Characters of the first line, of which the kernel reads no more.
_FIRST_LINE_MAX = 255


def interpreter(script: bytes) -> list[bytes]:
    """The program that the first line of a script names, with its argument if there is one.

    Raises:  ValueError: it names none.
    """
    first = script.partition(b"\n")[0]
    words = first.removeprefix(_MARK).strip(b" \t").split(maxsplit=1)
    expected = "expected a program that runs the script, such as #!/bin/sh"
    if not first.startswith(_MARK) or not words:
        raise ValueError(f"found no program in its first line, {expected}")
    if first.endswith(b"\r"):
        raise ValueError("found a line that ends with a carriage return, expected lines that end as on Linux")
    if b"\0" in first or len(first) > _FIRST_LINE_MAX:
        raise ValueError(f"found a NUL, or a line of {len(first)} bytes, {expected}, in at most {_FIRST_LINE_MAX} bytes")
    return words


def command(job: Job, attempt: Path) -> list[bytes]:
    """The words with which an attempt in a directory is started: of a job with a script the interpreter reads the copy there."""
    if not job.script:
        return job.arguments
    return [*interpreter(job.script), os.fsencode(attempt / FILE), *job.arguments[1:]]
