"""The effects of an input: first what is to be kept, then what is to be done."""

from collections.abc import Iterable

from msgspec import Struct, field

from ykactor.local import requests
from ykactor.local.model import Job, Task
from ykactor.wire.si import messages as si

#: Releases of one request, which is made anew for each of them.
_TOGETHER_MAX = 1000


class Effects(Struct):
    """The changes that the caller commits, and the acts that it then carries out.

    Attributes:
        jobs: new or changed ones, by their ids.
        tasks: the present attempts that have changed; ``attempts`` those that others have followed.
        ended: the jobs of which all tasks have ended.
        reports: of jobs of which a task has ended, by their ids.
        records: of attempts. The daemon is told them before the requests: it knows where they ran until they are released.
        kills: tasks whose processes are to be ended.
    """

    jobs: dict[str, Job] = field(default_factory=dict)
    tasks: dict[tuple[str, int], Task] = field(default_factory=dict)
    attempts: list[Task] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    reports: dict[str, si.JobReport] = field(default_factory=dict)
    records: list[si.TaskRecord] = field(default_factory=list)
    requests: list[si.WorkRequest] = field(default_factory=list)
    starts: list[tuple[Job, Task]] = field(default_factory=list)
    kills: list[Task] = field(default_factory=list)

    @property
    def has_changes(self) -> bool:
        return bool(self.jobs or self.tasks or self.attempts or self.ended)

    def change(self, task: Task) -> None:
        """Keep the present attempt of a task."""
        self.tasks[task.job, task.index] = task

    def tell(self, allocations: Iterable[si.Allocation]) -> None:
        """Tell the daemon asks, or tasks that have their place; the client sends in parts what is too large."""
        entries = list(allocations)
        if entries:
            self.requests.append(si.AllocationRequest(allocations=entries))

    def release(self, job: str, key: str, termination_type: str) -> None:
        """Release an allocation or ask, together with the releases before it."""
        entry = requests.release(job, key, termination_type)
        told = self.requests
        if told and isinstance(told[-1], si.AllocationRequest) and not told[-1].allocations:
            together = told[-1].releases.allocations_to_release
            if len(together) < _TOGETHER_MAX:
                told[-1] = requests.released(*together, entry)
                return
        told.append(requests.released(entry))
