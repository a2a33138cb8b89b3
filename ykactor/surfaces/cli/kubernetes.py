"""``ykactor kubernetes``: the adapter between a Kubernetes API server and the daemon."""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio
from msgspec import Struct, structs

from ykactor.actors.clock import system_ns
from ykactor.client import RequestRefused, SessionReplaced
from ykactor.surfaces.cli import exit_codes, loop
from ykactor.surfaces.cli.options import EXISTING_FILE, TCP_ADDRESS, Parsed, WholeNumber, grouped, log_level_option
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.log.logs import LOG_CLOSE_S, STANDARD_ERROR, LogWriter, configure, get_logger, log_event
from ykactor.surfaces.net.doors import TcpAddress
from ykactor.surfaces.net.systemd import Notifier, feed_watchdog

if TYPE_CHECKING:
    from ykactor.kubernetes.adapter import Settings
    from ykactor.kubernetes.credentials import Credentials
    from ykactor.kubernetes.leader import LeaseName
    from ykactor.kubernetes.process import Process

log = get_logger(__name__)

#: The Lease, in the namespace of the adapter.
LEASE = "ykactor"


class ApiServer(Struct, frozen=True):
    """The way to the API server, and the namespace of the adapter there; "" is the usual one."""

    kubeconfig: Path | None
    context: str
    namespace: str

    def credentials(self) -> Credentials:
        """The proofs of identity; ends the command if there are none."""
        try:
            from ykactor.kubernetes.credentials import CredentialsError, in_cluster, of_kubeconfig
        except ModuleNotFoundError as error:
            raise click.ClickException(f"{error}: install ykactor[kubernetes]") from None
        with exit_codes.ending(CredentialsError, kind=exit_codes.Refused):
            return in_cluster() if self.kubeconfig is None else of_kubeconfig(self.kubeconfig, self.context)

    def own_namespace(self, credentials: Credentials) -> str:
        """The namespace of the Lease and the ConfigMaps."""
        return self.namespace or credentials.namespace or "ykactor"


_api_server_options = grouped(
    "api_server",
    ApiServer,
    click.option(
        "--kubeconfig",
        type=EXISTING_FILE,
        help="How to reach the API server: a token or a client certificate.  [default: the service account of this pod]",
    ),
    click.option("--context", default="", metavar="NAME", help="A context of the kubeconfig.  [default: its current one]"),
    click.option("--namespace", default="", metavar="NS", help="Of its Lease and ConfigMaps.  [default: its own, else ykactor]"),
)


class Replica(Struct, frozen=True):
    """The options of one of the processes of an adapter."""

    scheduler_name: str
    rm_id: str
    identity: str
    no_lease: bool
    qps: int

    def settings(self, daemon: Destination, namespace: str) -> Settings:
        """The settings of the adapter."""
        from ykactor.kubernetes.adapter import Settings
        from ykactor.kubernetes.leader import LeaseName

        return Settings(
            url=daemon.url,
            login=daemon.login(),
            rm_id=self.rm_id,
            scheduler_name=self.scheduler_name,
            namespace=namespace,
            lease=None if self.no_lease else LeaseName(namespace, LEASE, self.identity),
            qps=self.qps,
        )


def _process(identity: str) -> Process:
    """This process, as the parts of the adapter need it."""
    from ykactor.kubernetes.process import Process

    return Process(
        identity=identity,
        now=lambda: datetime.fromtimestamp(system_ns() / 1e9, UTC),
        say=lambda sentence: log_event(log, logging.INFO, "adapter_said", message=sentence),
        warn=lambda sentence: log_event(log, logging.WARNING, "adapter_warned", message=sentence),
        rng=random.Random(os.urandom(8)),
    )


_identity_option = click.option(
    "--identity", default=socket.gethostname, metavar="NAME", help="Of this process in the Lease.  [default: of this host]"
)
_replica_options = grouped(
    "replica",
    Replica,
    click.option("--scheduler-name", default="ykactor", show_default=True, metavar="NAME", help="Of the pods that it runs."),
    click.option("--rm-id", default="kubernetes", show_default=True, metavar="ID", help="Its id as a resource manager."),
    _identity_option,
    click.option("--no-lease", is_flag=True, help="Lead always: there is no other replica."),
    click.option(
        "--qps",
        type=WholeNumber(min=1, max=100_000),
        default=200,
        show_default=True,
        help="Requests per second to the API server; binds do not wait for it. kubernetes.qps in a ConfigMap counts more.",
    ),
)


@click.group(invoke_without_command=True)
@daemon_options
@_api_server_options
@_replica_options
@click.option("--listen", type=TCP_ADDRESS, metavar="HOST:PORT", help="Serve /livez, /readyz and /metrics there.")
@log_level_option()
@click.pass_context
def command(
    context: click.Context,
    *,
    daemon: Destination,
    api_server: ApiServer,
    replica: Replica,
    listen: TcpAddress | None,
    log_level: str,
) -> None:
    """Run the pods of a Kubernetes cluster that have schedulerName ykactor where the daemon says.

    It watches pods and nodes, tells the daemon, and binds what the daemon has placed. Several replicas take turns by a Lease.
    """
    if context.invoked_subcommand is not None:  # what was given before its name holds for it too
        context.default_map = {context.invoked_subcommand: structs.asdict(api_server)}
        return
    credentials = api_server.credentials()
    settings = replica.settings(daemon, api_server.own_namespace(credentials))
    writer = LogWriter(STANDARD_ERROR)
    configure(log_level, writer)
    try:
        if loop.run(_run, credentials, settings, _process(replica.identity), listen) == signal.SIGINT:
            raise KeyboardInterrupt
    except* (RequestRefused, SessionReplaced) as errors:
        raise daemon.problem(exit_codes.first_of(errors)) from None
    except* click.ClickException as problems:
        raise exit_codes.first_of(problems) from None
    except* Exception as failure:
        log.critical("adapter_crashed", exc_info=failure)
        raise SystemExit(exit_codes.SOFTWARE) from None
    finally:
        writer.close(LOG_CLOSE_S)


