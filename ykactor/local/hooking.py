"""Runs the commands for the ends of jobs: as the user of the job, in its directory, at most once for each end.

A hook is kept with the end of its job, in one commit, and forgotten when it has ended; until then its job is neither run again
nor forgotten. It is started as an attempt of a task is, so it never begins twice: after a kill the next run of the program starts
what had not begun, and waits for what runs. What runs when the machine goes down is not started again.
"""

from collections.abc import Callable

import trio

from ykactor.local.hooks import INDEX
from ykactor.local.model import Task
from ykactor.local.processes import NotStarted, Processes
from ykactor.local.shared import SharedProcesses
from ykactor.local.store import KeptHook, Store

#: Seconds for which a hook may run, and how many of a user run at a time.
LIMIT_S = 60.0
TOGETHER_MAX = 4


class Hooking:
    """Runs the hooks of one local resource manager.

    Args:
        on_ended: called with the job whose hook has ended.
        say: gets what cannot be started.
    """

    def __init__(
        self,
        store: Store,
        processes: Processes | SharedProcesses,
        on_ended: Callable[[str], object],
        say: Callable[[str], object],
    ) -> None:
        self._store = store
        self._processes = processes
        self._on_ended = on_ended
        self._say = say
        #: By user; None: the user of this program.
        self._limits: dict[int | None, trio.CapacityLimiter] = {}
        #: The number of the last hook that was looked at.
        self._last = 0
        self._is_stopped = False
        #: How many run.
        self.running = 0

    def start(self, nursery: trio.Nursery) -> set[str]:
        """Run the hooks that are new in a nursery; their jobs."""
        found = self._store.hooks(self._last)
        for kept in found:
            self._last = kept.number
            nursery.start_soon(self._run, kept)
        return {kept.job for kept in found}

    def stop(self) -> None:
        """Let no further hook begin: it does when the program runs again."""
        self._is_stopped = True

    async def _run(self, kept: KeptHook) -> None:
        async with self._limits.setdefault(kept.uid, trio.CapacityLimiter(TOGETHER_MAX)):
            if self._is_stopped:
                return
            self.running += 1
            hook, task = self._store.hook(kept.number), Task(kept.job, INDEX, attempt=kept.number)
            try:
                if not self._processes.has_begun(task):
                    self._processes.start(hook, task)
            except NotStarted as failure:
                self._say(f"the hook of {kept.job}: {failure}")
            else:
                await self._wait(task)
            self._store.forget_hook(kept.number)
            self.running -= 1
            self._on_ended(kept.job)

    async def _wait(self, task: Task) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end, task)
            await self._processes.wait(task)
            nursery.cancel_scope.cancel()

    async def _end(self, task: Task) -> None:
        await trio.sleep(LIMIT_S)
        await self._processes.terminate(task)
