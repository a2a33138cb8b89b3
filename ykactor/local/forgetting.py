"""Forgets the jobs that have ended long ago, or are too many.

A job is forgotten by one commit: from then on there is no such job. What it has left behind is deleted afterwards, of each user
beside that of the others, in steps that hold nothing else for more than some milliseconds. What cannot be deleted is said once,
and left.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import trio

from ykactor.local.records import Records, read
from ykactor.local.store import Store

#: Seconds between two searches for jobs that are too old.
FORGET_S = 3600.0
#: Jobs of one commit, and of one program that deletes.
_TOGETHER, _DELETED_TOGETHER = 50, 1000
#: Users whose files are deleted at a time, and attempts without success of which the last one leaves the rest of a user.
_USERS, _ATTEMPTS = 8, 10
#: Jobs of a message.
_NAMED = 10


class Remover(Protocol):
    """Deletes what jobs have written."""

    async def remove(self, jobs: Sequence[str], uid: int | None) -> list[str]:
        """Delete what jobs of a user have written; the jobs of which something is left.

        Raises:  OSError.
        """


class Forgetting:
    """Forgets jobs.

    Args:
        before_ns: the Unix time before which jobs have to have ended.
    """

    def __init__(
        self,
        store: Store,
        remover: Remover,
        before_ns: Callable[[], int],
        say: Callable[[str], object],
    ) -> None:
        self._store = store
        self._remover = remover
        self._before_ns = before_ns
        self._say = say
        self._limiter = trio.CapacityLimiter(_USERS)

    async def run(self) -> None:
        """Forget jobs until cancelled."""
        while True:
            await self.sweep()
            await trio.sleep(FORGET_S)

    async def sweep(self) -> None:
        """Forget the jobs that are outdated now, and delete what they, and those before them, have left."""
        before_ns = self._before_ns()
        for jobs in _parts(await read(self._store.directory, lambda kept: kept.outdated(before_ns))):
            self._store.forget(jobs)
            await trio.lowlevel.checkpoint()
        async with trio.open_nursery() as nursery:
            for uid, jobs in (await read(self._store.directory, Records.gone)).items():
                nursery.start_soon(self._delete, jobs, uid)

    async def _delete(self, jobs: list[str], uid: int | None) -> None:
        """Delete what jobs of a user have left; what hinders the others longest is left first."""
        async with self._limiter:
            problem, given_up = "", list[str]()
            while jobs and len(given_up) < _ATTEMPTS:
                some, jobs = jobs[:_DELETED_TOGETHER], jobs[_DELETED_TOGETHER:]
                try:
                    left = await self._remover.remove(some, uid)
                except OSError as error:
                    problem, left = f": {error}", list(some)
                if len(left) == len(some):
                    given_up.append(left.pop(0))
                kept = set(left)
                await self._clear([job for job in some if job not in kept])
                jobs = left + jobs
            given_up += jobs
            await self._clear(jobs)
        if given_up:
            names = ", ".join(given_up[:_NAMED]) + f" and {len(given_up) - _NAMED} more" * (len(given_up) > _NAMED)
            has = "has" if len(given_up) == 1 else "have"
            self._say(f"what {names} {has} written cannot be deleted, and is left in {self._store.directory}/jobs{problem}")

    async def _clear(self, jobs: Sequence[str]) -> None:
        for some in _parts(jobs):
            while not self._store.clear(some):
                await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()


def _parts(jobs: Sequence[str]) -> Iterator[Sequence[str]]:
    return (jobs[start : start + _TOGETHER] for start in range(0, len(jobs), _TOGETHER))
