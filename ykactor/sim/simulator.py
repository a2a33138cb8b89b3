"""Runs a scenario on a virtual clock: through a plain loop (``sim.direct``), or through the daemon's actors without its sockets.

Both take the same decisions; the loop needs half the CPU time. With the actors trio's ``MockClock`` jumps to the next timer
whenever all tasks wait, so a simulated day takes only the time of its decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

import trio
import trio.testing
from msgspec import Struct, structs

from ykactor.actors.clock import Clock
from ykactor.actors.commands import Administer, Awaited, Failure, FeedCommand, Intake, PartitionCommand, Publication, Quiesce
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.partition import CYCLE_BUDGET, Cycling, PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.inspection.pending_asks import waited_until, waiting_asks
from ykactor.core.inspection.snapshot import FinalApplication, FinalState, FinalStates, final_state
from ykactor.core.messages.acts import Administration, Operator
from ykactor.core.messages.asks import AskID
from ykactor.core.messages.facts import ApplicationRejected, Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.states import ApplicationState
from ykactor.core.messages.submissions import RefuseConfig, RemovePartition, Submission, WantSchedulingStates
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.queueing.waits import Waited
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn import turn
from ykactor.core.values.ids import AllocationKey, PartitionName, QueuePath
from ykactor.core.values.parts import finished
from ykactor.core.values.times import US_NS
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.reactions import Conditional, Reactions
from ykactor.sim.recorded import Added, Due, Happening, RecordedPartitions, Removed, Renewed, beginning, states
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.endings import Endings
from ykactor.wire.scenario.model import OperatorOnly, ScenarioRequest
from ykactor.wire.scenario.recording import Lives, Recording, Rows, Turn
from ykactor.wire.si import acts, requests
from ykactor.wire.si import messages as si
from ykactor.wire.si.protocol_error import ProtocolError

#: Called after each instant with the completed fraction of the scenario, 0 to 1.
Progress = Callable[[float], None]
#: Called with each fact: by time, then partition, then order of decision.
Observe = Callable[[PartitionName, Fact], object]


def ignore(_: PartitionName, __: Fact) -> None:
    """Observe nothing."""


class Outcome(Struct):
    """The result of a simulation.

    Attributes:
        final: of one partition, or of several by name.
        waiting: (allocation key, queue, reason) of every pending ask.
        waited: by partition and ask, what every pending ask has waited for until the end (AP-154).
        refused: the errors of messages without any effect.
        end_ns: the time of the last instant.
    """

    final: FinalState | FinalStates
    waiting: list[tuple[AllocationKey, QueuePath, str]]
    refused: list[str]
    end_ns: int
    waited: dict[PartitionName, dict[AskID, Waited]] = {}


class Record:
    """Tells of the facts of all partitions from the first instant on, without those of the first configuration.

    Args:
        observe: a fact is told when time has gone on, or ``flush`` is called: other partitions may come before it.
        begin_ns: the Unix time of second 0.
    """

    def __init__(self, observe: Observe, begin_ns: int = 0) -> None:
        self._observe = observe
        self._begin_ns = begin_ns
        #: The facts of one time, by partition.
        self._now_ns = begin_ns
        self._present: dict[PartitionName, list[Fact]] = {}
        self.refused: list[str] = []
        #: The ends of the allocations that say how long they run.
        self.endings: Endings = Endings()
        self.turned_away: dict[str, FinalApplication] = {}
        self.is_open = False

    def add(self, name: PartitionName, facts: list[Fact]) -> None:
        """Take facts of one turn."""
        if not self.is_open:
            return
        for fact in facts:
            if fact.at_ns > self._now_ns:
                self.flush()
                self._now_ns = fact.at_ns
            self._present.setdefault(name, []).append(fact)
            self.endings.observe(name, fact)

    def flush(self) -> None:
        """Tell of the facts of the present time."""
        for name in sorted(self._present):
            for fact in self._present[name]:
                self._observe(name, fact)
        self._present.clear()

    def begin(self, instant: Instant) -> None:
        """Record what is refused at once, and for how long the new asks run."""
        self.refused += instant.refused
        for message in instant.sent:
            self.endings.expect(message)

    def refuse(self, at_ns: int, reason: str) -> None:
        """Record that an administrator's request was refused."""
        self.refused.append(f"at {(at_ns - self._begin_ns) / 1e9:.12g}: {reason}")

    def admit(self, work: Work, known: list[PartitionName], at_ns: int) -> Work:
        """The work of known partitions; records the refusal of all other work."""
        routed, refused = addressed(work, known, at_ns)
        for fact in refused:
            self.add(known[0], [fact])
            if isinstance(fact, ApplicationRejected):
                rejected = FinalApplication(state=ApplicationState.REJECTED.value, queue_name="")
                self.turned_away[fact.application_id] = rejected
        if isinstance(self.endings, Reactions):
            routed = {name: list(self.endings.present(name, submissions)) for name, submissions in routed.items()}
        return routed

    def outcome(self, cores: list[tuple[PartitionCore, SchedulerState]], end_ns: int) -> Outcome:
        """The outcome after the last instant."""
        self.flush()
        finals: dict[str, FinalState] = {core.name: finished(final_state(core, state)) for core, state in cores}
        name, first = next(iter(finals.items()))
        finals[name] = structs.replace(first, applications=dict(sorted((self.turned_away | first.applications).items())))
        final = finals[name] if len(finals) == 1 else FinalStates(partitions=finals)
        waiting = [ask for _, state in cores for ask in waiting_asks(state)]
        waited = {core.name: waited_until(state, end_ns) for core, state in cores}
        return Outcome(final, waiting, self.refused, end_ns, waited)


