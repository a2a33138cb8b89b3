"""``ykactor demo``: runs a daemon with the default configuration and a small workload, and prints its events."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

import click
import trio

from ykactor.actors.clock import system_ns
from ykactor.client import Disconnected, RequestRefused, ResourceManager, connect
from ykactor.journal.errors import JournalError
from ykactor.sim.summary import Summary, SummaryReport
from ykactor.sim.summary_tables import print_report, wide_console
from ykactor.surfaces.cli import door_options, exit_codes
from ykactor.surfaces.cli.door_options import DEFAULT_ADDRESS, DEFAULT_HTTP, AddressParam, OptionalAddressParam
from ykactor.surfaces.cli.follow import as_text, print_messages
from ykactor.surfaces.cli.serve import StateDirectory, kept_state, make_daemon, serve
from ykactor.surfaces.cli.urls import Destination
from ykactor.surfaces.environment import reserves_nodes
from ykactor.surfaces.server.daemon import Settings
from ykactor.surfaces.server.doors import Address, DoorError, DoorSettings
from ykactor.surfaces.server.logs import configure
from ykactor.surfaces.server.state_dir import StateDir
from ykactor.wire.scenario import Scenario, load
from ykactor.wire.si import messages as si

RM_ID = "ykactor-demo"

E = TypeVar("E", bound=BaseException)


@click.command()
@click.option(
    "--ws",
    "address",
    type=AddressParam(),
    metavar="HOST:PORT|unix:PATH",
    default=DEFAULT_ADDRESS,
    show_default=True,
    help="Where the daemon listens.",
)
@click.option(
    "--http",
    type=OptionalAddressParam(),
    metavar="HOST:PORT|unix:PATH|none",
    default=DEFAULT_HTTP,
    show_default=True,
    help="Where the REST API is served.",
)
@click.option(
    "--state-dir",
    type=StateDirectory(),
    help="The directory in which all state is kept. Default: nothing is kept.",
)
def command(address: Address, http: Address | None, state_dir: Path | None) -> None:
    """Run a daemon with a small workload and print its events, and at the end (Ctrl-C) the summary that ``simulate`` prints."""
    configure("warning", sys.stderr)
    with resources.as_file(resources.files("ykactor.sim") / "demo.yaml") as path:
        scenario, story = load(path), _leading_comment(path.read_text())
    settings = Settings(reserves=reserves_nodes(os.environ))
    try:
        with kept_state(state_dir, settings) as state:
            where = DoorSettings((address,), http=() if http is None else (http,))
            report, was_interrupted = trio.run(_demonstrate, scenario, story, where, settings, state)
    except* JournalError as errors:
        raise exit_codes.FileProblem(str(_first_of(errors))) from None
    except* DoorError as errors:
        raise door_options.problem(_first_of(errors)) from None
    click.echo()
    print_report(report, wide_console())
    if was_interrupted:
        raise KeyboardInterrupt


def _program() -> str:
    """What to type for ``ykactor`` in another terminal: ``make run`` does not put it on the PATH."""
    if shutil.which("ykactor"):
        return "ykactor"
    return sys.argv[0] if Path(sys.argv[0]).name == "ykactor" else "python -m ykactor"


def _first_of(errors: BaseExceptionGroup[E]) -> E:
    first = errors.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


def _leading_comment(text: str) -> str:
    return "\n".join(line[2:] for line in takewhile(lambda line: line.startswith("#"), text.splitlines()))


async def _demonstrate(
    scenario: Scenario, story: str, where: DoorSettings, settings: Settings, state: StateDir | None
) -> tuple[SummaryReport, bool]:
    """Runs until a signal ends the daemon; returns also whether that was Ctrl-C."""
    summary = Summary(system_ns())
    daemon = make_daemon(None, settings, state, summary.observe)
    was_interrupted = False

    async def run_daemon(*, task_status: trio.TaskStatus[str]) -> None:
        """The daemon handles the signals; when it has ended, the whole demonstration ends."""
        nonlocal was_interrupted
        was_interrupted = await serve(daemon, where, task_status=task_status)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        url = await nursery.start(run_daemon)
        program = _program()
        click.echo(
            f"A daemon listens on {url}. For {scenario.until:.0f} s it schedules work on {_node_count(scenario)} nodes.\n\n"
            f"{story}\n\n"
            "Every line below is an event. Its columns:\n"
            "  time, sequence number, type, change, detail, object, reference, resource, message\n"
            "To follow it from another terminal:\n"
            f"  {program} follow --url {url} --from snapshot -o json    the whole state, then every event\n"
            f"  {program} follow --url {url} --kind NODE_ALLOC          which ask starts and ends on which node\n"
            f"  {program} story --url {url} nightly-report              what happened to an application, and why its asks wait\n"
            f"  {program} asks --url {url}                              what waits, and why\n"
            "Press Ctrl-C to stop and to see a summary.\n"
        )
        nursery.start_soon(_print_events, url)
        await _play(scenario, url)
    return summary.finish(daemon.now_ns(), daemon.waiting()), was_interrupted


async def _print_events(url: str) -> None:
    """Until the daemon stops: that it then closes or refuses a connection is no error."""
    with suppress(Disconnected, RequestRefused):
        await print_messages(Destination(url), si.Subscribe(), as_text, click.echo)


async def _play(scenario: Scenario, url: str) -> None:
    """Send the messages of the scenario in real time; ends early if another session takes over, or the daemon stops."""
    try:
        async with connect(url, rm_id=RM_ID, config=scenario.config) as rm, trio.open_nursery() as nursery:
            began_at = trio.current_time()
            nursery.start_soon(_discard_responses, rm)
            for message in scenario.messages:
                await trio.sleep_until(began_at + message.at)
                await rm.send(message.request)
            await trio.sleep_until(began_at + scenario.until)
            nursery.cancel_scope.cancel()
    except* (Disconnected, RequestRefused):
        pass
    else:
        click.echo("\nThe workload has ended. The daemon runs until Ctrl-C.")


async def _discard_responses(rm: ResourceManager) -> None:
    async for _ in rm:
        pass  # the events show the same


def _node_count(scenario: Scenario) -> int:
    return sum(len(message.request.nodes) for message in scenario.messages if isinstance(message.request, si.NodeRequest))
