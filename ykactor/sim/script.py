"""A scenario as what partitions are told, instant by instant: the same for the actors and for the oracle."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ykactor.core.decisions import Decision
from ykactor.core.ids import PartitionName
from ykactor.core.messages import ApplyConfig, RefuseConfig, Submission
from ykactor.core.queueconfig import SchedulerConfig
from ykactor.wire import queuefile, si, translate
from ykactor.wire.codec import ProtocolError
from ykactor.wire.scenario import Scenario

#: Decisions are taken at whole microseconds: a virtual second is a float, and this is what it tells apart for decades.
_US_NS = 1000


class Instant(Struct):
    """What happens at one virtual time.

    Attributes:
        at_ns: Unix nanoseconds, a multiple of 1000.
        work: submissions for each partition, in the order of the messages.
        refused: messages of which nothing took effect, as the sender would be told.
    """

    at_ns: int
    work: dict[PartitionName, list[Submission]]
    refused: list[str]


def to_ns(at_s: float) -> int:
    """Virtual seconds to nanoseconds, rounded to the microsecond."""
    return round(at_s * 1e6) * _US_NS


def instants(scenario: Scenario, config: SchedulerConfig) -> Iterator[Instant]:
    """The instants of a scenario in order; the last one, at ``until``, has no work unless messages are sent then."""
    names = [partition.name for partition in config.partitions]
    instant = Instant(0, {}, [])
    for message in scenario.messages:
        at_ns = to_ns(message.at)
        if at_ns != instant.at_ns:
            yield instant
            instant = Instant(at_ns, {}, [])
        try:
            work = _work_of(message.request, names)
        except ProtocolError as mistake:
            instant.refused.append(f"at {message.at}: {mistake.path}: {mistake.message}")
            continue
        for name, submissions in work.items():
            instant.work.setdefault(name, []).extend(submissions)
    yield instant
    until_ns = to_ns(scenario.until)
    if until_ns > instant.at_ns:
        yield Instant(until_ns, {}, [])


def _work_of(request: si.WorkRequest, names: list[PartitionName]) -> dict[PartitionName, list[Submission]]:
    match request:
        case si.NodeRequest() | si.ApplicationRequest() | si.AllocationRequest():
            return translate.submissions(request)
        case si.UpdateConfigurationRequest(config=text):
            return _configure(text, names)
    raise ProtocolError("UNSUPPORTED", f"a simulation cannot carry out {type(request).__name__}", "type")


def _configure(text: str, names: list[PartitionName]) -> dict[PartitionName, list[Submission]]:
    """The whole configuration or nothing of it (CF-52)."""
    try:
        config = queuefile.load(text)
    except queuefile.ConfigError as error:
        return {names[0]: [RefuseConfig(str(error))]}
    if [partition.name for partition in config.partitions] != names:
        return {names[0]: [RefuseConfig("partitions cannot be added or removed while running in this version")]}
    return {partition.name: [ApplyConfig(partition)] for partition in config.partitions}


def unknown_partitions(instant: Instant, known: list[PartitionName]) -> list[Decision]:
    """Refusals of what was sent to partitions that do not exist; it is taken out of the instant's work."""
    facts: list[Decision] = []
    for name in [name for name in instant.work if name not in known]:
        for submission in instant.work.pop(name):
            refusal = translate.unknown_partition(submission, name, instant.at_ns)
            if refusal is not None:
                facts.append(refusal)
    return facts