def simulate_with_actors(
    scenario: Scenario,
    observe: Observe = ignore,
    progress: Progress = lambda _: None,
    budget: Budget = CYCLE_BUDGET,
    *,
    reserves: bool = True,
) -> Outcome:
    """Run a scenario through the actors; as ``simulate``."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    main = partial(_simulate, scenario, observe, progress, budget, reserves=reserves)
    return trio.run(main, clock=clock, restrict_keyboard_interrupt_to_checkpoints=True)  # as ``cli/loop.py`` does


async def _simulate(scenario: Scenario, observe: Observe, progress: Progress, budget: Budget, *, reserves: bool) -> Outcome:
    config = queuefile.load(scenario.config, scenario.name)
    record = Record(observe)
    clock = Clock(0)
    published = trio.lowlevel.ParkingLot()

    async def publish(command: FeedCommand) -> None:
        assert isinstance(command, Publication)
        record.add(command.partition, command.facts)
        published.unpark_all()

    async def next_instant(scripted: Instant) -> Instant:
        """Returns at its time. What starts meanwhile, when a timer fires or a partition wakes, may end before ``scripted``."""
        while clock.now_ns() < (at_ns := record.endings.next_ns(scripted.at_ns)):
            with trio.move_on_at(clock.to_trio(at_ns)):
                await published.park()
        return with_endings(scripted, record.endings)

    cycling = Cycling(confirms=scenario.confirm_releases, wakes=scenario.wakes, reserves=reserves, budget=budget)

    def welcome(inbox: Mailbox[PartitionCommand]) -> None:
        if scenario.wants_scheduling_states:
            inbox.offer(Intake([WantSchedulingStates(True)], more_follows=True))

    partitions = Partitions(lambda config: PartitionActor(config, clock, publish, cycling), welcome=welcome)
    end_ns = 0
    async with trio.open_nursery() as nursery:
        await partitions.start(nursery, config)
        record.is_open = True
        for inbox in partitions.inboxes.values():
            welcome(inbox)
        for scripted in instants(scenario):
            instant = None
            while instant is not scripted:
                instant = await next_instant(scripted)
                await _play(instant, partitions, record)
            end_ns = scripted.at_ns
            progress(end_ns / max(1, to_ns(scenario.until)))
        actors = partitions.actors.values()
        outcome = record.outcome([(actor.core, actor.scheduler_core.state) for actor in actors], end_ns)
        nursery.cancel_scope.cancel()
    return outcome


async def _play(instant: Instant, partitions: Partitions, record: Record) -> None:
    record.begin(instant)
    await _settle(partitions, more_follows=True)  # timers that are due now fire first, and partitions wake
    for step in instant.steps:
        await _carry_out(step, partitions, record, instant.at_ns)
    await _settle(partitions)


async def _carry_out(step: Step, partitions: Partitions, record: Record, at_ns: int) -> None:
    """Carry out one step of no recording; no decision is taken before all steps of the instant are carried out."""
    assert not isinstance(step, Happening | Limited)
    if isinstance(step, Request):
        await _administer(step, partitions, record, at_ns)
        return
    if isinstance(step, SchedulerConfig):
        objection = await partitions.switch(step, more_follows=True)
        if not objection:
            return
        step = {ANY_PARTITION: [RefuseConfig(objection)]}
    for name, submissions in record.admit(step, list(partitions.inboxes), at_ns).items():
        await partitions.inboxes[name].put(Intake(submissions, more_follows=True))


async def _administer(request: Request, partitions: Partitions, record: Record, at_ns: int) -> None:
    try:
        name = requests.running(request.partition, partitions.inboxes)
    except ProtocolError as error:
        record.refuse(at_ns, error.message)
        return
    answers = _Refusal(record, at_ns)
    await partitions.inboxes[name].put(Administer(request.administration, answers, more_follows=True))
    await answers.wait()


class _Refusal(Awaited):
    """Records why a request is refused."""

    def __init__(self, record: Record, at_ns: int) -> None:
        super().__init__()
        self._record = record
        self._at_ns = at_ns

    def failed(self, failure: Failure) -> None:
        """Record the reason."""
        self._record.refuse(self._at_ns, failure.reason)


async def _settle(partitions: Partitions, *, more_follows: bool = False) -> None:
    """Wait until nothing more can be decided at this instant, one partition after the other."""
    for inbox in partitions.inboxes.values():
        settled = Awaited()
        await inbox.put(Quiesce(settled, more_follows))
        await settled.wait()


def simulate(
    scenario: Scenario,
    observe: Observe = ignore,
    progress: Progress = lambda _: None,
    budget: Budget = CYCLE_BUDGET,
    *,
    reserves: bool = True,
) -> Outcome:
    """Run a scenario through the plain loop.

    Args:
        observe: called with each fact.
        progress: called after each instant.
        budget: the bounds of one cycle; a recording has its own.
        reserves: whether asks reserve nodes (SC-50).

    Raises:
        wire.queuefile.ConfigError: the scenario's configuration is invalid.
        UnreadableRowError, DamagedStateError: as of ``simulate_recording``.
    """
    if scenario.recorded is not None:
        return simulate_recording(scenario, observe, progress, reserves=reserves)
    record = Record(observe)

    def make(config: PartitionConfig, now_ns: int) -> DirectPartition:
        publish = partial(record.add, config.name)
        confirms, wakes = scenario.confirm_releases, scenario.wakes
        made = DirectPartition(config, budget, publish, now_ns=now_ns, confirms=confirms, reserves=reserves, wakes=wakes)
        if record.is_open and scenario.wants_scheduling_states:  # a configuration has added it, and no decision is due yet
            made.ingest(now_ns, [WantSchedulingStates(True)])
        return made

    config = queuefile.load(scenario.config, scenario.name)
    direct = DirectPartitions(make, {partition.name: make(partition, 0) for partition in config.partitions})
    record.is_open = True
    for partition in direct.partitions.values() if scenario.wants_scheduling_states else ():
        partition.intake(0, [WantSchedulingStates(True)])
    until_ns = max(1, to_ns(scenario.until))
    end_ns = run_directly(scenario, direct, record, after=lambda at_ns: progress(at_ns / until_ns))
    partitions = direct.partitions.values()
    return record.outcome([(partition.core, partition.scheduler.state) for partition in partitions], end_ns)


def simulate_recording(
    scenario: Scenario,
    observe: Observe = ignore,
    progress: Progress = lambda _: None,
    begun: Callable[[Mapping[PartitionName, DirectPartition]], object] = lambda _: None,
    *,
    reserves: bool = True,
) -> Outcome:
    """Run a recording through the plain loop.

    Args:
        begun: called with the partitions before the first instant, as they are then (``recorded.opening``).
        reserves: whether asks reserve nodes in partitions that another configuration adds (SC-50).

    Raises:
        wire.queuefile.ConfigError: the configuration that replaces the recorded ones is invalid.
        UnreadableRowError, DamagedStateError: the recorded state is damaged, or of another version.
    """
    recorded = scenario.recorded
    assert recorded is not None
    begin_ns = recorded.begin_ns
    first = beginning(scenario)
    record = Record(observe, begin_ns)
    direct = RecordedPartitions(record.add, recorded, first.partitions, reserves=reserves)
    record.endings = reactions = Reactions(recorded, direct.partitions)
    for lives in first.lives:
        reactions.begin(lives)
    reactions.resume()
    begun(direct.partitions)
    record.is_open = True
    messages: Iterable[TimedRequest] = first.messages
    if scenario.config:
        messages = chain([TimedRequest(0, si.UpdateConfigurationRequest(config=scenario.config))], messages)
    until_ns = max(1, to_ns(scenario.until))
    played = structs.replace(scenario, messages=messages)
    end_ns = run_directly(played, direct, record, begin_ns, lambda at_ns: progress((at_ns - begin_ns) / until_ns))
    cores = [(partition.core, partition.scheduler.state) for partition in direct.partitions.values()]
    return record.outcome(cores, end_ns)


def run_directly(
    scenario: Scenario,
    direct: DirectPartitions,
    record: Record,
    begin_ns: int = 0,
    after: Callable[[int], object] = lambda _: None,
) -> int:
    """Run the messages of a scenario through the plain loop; returns the Unix time of the last instant.

    Args:
        begin_ns: the Unix time of second 0, in whole microseconds.
        after: called after each instant of the scenario with its Unix time.
    """
    end_ns = begin_ns
    for scripted in instants(scenario, begin_ns):
        instant = None
        while instant is not scripted:
            _advance(direct, record.endings, scripted.at_ns)
            instant = with_endings(scripted, record.endings)
            record.begin(instant)
            play(instant, direct, record.admit, partial(record.refuse, instant.at_ns))
        end_ns = scripted.at_ns
        after(end_ns)
    return end_ns


def _advance(direct: DirectPartitions, endings: Endings, before_ns: int) -> None:
    """Let pass the time before the next end of an allocation, and before ``before_ns``. What then starts may end earlier."""
    while True:
        due_ns = [due for partition in direct.partitions.values() if (due := partition.next_ns()) is not None]
        if min(due_ns, default=before_ns) >= endings.next_ns(before_ns):
            return
        for partition in direct.partitions.values():
            partition.advance(min(due_ns))


def _refusal(request: Request, direct: DirectPartitions, at_ns: int) -> str:
    try:
        name = requests.running(request.partition, direct.partitions)
    except ProtocolError as error:
        return error.message
    return direct.partitions[name].administer(at_ns, request.administration)


def play(
    instant: Instant,
    direct: DirectPartitions,
    admit: Callable[[Work, list[PartitionName], int], Work],
    refuse: Callable[[str], None] = lambda _: None,
) -> None:
    """Play one instant in the oracle.

    Args:
        admit: returns the part of the work that is for known partitions.
        refuse: called with the reason of each refused request.
    """
    at_ns = instant.at_ns
    for partition in direct.partitions.values():
        partition.advance(at_ns)
    for step in instant.steps:
        if isinstance(step, Request):
            if refusal := _refusal(step, direct, at_ns):
                refuse(refusal)
            continue
        if isinstance(step, Happening):
            step.carry_out(direct, at_ns)
            continue
        if isinstance(step, Limited):
            for reason in direct.partitions[step.partition].run_turn(at_ns, step.input).exceeded:
                refuse(f"partition {step.partition}: {reason}")
            continue
        if isinstance(step, SchedulerConfig):
            objection = direct.switch(at_ns, step)
            if not objection:
                continue
            step = {ANY_PARTITION: [RefuseConfig(objection)]}
        for name, submissions in admit(step, list(direct.partitions), at_ns).items():
            direct.partitions[name].ingest(at_ns, submissions)
    for partition in direct.partitions.values():
        partition.schedule(at_ns)


# ---- a scenario as the input of partitions, instant by instant; the same for the actors and for the oracle

#: Carries out the acts of operators in a scenario.
OPERATOR = Operator("scenario")
#: Stands for the first partition; no partition has this name.
ANY_PARTITION = PartitionName("")

#: Submissions for each partition.
Work = dict[PartitionName, list[Submission]]


class Request(Struct, frozen=True):
    """The request of an administrator or operator to a partition."""

    partition: PartitionName
    administration: Administration


class Limited(Struct, frozen=True):
    """The input of a partition from a sender with limits: no other work is in the same turn."""

    partition: PartitionName
    input: turn.Input


#: Only recordings have happenings, and only dry runs limited senders.
Step = Work | SchedulerConfig | Request | Limited | Happening


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


def instants(scenario: Scenario, begin_ns: int = 0) -> Iterator[Instant]:
    """The instants of a scenario in order; the last one is at ``until``, without steps if no message is sent then.

    Args:
        begin_ns: the Unix time of second 0.
    """
    instant = Instant(begin_ns, [], [])
    for message in scenario.messages:
        at_ns = begin_ns + to_ns(message.at)
        if at_ns != instant.at_ns:
            yield instant
            instant = Instant(at_ns, [], [])
        instant.sent.append(message)
        try:
            _add_step(instant, message.request)
        except ProtocolError as error:
            instant.refused.append(f"at {message.at}: {error.path}: {error.message}")
    yield instant
    until_ns = begin_ns + to_ns(scenario.until)
    if until_ns > instant.at_ns:
        yield Instant(until_ns, [], [])


def with_endings(scripted: Instant, endings: Endings) -> Instant:
    """The next instant: ``scripted``, or an earlier one in which allocations end. What ends at its time ends before its steps."""
    at_ns = endings.next_ns(scripted.at_ns)
    instant = scripted if at_ns == scripted.at_ns else Instant(at_ns, [], [])
    work = endings.work(at_ns)
    if work:
        instant.put_first(work)
    return instant


def _add_step(instant: Instant, request: ScenarioRequest | Recording) -> None:
    match request:
        case Turn():
            instant.steps += [Renewed(request.partition)] if request.anew else []
            instant.steps.append(_recorded_step(request))
        case Rows():
            instant.steps += (Added(name, cores) for name, cores in states([request]).items())
        case Lives():
            raise ProtocolError("UNSUPPORTED", "lives of tasks are only known at second 0", "type")
        case _ if isinstance(request, requests.PartitionRequest):
            instant.add(requests.submissions(request))
        case si.TerminateApplication() | si.MoveApplication():
            instant.steps.append(Request(*acts.administration(request)))
        case si.SetQueueQuotas():
            instant.steps.append(Request(*acts.quotas(request)))
        case _ if isinstance(request, OperatorOnly):
            instant.steps.append(Request(*acts.operation(request, OPERATOR)))
        case si.UpdateConfigurationRequest(config=text):
            try:
                instant.steps.append(queuefile.load(text))
            except queuefile.ConfigError as error:
                instant.add({ANY_PARTITION: [RefuseConfig(error.summary())]})
        case _:
            raise ProtocolError("UNSUPPORTED", f"a simulation cannot carry out {type(request).__name__}", "type")


def _recorded_step(recorded: Turn) -> Step:
    """A turn of a recording, which is never part of another step: it was not before."""
    partition, cause = recorded.partition, recorded.cause
    if isinstance(cause, turn.Request):
        return Request(partition, cause.wanted)
    if isinstance(cause, turn.CycleDue | turn.TimersDue):
        return Due(partition, cause)
    if any(isinstance(each, RemovePartition) for each in cause.submissions):
        return Removed(partition)
    if cause.limits is not None:
        return Limited(partition, cause)
    conditional = {*recorded.if_known, *recorded.after_tasks}
    if not conditional:
        return {partition: cause.submissions}
    work: list[Any] = [Conditional(each) if index in conditional else each for index, each in enumerate(cause.submissions)]
    return {partition: work}


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
