"""The bounds of what each user of a shared machine may keep in a local resource manager, and of its disk."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from ykactor.local.model import Job

#: Tasks of the unfinished jobs of a user, and bytes of all that is kept of these jobs.
TASKS_EACH = 20_000
BYTES_EACH = 64 * 2**20
#: Bytes of the disk that jobs have to leave free, and the share that is enough on a small one.
FREE_MIN, FREE_SHARE = 2**30, 0.02


class _Amount(Struct):
    tasks: int = 0
    size: int = 0


class Quotas:
    """Counts the unfinished jobs of each user. A job counts with all its tasks until it has ended."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[int, int, int]] = {}
        self._users: dict[int, _Amount] = {}

    def add(self, job: Job) -> None:
        """Count a job, which may be counted already."""
        self.remove(job.id)
        if job.login is None:
            return
        uid, size = job.login.uid, _size(job)
        self._jobs[job.id] = uid, job.count, size
        amount = self._users.setdefault(uid, _Amount())
        amount.tasks += job.count
        amount.size += size

    def remove(self, job: str) -> None:
        """Count a job no longer, which has ended."""
        if job not in self._jobs:
            return
        uid, tasks, size = self._jobs.pop(job)
        amount = self._users[uid]
        amount.tasks -= tasks
        amount.size -= size
        if not amount.tasks:
            del self._users[uid]

    def refusal(self, job: Job) -> str:
        """The reason for which the user of a new job may not have it too; "" if there is none."""
        if job.login is None:
            return ""
        amount = self._users.get(job.login.uid, _Amount())
        if amount.tasks + job.count > TASKS_EACH:
            return f"found {amount.tasks} tasks of {job.user}, expected room for {job.count} more of {TASKS_EACH} for each user"
        if amount.size + _size(job) > BYTES_EACH:
            found = f"{amount.size} bytes of jobs of {job.user}"
            return f"found {found}, expected room for {_size(job)} more of {BYTES_EACH} for each user"
        return ""


def _size(job: Job) -> int:
    """The bytes of a job as it is kept."""
    return len(msgspec.json.encode(job))


def full_disk(directories: Iterable[Path]) -> str:
    """The sentence about the first directory whose disk has too little room; "" if all have enough."""
    for directory in directories:
        status = os.statvfs(directory)
        free, least = status.f_bavail * status.f_frsize, min(FREE_MIN, round(status.f_blocks * status.f_frsize * FREE_SHARE))
        if free < least:
            return f"{directory}: found {free} free bytes on its disk, expected at least {least}"
    return ""
