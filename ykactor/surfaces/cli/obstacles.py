"""Errors that keep a daemon from starting: one line for each, with the exit code that says whether another start may help."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ykactor.journal.errors import JournalError, NotWrittenError, is_no_room, may_pass
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.net.descriptors import TooFewDescriptorsError, raise_limit
from ykactor.surfaces.net.doors import DoorError, RefusedDoorError


def prepare_descriptors() -> None:
    """Let the process have enough file descriptors, or end the command."""
    try:
        raise_limit()
    except TooFewDescriptorsError as error:
        raise exit_codes.Refused(str(error)) from None


def state_problem(error: JournalError) -> click.ClickException:
    """The state directory cannot be used."""
    kind = exit_codes.Unavailable if isinstance(error, NotWrittenError) else exit_codes.FileProblem
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


def door_problem(error: DoorError) -> click.ClickException:
    """The daemon cannot listen."""
    kind = exit_codes.Refused if isinstance(error, RefusedDoorError) else exit_codes.Unavailable
    return kind(str(error))


def prepare_state_dir(path: Path) -> None:
    """Make the directory, and find out at the start whether it can be written."""
    with lacking():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
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
