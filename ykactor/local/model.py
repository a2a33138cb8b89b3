"""Jobs, and the tasks that they consist of."""

import signal
from collections.abc import Sequence
from enum import StrEnum
from itertools import chain

from msgspec import Struct

from ykactor.local.login import Login
from ykactor.local.streams import Streams


class State(StrEnum):
    """The state of a task."""

    #: The daemon is not asked for a place yet; ``Task.reason`` says what the task waits for.
    WAITING = "Waiting"
    PENDING = "Pending"
    RUNNING = "Running"
    #: It was told to end; ``Task.verdict`` says what it is then.
    ENDING = "Ending"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    PREEMPTED = "Preempted"
    TIMED_OUT = "TimedOut"
    #: Nobody knows how it ended: the machine went down, or something has killed it and all that could tell.
    LOST = "Lost"
    REJECTED = "Rejected"
    #: Somebody wanted it to run again: the state of an attempt that another one follows.
    REQUEUED = "Requeued"

    @property
    def is_final(self) -> bool:
        return self not in (State.WAITING, State.PENDING, State.RUNNING, State.ENDING)

    @property
    def is_at_daemon(self) -> bool:
        """True if the daemon knows of the task."""
        return self in (State.PENDING, State.RUNNING, State.ENDING)

    @property
    def has_process(self) -> bool:
        return self in (State.RUNNING, State.ENDING)


#: The number that a shell adds to that of a signal.
_SIGNALLED = 128
#: The endings after which a task is started again, if it has retries left.
RETRIED = frozenset((State.FAILED, State.PREEMPTED, State.LOST))


class Condition(StrEnum):
    """The end of a job for which another one waits."""

    OK = "ok"
    ANY = "any"
    FAILED = "failed"


class After(Struct, frozen=True, omit_defaults=True):
    """A dependency: a job begins after the end of another one.

    Attributes:
        index: of the task that is meant; None: all tasks of ``job``.
        is_by_element: whether each task waits for the one with its own index; both are arrays with the same indexes.
        is_met: whether ``job`` has ended, and nothing waits for it any more.
    """

    job: str
    index: int | None = None
    condition: Condition = Condition.OK
    is_by_element: bool = False
    is_met: bool = False

    def __str__(self) -> str:
        return self.job + ("" if self.index is None else f".{self.index}") + f":{self.condition}"


