"""The jobs that have not ended, and what an input leads to."""

from msgspec import Struct, field

from ykactor.local.model import Job, State, Task
from ykactor.wire.si import messages as si


class Effects(Struct):
    """What an input leads to: first what is to be kept, then what is to be done."""

    jobs: list[Job] = field(default_factory=list)
    tasks: dict[tuple[str, int], Task] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    #: How tasks have ended. The daemon is told it before the requests: it knows where they ran until they are released.
    records: list[si.TaskRecord] = field(default_factory=list)
    requests: list[si.WorkRequest] = field(default_factory=list)
    starts: list[tuple[Job, Task]] = field(default_factory=list)
    #: Tasks whose processes are to be ended.
    kills: list[Task] = field(default_factory=list)

    @property
    def has_changes(self) -> bool:
        return bool(self.jobs or self.tasks or self.ended)


class Work(Struct):
    """A job that has not ended.

    Attributes:
        placeholders: how many placeholders the gang has asked for, and ``held`` those that it has.
        placed: the keys of tasks that have their place and wait for the rest of the gang.
        unfinished: how many tasks have not ended.
        is_ending: whether the gang has lost a task, and the others end.
        why: why all of them end; "" while they do not.
    """

    job: Job
    tasks: dict[int, Task]
    unfinished: int
    placeholders: int = 0
    held: set[str] = field(default_factory=set)
    placed: set[str] = field(default_factory=set)
    is_ending: bool = False
    why: str = ""

    @property
    def is_held(self) -> bool:
        """Whether it is a gang that has not started."""
        return self.job.is_gang and all(task.state is State.PENDING for task in self.tasks.values())
