"""Deletes what jobs have written. A program of its own, with the standard library only.

The jobs may have put anything there, also a file system that does not answer: this holds nobody but this program. Its order is a
JSON document, its standard input. With a ``uid`` it becomes this user before it touches what users can write.
"""

import json
import os
import shutil
import sys
from contextlib import suppress

#: The group of a process that needs none: it deletes what belongs to its user.
_NO_GROUP = 65534


def main() -> None:
    order = json.loads(sys.stdin.buffer.read())
    directories, uid = order["directories"], order["uid"]
    if uid is not None:
        directories = [f"{directory}/{name}" for directory in directories for name in _names(directory)]
        _become(uid)
    for directory in directories:
        _delete(directory)


def _names(directory: str) -> list[str]:
    """The names in a directory of root, which may be gone."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _become(uid: int) -> None:
    """Be a user for good; an OSError ends this program."""
    os.setgroups([])
    os.setresgid(_NO_GROUP, _NO_GROUP, _NO_GROUP)
    os.setresuid(uid, uid, uid)


def _delete(top: str) -> None:
    """Delete a directory as far as possible; of one in a directory of root what is in it."""
    with suppress(RecursionError):  # it is deeper than any path
        _open(top)
        for directory, names, _ in os.walk(top):
            for name in names:
                _open(os.path.join(directory, name))
        shutil.rmtree(top, ignore_errors=True)


def _open(directory: str) -> None:
    """Give the user the rights without which nothing in a directory can be deleted."""
    if not os.path.islink(directory):
        with suppress(OSError):
            os.chmod(directory, 0o700)


if __name__ == "__main__":
    main()
