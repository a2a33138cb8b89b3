"""The rights of users at a local resource manager: who may submit, see and change which jobs.

A user is known by the number that the kernel has told. Without ``System`` only one user is served, who may do everything.
"""

import os
from pathlib import Path

from msgspec import Struct, structs

from ykactor.local.control import JobRow, Record
from ykactor.local.jobs import SubmitRefused
from ykactor.local.model import Job, Task
from ykactor.local.serving import Caller
from ykactor.local.users import LookupFailed, Users

ROOT = 0
#: No process needs less; 0 would be without a limit.
_MEMORY_MIN = 2**20


class System(Struct, frozen=True):
    """The settings of a local resource manager that root runs for all users of a machine.

    Attributes:
        group: the number of the group whose members may connect; -1: everybody may.
        operators: the name of the group whose members may see and change all jobs; "" is none; ``operators_gid`` is its number.
        min_uid: the lowest number of a user who may submit.
    """

    group: int
    operators: str
    min_uid: int
    operators_gid: int = -1


class Principal(Struct, frozen=True):
    """A user who asks; ``is_operator`` says whether all jobs may be seen and changed."""

    uid: int
    is_operator: bool


class Access:
    """Decides for one local resource manager.

    Args:
        system: None: only the user of this process is served.
        user: the name of this user.
    """

    def __init__(self, system: System | None, user: str) -> None:
        self._system = system
        self._user = user
        self._users = Users()

    def refusal(self, caller: Caller) -> str:
        """The reason for which a caller is not served; "" if it is."""
        if self._system is None:  # by numbers: the directory of users may not answer
            own = os.geteuid()
            return "" if caller.uid == own else f"found process {caller.pid} of user {caller.uid}, expected one of user {own}"
        if caller.uid == ROOT:
            return ""
        if caller.uid < self._system.min_uid:
            return f"found the user {caller.uid}, expected one with a number from {self._system.min_uid} on (--min-uid)"
        if caller.uid == _overflow_uid():  # all users whom a namespace does not know look like this one
            return f"found the user {caller.uid}, who may be anybody in a namespace, expected a user of this machine"
        return ""

    def comes_first(self, caller: Caller) -> bool:
        """True if connections are kept for a caller: for root, and for processes with the group of the operators."""
        return caller.uid == ROOT or (self._system is not None and self._system.operators_gid in caller.groups)

    async def principal(self, caller: Caller) -> Principal:
        """The rights of a caller. An operator whom the directory of users has never told is none."""
        if self._system is None or caller.uid == ROOT:
            return Principal(caller.uid, is_operator=True)
        if not self._system.operators:
            return Principal(caller.uid, is_operator=False)
        try:
            account = await self._users.account(caller.uid)
        except LookupFailed:
            return Principal(caller.uid, is_operator=False)
        return Principal(caller.uid, self._system.operators in account.groups)

    async def submitted(self, principal: Principal, job: Job) -> Job:
        """A job as one of the principal, with the user for the daemon, and a token that no other user can have.

        Raises:  SubmitRefused.
        """
        known = structs.replace(job, id="", placed_in="", submitted_ns=0, is_held_there=False)
        if self._system is None:
            return structs.replace(known, user=self._user, login=None)
        if principal.uid == ROOT:
            raise SubmitRefused("found root, expected another user: tasks are not started as root")
        if job.login is None:
            raise SubmitRefused("found no umask and limits: the command is older than the local resource manager")
        if job.priority > 0 and not principal.is_operator:
            raise SubmitRefused(f"found the priority {job.priority}, expected at most 0: only operators may give a higher one")
        if job.resource.get("memory", 0) < _MEMORY_MIN:
            raise SubmitRefused(
                f"found {job.resource.get('memory', 0)} bytes of memory, expected at least 1Mi on a shared machine"
            )
        try:
            account = await self._users.account(principal.uid)
        except LookupFailed as reason:
            raise SubmitRefused(str(reason)) from None
        login = structs.replace(job.login, uid=principal.uid, groups=account.groups)
        return structs.replace(known, user=account.name, login=login, token=f"{principal.uid}/{job.token}")


def may(principal: Principal, verb: str, job: Job) -> str:
    """The reason for which a principal may not do something to a job, such as ``cancel``; "" if it may."""
    if principal.is_operator or owns(principal, job):
        return ""
    return f"{job.id} is a job of {job.user}: only this user and operators may {verb} it"


def owns(principal: Principal, job: Job) -> bool:
    """True if a job is one of the principal."""
    return job.login is not None and job.login.uid == principal.uid


def visible_row(principal: Principal, job: Job, row: JobRow) -> JobRow:
    """A row of a job; of one of somebody else without the words of its user."""
    if not may(principal, "see", job):
        return row
    return structs.replace(row, name="", arguments=[], after=[], input="", output="", error="")


def visible_record(principal: Principal, job: Job, record: Record) -> Record:
    """A record of a visible task; of a job of somebody else without its name."""
    return record if not may(principal, "see", job) else structs.replace(record, name="")


def visible_task(principal: Principal, job: Job, task: Task) -> Task:
    """A task; of a job of somebody else without how its command has ended, and what was measured of it."""
    if not may(principal, "see", job):
        return task
    return structs.replace(task, reason="", again="", exit_code=None, peak_memory=None, cpu_ns=None)


def _overflow_uid() -> int:
    return int(Path("/proc/sys/kernel/overflowuid").read_text())
