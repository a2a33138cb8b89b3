"""``ykactor take-over``: a standby becomes the daemon (DU-23)."""

from __future__ import annotations

from pathlib import Path

import click

from ykactor.journal import schema
from ykactor.journal.errors import NotWrittenError
from ykactor.journal.files import locked
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.options import EXISTING_DIRECTORY
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.standby.asking import TakeOver, ask


@click.command()
@click.option("--state-dir", type=EXISTING_DIRECTORY, required=True, help="The directory of the standby.")
@click.option(
    "--hand-over",
    "hands_over",
    is_flag=True,
    help="Let the daemon finish what it does, and end: nobody is told anything that is not here.",
)
def command(state_dir: Path, hands_over: bool) -> None:
    """Let the standby that runs in a directory take over: it begins a new term there, and is the daemon from now on.

    Ends when clients are let in. What the daemon before has told is here if it waited for standbys. If it still answers, it ends
    with exit code 75, and does not begin again in its directory. If it does not, keep it from being started: clients that know
    both addresses refuse it, others do not.
    """
    try:
        answer = ask(state_dir, TakeOver(hands_over))
    except (FileNotFoundError, ConnectionRefusedError):
        raise _no_standby(state_dir) from None
    except ConnectionError as error:
        raise click.ClickException(str(error)) from None
    if answer.failure:
        todo = " If the daemon has ended, begin it again, or take over without --hand-over" if hands_over else ""
        raise click.ClickException(f"{answer.failure}; nothing was taken over.{todo}")
    say(f"{state_dir}: begins term {answer.term} after transaction {answer.transaction}")
    for note in answer.notes:
        say(note, err=True)


def _no_standby(directory: Path) -> click.ClickException:
    if not (directory / schema.NAME).exists():  # it stays as it is
        return click.ClickException(f"{directory}: found no {schema.NAME}, expected the state directory of a daemon")
    try:
        with locked(directory, "standby"):
            pass
    except NotWrittenError as error:
        return exit_codes.Unavailable(str(error))
    return click.ClickException(
        f"{directory}: found no standby that runs, expected 'ykactor serve --state-dir {directory} --standby-of URL'"
    )
