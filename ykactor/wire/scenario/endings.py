"""The ends of allocations whose asks have ``runSeconds``: that long after they started, whenever that was.

A player of a scenario tells an ``Endings`` what it sends, and what starts and ends; it tells when to send which releases.
"""

import heapq
from collections.abc import Iterator

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, AllocationRejected, Fact, Released
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import RefuseEntry, Submission
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
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


class Endings:
    """Times are in nanoseconds of the scenario, in whole microseconds."""

    def __init__(self) -> None:
        self._run_ns: dict[AskKey, int] = {}
        #: The end of each running allocation.
        self._due_ns: dict[AskKey, int] = {}
        #: Time, number of the start, key; also of allocations that have ended before their time.
        self._heap: list[tuple[int, int, AskKey]] = []
        self._starts_count = 0

    def expect(self, message: TimedRequest) -> None:
        """Remember how long the asks of this message run; to be called before it is sent."""
        releases = message.request.releases.allocations_to_release if isinstance(message.request, si.AllocationRequest) else []
        for release in releases:
            if release.termination_type == TerminationType.SCHEDULING_FAILED_ON_RM:  # it waits again
                self._due_ns.pop(ask_key(release.partition_name, release.application_id, release.allocation_key), None)
        for index, key, _ in asks_of(message):
            if index in message.run_seconds:
                self._run_ns[key] = max(1, round(message.run_seconds[index] * 1e6)) * 1000
            else:
                self._run_ns.pop(key, None)

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, Allocated | Released):
            key = ask_key(partition, fact.ask.application_id, fact.ask.allocation_key)
            if isinstance(fact, Allocated):
                self.on_started(key, fact.at_ns)
            else:
                self.on_ended(key)

    def on_started(self, key: AskKey, at_ns: int) -> None:
        """An ask was placed, or an allocation was recovered."""
        run_ns = self._run_ns.get(key)
        if run_ns is not None:
            self._due_ns[key] = at_ns + run_ns
            self._starts_count += 1
            heapq.heappush(self._heap, (at_ns + run_ns, self._starts_count, key))

    def on_ended(self, key: AskKey) -> None:
        """An allocation has ended for whatever reason."""
        if self._due_ns.pop(key, None) is not None:
            self._run_ns.pop(key, None)

    def next_ns(self, limit_ns: int) -> int:
        """The time at which there is something to send next, but at most ``limit_ns``."""
        return self._next_end_ns(limit_ns)

    def _next_end_ns(self, limit_ns: int) -> int:
        while self._heap and self._due_ns.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return min(self._heap[0][0], limit_ns) if self._heap else limit_ns

    def take(self, at_ns: int) -> si.AllocationRequest | None:
        """The release of what ends up to ``at_ns``, in the order of its ends; None if that is nothing."""
        releases = []
        while self._next_end_ns(at_ns + 1) <= at_ns:
            _, _, key = heapq.heappop(self._heap)
            self.on_ended(key)
            partition, application_id, allocation_key = key
            releases.append(
                si.AllocationRelease(
                    partition_name=partition,
                    application_id=application_id,
                    allocation_key=allocation_key,
                    termination_type="STOPPED_BY_RM",
                )
            )
        if not releases:
            return None
        return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=releases))

    def work(self, at_ns: int) -> dict[PartitionName, list[Submission]]:
        """The same as submissions."""
        request = self.take(at_ns)
        return {} if request is None else requests.submissions(request)