@command.command()
@_api_server_options
def check(api_server: ApiServer) -> None:
    """Say which permissions are missing on the API server; exit code 1 if any is."""
    credentials = api_server.credentials()
    from ykactor.kubernetes.api import Api, ApiError
    from ykactor.kubernetes.permissions import missing

    async def ask() -> list[str]:
        async with Api.open(credentials) as api:
            return await missing(api, api_server.own_namespace(credentials))

    try:
        lacking = loop.run(ask)
    except ApiError as error:
        raise click.ClickException(f"{credentials.url}: {error}") from None
    for words in lacking:
        say(f"missing: {words}")
    if lacking:
        raise SystemExit(exit_codes.FAILED)
    say("no permission is missing")


def _object_name(text: str) -> str:
    """The name of an object of the API server, as it is in a path."""
    if re.fullmatch("[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", text) is None:
        raise ValueError(f"found {text!r}, expected at most 253 of a to z, 0 to 9, - and .")
    return text


@command.command()
@click.argument("name", type=Parsed("name", _object_name))
@_api_server_options
@_identity_option
@log_level_option()
def lease(name: str, api_server: ApiServer, identity: str, log_level: str) -> None:
    """Wait for the Lease NAME, print a line when this process holds it, and end with exit code 75 when it has lost it.

    SIGTERM and Ctrl-C give it up. This is a LOCK for the script config/standby/pair.
    """
    credentials = api_server.credentials()
    from ykactor.kubernetes.leader import LeaseName

    wanted = LeaseName(api_server.own_namespace(credentials), name, identity)
    writer = LogWriter(STANDARD_ERROR)
    configure(log_level, writer)
    try:
        if loop.run(_hold, credentials, wanted):
            raise exit_codes.Unavailable(f"the Lease {wanted.namespace}/{wanted.name} is lost")
    finally:
        writer.close(LOG_CLOSE_S)


async def _hold(credentials: Credentials, wanted: LeaseName) -> bool:
    """Hold a Lease until SIGTERM, SIGINT, or True: it is lost."""
    from ykactor.kubernetes.api import Api
    from ykactor.kubernetes.leader import Leader, Leadership
    from ykactor.kubernetes.process import Outages

    process = _process(wanted.identity)

    async def hold(_: Leadership) -> None:
        say(f"{wanted.identity} holds the Lease {wanted.namespace}/{wanted.name}")
        await trio.sleep_forever()

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with Api.open(credentials) as api, trio.open_nursery() as nursery:
            nursery.start_soon(_end_at_signal, signals, nursery.cancel_scope)
            await Leader(api, wanted, process, Outages(process.warn)).lead_once(hold)
            return True
    return False


async def _end_at_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    scope.cancel()


async def _run(credentials: Credentials, settings: Settings, process: Process, listen: TcpAddress | None) -> int:
    """Run until SIGTERM or SIGINT; returns the signal."""
    from ykactor.kubernetes import probes
    from ykactor.kubernetes.adapter import Adapter
    from ykactor.kubernetes.api import Api

    notifier = Notifier.from_environment()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with Api.open(credentials) as api, trio.open_nursery() as nursery:
            adapter = Adapter(api, settings, process)
            port = None
            if listen is not None:
                with _listening(listen):
                    port = await nursery.start(probes.serve, adapter, listen.host, listen.port)
            lease = "" if settings.lease is None else f"{settings.lease.namespace}/{settings.lease.name}"
            log_event(log, logging.INFO, "adapter_started", api_server=credentials.url, daemon=settings.url, lease=lease)
            if listen is not None:
                log_event(log, logging.INFO, "adapter_listened", address=f"{listen.host}:{port}")
            nursery.start_soon(adapter.run)
            nursery.start_soon(feed_watchdog, notifier, lambda: adapter.turns, lambda: adapter.is_idle)
            notifier.ready(f"adapter of {settings.rm_id} for {credentials.url}")
            number = await anext(signals)
            log_event(log, logging.INFO, "adapter_stopped", signal=signal.Signals(number).name)
            notifier.stopping()
            nursery.cancel_scope.cancel()
    return number


@contextmanager
def _listening(address: TcpAddress) -> Iterator[None]:
    """Ends the command if it cannot listen there, with the exit code of ``serve``."""
    try:
        yield
    except OSError as error:
        kind = exit_codes.Refused if isinstance(error, PermissionError) else exit_codes.Unavailable
        raise kind(f"{address}: {error.strerror or error}: choose another address with --listen HOST:PORT") from None
