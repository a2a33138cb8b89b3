"""``ykactor demo``: a daemon and a local resource manager in one process, and a tour of what they do with a few jobs."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
import trio

from ykactor.actors.clock import system_ns
from ykactor.client import Disconnected, RequestRefused
from ykactor.client.login import LoginOptions
from ykactor.journal.errors import JournalError
from ykactor.local.exclusive import InUse
from ykactor.local.isolation import Isolation, best_isolation
from ykactor.local.machine import this_machine, this_user
from ykactor.local.manager import Settings, managing
from ykactor.local.private import NotPrivate
from ykactor.surfaces.cli import demo_tour, loop
from ykactor.surfaces.cli.door_options import DEFAULT_ADDRESS, DEFAULT_HTTP, AddressParam, OptionalAddressParam
from ykactor.surfaces.cli.environment import reserves_nodes
from ykactor.surfaces.cli.exit_codes import first_of
from ykactor.surfaces.cli.jobs.local import end_signals
from ykactor.surfaces.cli.obstacles import door_problem, prepare_descriptors, state_problem
from ykactor.surfaces.cli.serve import StateDirectory, kept_state, make_daemon, running
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.daemon import daemon as server
from ykactor.surfaces.log.logs import configure
from ykactor.surfaces.net.doors import Address, DoorError, DoorSettings
from ykactor.wire.queuefile.load import load

RM_ID = "ykactor-demo"
#: Seconds for a job that has to end; all of them do so at once.
GRACE_S = 2.0
_NO_PROOF = LoginOptions(token="", tls=None, insecure=False)


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
    help="Where the page and the REST API are served.",
)
@click.option(
    "--state-dir",
    type=StateDirectory(),
    help="The directory in which all state is kept. Default: nothing is kept.",
)
def command(address: Address, http: Address | None, state_dir: Path | None) -> None:
    """Run a daemon with three queues and a few jobs on this machine, and show on the way what happens and with which commands.

    The jobs only sleep and print. Ctrl-C ends everything, also jobs of your own.
    """
    prepare_descriptors()
    configure("warning", sys.stderr, for_people=True)
    settings = server.Settings(reserves=reserves_nodes(os.environ))
    where = DoorSettings((address,), http=() if http is None else (http,))
    try:
        with kept_state(state_dir, settings) as state, _jobs_directory(state_dir) as directory:
            make = partial(make_daemon, load(demo_tour.QUEUES), settings, state)
            local_of = partial(_local_settings, directory, best_isolation(directory))
            was_interrupted = loop.run(_demonstrate, make, where, local_of, _what_is_kept(state_dir))
    except* JournalError as errors:
        raise state_problem(first_of(errors)) from None
    except* DoorError as errors:
        raise door_problem(first_of(errors)) from None
    except* (Disconnected, RequestRefused, InUse, NotPrivate, sqlite3.Error) as failures:
        raise click.ClickException(str(first_of(failures))) from None
    if was_interrupted:
        raise KeyboardInterrupt


@contextmanager
def _jobs_directory(state_dir: Path | None) -> Iterator[Path]:
    """The directory of the jobs: beside the journal, or a temporary one."""
    if state_dir is not None:
        yield state_dir.absolute() / "local"
        return
    with tempfile.TemporaryDirectory(prefix="ykactor-") as directory:
        yield Path(directory)


def _what_is_kept(state_dir: Path | None) -> str:
    """The last line, after Ctrl-C."""
    return "Nothing is kept." if state_dir is None else f"What has happened is kept in {state_dir}."


async def _demonstrate(
    make: Callable[[], server.Daemon], where: DoorSettings, local_of: Callable[[str], Settings], kept: str
) -> bool:
    """Run the demonstration until a signal; returns whether it was Ctrl-C. The jobs end first, while the daemon can be told so.

    Args:
        make: the daemon.
        local_of: the settings of the local resource manager, for the URL of the daemon.
        kept: a sentence that says what is left of it.
    """
    with trio.open_signal_receiver(*end_signals()) as signals:
        async with running(make(), where) as (url, *others):
            local = local_of(url)
            page = next((other for other in others if other.startswith("http")), "")
            async with managing(local), trio.open_nursery() as nursery:
                nursery.start_soon(demo_tour.Tour(_program(), url, page, local).run)
                number = await anext(signals)
                nursery.cancel_scope.cancel()
                say("")
                say(f"The jobs end, then the daemon. {kept}")
    return number == signal.SIGINT


def _local_settings(directory: Path, isolation: Isolation, url: str) -> Settings:
    return Settings(
        url=url,
        login=_NO_PROOF,
        rm_id=RM_ID,
        directory=directory,
        machine=this_machine({"vcore": demo_tour.CORES * 1000}),
        isolation=isolation,
        user=this_user(),
        grace_s=GRACE_S,
        stops_jobs=True,
        now_ns=system_ns,
        say=lambda sentence: None,
    )


def _program() -> str:
    """The command for ``ykactor`` in another terminal: ``make run`` does not put it on the PATH."""
    if shutil.which("ykactor"):
        return "ykactor"
    return sys.argv[0] if Path(sys.argv[0]).name == "ykactor" else "python -m ykactor"
