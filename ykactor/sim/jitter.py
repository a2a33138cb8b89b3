"""Other arrivals of the same work: each application with all its messages is moved by up to a second, at random from a seed.

Small shifts of arrivals change schedules, so a difference between two configurations means something only if it is larger than
those between arrivals. Messages about nodes, configurations and others that are of no application stay.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from msgspec import structs

from ykactor.core.messages.submissions import Submission
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.recording import Turn
from ykactor.wire.si import messages as si

#: The most by which an application is moved.
MOST_S = 1.0
#: Messages about one application.
_OF_ONE = si.TerminateApplication | si.MoveApplication | si.HoldApplication | si.CancelAllocation | si.SetPriority


def jittered(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with other arrivals: the same seed gives the same; the order of the messages of an application stays."""
    return structs.replace(scenario, messages=_Jittered(scenario, seed))


class _Jittered:
    """The messages of a scenario with other arrivals. Memory: a number for each application, and what is moved past others."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._seed = seed

    def __iter__(self) -> Iterator[TimedRequest]:
        rng, shifts, until = random.Random(self._seed), dict[Hashable, float](), self._scenario.until
        moved: list[tuple[float, int, TimedRequest]] = []
        count = 0
        for message in self._scenario.messages:
            while moved and moved[0][0] <= message.at:  # what follows comes later
                yield heapq.heappop(moved)[2]
            for application, part in _parts(message):
                if application and application not in shifts:
                    shifts[application] = round(rng.uniform(0, MOST_S), 6)  # whole microseconds
                at = min(part.at + shifts.get(application, 0.0), max(part.at, until))
                count += 1
                heapq.heappush(moved, (at, count, structs.replace(part, at=at)))
        while moved:
            yield heapq.heappop(moved)[2]


def _parts(message: TimedRequest) -> Iterator[tuple[Hashable, TimedRequest]]:
    """The message in parts of one application each, with its partition and name; None if it is of no application."""
    request = message.request
    match request:
        case si.ApplicationRequest():
            for application, (new, jobs, records, remove) in _by_application(
                request.new, request.jobs, request.records, request.remove
            ):
                part = structs.replace(request, new=new, jobs=jobs, records=records, remove=remove)
                yield application, TimedRequest(message.at, part)
        case si.AllocationRequest():
            yield from _allocations(message, request)
        case _ if isinstance(request, _OF_ONE):
            yield _name(request), message
        case Turn(cause=Input(submissions)):
            for application, numbers in _numbers(request.partition, submissions).items():
                yield application, TimedRequest(message.at, _part(request, submissions, numbers))
        case _:
            yield None, message


def _allocations(message: TimedRequest, request: si.AllocationRequest) -> Iterator[tuple[Hashable, TimedRequest]]:
    """The asks and releases of each application; ``runSeconds`` go along."""
    releases = request.releases.allocations_to_release
    numbers = {id(ask): number for number, ask in enumerate(request.allocations)}
    for application, (asks, ends) in _by_application(request.allocations, releases):
        part = structs.replace(request, allocations=asks, releases=structs.replace(request.releases, allocations_to_release=ends))
        run_seconds = {
            place: message.run_seconds[numbers[id(ask)]]
            for place, ask in enumerate(asks)
            if numbers[id(ask)] in message.run_seconds
        }
        yield application, TimedRequest(message.at, part, run_seconds)


def _numbers(partition: PartitionName, submissions: Sequence[Submission]) -> dict[Hashable, list[int]]:
    """The numbers of the submissions of each application."""
    found: dict[Hashable, list[int]] = {}
    for number, submission in enumerate(submissions):
        application = getattr(submission, "application_id", "")
        found.setdefault((partition, application) if application else None, []).append(number)
    return found


def _part(turn: Turn, submissions: Sequence[Submission], numbers: list[int]) -> Turn:
    """Some submissions of a recorded turn, with what is said of them."""
    places = {number: place for place, number in enumerate(numbers)}
    return structs.replace(
        turn,
        cause=structs.replace(turn.cause, submissions=[submissions[number] for number in numbers]),
        lives={places[number]: life for number, life in turn.lives.items() if number in places},
        if_known=tuple(places[number] for number in turn.if_known if number in places),
        after_tasks=tuple(places[number] for number in turn.after_tasks if number in places),
    )


def _by_application(*entries: Sequence[Any]) -> Iterator[tuple[Hashable, list[list[Any]]]]:
    """The entries of each application, in the order in which they begin; one message without any entry stays one."""
    found: dict[Hashable, list[list[Any]]] = {}
    for place, kind in enumerate(entries):
        for entry in kind:
            found.setdefault(_name(entry), [[] for _ in entries])[place].append(entry)
    yield from (found or {None: [[] for _ in entries]}).items()


def _name(entry: Any) -> Hashable:
    """The partition and the application of an entry; None without one: a foreign allocation."""
    return (entry.partition_name.lower() or "default", entry.application_id) if entry.application_id else None
