"""``ykactor local``: a resource manager for this machine."""

from __future__ import annotations

import signal
import sqlite3
from functools import partial
from pathlib import Path

import click
import trio
from msgspec import Struct

from ykactor.actors.clock import system_ns
from ykactor.client import Disconnected, RequestRefused
from ykactor.core.values.times import DAY_NS
from ykactor.local.exclusive import InUse
from ykactor.local.isolation import best_isolation
from ykactor.local.machine import GPU, this_machine, this_user
from ykactor.local.manager import Settings, managing
from ykactor.local.private import NotPrivate
from ykactor.local.system import DIRECTORY
from ykactor.surfaces.cli import exit_codes, loop
from ykactor.surfaces.cli.cells import resource as resource_text
from ykactor.surfaces.cli.jobs.asking import amount_of, own_directory
from ykactor.surfaces.cli.jobs.shared import SystemOptions, install, system_options
from ykactor.surfaces.cli.options import Number, grouped
from ykactor.surfaces.cli.state_options import make_directory
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.net.descriptors import raise_limit


class _Keeping(Struct, frozen=True):
    """The options about the end of jobs, and what is kept of them."""

    grace: float
    keep_days: float
    stop_jobs: bool


_keeping_options = grouped(
    "keeping",
    _Keeping,
    click.option(
        "--grace",
        type=Number(min=0),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Between SIGTERM and SIGKILL when a task has to end.",
    ),
    click.option(
        "--keep-days",
        type=Number(min=0, max=36_500),
        default=7.0,
        show_default=True,
        metavar="DAYS",
        help="How long jobs that have ended are kept, with the records of their attempts and what they have written.",
    ),
    click.option(
        "--stop-jobs",
        is_flag=True,
        help="End all jobs when this program ends, and at its start; otherwise they go on, and the next one takes them over.",
    ),
)


@click.group(invoke_without_command=True)
@daemon_options
@click.option(
    "--local-dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="YKACTOR_LOCAL_DIR",
    show_envvar=True,
    show_default=f"~/.local/state/ykactor-local; with --system {DIRECTORY}",
    help="Where the jobs are kept, and where the commands about jobs find this program.",
)
@system_options
@click.option(
    "--resource",
    "amounts",
    type=amount_of(""),
    multiple=True,
    metavar="NAME=QUANTITY",
    help="An amount of this machine, such as gpu=2 or vcore=4, instead of what is found. Repeatable.",
)
@click.option(
    "--gpu-type",
    default=GPU,
    show_default=True,
    metavar="NAME",
    help="The resource type of the GPUs, as in the queue file; run --gpu, and gpu and nvidia.com/gpu of --resource, mean it too.",
)
@_keeping_options
@click.pass_context
def command(
    context: click.Context,
    *,
    daemon: Destination,
    directory: Path | None,
    shared: SystemOptions,
    amounts: tuple[tuple[str, int], ...],
    gpu_type: str,
    keeping: _Keeping,
) -> None:
    """Run jobs of ykactor run on this machine, as a resource manager of the daemon.

    Its tasks are processes, in scopes of systemd where it runs, else in process groups. They go on while this program or the
    daemon is away. It is for one machine: what is larger belongs on Kubernetes or Slurm.

    With --system it serves all users of the machine, and starts each job as its user: ykactor local install says how.
    """
    if context.invoked_subcommand is not None:
        return
    system = shared.chosen(daemon.url)
    directory = (directory or (DIRECTORY if system else own_directory())).absolute()
    isolation = shared.isolation(directory) if system else best_isolation(directory)
    machine = this_machine(dict(amounts), gpu_type)
    make_directory(directory, 0o755 if system else 0o700)
    raise_limit()  # each task and each command that waits needs a descriptor
    settings = Settings(
        url=daemon.url,
        login=daemon.login(),
        rm_id=f"local-{machine.node_id}",
        directory=directory,
        machine=machine,
        isolation=isolation,
        user=this_user(),
        grace_s=keeping.grace,
        kept_ns=round(keeping.keep_days * DAY_NS),
        stops_jobs=keeping.stop_jobs,
        now_ns=system_ns,
        say=partial(say, err=True),
        system=system,
    )
    say(f"{machine.node_id}: {resource_text(machine.resource)}", err=True)
    try:
        was_interrupted = loop.run(_manage, settings)
    except* (Disconnected, RequestRefused, InUse, NotPrivate, sqlite3.Error) as errors:
        raise daemon.problem(exit_codes.first_of(errors)) from None
    if was_interrupted:
        raise KeyboardInterrupt


command.add_command(install)


async def _manage(settings: Settings) -> bool:
    """Manage jobs until a signal; the next one ends the waiting for jobs. Returns whether the first one was Ctrl-C."""
    with trio.open_signal_receiver(*end_signals()) as signals:
        async with trio.open_nursery() as nursery:

            async def hurry() -> None:
                await anext(signals)
                nursery.cancel_scope.cancel()

            async with managing(settings):
                number = await anext(signals)
                nursery.start_soon(hurry)
            nursery.cancel_scope.cancel()
    return number == signal.SIGINT


def end_signals() -> list[signal.Signals]:
    """The signals that end a program that has jobs: also that of a closed terminal, unless nohup keeps it away."""
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if is_kept else [signal.SIGHUP])]
