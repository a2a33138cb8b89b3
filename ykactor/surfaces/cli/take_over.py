"""``ykactor take-over``: a standby becomes the state of the next daemon (DU-23)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing, suppress
from pathlib import Path

import click

from ykactor.actors.clock import system_ns
from ykactor.client import Disconnected, RequestRefused
from ykactor.client.connection import SealedStream, is_refused, open_connection
from ykactor.client.login import Login
from ykactor.journal import schema
from ykactor.journal.errors import JournalError, NotWrittenError
from ykactor.journal.files import forget_superseded, is_following, locked, standby_in, write_superseded
from ykactor.journal.store import Store
from ykactor.journal.stream import Join, Refused, encode
from ykactor.surfaces.admission.slots import JOURNAL_PATH
from ykactor.surfaces.cli import exit_codes, loop
from ykactor.surfaces.cli.history import opened
from ykactor.surfaces.cli.options import EXISTING_DIRECTORY
from ykactor.surfaces.cli.standby import FollowingJournal, UnreadableStreamError, read_message
from ykactor.surfaces.cli.state_options import Keeping, obstacle
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.files.state_dir import open_standby_dir
from ykactor.wire.si.codec import MSGPACK

#: The time that the process of the standby has to end, and how often it is looked whether it has.
END_S = 30.0
LOOK_S = 0.02


@click.command()
@daemon_options
@click.option("--state-dir", type=EXISTING_DIRECTORY, required=True, help="The directory of the standby.")
@click.option(
    "--hand-over",
    "hands_over",
    is_flag=True,
    help="Let the daemon finish what it does, and end: nobody is told anything that is not here.",
)
def command(daemon: Destination, state_dir: Path, hands_over: bool) -> None:
    """End the standby in a directory, and begin a new term there: then 'ykactor serve --state-dir DIR' is the daemon.

    What the daemon at --url has told is here if it waited for standbys. If it still answers, it ends with exit code 75, and does
    not begin again in its directory. If it does not, keep it from being started: clients that know both addresses refuse it,
    others do not.
    """
    with opened(state_dir):
        pass  # a directory without a journal stays as it is
    try:
        _end_standby(state_dir)
        if hands_over:
            _hand_over(daemon, state_dir)
        joining = _begin(state_dir)
    except JournalError as error:
        raise obstacle(error) from None
    term, todo = joining.beginnings[-1].term, f"go on with 'ykactor serve --state-dir {state_dir}'"
    say(f"{state_dir}: begins term {term} after transaction {joining.number}; {todo}")
    if not hands_over:
        say(loop.run(_tell, daemon, joining, state_dir), err=True)


def _end_standby(directory: Path) -> None:
    """End the process of the standby, if there is one. Raises:  NotWrittenError if another process holds the directory."""
    until_s, ended = time.monotonic() + END_S, None
    while True:
        try:
            with locked(directory, "standby"):
                return
        except NotWrittenError:
            if time.monotonic() > until_s:
                raise
            with suppress(ProcessLookupError):  # it has ended, or the next one has not said yet who it is
                process = standby_in(directory)
                if process is None:
                    raise
                if process != ended:
                    os.kill(process, signal.SIGTERM)
                    ended = process
            time.sleep(LOOK_S)


def _hand_over(daemon: Destination, directory: Path) -> None:
    """Follow the daemon to its end."""
    with open_standby_dir(Keeping().settings(directory)) as journal:
        following = FollowingJournal(daemon, directory, journal)
        try:
            loop.run(following.take_over)
        except* (Disconnected, RequestRefused, UnreadableStreamError) as errors:
            todo = "nothing was taken over. If the daemon has ended, begin it again, or take over without --hand-over"
            raise click.ClickException(f"{_problem(daemon, exit_codes.first_of(errors))}; {todo}") from None


def _problem(daemon: Destination, error: BaseException) -> str:
    """The reason for which the daemon was not reached, without the advice to start it."""
    if isinstance(error, Disconnected) and is_refused(error):
        return f"{daemon.url}: nothing listens there"
    return daemon.problem(error).message


def _begin(directory: Path) -> Join:
    """Begin the term in which the history goes on here; the journal as it is then. Raises:  JournalError."""
    with closing(Store.open(directory, "full", now_ns=system_ns(), holder="standby")) as store:
        if not is_following(directory):
            found = f"{directory}: found a journal that follows no daemon, or had not got everything from it"
            todo = f"if it has taken over already, 'ykactor serve --state-dir {directory}' goes on"
            raise JournalError(f"{found}, expected one of a standby; {todo}")
        store.begin_term(takes_over=True)
        forget_superseded(directory)
        return Join(schema.VERSION, store.number, store.beginnings)


async def _tell(daemon: Destination, joining: Join, directory: Path) -> str:
    """Tell the older daemon that its history goes on here; a sentence about what has become of it.

    Raises:
        ClickException: that daemon has taken over itself meanwhile; no daemon begins here.
    """
    login = Login(**daemon.login())
    try:
        async with open_connection(daemon.url, JOURNAL_PATH, login=login, subprotocols=[MSGPACK.name]) as connection:
            stream = SealedStream(connection)
            await stream.send(encode(joining))
            answer = read_message(await stream.receive())
    except (Disconnected, RequestRefused, UnreadableStreamError, OSError) as error:
        return f"the daemon before was not told, keep it from being started: {_problem(daemon, error)}"
    if not isinstance(answer, Refused):
        return f"{daemon.url}: is the same daemon"
    if answer.outrun_in:
        write_superseded(directory, f"term {answer.outrun_in}")
        raise click.ClickException(f"{daemon.url}: {answer.reason}. No daemon begins in {directory} any more")
    return f"{daemon.url}: {answer.reason}"
