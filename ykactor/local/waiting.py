"""The reasons for which the daemon is not asked for a task yet: a hold, a time, the end of other jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from ykactor.local.model import After, Condition, Job, State, Task

#: The states of the tasks of a job that has ended, by their indexes; None if it is not known.
EndedStates = Callable[[str], Mapping[int, State] | None]
#: The states of the present attempts of a job that has not ended; None if it has, or is not known.
LiveStates = Callable[[str], Mapping[int, Task] | None]
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


class _Result(Struct, frozen=True):
    """The end of a job that others wait for."""

    states: Mapping[int, State]
    is_completed: bool


class Dependencies:
    """The jobs that wait for the ends of others.

    The ends of jobs that others wait for are remembered as long as they do, so that thousands that wait for one look once.
    """

    def __init__(self, live: LiveStates, ended: EndedStates) -> None:
        self._live = live
        self._ended = ended
        #: By job and index, or ``_EACH``, or None for the whole job: the jobs that wait for it.
        self._dependents: dict[tuple[str, int | None], dict[str, None]] = {}
        #: By job: how many dependencies name it.
        self._named: Counter[str] = Counter()
        self._results: dict[str, _Result | None] = {}

    def add(self, job: Job) -> None:
        """Let a job wait for those that it names."""
        for after in job.after:
            self._dependents.setdefault(_key(after), {})[job.id] = None
            self._named[after.job] += 1

    def drop(self, job: Job) -> None:
        """Forget what a job waited for: it has ended."""
        for after in job.after:
            dependents = self._dependents.get(_key(after), {})
            dependents.pop(job.id, None)
            if not dependents:
                self._dependents.pop(_key(after), None)
            self._named[after.job] -= 1
            if not self._named[after.job]:
                del self._named[after.job]
                self._results.pop(after.job, None)

    def is_named(self, job: str) -> bool:
        """True if a job that has not ended waits for this one, or has waited for it."""
        return job in self._named

    def on_ended(self, job: str, states: Mapping[int, State]) -> None:
        """Remember the end of a job, if others wait for it."""
        if job in self._named:
            self._results[job] = _result(states)

    def waiting_for(self, job: str, index: int | None) -> list[tuple[str, int | None]]:
        """The jobs, or tasks of jobs, that wait for a task; without an index, for the whole job."""
        found: list[tuple[str, int | None]] = [(name, None) for name in self._dependents.get((job, index), ())]
        if index is not None:
            found += [(name, index) for name in self._dependents.get((job, _EACH), ())]
        return found

    def states_of(self, job: str) -> Mapping[int, State] | None:
        """The states of the tasks of a job that has ended, or not; None if it is not known."""
        live = self._live(job)
        return self._ended(job) if live is None else {index: task.state for index, task in live.items()}

    def obstacles(self, job: Job, task: Task, now_ns: int) -> Obstacles:
        """The reasons why the daemon is not asked for a task."""
        found = Obstacles(["is held: ykactor release lets it go on"] if job.is_held else [])
        for after in job.after:
            is_met = self._is_met(after, task.index)
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
        live = self._live(after.job)
        of = index if after.is_by_element else after.index
        if of is None:
            result = self._result(after.job) if live is None else None
            return None if live is not None else result is not None and _meets(result.is_completed, after.condition)
        state = live[of].state if live is not None else self._state(after.job, of)
        if state is not None and not state.is_final:
            return None
        return state is not None and _meets(state is State.COMPLETED, after.condition)

    def _result(self, job: str) -> _Result | None:
        if job not in self._results:
            states = self._ended(job)
            self._results[job] = None if states is None else _result(states)
        return self._results[job]

    def _state(self, job: str, index: int) -> State | None:
        result = self._result(job)
        return None if result is None else result.states.get(index)

    def _outcome(self, after: After, index: int) -> str:
        of = index if after.is_by_element else after.index
        result = self._result(after.job) if self._live(after.job) is None else None
        if of is not None:
            live = self._live(after.job)
            state = live[of].state if live is not None else self._state(after.job, of)
            return f"{after.job}.{of} is {state}"
        return f"{after.job} has {'' if result is not None and result.is_completed else 'not '}completed"


def _key(after: After) -> tuple[str, int | None]:
    return after.job, _EACH if after.is_by_element else after.index


def _name(after: After, index: int) -> str:
    of = index if after.is_by_element else after.index
    return after.job if of is None else f"{after.job}.{of}"


def _result(states: Mapping[int, State]) -> _Result:
    return _Result(states, all(state is State.COMPLETED for state in states.values()))


def _meets(is_completed: bool, condition: Condition) -> bool:
    return condition is Condition.ANY or is_completed is (condition is Condition.OK)


def _time(unix_ns: int) -> str:
    """UTC, to the second."""
    return f"{datetime.fromtimestamp(-(-unix_ns // 10**9), UTC):%Y-%m-%dT%H:%M:%SZ}"
