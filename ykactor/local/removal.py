"""The deletion of directories by a program of its own, which may hang: ``remover``."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import trio

from ykactor.local import remover
from ykactor.local.programs import launch

#: Seconds in which a program has to be done, and in which it has to end when it is killed.
LIMIT_S, KILLED_S = 60.0, 1.0


class Removal:
    """Runs one program for each user at a time."""

    def __init__(self) -> None:
        #: By user: programs that even SIGKILL does not end, because a file system does not answer.
        self._hanging: dict[int | None, subprocess.Popen[bytes]] = {}

    async def delete(self, directories: Sequence[Path], uid: int | None) -> None:
        """Delete directories; with a user what is in the directories within them, as this user. Something may be left.

        Raises:  OSError: the program cannot be started.
        """
        if (hanging := self._hanging.get(uid)) is not None and hanging.poll() is None:
            return
        process = launch(remover, {"directories": [str(each) for each in directories], "uid": uid})
        self._hanging[uid] = process
        if await _ends(process):
            del self._hanging[uid]


async def _ends(process: subprocess.Popen[bytes]) -> bool:
    """Let a program do its work, or as much of it as it can in time; True if it has ended."""
    descriptor = os.pidfd_open(process.pid)
    try:
        for limit_s in (LIMIT_S, KILLED_S):
            with trio.move_on_after(limit_s):
                await trio.lowlevel.wait_readable(descriptor)
                process.wait()
                return True
            process.kill()
        return False
    finally:
        os.close(descriptor)
