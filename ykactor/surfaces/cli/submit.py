"""``ykactor submit``: sends a scenario to a running daemon and prints the responses."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import trio
from msgspec import structs

from ykactor.client import Disconnected, RequestRefused, ResourceManager, connect
from ykactor.wire.scenario import Scenario, ScenarioError, load
from ykactor.wire.si import messages as si


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--url", default="ws://127.0.0.1:9081", show_default=True, help="The address of the daemon.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds of the scenario that pass in one second.",
)
@click.option("--rm-id", default="ykactor-submit", show_default=True, help="The id of the resource manager to register as.")
@click.option("--keep-config", is_flag=True, help="Keep the queue configuration of the daemon.")
def command(file: Path, url: str, speed: float, rm_id: str, keep_config: bool) -> None:
    """Send the scenario FILE to a daemon and print its responses.

    The messages are sent SPEED times as fast as recorded. Each line begins with the time in the scenario, in seconds. The
    resource manager registers anew: the daemon forgets its nodes and applications. The queue configuration of the scenario is
    applied first.
    """
    try:
        scenario = load(file)
    except ScenarioError as error:
        raise click.ClickException(str(error)) from None
    play = _Play(scenario, speed)
    try:
        trio.run(play.run, url, rm_id, "" if keep_config else scenario.config)
    except* KeyboardInterrupt:
        click.echo(play.summary())  # shows how much was sent
        raise
    except* (Disconnected, RequestRefused, ValueError) as errors:
        raise click.ClickException(str(errors.exceptions[0])) from None
    click.echo(play.summary())


class _Play:
    """One run of a scenario; ``at`` is in the scenario's seconds."""

    def __init__(self, scenario: Scenario, speed: float) -> None:
        self._scenario = scenario
        self._speed = speed
        self._began_at = 0.0
        self._sent_count = 0
        self._answered_count = 0
        self._unwanted_count = 0
        #: Lines printed, by their first word.
        self._counts: Counter[str] = Counter()

    async def run(self, url: str, rm_id: str, config: str) -> None:
        """Returns when all requests are sent and answered and the scenario's ``until`` has passed."""
        answers = any(isinstance(message.request, si.PredicatesResponse) for message in self._scenario.messages)
        async with connect(url, rm_id=rm_id, config=config, answers_predicates=answers) as rm:
            self._began_at = trio.current_time()
            failure: Exception | None = None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_all, rm)
                try:
                    await self._print_responses(rm)
                except Disconnected as error:  # raised below, outside the exception group of the nursery
                    failure = error
                nursery.cancel_scope.cancel()
            if failure is not None:
                raise failure

    async def _send_all(self, rm: ResourceManager) -> None:
        with suppress(Disconnected):  # _print_responses gets the same exception
            for message in self._scenario.messages:
                await trio.sleep_until(self._real_time(message.at))
                await rm.send(structs.replace(message.request, id=str(self._sent_count)))
                self._sent_count += 1

    async def _print_responses(self, rm: ResourceManager) -> None:
        while self._answered_count < len(self._scenario.messages):
            self._print(await rm.__anext__())
        with trio.move_on_at(self._real_time(self._scenario.until)):
            async for response in rm:
                self._print(response)

    def _print(self, response: si.Response) -> None:
        at = (trio.current_time() - self._began_at) * self._speed
        if isinstance(response, si.Ack | si.ErrorResponse):
            self._answered_count += 1
        for line in self._lines(response):
            self._counts[line.partition(" ")[0]] += 1
            click.echo(f"{at:9.1f} {line}")

    def _lines(self, response: si.Response) -> Iterator[str]:
        match response:
            case si.NodeResponse():
                for node in response.accepted:
                    yield f"node {node.node_id} accepted"
                for refused in response.rejected:
                    yield f"node {refused.node_id} rejected: {refused.reason}"
            case si.ApplicationResponse():
                for application in response.accepted:
                    yield f"application {application.application_id} accepted in {application.queue_name}"
                for unwanted in response.rejected:
                    self._unwanted_count += 1
                    yield f"application {unwanted.application_id} rejected: {unwanted.reason}"
                for updated in response.updated:
                    yield f"application {updated.application_id} {updated.state}"
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
            case si.ErrorResponse():
                request = self._scenario.messages[int(response.id)].request
                where = f"{response.path}: " if response.path else ""
                yield f"refused {type(request).__name__}: {response.code}: {where}{response.message}"

    def summary(self) -> str:
        """The number of requests, and of decisions by kind."""
        counts = self._counts
        return (
            f"{self._scenario.name}: {self._sent_count} requests sent, {counts['refused']} refused; "
            f"{counts['allocated']} allocated, {counts['released']} released; "
            f"rejected: {counts['rejected']} asks, {self._unwanted_count} applications"
        )

    def _real_time(self, at: float) -> float:
        return self._began_at + at / self._speed
