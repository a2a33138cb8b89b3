"""``ykactor serve``: runs the daemon as a process, with its signals, sockets and exit code."""

from __future__ import annotations

import grp
import logging
import os
import shutil
import signal
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
import trio
from msgspec import Struct, structs

from ykactor.actors.clock import Clock
from ykactor.actors.health import AHEAD_NS
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.values.times import S_NS
from ykactor.journal.errors import JournalError
from ykactor.surfaces.cli import exit_codes, loop
from ykactor.surfaces.cli.options import (
    ADDRESS,
    ADDRESS_OR_NONE,
    DEFAULT_ADDRESS,
    DEFAULT_HTTP,
    EXISTING_DIRECTORY,
    EXISTING_FILE,
    Parsed,
    grouped,
    log_level_option,
    reserves_nodes,
)
from ykactor.surfaces.cli.queue_files import DASH, STANDARD_INPUT, NoTextError, name_of, read_watched
from ykactor.surfaces.cli.state_options import (
    NO_STANDBYS,
    Keeping,
    StandbyOptions,
    StateDirectory,
    keeping_options,
    lacking,
    obstacle,
    prepare_state_dir,
    standby_options,
)
from ykactor.surfaces.cli.urls import Destination, Followed, followed_options
from ykactor.surfaces.daemon.daemon import Daemon, Settings, running_at
from ykactor.surfaces.files.recovery import Recovered
from ykactor.surfaces.files.regular import write_private
from ykactor.surfaces.files.state_dir import (
    StandbyDir,
    StateDir,
    StateSettings,
    open_standby_dir,
    open_state_dir,
)
from ykactor.surfaces.log.logs import LOG_CLOSE_S, STANDARD_ERROR, LogWriter, configure, get_logger, log_event
from ykactor.surfaces.net.descriptors import TooFewDescriptorsError, raise_limit
from ykactor.surfaces.net.doors import DoorError, DoorSettings, open_doors
from ykactor.surfaces.net.systemd import Extension, Notifier
from ykactor.wire.queuefile.load import ConfigError, load

if TYPE_CHECKING:
    from ykactor.surfaces.admission.access_control import AccessWatcher
    from ykactor.surfaces.cli.standby import Make
    from ykactor.surfaces.daemon.tls_watcher import TlsWatcher
    from ykactor.surfaces.files.access_file import AccessFile
    from ykactor.surfaces.files.tls_files import TlsFiles


log = get_logger(__name__)


# ---- what keeps a daemon from starting: one line each, with the exit code that says whether another start may help


def prepare_descriptors() -> None:
    """Let the process have enough file descriptors, or end the command."""
    with exit_codes.ending(TooFewDescriptorsError, kind=exit_codes.Refused):
        raise_limit()


def _mode(text: str) -> int:
    """The mode of a file in octal digits."""
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise ValueError(f"found {text!r}, expected octal digits up to 0777 such as 0660")
    return mode


def _group(text: str) -> int:
    """The number of the group with a name."""
    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        raise ValueError(f"found {text!r}, expected the name of a group of this machine") from None


def _one_file(_ctx: click.Context, _param: click.Parameter, files: tuple[str, ...]) -> str | None:
    if len(files) > 1:
        raise click.BadParameter(f"found {len(files)} files, expected one; several ConfigMaps may be documents of one file")
    return files[0] if files else None


