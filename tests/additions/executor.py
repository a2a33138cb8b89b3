"""An executor of jobs: ``nice`` starts tasks with a lower priority of the CPU where nothing else limits them."""

from __future__ import annotations

from additions.applying import Edits, before, replaced

EDITS: Edits = {
    "local/isolation.py": [
        before(
            "# ---- the best way that this machine has",
            '''
class Niceness(Isolation, frozen=True):
    """Process groups that give way to others.

    Attributes:
        program: the path of ``nice``.
    """

    program: str

    @property
    def description(self) -> str:
        return "tasks are process groups that give way to others"

    def prefix(self, job: Job, task: Task) -> list[str]:
        return [self.program, "-n", "7"]


def niceness(name: str) -> Niceness | None:
    """A lower priority of the CPU for tasks, if there is such a program."""
    program = shutil.which("nice")
    return None if program is None else Niceness(program)


''',
        ),
        replaced("(systemd, own_cgroups)", "(systemd, own_cgroups, niceness)"),
    ],
}


def works() -> None:
    """Check that it is found where nothing better is, says what it is, and runs a task."""
    import os
    import tempfile
    from pathlib import Path

    import trio
    from localjobs import job_of

    from ykactor.local.isolation import WAYS
    from ykactor.local.model import Task
    from ykactor.local.processes import Processes

    found = WAYS[-1]("ykactor-12ab")
    assert found is not None
    assert found.description == "tasks are process groups that give way to others"
    with tempfile.TemporaryDirectory() as directory:
        processes, task = Processes(Path(directory), found, 1), Task("job-1", 0, attempt=1)

        async def run() -> None:
            processes.start(job_of("nice"), task)
            assert (await processes.wait(task)).exit_code == 0

        trio.run(run)
        assert (processes.attempt(task) / "out").read_text() == f"{min(19, os.nice(0) + 7)}\n"
