"""The command of a job for its end (``run --on-end``), as a job of its own."""

from collections.abc import Sequence

from msgspec import structs

from ykactor.local.model import Job, State, Task
from ykactor.local.streams import Streams

#: Stands for the index of a task.
INDEX = -1
#: What a hook may use, in base units: hooks run outside of the queues, whatever their jobs have asked for.
_RESOURCE = {"vcore": 100, "memory": 64 * 2**20}


def hook_of(job: Job, tasks: Sequence[Task]) -> Job | None:
    """The hook of a job all of whose tasks have ended; None for a job that no queue has taken.

    What it is told is that of the first task that is neither completed nor cancelled, else of the first that was cancelled.
    """
    if any(task.state is State.REJECTED for task in tasks) and not any(task.started_ns for task in tasks):
        return None
    failed = [task for task in tasks if task.state is not State.COMPLETED]
    decisive = next((task for task in failed if task.state is not State.CANCELLED), failed[0] if failed else tasks[0])
    code = "" if decisive.exit_code is None else str(decisive.exit_code)
    told = {"STATE": decisive.state.value, "EXIT_CODE": code, "REASON": decisive.reason, "NAME": job.name}
    environ = [f"YKACTOR_{name}={value}".encode(errors="replace").replace(b"\0", b"") for name, value in told.items()]
    return structs.replace(
        job,
        arguments=[b"/bin/sh", b"-c", job.on_end],
        environ=[*job.environ, *environ],
        script=b"",
        resource=_RESOURCE,
        streams=Streams(),
        terminal=b"",
        has_slurm_names=False,
    )