class Job(Struct, frozen=True):
    """The tasks that one ``ykactor run`` submits; an application of the daemon with the same id.

    Attributes:
        token: chosen by who submits it, so that submitting it again makes no second job.
        arguments, environ: of the command, environ as ``NAME=VALUE``; bytes, because that is what they are.
        directory: in which it runs.
        resource: of each task, in base units.
        first, last: the index of the first task and of the last one.
        ranges: the indexes, if not all from ``first`` to ``last`` have a task: those of each range are larger than those before.
        at_most: how many tasks the daemon is asked for at a time; 0 is all.
        is_gang: whether all tasks start together.
        time_limit_s: how long a task may run; 0 is as long as it likes.
        queue: that was asked for; empty leaves it to the placement rules.
        placed_in: the leaf in which the daemon has placed it, or to which it was moved, if it is another one.
        is_let_in: whether the daemon has let it in with its time limit, since it was submitted or requeued after an end (AP-158).
        retries: how often a task is started again, each time ``retry_delay_s`` after its end.
        is_held: whether the daemon is asked for no further task.
        is_held_there: whether an operator holds its application at the daemon, or did when the daemon has forgotten it.
        begin_ns: the Unix time before which no task begins.
        after: the ends of other jobs before which no task begins.
        login: as whom its tasks are started; None: as the user of the local resource manager.
        streams: the files for standard input, output and error.
        terminal: the path of the one that is all of these, and that of its session; its other end is with who waits for the job.
        script: the text that its tasks run, if it is a script that was submitted; ``arguments`` then begin with its name.
        has_slurm_names: whether its environment has the variables of Slurm too.
        on_end: the command of a shell that runs when all its tasks have ended; empty is none.
    """

    id: str
    token: str
    name: str
    user: str
    queue: str
    arguments: list[bytes]
    environ: list[bytes]
    directory: bytes
    resource: dict[str, int]
    submitted_ns: int
    priority: int = 0
    first: int = 0
    last: int = 0
    is_gang: bool = False
    time_limit_s: float = 0
    retries: int = 0
    placed_in: str = ""
    ranges: list[tuple[int, int]] = []
    at_most: int = 0
    retry_delay_s: float = 0
    is_held: bool = False
    is_held_there: bool = False
    begin_ns: int = 0
    after: list[After] = []
    login: Login | None = None
    streams: Streams = Streams()
    terminal: bytes = b""
    script: bytes = b""
    has_slurm_names: bool = False
    on_end: bytes = b""
    is_let_in: bool = False

    @property
    def leaf(self) -> str:
        """The queue in which the daemon has placed it; before that the one that was asked for."""
        return self.placed_in or self.queue

    @property
    def indexes(self) -> Sequence[int]:
        """The indexes of the tasks, in order."""
        parts = [range(first, last + 1) for first, last in self.ranges or [(self.first, self.last)]]
        return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The ranges of the indexes, each as long as possible: jobs with the same have the same indexes."""
        found: list[tuple[int, int]] = []
        for first, last in self.ranges or [(self.first, self.last)]:
            if found and found[-1][1] + 1 == first:
                found[-1] = found[-1][0], last
            else:
                found.append((first, last))
        return found

    def has(self, index: int) -> bool:
        """True if the job has a task with the index."""
        return any(first <= index <= last for first, last in self.ranges or [(self.first, self.last)])

    @property
    def is_array(self) -> bool:
        """True if it has several tasks that need not run together, or one with another index than 0."""
        return not self.is_gang and bool(self.last)

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges or [(self.first, self.last)])


class Task(Struct):
    """An attempt of one element of a job; each attempt is started at most once.

    Attributes:
        attempt: its number: how often the element was started again. ``requeues``: how often because somebody wanted it.
        verdict: the state that it was to end with, if something has ended it.
        reason: why it has this state, for people.
        exit_code: of its command, as a shell says it: 128 and the number of the signal that has ended it; None if there is none.
        again: why this is not the first attempt.
        not_before_ns: when it may begin.
        eligible_ns: when the daemon was asked for a place, Unix ns, as all times; 0 if it was not.
        started_ns, ended_ns: when it began and ended; 0 if it has not.
        peak_memory: the most that it has used at a time, in bytes; None if nothing has measured it.
        cpu_ns: the processor time that it has used; None if nothing has measured it.
        priority: the one that it had when it was placed last, which an operator may have changed; None: that of the job.
        gpus: the indices of those that it has.
        boot: identifies the run of the machine in which its process was started.
        node, queue: where it was started.
    """

    job: str
    index: int
    state: State = State.PENDING
    attempt: int = 0
    verdict: State | None = None
    reason: str = ""
    exit_code: int | None = None
    started_ns: int = 0
    ended_ns: int = 0
    peak_memory: int | None = None
    priority: int | None = None
    gpus: list[int] = []
    boot: str = ""
    requeues: int = 0
    again: str = ""
    not_before_ns: int = 0
    eligible_ns: int = 0
    cpu_ns: int | None = None
    node: str = ""
    queue: str = ""

    @property
    def signal(self) -> str:
        """The signal that has ended its command, such as ``SIGKILL``; "" if none has."""
        return signal_of(self.exit_code)

    @property
    def key(self) -> str:
        """The allocation key: another one for each attempt."""
        return f"{self.job}.{self.index}" + (f".r{self.attempt}" if self.attempt else "")


class Ended(Struct, frozen=True):
    """The end of a process.

    Attributes:
        exit_code: None if nobody knows.
        reason: why there is none, or why the command could not be started.
        by_itself: whether it had ended before it was told to.
        peak_memory, cpu_ns: as of a task.
        is_short: whether the kernel has killed a process of it because it wanted more memory than it may use.
    """

    exit_code: int | None
    reason: str = ""
    by_itself: bool = False
    peak_memory: int | None = None
    is_short: bool = False
    cpu_ns: int | None = None


def signal_of(exit_code: int | None) -> str:
    """The name of the signal that an exit code of a shell stands for; "" if it is that of the command itself."""
    try:
        return signal.Signals((exit_code or 0) - _SIGNALLED).name
    except ValueError:
        return ""
