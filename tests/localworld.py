"""Jobs without processes and without a daemon, at a time that the test sets, and what their effects say."""

from localjobs import job_of
from msgspec import structs

from ykactor.local.jobs import Jobs
from ykactor.local.machine import Machine
from ykactor.local.model import Ended
from ykactor.local.waiting import result
from ykactor.wire.si import messages as si

S_NS = 10**9
ONE = Machine("n1", {"vcore": 4000, "gpu": 2}, [0, 1])


class World:
    """Jobs of a machine with 4 cores and 2 GPUs, at a time that the test sets."""

    def __init__(self, machine=ONE):
        self.now_ns = 0
        self.machine = machine
        #: The jobs, and the states of their tasks, as the store has them.
        self.kept_jobs, self.kept = {}, {}
        self.jobs = Jobs(machine, 1, "boot", lambda: self.now_ns)

    def made(self, **fields):
        """A job that is not submitted yet."""
        return job_of("true", **fields)

    def submit(self, **fields):
        made = self.made(**fields)
        job = self.jobs.submit(lambda job_id: structs.replace(made, id=job_id), self.ended(made))
        return job, self.take()

    def ended(self, job):
        """The ends of the jobs that a job names, of those that have ended."""
        names = [after.job for after in job.after if not self.jobs.has(after.job)]
        return {name: result(self.kept_jobs[name], self.kept[name]) if name in self.kept else None for name in names}

    def allocate(self, *keys, of="job-1", placeholder=False):
        new = [si.Allocation(allocation_key=key, application_id=of, placeholder=placeholder, node_id="n1") for key in keys]
        self.jobs.on_message(si.AllocationResponse(new=new))
        return self.jobs.take()

    def release(self, key, termination_type, of="job-1"):
        released = si.AllocationRelease(application_id=of, allocation_key=key, termination_type=termination_type, message="why")
        self.jobs.on_message(si.AllocationResponse(released=[released]))
        return self.jobs.take()

    def end(self, task, code):
        """The process of a task ends; what follows, and is kept."""
        self.jobs.on_ended(task, Ended(code))
        return self.take()

    def take(self):
        """The effects, which are kept."""
        effects = self.jobs.take()
        self.kept_jobs |= effects.jobs
        for (job, index), task in effects.tasks.items():
            self.kept.setdefault(job, {})[index] = task.state
        return effects

    def run(self, key, code=0):
        """A task gets its place, and its process ends; what follows from the end."""
        ((_, task),) = self.allocate(key, of=key.partition(".")[0]).starts
        return self.end(task, code)


def asked(effects):
    """The keys of the asks, in order."""
    return [entry.allocation_key for request in requests_of(effects) for entry in request.allocations]


def released(effects):
    entries = [entry for request in requests_of(effects) for entry in request.releases.allocations_to_release]
    return [(entry.allocation_key, entry.termination_type) for entry in entries]


def concluded(effects):
    """The outcome of each job that was reported to the daemon, with the message."""
    gone = [request for request in effects.requests if isinstance(request, si.ApplicationRequest)]
    return [(entry.application_id, entry.outcome, entry.message) for request in gone for entry in request.remove]


def requests_of(effects):
    return [request for request in effects.requests if isinstance(request, si.AllocationRequest)]


def started(effects):
    return [task.key for _, task in effects.starts]
