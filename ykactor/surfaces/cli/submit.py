"""``ykactor submit``: sends a scenario to a running daemon and prints the responses."""

import secrets
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Literal

import click
import trio
from msgspec import structs

from ykactor.client import Disconnected, Refused, RequestRefused, ResourceManager, connect
from ykactor.client.connection import alongside
from ykactor.client.login import LoginOptions
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import PARTITION_ATTRIBUTE
from ykactor.core.values.words import plural
from ykactor.surfaces.cli import exit_codes, loop
from ykactor.surfaces.cli.dry_run import print_tried
from ykactor.surfaces.cli.options import EXISTING_FILE, Number, text_or_json
from ykactor.surfaces.cli.present_state import on_option
from ykactor.surfaces.cli.queue_files import queues_count
from ykactor.surfaces.cli.terminal import print_journal_status, say
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.wire.queuefile.load import ConfigError
from ykactor.wire.queuefile.load import load as load_config
from ykactor.wire.scenario import Scenario, ScenarioError, load
from ykactor.wire.scenario.endings import Endings, ask_key
from ykactor.wire.scenario.model import OperatorOnly
from ykactor.wire.scenario.recording import Recording
from ykactor.wire.scenario.units import unit_warnings
from ykactor.wire.si import messages as si


class Created:
    """The nodes and applications that requests have created: those that the daemon has accepted.

    What existed before is rejected when it is created again, so it is not among them.
    """

    def __init__(self) -> None:
        #: The partitions, by the id of each node and application of the requests.
        self._node_partitions: dict[str, str] = {}
        self._application_partitions: dict[str, str] = {}
        #: Accepted; in order, so that the same requests are sent each time.
        self._node_ids: dict[str, None] = {}
        self._application_ids: dict[str, None] = {}

    def note_request(self, request: si.Request) -> None:
        """Note a request, before it is sent."""
        if isinstance(request, si.NodeRequest):
            for node in request.nodes:
                self._node_partitions.setdefault(node.node_id, node.attributes.get(PARTITION_ATTRIBUTE, ""))
        elif isinstance(request, si.ApplicationRequest):
            for application in request.new:
                self._application_partitions[application.application_id] = application.partition_name

    def note_response(self, response: si.Response) -> None:
        """Note a response; those to requests of an earlier session have no effect."""
        if isinstance(response, si.NodeResponse):
            accepted_nodes = [node.node_id for node in response.accepted]
            self._node_ids |= dict.fromkeys(name for name in accepted_nodes if name in self._node_partitions)
        elif isinstance(response, si.ApplicationResponse):
            accepted = [application.application_id for application in response.accepted]
            self._application_ids |= dict.fromkeys(name for name in accepted if name in self._application_partitions)

    def has_application(self, application_id: str) -> bool:
        """True if the application is one of them."""
        return application_id in self._application_ids

    async def remove(self, rm: ResourceManager) -> None:
        """Remove the applications, then the nodes; nobody else may read responses meanwhile.

        Raises:  Disconnected, Refused.
        """
        await rm.request(si.NodeRequest())  # its answer comes after all earlier responses
        for _ in range(rm.unread_count):
            self.note_response(await anext(rm))
        applications = [
            si.RemoveApplicationRequest(application_id=name, partition_name=self._application_partitions[name])
            for name in self._application_ids
        ]
        nodes = [
            si.NodeInfo(node_id=name, action="DECOMISSION", attributes={PARTITION_ATTRIBUTE: self._node_partitions[name]})
            for name in self._node_ids
        ]
        for request in (si.ApplicationRequest(remove=applications), si.NodeRequest(nodes=nodes)):
            async for _, outcome in rm.send_all([request]):
                if isinstance(outcome, Refused):
                    raise outcome


#: Time limit for removing what the scenario has created.
CLEAN_UP_S = 30.0
#: The releases that take effect when the resource manager confirms them.
STARTED_BY_SCHEDULER = {
    TerminationType.TIMEOUT,
    TerminationType.PREEMPTED_BY_SCHEDULER,
    TerminationType.PLACEHOLDER_REPLACED,
}
#: The advice when another resource manager holds the daemon.
HAND_OVER = "; submit --rm-id with its id adds the scenario to them"


