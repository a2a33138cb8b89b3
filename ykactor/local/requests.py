"""The requests about jobs that the daemon gets."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from ykactor.core.messages.asks import RUN_SECONDS_GRANTED_TAG, RUN_SECONDS_TAG
from ykactor.local.model import Job, State, Task
from ykactor.wire.si import messages as si

#: Characters of a message about the end of a job.
MESSAGE_MAX = 1000
#: The task group of a gang: all its tasks are in one.
_GROUP = "gang"
_ROOT = "root."
#: The queues decide whether a task may be preempted, and preempt others.
_PREEMPTION = si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=True)


def node(node_id: str, resource: dict[str, int]) -> si.NodeRequest:
    """The machine, on which nothing is placed before it is ``opened``."""
    entry = si.NodeInfo(node_id=node_id, action="CREATE_DRAIN", schedulable_resource=dict(resource))
    return si.NodeRequest(nodes=[entry])


def opened(node_id: str) -> si.NodeRequest:
    """Open the node: all is reported, so tasks may be placed on the machine."""
    return si.NodeRequest(nodes=[si.NodeInfo(node_id=node_id, action="DRAIN_TO_SCHEDULABLE")])


def application(job: Job, *, is_held: bool) -> si.AddApplicationRequest:
    """The application of a job; ``is_held`` says whether it is a gang that has not started, whose room placeholders hold.

    One that was let in with its time limit keeps it, whatever its queue allows by now.

    Without placement rules for named queues its tag ``namespace`` decides, as in the built-in configuration.
    """
    return si.AddApplicationRequest(
        application_id=job.id,
        queue_name=job.queue,
        ugi=si.UserGroupInformation(user=job.user, groups=job.login.groups if job.login else []),
        tags={"namespace": job.queue.removeprefix(_ROOT) or "default", **_run_time(job)},
        placeholder_ask={name: amount * job.count for name, amount in job.resource.items()} if is_held else None,
        gang_scheduling_style="Hard" if is_held else "",
    )


def _run_time(job: Job) -> dict[str, str]:
    """The tags that tell how long its tasks run at most (AP-157), and that they may (AP-158)."""
    told = {RUN_SECONDS_TAG: f"{job.time_limit_s:.12g}"} if job.time_limit_s else {}
    return told | {RUN_SECONDS_GRANTED_TAG: "true"} if told and job.is_let_in else told


def withdrawn(job: Job) -> si.ApplicationRequest:
    """Remove the application of a job until the next of its tasks may be placed."""
    return si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id=job.id)])


def report(job: Job, ended: Mapping[State, int]) -> si.JobReport:
    """The report about a job, of which so many tasks have ended in each state (AP-160)."""
    completed, cancelled = ended.get(State.COMPLETED, 0), ended.get(State.CANCELLED, 0)
    return si.JobReport(
        application_id=job.id,
        name=job.name,
        tasks=job.count,
        completed=completed,
        failed=sum(ended.values()) - completed - cancelled,
        cancelled=cancelled,
    )


def record(task: Task) -> si.TaskRecord:
    """The record of an attempt that has ended (AP-152)."""
    return si.TaskRecord(
        application_id=task.job,
        allocation_key=task.key,
        state=(State.CANCELLED if task.state is State.REQUEUED else task.state).value,
        exit_code=task.exit_code,
        signal=task.signal,
        start_time=task.started_ns,
        finished_time=task.ended_ns,
        peak_memory=task.peak_memory,
        eligible_time=task.eligible_ns,
        cpu_time=task.cpu_ns,
        message=task.reason[:MESSAGE_MAX],
    )


def concluded(job: Job, tasks: Sequence[Task]) -> si.ApplicationRequest:
    """The end of a job with all its tasks (AP-151): the state of the task that decides, and why."""
    failed = [task for task in tasks if task.state not in (State.COMPLETED, State.CANCELLED)]
    cancelled = [task for task in tasks if task.state is State.CANCELLED]
    outcome = si.Outcome.FAILED if failed else si.Outcome.CANCELLED if cancelled else si.Outcome.COMPLETED
    said = ""
    if decisive := failed or cancelled:
        first = decisive[0]
        said = first.reason or str(first.state)
        if len(tasks) > 1:
            said = f"task {first.index}: {said}" + (f"; {len(decisive)} of {len(tasks)} tasks" if len(decisive) > 1 else "")
    ended = si.RemoveApplicationRequest(application_id=job.id, outcome=outcome, message=said[:MESSAGE_MAX])
    return si.ApplicationRequest(remove=[ended])


def placeholder(job: Job, number: int) -> si.Allocation:
    """Holds the room of one task of a gang."""
    return si.Allocation(
        allocation_key=f"{job.id}.placeholder{number}",
        application_id=job.id,
        resource_per_alloc=dict(job.resource),
        priority=job.priority,
        preemption_policy=_PREEMPTION,
        placeholder=True,
        task_group_name=_GROUP,
    )


def ask(job: Job, task: Task) -> si.Allocation:
    """A pending task, as old as its job."""
    return structs.replace(
        _task(job, task),
        allocation_tags={"creationTime": str(job.submitted_ns // 10**9)},
        task_group_name=_GROUP if job.is_gang else "",
    )


def running(job: Job, task: Task, node_id: str) -> si.Allocation:
    """A task that has a process; the daemon does not preempt one that is ending already (AP-145)."""
    return structs.replace(_task(job, task), node_id=node_id, releasing=task.state is State.ENDING)


def _task(job: Job, task: Task) -> si.Allocation:
    return si.Allocation(
        allocation_key=task.key,
        application_id=job.id,
        resource_per_alloc=dict(job.resource),
        priority=job.priority if task.priority is None else task.priority,
        preemption_policy=_PREEMPTION,
    )


def release(application_id: str, key: str, termination_type: str) -> si.AllocationRelease:
    return si.AllocationRelease(application_id=application_id, allocation_key=key, termination_type=termination_type)


def released(*releases: si.AllocationRelease) -> si.AllocationRequest:
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=list(releases)))
