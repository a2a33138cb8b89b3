"""``ykactor rm``: what an operator does about the resource manager, beside it."""

import click

from ykactor.client import Disconnected, RequestRefused, connect, operate
from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.terminal import print_journal_status, say
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

    The daemon drops all nodes and applications of RM_ID, and closes its session if it has one, after which ykactor local
    ends; stop its service first, which would start it again. A caller that is no operator does this as RM_ID itself, if it may
    register as RM_ID and no higher epoch has.
    """
    try:
        loop.run(_release, rm_id, daemon, forget_epoch)
    except* RequestRefused as refusals:
        (refusal,) = refusals.exceptions
        assert isinstance(refusal, RequestRefused)
        raise _not_released(rm_id, refusal, daemon) from None
    except* Disconnected as errors:
        raise daemon.problem(errors.exceptions[0]) from None
    except* KeyboardInterrupt:
        say(f"interrupted: the daemon has not confirmed that {rm_id} is deregistered", err=True)
        raise
    forgotten = " and its epoch is forgotten" if forget_epoch else ""
    say(f"{rm_id} is deregistered{forgotten}; another resource manager may register")


def _not_released(rm_id: str, refusal: RequestRefused, daemon: Destination) -> click.ClickException:
    """The error that the registration of ``rm_id`` is not ended: none exists, another one does, or the caller may not end it."""
    match refusal.code:
        case "REFUSED":
            return click.ClickException(refusal.message)
        case "RESYNC_REQUIRED":
            return click.ClickException(f"{rm_id} is not registered, found no resource manager")
        case "ALREADY_REGISTERED":
            return click.ClickException(f"{rm_id} is not registered: {refusal.message.removeprefix(f'found {rm_id}: ')}")
        case _:
            return daemon.problem(refusal)


async def _release(rm_id: str, daemon: Destination, forget_epoch: bool) -> None:
    """Release as an operator, so that the session of the resource manager is told who has ended it; else as itself."""
    try:
        async with operate(daemon.url, on_journal=print_journal_status, **daemon.login()) as operator:
            await operator.request(si.ReleaseResourceManager(rm_id=rm_id, forget_epoch=forget_epoch))
    except RequestRefused as as_operator:
        if as_operator.code != "NOT_PERMITTED" or forget_epoch:
            raise
        try:
            await _deregister(rm_id, daemon)
        except RequestRefused as as_itself:
            raise (as_operator if as_itself.code == "STALE_EPOCH" else as_itself) from None


async def _deregister(rm_id: str, daemon: Destination) -> None:
    """Resume the session of the resource manager, and end its registration."""
    async with connect(daemon.url, rm_id=rm_id, resume_from="now", on_journal=print_journal_status, **daemon.login()) as rm:
        await rm.request(si.DeregisterResourceManagerRequest())
