"""``ykactor demo``: runs a daemon with the default configuration and a small workload, and prints its events."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import resources

import click
import trio

from ykactor.client import Disconnected, RequestRefused, ResourceManager, connect
from ykactor.surfaces.cli.follow import as_text, print_messages
from ykactor.surfaces.cli.serve import DEFAULT_ADDRESS, Address, serve
from ykactor.surfaces.environment import reserves_nodes
from ykactor.surfaces.server.daemon import Settings
from ykactor.surfaces.server.logs import configure
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, load
from ykactor.wire.si import messages as si

RM_ID = "ykactor-demo"


@click.command()
@click.option("--ws", "address", type=Address(), default=DEFAULT_ADDRESS, show_default=True, help="Where the daemon listens.")
def command(address: tuple[str, int]) -> None:
    """Run a daemon with a small workload and print its events."""
    configure("warning", sys.stderr)
    with resources.as_file(resources.files("ykactor.sim") / "demo.yaml") as path:
        scenario = load(path)
    try:
        trio.run(_demonstrate, scenario, address)
    except* BrokenPipeError:
        raise  # standard output, not the address
    except* OSError as errors:
        raise click.ClickException(f"{address[0]}:{address[1]}: {errors.exceptions[0]}") from None


async def _demonstrate(scenario: Scenario, address: tuple[str, int]) -> None:
    async with trio.open_nursery() as nursery:
        url = await nursery.start(_run_daemon, address, nursery.cancel_scope)
        click.echo(
            f"A daemon listens on {url}. For {scenario.until:.0f} s it schedules work on {_node_count(scenario)} nodes.\n"
            "Every line below is an event. To follow it from another terminal:\n"
            f"  ykactor follow {url} --from snapshot -o json    the whole state, then every event\n"
            f"  ykactor follow {url} --kind APP_ALLOC           only which ask runs on which node\n"
            "Press Ctrl-C to stop.\n"
        )
        nursery.start_soon(_print_events, url)
        await _play(scenario, url)


async def _run_daemon(address: tuple[str, int], everything: trio.CancelScope, *, task_status: trio.TaskStatus[str]) -> None:
    """The daemon handles the signals; when it has ended, the whole demonstration ends."""
    await serve(queuefile.load(""), Settings(reserves=reserves_nodes(os.environ)), address, task_status=task_status)
    everything.cancel()


async def _print_events(url: str) -> None:
    """Until the daemon stops: that it then closes or refuses a connection is no error."""
    with suppress(Disconnected, RequestRefused):
        await print_messages(url, si.Subscribe(), as_text, click.echo)


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