@click.command()
@click.argument("file", type=EXISTING_FILE)
@daemon_options
@click.option(
    "--speed",
    type=Number(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds of the scenario that pass in one second.",
)
@click.option("--rm-id", help="The id of the resource manager to register as.  [default: a new one]")
@click.option(
    "--with-config",
    is_flag=True,
    help="Replace the queue configuration of the daemon by that of the scenario, for good.",
)
@click.option(
    "--dry-run",
    "is_tried",
    is_flag=True,
    help="Send nothing: print what would become of each ask, tried on a copy of the present state.",
)
@on_option
@text_or_json("Of --dry-run; json is one document.")
def command(
    file: Path,
    daemon: Destination,
    speed: float,
    rm_id: str | None,
    with_config: bool,
    is_tried: bool,
    journal: Path | None,
    output: str,
) -> None:
    """Send the scenario FILE to a daemon and print its responses.

    The messages are sent SPEED times as fast as recorded, allocations with runSeconds are released that long after they
    started, and releases that the scheduler starts are confirmed. Each line begins with the time in the scenario, in seconds.
    At the end, also on Ctrl-C, the applications and nodes of the scenario are removed, and another resource manager may
    register. If --rm-id names the resource manager that is registered, its session is closed, and its nodes and applications
    are kept.

    With --dry-run nothing is sent. A row says for each ask where it would begin to run and when, or why it would wait, whom it
    would preempt; its configuration counts with --with-config only. Nothing else arrives meanwhile, and tasks end only where
    it is known how long they run at most. It is tried on a copy here, so limits of the sender in an access file do not count, as
    they do for POST /v1/dry-run. Without --on it needs the role replica.
    """
    if not is_tried and (journal is not None or output != "text"):
        raise click.UsageError(f"found {'-o' if journal is None else '--on'} without --dry-run, expected both")
    with exit_codes.ending(ScenarioError):
        scenario = load(file)
    for warning in unit_warnings(file, scenario.messages):
        say(f"warning: {warning}", err=True)
    _refuse_operators(file, scenario)
    if with_config:
        say(_replacement(scenario, file), err=True)
    if is_tried:
        print_tried(daemon, journal, scenario, with_config=with_config, is_json=output == "json")
        return
    play = _Play(scenario, speed, with_config)
    try:
        loop.run(play.run, daemon.url, daemon.login(), rm_id or f"ykactor-submit-{secrets.token_hex(4)}")
    except* (Disconnected, RequestRefused) as errors:
        reason = exit_codes.first_of(errors)
        is_held = isinstance(reason, RequestRefused) and reason.code == "ALREADY_REGISTERED"
        raise click.ClickException(f"{reason}{HAND_OVER}") if is_held else daemon.problem(reason) from None
    if play.has_begun:
        say(play.summary())
    if play.interrupted_at is not None:
        raise KeyboardInterrupt


def _refuse_operators(file: Path, scenario: Scenario) -> None:
    """Raise ClickException if a message is an operator's: the session of a resource manager cannot send it."""
    for message in scenario.messages:
        if isinstance(message.request, OperatorOnly):
            name = type(message.request).__name__
            raise click.ClickException(
                f"{file}: found {name} at {message.at:g}, expected messages of a resource manager; "
                "only ykactor simulate and what-if play those of operators"
            )


def _replacement(scenario: Scenario, file: Path) -> str:
    """The sentence about the configuration of the daemon; raises ClickException if the scenario's has a mistake or is empty."""
    if not scenario.config:
        raise click.ClickException(f"{file}: found an empty config, expected a queue configuration for --with-config")
    with exit_codes.ending(ConfigError):
        config = load_config(scenario.config, scenario.config_file or f"{file}: config")
    partitions = ", ".join(f"{entry.name} ({plural(queues_count(entry.root), 'queue')})" for entry in config.partitions)
    return (
        f"{scenario.name} replaces the queue configuration of the daemon by these partitions: {partitions}; "
        "other partitions are removed, other queues drain; this stays in force when the scenario ends"
    )


class _Play:
    """One run of a scenario; ``at`` is in the scenario's seconds."""

    def __init__(self, scenario: Scenario, speed: float, with_config: bool) -> None:
        self._scenario = scenario
        self._speed = speed
        self._config = scenario.config if with_config else ""
        self._messages = [
            message
            for message in scenario.messages
            if with_config or not isinstance(message.request, si.UpdateConfigurationRequest)
        ]
        self._created = Created()
        #: The queue that each application names.
        self._asked_for: dict[str, str] = {}
        #: Set when a configuration is in force or refused, by request id.
        self._awaited: dict[str, trio.Event] = {}
        #: The time of the signal that has ended it, in the scenario's seconds; None if none has.
        self.interrupted_at: float | None = None
        #: Around all of it; around sending and printing, but not around the connection, which is still needed to clean up; and
        #: around that.
        self._session = trio.CancelScope()
        self._playing = trio.CancelScope()
        self._cleaning = trio.CancelScope(shield=True)
        self._is_registered = False
        self._began_at: float | None = None
        self._sent_count = 0
        self._answered_count = 0
        self._unwanted_count = 0
        self._endings = Endings()
        #: Wakes the task that ends allocations: something has started.
        self._started = trio.lowlevel.ParkingLot()
        #: Lines printed, by their first word.
        self._counts: Counter[str] = Counter()

    @property
    def has_begun(self) -> bool:
        """True if anything of the scenario may have been sent."""
        return self._began_at is not None

    async def run(self, url: str, login: LoginOptions, rm_id: str) -> None:
        """Returns when all requests are sent and answered and the scenario's ``until`` has passed, or on SIGINT or SIGTERM."""
        skipped_count = len(list(self._scenario.messages)) - len(self._messages)
        if skipped_count:
            say(f"not sent without --with-config: {plural(skipped_count, 'UpdateConfigurationRequest')}", err=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_on_signal)
            with self._session:
                await self._run_session(url, login, rm_id)
            nursery.cancel_scope.cancel()
        if self._session.cancelled_caught:
            say(f"interrupted: {rm_id} may be registered all the same, 'ykactor rm release {rm_id}' ends this", err=True)

    async def _stop_on_signal(self) -> None:
        """End the scenario at the first signal, and the removal of what it has created at the second one."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            await anext(signals)
            self.interrupted_at = self._now()
            (self._playing if self._is_registered else self._session).cancel()
            await anext(signals)
            self._cleaning.cancel()

    async def _run_session(self, url: str, login: LoginOptions, rm_id: str) -> None:
        answers = any(isinstance(message.request, si.PredicatesResponse) for message in self._messages)
        async with AsyncExitStack() as stack:

            async def register(resume_from: Literal["now"] | None) -> ResourceManager:
                return await stack.enter_async_context(
                    connect(
                        url,
                        rm_id=rm_id,
                        config=self._config,
                        resume_from=resume_from,
                        answers_predicates=answers,
                        wants_scheduling_states=self._scenario.wants_scheduling_states,
                        on_journal=print_journal_status,
                        **login,
                    )
                )

            is_new = False
            try:
                rm = await register("now")
            except RequestRefused as refusal:
                if refusal.code != "RESYNC_REQUIRED":
                    raise
                is_new = True  # nobody is registered, so a fresh registration drops nothing
                rm = await register(None)
            self._is_registered = True
            try:
                with self._playing:
                    await self._exchange(rm)
            finally:
                await self._clean_up(rm, rm_id, is_new)

    async def _clean_up(self, rm: ResourceManager, rm_id: str, is_new: bool) -> None:
        """Remove what the scenario has created, and end the registration unless another session has begun it."""
        began_at = trio.current_time()
        self._cleaning.deadline = began_at + CLEAN_UP_S
        with self._cleaning:
            try:
                await self._created.remove(rm)
                if is_new:
                    await rm.request(si.DeregisterResourceManagerRequest())
                return
            except (Disconnected, Refused) as error:
                reason = str(error)
        if self._cleaning.cancelled_caught:
            reason = f"the daemon did not respond within {trio.current_time() - began_at:.0f} s"
        remedy = f"; ykactor rm release {rm_id} drops them" if is_new else ""
        say(f"the nodes and applications of RM {rm_id} may still be in the daemon: {reason}{remedy}", err=True)

    async def _exchange(self, rm: ResourceManager) -> None:
        self._began_at = trio.current_time()
        async with alongside(partial(self._send_all, rm), partial(self._end_allocations, rm)):
            await self._print_responses(rm)

    async def _send_all(self, rm: ResourceManager) -> None:
        with suppress(Disconnected):  # _print_responses gets the same exception
            for message in self._messages:
                await trio.sleep_until(self._real_time(message.at))
                request = message.request
                assert not isinstance(request, OperatorOnly | Recording), "refused before"
                self._created.note_request(request)
                if isinstance(request, si.ApplicationRequest):
                    self._asked_for |= {new.application_id: new.queue_name.lower() for new in request.new}
                self._endings.expect(message)
                request_id = str(self._sent_count)
                self._sent_count += 1
                if not isinstance(request, si.UpdateConfigurationRequest):
                    await rm.send(structs.replace(request, id=request_id))
                    continue
                is_answered = self._awaited[request_id] = trio.Event()
                await rm.send(structs.replace(request, id=request_id))
                await is_answered.wait()  # the daemon handles the next request although it is still reading the configuration

    async def _end_allocations(self, rm: ResourceManager) -> None:
        """Release each allocation with ``runSeconds`` at its time."""
        until_ns = round(self._scenario.until * 1e9)
        with suppress(Disconnected):
            while self._now() * 1e9 < until_ns:
                with trio.move_on_at(self._real_time(self._endings.next_ns(until_ns) / 1e9)):
                    await self._started.park()
                if request := self._endings.take(round(self._now() * 1e9)):
                    await rm.send(request)

    async def _print_responses(self, rm: ResourceManager) -> None:
        while self._answered_count < len(self._messages):
            await self._handle(rm, await rm.__anext__())
        with trio.move_on_at(self._real_time(self._scenario.until)):
            async for response in rm:
                await self._handle(rm, response)

    async def _handle(self, rm: ResourceManager, response: si.Response) -> None:
        self._print(response)
        if self._scenario.confirm_releases and isinstance(response, si.AllocationResponse):
            releases = [
                structs.replace(release, message="")
                for release in response.released
                if release.termination_type in STARTED_BY_SCHEDULER and self._created.has_application(release.application_id)
            ]
            if releases:
                await rm.send(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=releases)))

    def _print(self, response: si.Response) -> None:
        at = self._now()
        self._created.note_response(response)
        if isinstance(response, si.AllocationResponse):
            self._note_endings(response, at)
        if isinstance(response, si.Ack | si.ErrorResponse):
            self._answered_count += bool(response.id)  # without an id: of a release that ends an allocation
            if response.id in self._awaited:
                self._awaited[response.id].set()
        for line in self._lines(response):
            self._counts[line.partition(" ")[0]] += 1
            say(f"{at:9.1f} {' '.join(line.split())}")  # some reasons have several lines

    def _note_endings(self, response: si.AllocationResponse, at: float) -> None:
        for release in response.released:
            key = ask_key(release.partition_name, release.application_id, release.allocation_key)
            self._endings.on_ended(key, round(at * 1e9))
        for started in response.new:
            key = ask_key(started.partition_name, started.application_id, started.allocation_key)
            self._endings.on_started(key, round(at * 1e9))
        self._started.unpark_all()

    def _lines(self, response: si.Response) -> Iterator[str]:
        match response:
            case si.NodeResponse():
                for node in response.accepted:
                    yield f"node {node.node_id} accepted"
                for refused in response.rejected:
                    yield f"node {refused.node_id} rejected: {refused.reason}"
            case si.ApplicationResponse():
                for accepted in response.accepted:
                    yield f"application {accepted.application_id} accepted in {accepted.queue_name}{self._placed(accepted)}"
                for unwanted in response.rejected:
                    self._unwanted_count += 1
                    yield f"application {unwanted.application_id} rejected: {unwanted.reason}"
                for moved in response.moved:
                    yield f"application {moved.application_id} moved to {moved.queue_name}"
                for updated in response.updated:
                    yield f"application {updated.application_id} {updated.state}"
                for hold in response.held:
                    yield f"application {hold.application_id} {'held' if hold.held else 'released'} by an operator"
            case si.AllocationResponse():
                for allocation in response.new:
                    yield f"allocated {allocation.allocation_key} of {allocation.application_id} on {allocation.node_id}"
                for release in response.released:
                    yield f"released {release.allocation_key} of {release.application_id}: {release.termination_type}"
                for rejected in response.rejected_allocations:
                    yield f"rejected {rejected.allocation_key} of {rejected.application_id}: {rejected.reason}"
            case si.PredicatesRequest():
                for check in response.checks:
                    yield f"predicate check: may {check.predicate} run on {check.node_id}"
            case si.SchedulingStateResponse():
                for waiting in response.entries:
                    yield f"waiting {waiting.allocation_key} of {waiting.application_id} ({waiting.state}): {waiting.reason}"
            case si.ErrorResponse(code="CONFIG_REPLACED"):
                yield f"configuration replaced: {response.message}"
            case si.ErrorResponse():
                request = type(self._messages[int(response.id)].request) if response.id else si.AllocationRequest
                where = f"{response.path}: " if response.path else ""
                yield f"refused {request.__name__}: {response.code}: {where}{response.message}"

    def _placed(self, accepted: si.AcceptedApplication) -> str:
        """The note that the placement rules have chosen another queue than the application names."""
        wanted = self._asked_for.get(accepted.application_id, "")
        if wanted in ("", accepted.queue_name, accepted.queue_name.removeprefix("root.")):
            return ""
        return f" by the placement rules, although it names {wanted}"

    def summary(self) -> str:
        """The number of requests, and of decisions by kind; how far it came if it was interrupted."""
        counts = self._counts
        sent = plural(self._sent_count, "request")
        if self.interrupted_at is not None:
            reached = f"interrupted after {self.interrupted_at:.1f} of {self._scenario.until:.1f} s"
            sent = f"{reached}, {self._sent_count} of {plural(len(self._messages), 'request')}"
        return (
            f"{self._scenario.name}: {sent} sent, {counts['refused']} refused; "
            f"{counts['allocated']} allocated, {counts['released']} released; "
            f"rejected: {plural(counts['rejected'], 'ask')}, {plural(self._unwanted_count, 'application')}"
        )

    def _now(self) -> float:
        """The time in the scenario; 0 before it has begun."""
        return 0.0 if self._began_at is None else (trio.current_time() - self._began_at) * self._speed

    def _real_time(self, at: float) -> float:
        assert self._began_at is not None, "only what has begun waits"
        return self._began_at + at / self._speed
