"""The variables of Slurm for scripts that were written for it; a job has them only if it asks for them.

Libraries for MPI that find them would ask Slurm for processes.
"""

import os
from collections.abc import Callable

from ykactor.local.model import Job, Task

_Value = Callable[[Job, Task], str]
_MIB = 2**20


def _number(job: Job, _task: Task) -> str:
    return job.id.rpartition("-")[2]


def _cores(job: Job, _task: Task) -> str:
    return str(max(1, -(-job.resource.get("vcore", 0) // 1000)))


#: What the script itself may know better: here a job is one task of Slurm, which has all cores.
_USUAL: dict[str, _Value] = {
    "SLURM_NTASKS": lambda job, task: "1",
    "SLURM_NPROCS": lambda job, task: "1",
    "SLURM_CPUS_PER_TASK": _cores,
}
_FIXED: dict[str, _Value] = {
    "SLURM_JOB_ID": _number,
    "SLURM_JOBID": _number,
    "SLURM_JOB_NAME": lambda job, task: job.name,
    "SLURM_JOB_USER": lambda job, task: job.user,
    "SLURM_JOB_PARTITION": lambda job, task: job.leaf.removeprefix("root."),
    "SLURM_SUBMIT_DIR": lambda job, task: os.fsdecode(job.directory),
    "SLURM_CPUS_ON_NODE": _cores,
    "SLURM_JOB_CPUS_PER_NODE": _cores,
    "SLURM_MEM_PER_NODE": lambda job, task: str(job.resource.get("memory", 0) // _MIB),
    "SLURM_GPUS_ON_NODE": lambda job, task: str(len(task.gpus)),
    "SLURM_JOB_GPUS": lambda job, task: ",".join(map(str, task.gpus)),
    "SLURM_JOB_NODELIST": lambda job, task: task.node,
    "SLURM_NODELIST": lambda job, task: task.node,
    "SLURM_JOB_NUM_NODES": lambda job, task: "1",
    "SLURM_NNODES": lambda job, task: "1",
    "SLURM_NODEID": lambda job, task: "0",
    "SLURM_PROCID": lambda job, task: "0",
    "SLURM_LOCALID": lambda job, task: "0",
    "SLURM_RESTART_COUNT": lambda job, task: str(task.attempt),
}
_OF_ARRAYS: dict[str, _Value] = {
    "SLURM_ARRAY_JOB_ID": _number,
    "SLURM_ARRAY_TASK_ID": lambda job, task: str(task.index),
    "SLURM_ARRAY_TASK_COUNT": lambda job, task: str(job.count),
    "SLURM_ARRAY_TASK_MIN": lambda job, task: str(job.first),
    "SLURM_ARRAY_TASK_MAX": lambda job, task: str(job.last),
}
NAMES = frozenset((*_USUAL, *_FIXED, *_OF_ARRAYS))


def with_variables(environ: dict[bytes, bytes], job: Job, task: Task) -> dict[bytes, bytes]:
    """The environment of a job with the variables of Slurm; those that are usual it may have replaced."""
    fixed = _FIXED | (_OF_ARRAYS if job.is_array else {})
    return _of(_USUAL, job, task) | environ | _of(fixed, job, task)


def _of(values: dict[str, _Value], job: Job, task: Task) -> dict[bytes, bytes]:
    return {name.encode(): os.fsencode(value(job, task)) for name, value in values.items()}
