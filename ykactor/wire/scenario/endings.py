"""The ends of allocations whose asks have ``runSeconds``: that long after they started, whenever that was.

A player of a scenario tells an ``Endings`` what it sends, and what starts and ends; it tells when to send which releases. A
placeholder with ``runSeconds`` stands for a task of a gang, which runs so long: the tasks are asked for together, when all
placeholders of the application are placed, or when one is gone before.
"""

import heapq
from collections import deque
from collections.abc import Iterator

from msgspec import Struct, field, structs

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, AllocationRejected, AskRemoved, Fact, Released
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import RefuseEntry, Submission
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import US_NS
from ykactor.wire.scenario.model import TimedRequest
from ykactor.wire.scenario.recording import Turn
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests

#: The partition in lower case, application and key.
AskKey = tuple[str, str, str]


def ask_key(partition: str, application_id: str, allocation_key: str) -> AskKey:
    """The key of an ask in ``Endings``; partitions are compared without case, and an empty name is ``default``."""
    return partition.lower() or "default", application_id, allocation_key


def asks_of(message: TimedRequest) -> Iterator[tuple[int, AskKey, bool]]:
    """The asks of a message with their indexes, refused ones too, and whether they are told to run on a node already."""
    match message.request:
        case si.AllocationRequest(allocations=allocations):
            for index, ask in enumerate(allocations):
                yield index, ask_key(ask.partition_name, ask.application_id, ask.allocation_key), bool(ask.node_id)
        case Turn(partition=partition, cause=Input(submissions)):
            for index, each in enumerate(submissions):
                found = each.rejected if isinstance(each, RefuseEntry) else each
                if isinstance(found, Ask | AllocationRejected):
                    has_node = isinstance(found, Ask) and found.node_id is not None
                    yield index, ask_key(partition, found.application_id, found.allocation_key), has_node


#: Follows the key of a placeholder in that of its task.
_TASK = ".task"


class _Gang(Struct):
    """The tasks of an application with their run times, by their placeholders, and the placeholders that are not placed yet."""

    tasks: dict[str, tuple[si.Allocation, int]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


class Endings:
    """Times are in nanoseconds of the scenario, in whole microseconds."""

    def __init__(self) -> None:
        self._run_ns: dict[AskKey, int] = {}
        #: The end of each running allocation.
        self._due_ns: dict[AskKey, int] = {}
        #: Time, number of the start, key; also of allocations that have ended before their time.
        self._heap: list[tuple[int, int, AskKey]] = []
        self._starts_count = 0
        #: By partition and application those whose tasks are not asked for; when they are, with the time.
        self._gangs: dict[tuple[str, str], _Gang] = {}
        self._asked: deque[tuple[int, _Gang]] = deque()

    def expect(self, message: TimedRequest) -> None:
        """Remember how long the asks of this message run; to be called before it is sent."""
        releases = message.request.releases.allocations_to_release if isinstance(message.request, si.AllocationRequest) else []
        for release in releases:
            if release.termination_type == TerminationType.SCHEDULING_FAILED_ON_RM:  # it waits again
                self._due_ns.pop(ask_key(release.partition_name, release.application_id, release.allocation_key), None)
        for index, key, _ in asks_of(message):
            run_ns = max(1, round(message.run_seconds.get(index, 0) * 1e6)) * US_NS
            ask = message.request.allocations[index] if isinstance(message.request, si.AllocationRequest) else None
            if index in message.run_seconds and ask is not None and ask.placeholder:
                self._expect_gang(key, ask, run_ns)
            elif index in message.run_seconds:
                self._run_ns[key] = run_ns
            else:
                self._run_ns.pop(key, None)

    def _expect_gang(self, key: AskKey, placeholder: si.Allocation, run_ns: int) -> None:
        gang = self._gangs.setdefault(key[:2], _Gang())
        task = structs.replace(placeholder, allocation_key=placeholder.allocation_key + _TASK, placeholder=False)
        gang.tasks[placeholder.allocation_key] = task, run_ns
        gang.missing.add(placeholder.allocation_key)

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, Allocated | Released | AskRemoved):
            key = ask_key(partition, fact.ask.application_id, fact.ask.allocation_key)
            if isinstance(fact, Allocated):
                self.on_started(key, fact.at_ns)
            elif isinstance(fact, Released) or fact.ask.placeholder:
                self.on_ended(key, fact.at_ns)

    def run_for(self, key: AskKey, run_ns: int) -> None:
        """Remember how long an ask runs, unless its message has said it."""
        self._run_ns.setdefault(key, run_ns)

    def on_started(self, key: AskKey, at_ns: int) -> None:
        """An ask was placed, or an allocation was recovered."""
        gang = self._gangs.get(key[:2])
        if gang is not None and key[2] in gang.tasks:
            gang.missing.discard(key[2])
            if not gang.missing:
                self._ask_for_tasks(key, at_ns)
            return
        run_ns = self._run_ns.get(key)
        if run_ns is not None:
            self._due_ns[key] = at_ns + run_ns
            self._starts_count += 1
            heapq.heappush(self._heap, (at_ns + run_ns, self._starts_count, key))

    def on_ended(self, key: AskKey, at_ns: int) -> None:
        """An allocation, or a placeholder that waits, has ended for whatever reason."""
        gang = self._gangs.get(key[:2])
        if gang is not None and key[2] in gang.tasks:
            self._ask_for_tasks(key, at_ns)
        if self._due_ns.pop(key, None) is not None:
            self._run_ns.pop(key, None)

    def _ask_for_tasks(self, key: AskKey, at_ns: int) -> None:
        self._asked.append((at_ns + US_NS, self._gangs.pop(key[:2])))

    def next_ns(self, limit_ns: int) -> int:
        """The time at which there is something to send next, but at most ``limit_ns``."""
        limit_ns = self._next_end_ns(limit_ns)
        return min(self._asked[0][0], limit_ns) if self._asked else limit_ns

    def _next_end_ns(self, limit_ns: int) -> int:
        while self._heap and self._due_ns.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return min(self._heap[0][0], limit_ns) if self._heap else limit_ns

    def ended(self, at_ns: int) -> Iterator[AskKey]:
        """The allocations that end up to ``at_ns``, in this order."""
        while self._next_end_ns(at_ns + 1) <= at_ns:
            _, _, key = heapq.heappop(self._heap)
            self.on_ended(key, at_ns)
            yield key

    def take(self, at_ns: int) -> si.AllocationRequest | None:
        """The release of what ends up to ``at_ns``, in the order of its ends, and the tasks of gangs; None if that is nothing."""
        releases = [
            si.AllocationRelease(
                partition_name=partition,
                application_id=application_id,
                allocation_key=allocation_key,
                termination_type="STOPPED_BY_RM",
            )
            for partition, application_id, allocation_key in self.ended(at_ns)
        ]
        tasks = []
        while self._asked and self._asked[0][0] <= at_ns:
            for task, run_ns in self._asked.popleft()[1].tasks.values():
                tasks.append(task)
                self._run_ns[ask_key(task.partition_name, task.application_id, task.allocation_key)] = run_ns
        if not releases and not tasks:
            return None
        return si.AllocationRequest(allocations=tasks, releases=si.AllocationReleasesRequest(allocations_to_release=releases))

    def work(self, at_ns: int) -> dict[PartitionName, list[Submission]]:
        """The same as submissions."""
        request = self.take(at_ns)
        return {} if request is None else requests.submissions(request)
