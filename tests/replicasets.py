"""Applications of the kind that never give up: whatever of them is preempted is submitted again under a new key.

    sets = ReplicaSets(make_world(text, nodes, confirms=False))
    sets.run(600)

Time runs as in a daemon. A release is confirmed after ``confirms_s``, and the new task is submitted at the same instant.
"""

from collections.abc import Callable

from msgspec import structs
from world import S_NS, World

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Fact, Preempted, ReleaseStarted
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import ReleaseAllocations, Submission

PREEMPTED = TerminationType.PREEMPTED_BY_SCHEDULER


class ReplicaSets:
    """Plays the resource manager of a world in which nothing is confirmed by itself.

    Args:
        confirms_s: how long a release takes, or how long that of a task takes; None for one that never comes.
        ends_as: the termination type that its confirmation names.
    """

    def __init__(
        self,
        world: World,
        confirms_s: float | Callable[[Ask], float | None] | None = 0.0,
        ends_as: Callable[[], str] = lambda: PREEMPTED,
    ) -> None:
        self.world = world
        world.direct.wakes = True
        self._confirms_s = confirms_s
        self._ends_as = ends_as
        self._heard = len(world.facts)
        self._owed: list[tuple[int, list[Submission]]] = []
        self._copies: dict[str, int] = {}
        #: The keys of the victims, in order, with the second.
        self.evicted: list[tuple[float, str]] = []
        self.preemptions: list[Preempted] = []

    def run(self, until: float) -> None:
        """Up to this virtual second."""
        until_ns = round(until * S_NS)
        self._answer(self.world.now_ns)
        while (at_ns := self._next_ns()) is not None and at_ns < until_ns:
            self._play(at_ns)
        self._play(until_ns)

    def keys(self) -> list[str]:
        """The victims, in order."""
        return [key for _, key in self.evicted]

    def _next_ns(self) -> int | None:
        times = [at_ns for at_ns, _ in self._owed]
        next_ns = self.world.direct.next_ns()
        return min(times if next_ns is None else [*times, next_ns], default=None)

    def _play(self, at_ns: int) -> None:
        self.world.now_ns = at_ns
        self.world.direct.intake(at_ns, [])
        self._answer(at_ns)

    def _answer(self, now_ns: int) -> None:
        while True:
            self._hear(self.world.facts[self._heard :])
            due = [said for at_ns, said in self._owed if at_ns <= now_ns]
            if not due:
                return
            self._owed = [(at_ns, said) for at_ns, said in self._owed if at_ns > now_ns]
            self.world.direct.intake(now_ns, [submission for said in due for submission in said])

    def _hear(self, facts: list[Fact]) -> None:
        self._heard += len(facts)
        for decision in facts:
            if isinstance(decision, Preempted):
                self.preemptions.append(decision)
            if isinstance(decision, ReleaseStarted) and decision.termination_type == PREEMPTED:
                ask = decision.ask
                self.evicted.append((decision.at_ns / S_NS, ask.allocation_key))
                after_s = self._confirms_s(ask) if callable(self._confirms_s) else self._confirms_s
                if after_s is not None:
                    end = ReleaseAllocations(ask.application_id, ask.allocation_key, self._ends_as())
                    self._owed.append((decision.at_ns + round(after_s * S_NS), [end, self._copy(ask)]))

    def _copy(self, ask: Ask) -> Ask:
        stem = ask.allocation_key.partition("'")[0]
        self._copies[stem] = self._copies.get(stem, 0) + 1
        tags = {name: value for name, value in ask.tags.items() if name != "creationTime"}
        return structs.replace(ask, allocation_key=f"{stem}'{self._copies[stem]}", node_id=None, tags=tags)
