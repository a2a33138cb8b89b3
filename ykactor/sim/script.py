"""A scenario as the input of partitions, instant by instant; the same for the actors and for the oracle."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.acts import Administration
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.submissions import RefuseConfig, Submission
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import US_NS
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.endings import Endings
from ykactor.wire.si import acts, requests
from ykactor.wire.si import messages as si
from ykactor.wire.si.protocol_error import ProtocolError

#: Stands for the first partition; no partition has this name.
ANY_PARTITION = PartitionName("")

#: Submissions for each partition.
Work = dict[PartitionName, list[Submission]]


class Request(Struct, frozen=True):
    """An administrator's request to a partition."""

    partition: PartitionName
    administration: Administration


Step = Work | SchedulerConfig | Request


class Instant(Struct):
    """The input at one virtual time.

    Attributes:
        at_ns: Unix nanoseconds, in whole microseconds: trio's virtual time is a float of seconds, exact to the microsecond.
        steps: in the order of the messages; consecutive work is one step.
        refused: the errors of messages without any effect.
        sent: the messages.
    """

    at_ns: int
    steps: list[Step]
    refused: list[str]
    sent: list[TimedRequest] = []

    def add(self, work: Work) -> None:
        """Append work, to the last step if that is work too."""
        if not self.steps or not isinstance(self.steps[-1], dict):
            self.steps.append({})
        last = self.steps[-1]
        assert isinstance(last, dict)
        _extend(last, work)

    def put_first(self, work: Work) -> None:
        """Put work before everything else, into the first step if that is work too.

        A second step of work would come while the partitions still handle the first, so that facts had no fixed order.
        """
        joined = {name: list(submissions) for name, submissions in work.items()}
        first = self.steps[0] if self.steps else None
        if isinstance(first, dict):
            _extend(joined, first)
            self.steps[0] = joined
        else:
            self.steps.insert(0, joined)


def _extend(work: Work, more: Work) -> None:
    for name, submissions in more.items():
        work.setdefault(name, []).extend(submissions)


def to_ns(at_s: float) -> int:
    """Virtual seconds to nanoseconds, rounded to the microsecond."""
    return round(at_s * 1e6) * US_NS


def instants(scenario: Scenario) -> Iterator[Instant]:
    """The instants of a scenario in order; the last one is at ``until``, without steps if no message is sent then."""
    instant = Instant(0, [], [])
    for message in scenario.messages:
        at_ns = to_ns(message.at)
        if at_ns != instant.at_ns:
            yield instant
            instant = Instant(at_ns, [], [])
        instant.sent.append(message)
        try:
            _add_step(instant, message.request)
        except ProtocolError as error:
            instant.refused.append(f"at {message.at}: {error.path}: {error.message}")
    yield instant
    until_ns = to_ns(scenario.until)
    if until_ns > instant.at_ns:
        yield Instant(until_ns, [], [])


def with_endings(scripted: Instant, endings: Endings) -> Instant:
    """The next instant: ``scripted``, or an earlier one in which allocations end. What ends at its time ends before its steps."""
    at_ns = endings.next_ns(scripted.at_ns)
    instant = scripted if at_ns == scripted.at_ns else Instant(at_ns, [], [])
    ending = endings.take(at_ns)
    if ending is not None:
        instant.put_first(requests.submissions(ending))
    return instant


def _add_step(instant: Instant, request: si.WorkRequest) -> None:
    match request:
        case _ if isinstance(request, requests.PartitionRequest):
            instant.add(requests.submissions(request))
        case si.TerminateApplication() | si.MoveApplication():
            instant.steps.append(Request(*acts.administration(request)))
        case si.SetQueueQuotas():
            instant.steps.append(Request(*acts.quotas(request)))
        case si.UpdateConfigurationRequest(config=text):
            try:
                instant.steps.append(queuefile.load(text))
            except queuefile.ConfigError as error:
                instant.add({ANY_PARTITION: [RefuseConfig(error.summary())]})
        case _:
            raise ProtocolError("UNSUPPORTED", f"a simulation cannot carry out {type(request).__name__}", "type")


def addressed(work: Work, known: list[PartitionName], at_ns: int) -> tuple[Work, list[Fact]]:
    """Divide work by partition; returns the work of known partitions, and the facts that refuse all other work.

    Work for ``ANY_PARTITION`` is given to the first partition.
    """
    routed = requests.addressed(work, known)
    if ANY_PARTITION in routed:
        routed.setdefault(known[0], []).extend(routed.pop(ANY_PARTITION))
    facts: list[Fact] = []
    for name in [name for name in routed if name not in known]:
        for submission in routed.pop(name):
            refusal = requests.unknown_partition(submission, name, at_ns)
            if refusal is not None:
                facts.append(refusal)
    return routed, facts
