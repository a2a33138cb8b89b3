"""The verbs of an operator: ``drain``, ``undrain``, ``cancel``, ``hold``, ``release``, ``priority`` and ``move``.

Each takes several names, acts on one after the other, and prints a line for each; one that is refused stops none of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import click
import trio

from ykactor.client import Disconnected, RequestRefused, operate
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import printable
from ykactor.surfaces.cli.journal_status import print_journal_status
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.wire.si import messages as si
from ykactor.wire.si.requests import PARTITION_ATTRIBUTE

PRIORITY = click.IntRange(-(2**31), 2**31 - 1)


class Act(NamedTuple):
    """What is asked of the daemon.

    Attributes:
        name: as on the command line.
        done: what is printed behind it when the act is durable.
    """

    name: str
    done: str
    request: si.OperatorRequest


def _carry_out(daemon: Destination, acts: Iterable[Act]) -> None:
    """Ask for one after the other; exits with code 1 if one is refused."""
    try:
        refused = trio.run(_ask, daemon, list(acts))
    except* (Disconnected, RequestRefused) as errors:
        raise click.ClickException(str(errors.exceptions[0])) from None
    except* KeyboardInterrupt:
        click.echo("interrupted: the daemon has not confirmed the act after the last one printed", err=True)
        raise
    if refused:
        raise SystemExit(exit_codes.FAILED)


async def _ask(daemon: Destination, acts: list[Act]) -> int:
    """Returns how many were refused."""
    refused = 0
    async with operate(daemon.url, on_journal=print_journal_status, **daemon.login()) as operator:
        for act in acts:
            try:
                await operator.request(act.request)
                click.echo(printable(f"{act.name} {act.done}"))
            except RequestRefused as refusal:
                refused += 1
                click.echo(printable(f"{act.name} refused: {refusal}"), err=True)
    return refused


def _verb(command: Callable[..., None]) -> click.Command:
    """A command with the options of all these verbs."""
    partition = click.option("--partition", default="", metavar="NAME", help="The partition, if it is not default.")
    return click.command()(daemon_options(partition(command)))


_several = click.argument("names", metavar="NAME...", nargs=-1, required=True)
_app = click.option("--app", default="", metavar="APP", help="The application of asks that are named without it.")


def _task_of(name: str, app: str) -> tuple[str, str]:
    """The application and the key that are meant; without a key the application itself."""
    if app:
        return app, name
    application_id, _, key = name.partition("/")
    return application_id, key


# ---- nodes


@_verb
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
def drain(nodes: tuple[str, ...], daemon: Destination, partition: str) -> None:
    """Drain nodes: what runs there goes on, and nothing new is placed on them."""
    _carry_out(daemon, (Act(node, "drains", _set_node(node, "DRAIN_NODE", partition)) for node in nodes))


@_verb
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
def undrain(nodes: tuple[str, ...], daemon: Destination, partition: str) -> None:
    """Let drained nodes take tasks again."""
    _carry_out(daemon, (Act(node, "is schedulable", _set_node(node, "DRAIN_TO_SCHEDULABLE", partition)) for node in nodes))


def _set_node(node: str, action: str, partition: str) -> si.NodeRequest:
    attributes = {PARTITION_ATTRIBUTE: partition} if partition else {}
    return si.NodeRequest(nodes=[si.NodeInfo(node_id=node, action=action, attributes=attributes)])


# ---- tasks and applications


@_verb
@_several
@_app
def cancel(names: tuple[str, ...], app: str, daemon: Destination, partition: str) -> None:
    """Cancel tasks and applications.

    NAME is an application, APP/ASK, or with --app an ask or allocation of it. A pending ask is removed. An allocation runs until
    the resource manager has confirmed its release. An application fails, with all that it has.
    """
    _carry_out(daemon, (_cancel(name, *_task_of(name, app), partition) for name in names))


def _cancel(name: str, application_id: str, key: str, partition: str) -> Act:
    if not key:
        return Act(name, "is ending", si.TerminateApplication(application_id=application_id, partition_name=partition))
    request = si.CancelAllocation(application_id=application_id, allocation_key=key, partition_name=partition)
    return Act(name, "is cancelled", request)


@_verb
@_several
@click.argument("priority", metavar="N", type=PRIORITY)
@_app
def priority(names: tuple[str, ...], priority: int, app: str, daemon: Destination, partition: str) -> None:
    """Give pending asks the priority N; higher is more important. Write -- before a negative N.

    NAME is an application, which means all asks that it has pending, or APP/ASK, or with --app an ask of it.
    """

    def request(name: str) -> si.SetPriority:
        owner, key = _task_of(name, app)
        return si.SetPriority(application_id=owner, allocation_key=key, priority=priority, partition_name=partition)

    _carry_out(daemon, (Act(name, f"has priority {priority}", request(name)) for name in names))


@_verb
@click.argument("apps", metavar="APP...", nargs=-1, required=True)
@click.argument("queue", metavar="QUEUE")
def move(apps: tuple[str, ...], queue: str, daemon: Destination, partition: str) -> None:
    """Move applications to the leaf QUEUE, with all that they have."""

    def request(app: str) -> si.MoveApplication:
        return si.MoveApplication(application_id=app, queue_name=queue, partition_name=partition)

    _carry_out(daemon, (Act(app, f"moved to {queue}", request(app)) for app in apps))


# ---- holds


@_verb
@_several
def hold(names: tuple[str, ...], daemon: Destination, partition: str) -> None:
    """Hold applications and queues: they get nothing new, and what runs goes on.

    NAME is a queue if it is root or begins with root., else an application. A hold lasts until it is released, also after a
    restart of the daemon; asks that are submitted meanwhile wait.
    """
    _carry_out(daemon, (Act(name, "is held", _set_hold(name, True, partition)) for name in names))


@_verb
@_several
def release(names: tuple[str, ...], daemon: Destination, partition: str) -> None:
    """End the holds of applications and queues, named as for hold.

    The hold of an application and that of its queue end separately.
    """
    _carry_out(daemon, (Act(name, "is released", _set_hold(name, False, partition)) for name in names))


def _set_hold(name: str, held: bool, partition: str) -> si.HoldQueue | si.HoldApplication:
    if name.lower() == "root" or name.lower().startswith("root."):
        return si.HoldQueue(queue_name=name, held=held, partition_name=partition)
    return si.HoldApplication(application_id=name, held=held, partition_name=partition)
