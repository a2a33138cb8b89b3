"""The options of commands that keep a journal: its directory, and how much of it is kept."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from ykactor.actors.standbys import Settings as Standbys
from ykactor.core.values.times import DAY_NS
from ykactor.journal.errors import JournalError, NotWrittenError, is_no_room, may_pass
from ykactor.journal.files import Durability
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.options import Parsed, WholeNumber, grouped
from ykactor.surfaces.files.state_dir import StateSettings
from ykactor.surfaces.net.doors import DoorError, RefusedDoorError


def obstacle(error: JournalError | DoorError) -> click.ClickException:
    """The error of a daemon or standby that cannot use its state directory, or cannot listen."""
    if isinstance(error, NotWrittenError):
        return exit_codes.Unavailable(str(error))
    if isinstance(error, JournalError):
        return exit_codes.FileProblem(str(error))
    kind = exit_codes.Refused if isinstance(error, RefusedDoorError) else exit_codes.Unavailable
    return kind(str(error))


@contextmanager
def lacking() -> Iterator[None]:
    """Ends the command with ``TEMPORARY`` if a file cannot be opened for a reason that may pass."""
    try:
        yield
    except OSError as error:
        if may_pass(error):
            raise exit_codes.Unavailable(exit_codes.FileProblem.of(error).message) from None
        raise


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Make a directory with a mode, whatever the umask, unless it is there; without a mode for this user alone.

    Raises:
        ClickException: it cannot be made.
    """
    try:
        is_there = path.exists()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_there:
            path.chmod(mode)
    except OSError as error:
        kind = exit_codes.Unavailable if may_pass(error) else exit_codes.FileProblem
        where = "" if error.filename == str(path) else f": {error.filename}"
        reason = f"cannot be made ({error.strerror}{where}), expected a directory in one that this user may write to"
        raise kind(f"{path}: {reason}") from None


def prepare_state_dir(path: Path) -> None:
    """Make the directory, and find out at the start whether it can be written."""
    make_directory(path)
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")  # also on a disk that is full
            file.flush()
    except OSError as error:
        if is_no_room(error):
            reason = f"found no room on the disk ({error.strerror}); free some, the state is as it was"
        elif may_pass(error):
            reason = f"cannot be written at the moment ({error.strerror})"
        else:
            reason = f"cannot be written ({error.strerror}), expected a directory that this user may write to"
        kind = exit_codes.Unavailable if may_pass(error) else exit_codes.FileProblem
        raise kind(f"{path}: {reason}") from None


class StateDirectory(click.Path):
    """A directory that may be missing. An empty name, as of a variable that is not set, would be the current directory."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("found an empty name, expected a directory", param, ctx)
        return super().convert(value, param, ctx)


#: A daemon waits for no standby unless it is told to.
_NONE_WANTED = Standbys()


class Keeping(Struct, frozen=True):
    """The failures that a state directory survives, and how much of the history it keeps."""

    durability: Durability = "full"
    keep_mib: int = 1024
    keep_days: int = 30

    def settings(self, directory: Path, standbys: Standbys = _NONE_WANTED) -> StateSettings:
        """The settings of a state directory."""
        return StateSettings(directory, self.durability, self.keep_mib * 2**20, self.keep_days * DAY_NS, standbys)


def _seconds(text: str) -> float:
    """Seconds, also with their unit: ``2s``."""
    try:
        found = float(text.removesuffix("s"))
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise ValueError(f"found {text!r}, expected seconds such as 2s")
    return found


class StandbyOptions(Struct, frozen=True):
    """The standbys that a daemon waits for, as they are given on the command line."""

    standbys: int = 0
    standbys_wait: float = 2.0
    without_standby: str = "stop"

    def settings(self) -> Standbys:
        """The settings of the daemon."""
        return Standbys(self.standbys, self.standbys_wait, self.without_standby == "go-on")


NO_STANDBYS = StandbyOptions()

standby_options = grouped(
    "standbys",
    StandbyOptions,
    click.option(
        "--standbys",
        type=WholeNumber(min=0),
        default=0,
        show_default=True,
        help="How many standbys (serve --standby-of) have to have on their disks what anybody is told.",
    ),
    click.option(
        "--standbys-wait",
        type=Parsed("standbys_wait", _seconds),
        metavar="SECONDS",
        default="2s",
        show_default=True,
        help="For how long they are waited for.",
    ),
    click.option(
        "--without-standby",
        type=click.Choice(["stop", "go-on"]),
        default="stop",
        show_default=True,
        help="What is done without them: tell nobody anything before they are there, or go on alone, as the health tells.",
    ),
)

keeping_options = grouped(
    "keeping",
    Keeping,
    click.option(
        "--durability",
        type=click.Choice(["full", "normal", "off"]),
        default="full",
        show_default=True,
        help="What is lost if the machine loses power: nothing, the last moments, anything. If only the process ends: nothing.",
    ),
    click.option(
        "--keep-mib",
        type=WholeNumber(min=1),
        default=1024,
        show_default=True,
        help="How much history to keep, compressed, in MiB; the state itself is always kept.",
    ),
    click.option(
        "--keep-days", type=WholeNumber(min=1), default=30, show_default=True, help="For how many days to keep history."
    ),
)
