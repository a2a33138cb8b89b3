"""The reasons for which the daemon is not asked for a task yet: a hold, a time, the end of other jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from ykactor.local.model import After, Condition, Job, State, Task

#: The present attempts of the tasks of a job that has not ended; None if it has, or is not known.
Live = Callable[[str], Mapping[int, Task] | None]
#: Instead of the index of a task: each task of the dependent job waits for the one with its own index.
_EACH = -1
_UNTIL = {Condition.OK: "to complete", Condition.ANY: "to end", Condition.FAILED: "to fail"}


class Obstacles(Struct):
    """The reasons why a task waits.

    Attributes:
        reasons: sentences; none if it does not wait.
        until_ns: the time that ends the waiting, if nothing else would; else 0.
        never: why it can never begin; "" if it can.
    """

    reasons: list[str]
    until_ns: int = 0
    never: str = ""


class Result(Struct, frozen=True):
    """The end of a job: the last states of its tasks, by their indexes."""

    job: Job
    states: Mapping[int, State]
    is_completed: bool


def result(job: Job, states: Mapping[int, State]) -> Result:
    """The end of a job with the states of its tasks."""
    return Result(job, states, all(state is State.COMPLETED for state in states.values()))


#: The ends of jobs by their ids; None for one that is not known.
Results = Mapping[str, Result | None]


class Dependencies:
    """The jobs that wait for the ends of others.

    An end is remembered only until those that wait for it have been told: ``Book`` keeps in them that it is met.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        #: By job, and by the index in it, or ``_EACH``, or None for the whole job: the jobs that wait for it.
        self._dependents: dict[str, dict[int | None, dict[str, None]]] = {}
        self._results: dict[str, Result | None] = {}

    def add(self, job: Job) -> None:
        """Let a job wait for those that it names."""
        for after in job.after:
            if not after.is_met:
                self._dependents.setdefault(after.job, {}).setdefault(_key(after), {})[job.id] = None

    def drop(self, job: Job) -> None:
        """Forget what a job waited for: it has ended."""
        for after in job.after:
            key, dependents = _key(after), self._dependents.get(after.job, {})
            names = dependents.get(key, {})
            names.pop(job.id, None)
            if not names:
                dependents.pop(key, None)
            if not dependents:
                self._dependents.pop(after.job, None)

    def is_named(self, job: str) -> bool:
        """True if a job waits for the end of this one."""
        return job in self._dependents

    def unknown(self) -> list[str]:
        """The jobs for which others wait, and of which nothing is known."""
        return [job for job in self._dependents if self._live(job) is None and job not in self._results]

    def on_ended(self, job: str, found: Result | None) -> None:
        """Remember an end until ``close``; None: nobody knows it."""
        self._results[job] = found

    def close(self, job: str) -> None:
        """Forget the end of a job, and who has waited for it."""
        self._results.pop(job, None)
        self._dependents.pop(job, None)

    def dependents(self, job: str) -> list[str]:
        """The jobs that wait for a job, or for tasks of it."""
        return list(dict.fromkeys(name for names in self._dependents.get(job, {}).values() for name in names))

    def waiting_for(self, job: str, index: int) -> list[tuple[str, int | None]]:
        """The jobs, or tasks of jobs, that wait for a task."""
        dependents = self._dependents.get(job, {})
        found: list[tuple[str, int | None]] = [(name, None) for name in dependents.get(index, ())]
        return found + [(name, index) for name in dependents.get(_EACH, ())]

    def obstacles(self, job: Job, task: Task, now_ns: int) -> Obstacles:
        """The reasons why the daemon is not asked for a task."""
        found = Obstacles(["is held: ykactor release lets it go on"] if job.is_held else [])
        for after in job.after:
            is_met = after.is_met or self._is_met(after, task.index)
            if is_met is None:
                found.reasons.append(f"waits for {_name(after, task.index)} {_UNTIL[after.condition]}")
            elif not is_met:
                found.never = f"{self._outcome(after, task.index)}, so that it can never begin (--after {after})"
        not_before_ns = max(job.begin_ns, task.not_before_ns)
        if not_before_ns > now_ns:
            found.until_ns = 0 if found.reasons else not_before_ns
            found.reasons.append(f"does not begin before {_time(not_before_ns)}")
        return found

    def _is_met(self, after: After, index: int) -> bool | None:
        """True if a dependency is met, False if it can never be; None if the end is not there yet."""
        of = index if after.is_by_element else after.index
        if of is not None:
            state = self._state(after.job, of)
            if state is not None and not state.is_final:
                return None
            return state is not None and _meets(state is State.COMPLETED, after.condition)
        if self._live(after.job) is not None:
            return None
        found = self._results.get(after.job)
        return found is not None and _meets(found.is_completed, after.condition)

    def _state(self, job: str, index: int) -> State | None:
        if (live := self._live(job)) is not None:
            return live[index].state
        found = self._results.get(job)
        return None if found is None else found.states.get(index)

    def _outcome(self, after: After, index: int) -> str:
        of = index if after.is_by_element else after.index
        if self._live(after.job) is None and self._results.get(after.job) is None:
            return f"{after.job} is forgotten"
        if of is not None:
            return f"{after.job}.{of} is {self._state(after.job, of)}"
        found = self._results.get(after.job)
        return f"{after.job} has {'' if found is not None and found.is_completed else 'not '}completed"


def _key(after: After) -> int | None:
    return _EACH if after.is_by_element else after.index


def _name(after: After, index: int) -> str:
    of = index if after.is_by_element else after.index
    return after.job if of is None else f"{after.job}.{of}"


def _meets(is_completed: bool, condition: Condition) -> bool:
    return condition is Condition.ANY or is_completed is (condition is Condition.OK)


def _time(unix_ns: int) -> str:
    """UTC, to the second."""
    return f"{datetime.fromtimestamp(-(-unix_ns // 10**9), UTC):%Y-%m-%dT%H:%M:%SZ}"
