"""``ykactor replica``: runs the turns of a daemon, compares, and answers readers."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import trio
from msgspec import Struct, to_builtins

from ykactor.actors.clock import Clock, system_ns
from ykactor.client.login import Login
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.options import (
    ADDRESS,
    EXISTING_DIRECTORY,
    EXISTING_FILE,
    Number,
    grouped,
    log_level_option,
    text_or_json,
)
from ykactor.surfaces.cli.printer import Printer
from ykactor.surfaces.cli.serve import (
    TlsOptions,
    follow_access,
    follow_tls,
    prepare_descriptors,
    read_access,
    read_tls,
)
from ykactor.surfaces.cli.state_options import obstacle
from ykactor.surfaces.cli.terminal import on_one_line
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.daemon.reports import checks_of_files
from ykactor.surfaces.files.watcher import FileWatcher
from ykactor.surfaces.log.logs import LOG_CLOSE_S, STANDARD_ERROR, STANDARD_OUTPUT, LogWriter, configure
from ykactor.surfaces.net.doors import Address, DoorError, DoorOptions, DoorSettings, open_doors
from ykactor.surfaces.replica.following import Following, MismatchesError
from ykactor.surfaces.replica.replica import OtherHistoryError, Replica
from ykactor.surfaces.replica.serving import Services, ServiceSettings
from ykactor.wire.history import HistoryError, UnreadableCauseError
from ykactor.wire.turns import OtherBuildError, UnreadableTurnsError

if TYPE_CHECKING:  # need libraries that take 0.1 s to load
    from ykactor.surfaces.files.access_file import AccessFile
    from ykactor.surfaces.files.tls_files import TlsFiles

_OPTIONS = DoorOptions("replica", "--serve-tls-cert and --serve-tls-key", "--access", "--serve-insecure")


class Status(Struct, rename="camel"):
    """The progress of a replica.

    Attributes:
        turns, facts: how many of them were decided the same, since the command has started.
        lag_seconds: how long after the daemon the last turn was run; None before the first one.
        mismatches: how many turns were decided otherwise.
    """

    at_ns: int
    partitions: Sequence[str]
    turns: int = 0
    facts: int = 0
    lag_seconds: float | None = None
    mismatches: int = 0

    def __str__(self) -> str:
        """A line for people."""
        lag = "" if self.lag_seconds is None else f", {1000 * self.lag_seconds:.0f} ms behind"
        copies = ", ".join(self.partitions) or "no partition yet"
        return f"{time_text(self.at_ns)} {copies}: {self.turns} turns, {self.facts} facts as decided by the daemon{lag}"


class Serving(Struct, frozen=True):
    """The options about what is served, and to whom."""

    addresses: tuple[Address, ...] = ()
    http: tuple[Address, ...] = ()
    access_path: Path | None = None
    serve_tls_cert: Path | None = None
    serve_tls_key: Path | None = None
    serve_insecure: bool = False

    def __post_init__(self) -> None:
        if (self.serve_tls_cert is None) != (self.serve_tls_key is None):
            raise click.UsageError("found one of --serve-tls-cert and --serve-tls-key, expected both")

    def tls(self) -> TlsFiles | None:
        """The files of TLS, or the end of the command."""
        return read_tls(TlsOptions(self.serve_tls_cert, self.serve_tls_key, None), self.access_path is not None)

    def doors(self, files: _Files) -> DoorSettings:
        """The addresses to listen on, and how."""
        has_access = files.access is not None
        insecure = self.serve_insecure
        return DoorSettings(
            self.addresses, http=self.http, has_access=has_access, is_insecure=insecure, tls=files.tls, options=_OPTIONS
        )


class _Files(NamedTuple):
    access: AccessFile | None
    tls: TlsFiles | None


@click.command()
@daemon_options
@click.option(
    "--http",
    type=ADDRESS,
    metavar="HOST:PORT|unix:PATH",
    multiple=True,
    help="Where the REST API, metrics and the page are served; repeatable.",
)
@click.option(
    "--ws",
    "addresses",
    type=ADDRESS,
    metavar="HOST:PORT|unix:PATH",
    multiple=True,
    help="Where followers connect; repeatable.",
)
@click.option(
    "--access",
    "access_path",
    type=EXISTING_FILE,
    help="The access file, which says who may read what. Default: users of this machine may read.",
)
@click.option(
    "--serve-tls-cert", type=EXISTING_FILE, help="Encrypt the TCP connections of readers with this certificate, in PEM."
)
@click.option("--serve-tls-key", type=EXISTING_FILE, help="The key of that certificate, in PEM.")
@click.option(
    "--serve-insecure", is_flag=True, help="Listen where other machines can connect, even without TLS or without an access file."
)
@click.option(
    "--host-name", "host_names", multiple=True, metavar="NAME", help="A further name of this machine, as of ykactor serve."
)
@click.option("--metrics-old-names", "has_old_metrics", is_flag=True, help="Also show metrics with old names, as ykactor serve.")
@click.option("--web-root", type=EXISTING_DIRECTORY, help="The files of a web UI, as of ykactor serve.")
@click.option(
    "--every",
    "every_s",
    type=Number(min=0.1),
    default=10.0,
    show_default=True,
    help="Seconds between two lines that say how far it is.",
)
@text_or_json("json: JSON Lines.")
@log_level_option("The least severe lines that are written to the log, which goes to standard error.")
@grouped("settings", ServiceSettings)
@grouped("serving", Serving)
def command(
    daemon: Destination,
    serving: Serving,
    settings: ServiceSettings,
    every_s: float,
    output: str,
    log_level: str,
) -> None:
    """Run the turns of the daemon as they come, each with its recorded cause, compare what was decided, and answer readers.

    With --http it serves the REST API, metrics and the page as the daemon does, with --ws followers: who acts has to go to the
    daemon. This command needs the same version as the daemon, with the same source of its core, and the role replica. It begins
    with the state of each partition, which the daemon makes anew for it soon; until then a partition cannot be read (503). After
    a lost connection it goes on with what it has missed. It begins again with a partition of which a turn was decided otherwise,
    which is in the log; the third of these in an hour ends it with exit code 70. SIGTERM or Ctrl-C ends it.
    """
    prepare_descriptors()
    files = _Files(read_access(serving.access_path), serving.tls())
    writer, lines = LogWriter(STANDARD_ERROR), Printer(STANDARD_OUTPUT)
    configure(log_level, writer)
    report = partial(_report, every_s, output == "json", lines)
    try:
        daemon.run(_run, daemon, serving.doors(files), settings, files, report)
    except* DoorError as errors:
        raise obstacle(exit_codes.first_of(errors)) from None
    finally:
        writer.close(LOG_CLOSE_S)
        lines.close()


async def _run(
    daemon: Destination,
    where: DoorSettings,
    settings: ServiceSettings,
    files: _Files,
    report: Callable[[Following], Awaitable[None]],
) -> None:
    """Follow the daemon and serve readers until a signal ends it; Ctrl-C raises ``KeyboardInterrupt`` then.

    Raises:
        Disconnected, RequestRefused: as ``Following.run``.
        DoorError: it cannot listen where it should.
        ClickException, SystemExit: what comes cannot be run, or is decided otherwise again and again.
    """
    clock = Clock.of_the_system()
    access, tls = follow_access(files.access, clock), follow_tls(files.tls, clock)
    watchers: list[FileWatcher] = [watcher for watcher in (access, tls) if watcher is not None]
    replica = Replica(daemon.url, clock, lambda: checks_of_files(watchers))
    following = Following(replica, Login(**daemon.login()))
    services, stopping, received = Services(replica, following, settings, access, tls), trio.Event(), set[int]()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals, _ending():
        async with open_doors(where) as doors, trio.open_nursery() as nursery:

            def stop() -> None:
                stopping.set()
                if not replica.is_known.is_set():  # nobody is served yet
                    nursery.cancel_scope.cancel()

            nursery.start_soon(replica.run)
            nursery.start_soon(report, following)
            nursery.start_soon(_handle_signals, signals, watchers, stop, received)
            nursery.start_soon(following.run)
            if doors:
                await services.run(doors, stopping)
            await stopping.wait()
            nursery.cancel_scope.cancel()
    if signal.SIGINT in received:
        raise KeyboardInterrupt


@contextmanager
def _ending() -> Iterator[None]:
    """Gives the errors by which a replica ends their exit codes."""
    try:
        yield
    except* MismatchesError:
        raise SystemExit(exit_codes.SOFTWARE) from None
    except* OtherHistoryError as errors:
        raise exit_codes.Unavailable(str(exit_codes.first_of(errors))) from None
    except* (OtherBuildError, UnreadableTurnsError, UnreadableCauseError, HistoryError) as errors:
        raise click.ClickException(str(exit_codes.first_of(errors))) from None
    except* (UnreadableRowError, DamagedStateError) as errors:
        raise click.ClickException(str(exit_codes.first_of(errors))) from None


async def _handle_signals(
    signals: AsyncIterator[int], watchers: Iterable[FileWatcher], stop: Callable[[], None], received: set[int]
) -> None:
    async for number in signals:
        received.add(number)
        if number != signal.SIGHUP:
            stop()
        else:
            for watcher in watchers:
                watcher.reload()


async def _report(every_s: float, is_json: bool, lines: Printer, following: Following) -> None:
    """Say how far it is, until cancelled."""
    while True:
        await trio.sleep(every_s)
        found = Status(system_ns(), following.partitions, following.turns, following.facts, following.lag_s, following.mismatches)
        lines.say(on_one_line(to_builtins(found)) if is_json else str(found))
