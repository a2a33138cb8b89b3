"""``ykactor rm``: what an operator does about the resource manager, beside it."""

from functools import partial

import click
import trio

from ykactor.client import Disconnected, RequestRefused, connect, operate
from ykactor.surfaces.cli.journal_status import print_journal_status
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.wire.si import messages as si


@click.group()
def command() -> None:
    """Hand the daemon over from one resource manager to another."""


@command.command()
@click.argument("rm_id", metavar="RM_ID")
@click.option(
    "--forget-epoch",
    is_flag=True,
    help="As an operator, also forget the epoch of RM_ID, registered or not, so that a process with any epoch may register.",
)
@daemon_options
def release(rm_id: str, *, forget_epoch: bool, daemon: Destination) -> None:
    """End the registration of the resource manager RM_ID, so that another one may register.

    The daemon drops all nodes and applications of RM_ID, and closes its session if it has one. A caller that may not be RM_ID, or
    knows no epoch with which it could be, does this as an operator.
    """
    act = partial(_release_as_operator, rm_id, daemon, forget_epoch=True) if forget_epoch else partial(_release, rm_id, daemon)
    try:
        trio.run(act)
    except* RequestRefused as refusals:
        (refusal,) = refusals.exceptions
        assert isinstance(refusal, RequestRefused)
        raise _not_registered(rm_id, refusal, daemon) from None
    except* Disconnected as errors:
        raise daemon.problem(errors.exceptions[0]) from None
    except* KeyboardInterrupt:
        say(f"interrupted: the daemon has not confirmed that {rm_id} is deregistered", err=True)
        raise
    forgotten = " and its epoch is forgotten" if forget_epoch else ""
    say(f"{rm_id} is deregistered{forgotten}; another resource manager may register")


def _not_registered(rm_id: str, refusal: RequestRefused, daemon: Destination) -> click.ClickException:
    """Why ``rm_id`` cannot be deregistered: nobody is registered, or another one."""
    match refusal.code:
        case "RESYNC_REQUIRED":
            return click.ClickException(f"{rm_id} is not registered, nor is any other resource manager: there is nothing to do")
        case "ALREADY_REGISTERED":
            holder = refusal.message.removeprefix(f"found {rm_id}: ")
            return click.ClickException(f"{rm_id} is not the resource manager that is registered: {holder}")
        case _:
            return daemon.problem(refusal)


async def _release(rm_id: str, daemon: Destination) -> None:
    login = daemon.login()
    try:
        async with connect(daemon.url, rm_id=rm_id, resume_from="now", on_journal=print_journal_status, **login) as rm:
            await rm.request(si.DeregisterResourceManagerRequest())
    except RequestRefused as as_itself:
        if as_itself.code not in ("NOT_PERMITTED", "STALE_EPOCH"):
            raise
        try:
            await _release_as_operator(rm_id, daemon)
        except RequestRefused as as_operator:
            raise (as_itself if as_operator.code == as_itself.code else as_operator) from None


async def _release_as_operator(rm_id: str, daemon: Destination, *, forget_epoch: bool = False) -> None:
    """End the registration as an operator."""
    async with operate(daemon.url, **daemon.login()) as operator:
        await operator.request(si.ReleaseResourceManager(rm_id=rm_id, forget_epoch=forget_epoch))