class TlsOptions(Struct, frozen=True):
    """The files of TLS, as they are named on the command line."""

    tls_cert: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    multiple=True,
    callback=_one_file,
    help="The queue file, ConfigMap or Helm values, read again when it changes; - is standard input, which is read once. "
    "Default: the configuration that the journal in --state-dir has; without one a built-in one with a queue for each namespace.",
)
@click.option(
    "--state-dir",
    type=StateDirectory(),
    help="The directory in which all state is kept, so that it survives the end of the daemon; also for a post-mortem report.",
)
@keeping_options
@standby_options
@followed_options
@click.option(
    "--ws",
    "addresses",
    type=ADDRESS,
    metavar="HOST:PORT|unix:PATH",
    multiple=True,
    default=[DEFAULT_ADDRESS],
    show_default=True,
    help="Where resource managers and followers connect; repeatable. Ignored if systemd passes a socket named ws.",
)
@click.option(
    "--http",
    type=ADDRESS_OR_NONE,
    metavar="HOST:PORT|unix:PATH|none",
    multiple=True,
    default=[DEFAULT_HTTP],
    show_default=True,
    callback=lambda _ctx, _param, addresses: tuple(address for address in addresses if address is not None),
    help="Where the REST API is served; repeatable; none is nowhere. Ignored if systemd passes a socket named http.",
)
@click.option(
    "--ws-mode",
    "mode",
    type=Parsed("mode", _mode),
    default="0660",
    show_default=True,
    help="The mode of the file of a Unix socket: who may write to it can connect.",
)
@click.option("--ws-group", "group", type=Parsed("group", _group), help="The group of that file.  [default: that of the daemon]")
@click.option(
    "--access",
    "access_path",
    type=EXISTING_FILE,
    help="The access file, which says who may do what (see ykactor access). With it everybody has to show who they are. "
    "Default: root and the user of the daemon may do everything, and other users of this machine may read.",
)
@click.option(
    "--tls-cert",
    type=EXISTING_FILE,
    help="Encrypt all TCP connections (wss://) with this certificate, in PEM, with those between it and its authority. "
    "Read again when it changes.",
)
@click.option("--tls-key", type=EXISTING_FILE, help="The key of that certificate, in PEM.")
@click.option(
    "--tls-client-ca",
    type=EXISTING_FILE,
    help="The authorities of clients, in PEM: a certificate of theirs shows who somebody is, as the access file says.",
)
@click.option(
    "--insecure",
    "is_insecure",
    is_flag=True,
    help="Listen where other machines can connect, even without TLS (then whoever is between can read and change everything, "
    "also tokens) or without an access file (then whoever can connect may do everything).",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="A further name of this machine, by which the REST API may be asked and web pages may connect; can be given several "
    "times. Without an access file any other name is refused there, but for metrics and checks of health.",
)
@click.option(
    "--metrics-old-names",
    "has_old_metrics",
    is_flag=True,
    help="Also show metrics with the names that Apache YuniKorn had up to version 1.7, with a queue's path in the name, which "
    "dashboards of its Kubernetes shim still read.",
)
@click.option(
    "--web-root",
    type=EXISTING_DIRECTORY,
    help="A directory with the files of a web UI, which are served instead of the page at /, to everybody who can connect; none "
    "that begins with a dot.",
)
@click.option("--manual", is_flag=True, help="Schedule only when the resource manager sends a ScheduleRequest.")
@log_level_option("The least severe lines that are written to the log, which goes to standard error.")
@grouped("settings", Settings)
@grouped("where", DoorSettings)
@grouped("tls_options", TlsOptions)
def command(
    config_file: str | None,
    settings: Settings,
    where: DoorSettings,
    keeping: Keeping,
    standbys: StandbyOptions,
    followed: Followed,
    tls_options: TlsOptions,
    log_level: str,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C. SIGHUP reads the queue file, the access file and the files of TLS again.

    With --standby-of it keeps the journal and the state of another daemon, until 'ykactor take-over' makes it the daemon.
    """
    has_access, state_dir = settings.access_path is not None, settings.state_dir
    if standbys.standbys and state_dir is None:
        raise click.UsageError("found --standbys without --state-dir, expected both: standbys keep what is there")
    before = followed.destination()
    if before is not None and state_dir is None:
        raise click.UsageError("found --standby-of without --state-dir, expected both: a standby keeps the journal there")
    tls = read_tls(tls_options, has_access)
    prepare_descriptors()
    with lacking():
        config = None if config_file is None else _first_config(config_file)
    watched = None if config_file is None or config_file == DASH else Path(config_file)
    is_new = state_dir is not None and not state_dir.exists()
    if state_dir is not None:
        prepare_state_dir(state_dir)
    writer = LogWriter(STANDARD_ERROR)
    configure(log_level, writer)
    if state_dir is None:
        log_event(log, logging.INFO, "state_not_kept", reason="without --state-dir a restart forgets everything")
    settings = structs.replace(settings, config_path=watched, reserves=reserves_nodes(os.environ))
    where = structs.replace(where, has_access=has_access, tls=tls)
    access = read_access(settings.access_path)
    try:
        if before is not None and state_dir is not None and _is_standby(before, state_dir):
            prepare = partial(_prepared, config if config_file == DASH else config_file, settings, tls)
            kept = keeping.settings(state_dir, standbys.settings())
            unplanned_end = _serve_standby(before, kept, prepare, where, is_new=is_new)
        else:
            with kept_state(state_dir, settings, keeping, standbys) as state:
                _log_config(config, config_file, state)
                unplanned_end = loop.run(_serve, partial(make_daemon, config, settings, state, access, tls), where)
        if unplanned_end:
            raise exit_codes.Unavailable(unplanned_end)
    except (JournalError, DoorError) as error:
        raise obstacle(error) from None
    except click.ClickException:
        raise
    except Exception as failure:
        _report_crash(failure, state_dir)
        raise SystemExit(exit_codes.SOFTWARE) from None
    finally:
        writer.close(LOG_CLOSE_S)


def _first_config(file: str) -> SchedulerConfig:
    with exit_codes.ending(ConfigError, NoTextError):
        return load(read_watched(file), name_of(file))


def _log_config(config: SchedulerConfig | None, config_file: str | None, state: StateDir | None) -> None:
    """Log where the first configuration comes from."""
    if config is not None and config_file is not None:
        _log_first(config, name_of(config_file))
    elif state is None or state.recovered is None:
        _log_first(load(""), "built-in")
    else:
        _log_first(state.recovered.config, "journal")


def _log_first(config: SchedulerConfig, source: str) -> None:
    """Log the first configuration, and what an operator may want to know of it."""
    log_event(log, logging.INFO, "config_loaded", source=source, checksum=config.checksum)
    if source == STANDARD_INPUT:
        log_event(log, logging.INFO, "config_not_watched", reason="the configuration came from standard input")
    for warning in config.warnings:
        log_event(log, logging.WARNING, "config_warning", reason=warning)


def kept_state(
    directory: Path | None, settings: Settings, keeping: Keeping, standbys: StandbyOptions = NO_STANDBYS
) -> AbstractContextManager[StateDir | None]:
    """The state directory, open within the block; None if there is none. Blocks. Raises ``JournalError``."""
    if directory is None:
        return nullcontext()
    extension = Extension(Notifier.from_environment())
    return open_state_dir(keeping.settings(directory, standbys.settings()), extension.on_progress, reserves=settings.reserves)


def clock_after(recovered: Recovered | None) -> Clock:
    """A clock that goes on after what the journal has (DU-6)."""
    if recovered is None:
        return Clock.of_the_system()
    clock = Clock.of_the_system(recovered.at_ns, recovered.ahead_ns)
    if clock.ahead_ns() > AHEAD_NS:
        ahead_s = clock.ahead_ns() // S_NS
        reason = f"the journal is {ahead_s} s ahead of this machine's clock; the daemon's clock goes on from there"
        log_event(log, logging.WARNING, "clock_set_back", reason=reason)
    return clock


def make_daemon(
    config: SchedulerConfig | None,
    settings: Settings,
    state: StateDir | None,
    access: AccessFile | None = None,
    tls: TlsFiles | None = None,
) -> Daemon:
    """A daemon that goes on from this state; ``config`` as in ``Daemon``."""
    clock = clock_after(None if state is None else state.recovered)
    access_watcher, tls_watcher = follow_access(access, clock), follow_tls(tls, clock)
    if state is None:
        return Daemon(config, settings, clock, access=access_watcher, tls=tls_watcher)
    journal = state.journal(clock.now_ns)
    recovered = state.take_recovered()
    return Daemon(config, settings, clock, journal, recovered, state.terms, access_watcher, tls_watcher, state.standbys)


def read_access(path: Path | None) -> AccessFile | None:
    """The access file, or the end of the command with all its mistakes."""
    if path is None:
        return None
    from ykactor.surfaces.files.access_file import AccessFile  # needs libraries that take 0.1 s to load

    with exit_codes.ending(ConfigError, kind=exit_codes.FileProblem):
        return AccessFile(path)


def read_tls(options: TlsOptions, has_access: bool) -> TlsFiles | None:
    """The files of TLS, or the end of the command."""
    cert, key, client_ca = options.tls_cert, options.tls_key, options.tls_client_ca
    if (cert is None) != (key is None):
        raise click.UsageError("found one of --tls-cert and --tls-key, expected both")
    if client_ca is not None and (cert is None or not has_access):
        raise click.UsageError("found --tls-client-ca, expected --tls-cert and --access with it: else it has no effect")
    if cert is None or key is None:
        return None
    from ykactor.surfaces.files.tls_files import TlsFileError, TlsFiles  # needs libraries that take 0.1 s to load

    with exit_codes.ending(TlsFileError, kind=exit_codes.FileProblem):
        return TlsFiles(cert, key, client_ca)


def follow_access(file: AccessFile | None, clock: Clock) -> AccessWatcher | None:
    """A watcher of the access file; None without one."""
    if file is None:
        return None
    from ykactor.surfaces.admission.access_control import AccessWatcher

    return AccessWatcher(file, clock)


def follow_tls(files: TlsFiles | None, clock: Clock) -> TlsWatcher | None:
    """A watcher of the files of TLS; None without them."""
    if files is None:
        return None
    from ykactor.surfaces.daemon.tls_watcher import TlsWatcher

    return TlsWatcher(files, clock)


@asynccontextmanager
async def running(daemon: Daemon, where: DoorSettings, *alongside: Callable[[], Awaitable[None]]) -> AsyncIterator[list[str]]:
    """Run a daemon until the block ends; the URLs at which it listens. Raises ``DoorError`` if it cannot.

    Args:
        alongside: run too, from before the start of the daemon on.
    """
    async with open_doors(where) as doors, trio.open_nursery() as nursery:
        for function in alongside:
            nursery.start_soon(function)
        async with running_at(daemon, doors, Notifier.from_environment()):
            yield [door.url for door in doors]
        nursery.cancel_scope.cancel()


async def _serve(make: Callable[[], Daemon], where: DoorSettings) -> str:
    """Run a daemon until a signal ends it; Ctrl-C raises ``KeyboardInterrupt`` when it has ended.

    Returns ``Daemon.unplanned_end``.
    """
    daemon = make()
    received: set[int] = set()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with running(daemon, where, partial(_handle_signals, daemon, signals, received)):
            await daemon.stopped.wait()
    if signal.SIGINT in received:
        raise KeyboardInterrupt
    return daemon.unplanned_end


# ---- a standby first


def _is_standby(before: Destination, directory: Path) -> bool:
    """True if the process begins as a standby, False as the daemon (``standby.begins_as_standby``)."""
    from ykactor.surfaces.cli.standby import begins_as_standby, ending

    with ending(before):
        return loop.run(begins_as_standby, directory, before)


def _serve_standby(
    before: Destination, keeping: StateSettings, prepare: Callable[[], Make], where: DoorSettings, *, is_new: bool
) -> str:
    """Follow a daemon, and be the daemon after it, until a signal. Returns ``Daemon.unplanned_end``.

    Args:
        is_new: the directory was made for it, so it is deleted if nothing ever comes.
    """
    from ykactor.surfaces.cli.standby import Process, ending  # needs the client, which takes 0.2 s to load

    async def main(directory: StandbyDir) -> str:
        process = Process(directory, before, prepare, reserves=reserves_nodes(os.environ))
        unplanned_end = await process.run(where)
        if signal.SIGINT in process.received:
            raise KeyboardInterrupt
        return unplanned_end

    with open_standby_dir(keeping) as directory:
        try:
            with ending(before):
                return loop.run(main, directory)
        except click.ClickException:
            if is_new and not directory.writer.joining.beginnings:
                shutil.rmtree(keeping.directory, ignore_errors=True)
            raise


def _prepared(file: SchedulerConfig | str | None, settings: Settings, tls: TlsFiles | None) -> Make:
    """Read the files with which a standby becomes the daemon, as they are now. Blocks. Raises:  ClickException."""
    config = _first_config(file) if isinstance(file, str) else file
    access = read_access(settings.access_path)
    if tls is not None:
        from ykactor.surfaces.files.tls_files import TlsFileError

        with exit_codes.ending(TlsFileError, kind=exit_codes.FileProblem):
            tls.load()

    def make(state: StateDir) -> Daemon:
        _log_config(config, file if isinstance(file, str) else STANDARD_INPUT, state)
        return make_daemon(config, settings, state, access, tls)

    return make


async def _handle_signals(daemon: Daemon, signals: AsyncIterator[int], received: set[int]) -> None:
    async for number in signals:
        received.add(number)
        if number == signal.SIGHUP:
            daemon.reload()
        else:
            daemon.stop()


def _report_crash(failure: Exception, state_dir: Path | None) -> None:
    """Log the exception and write it to the state directory."""
    log.critical("daemon_crashed", exc_info=failure)
    if state_dir is not None:
        report = state_dir / "post-mortem.json"
        trace = "".join(traceback.format_exception(failure))
        try:
            write_private(report, msgspec.json.encode({"failure": trace}))
            log_event(log, logging.INFO, "post_mortem_written", path=report)
        except OSError as error:
            log_event(log, logging.ERROR, "post_mortem_failed", path=report, reason=str(error))
