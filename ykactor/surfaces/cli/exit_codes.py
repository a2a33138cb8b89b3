"""The exit codes of all commands, as in the table of the handbook (``commands.md``)."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import click

from ykactor.core.values.printable import printable_lines

OK = 0
#: The input is invalid, the command was refused, or nobody reads its output any more.
FAILED = 1
#: The command line is wrong or not allowed, or a file that it names cannot be read or written. Click's code for usage errors.
USAGE = 2
#: An error in the daemon itself; systemd then starts the daemon again. ``EX_SOFTWARE`` of sysexits.h.
SOFTWARE = 70
#: The daemon cannot start at the moment: what it lacks may be there later, so systemd starts it again. ``EX_TEMPFAIL``.
TEMPORARY = 75
#: Ctrl-C. What a shell reports for a process that SIGINT ended.
INTERRUPTED = 130


_Error = TypeVar("_Error", bound=BaseException)


class Refused(click.ClickException):
    """The act that the command line asks for is not allowed."""

    exit_code = USAGE


class Unavailable(click.ClickException):
    """Something that the command needs to start or to go on is not there at the moment."""

    exit_code = TEMPORARY


class FileProblem(click.ClickException):
    """A file cannot be read or written."""

    exit_code = USAGE

    @classmethod
    def of(cls, error: OSError) -> "FileProblem":
        expected = ", expected a file that is not there yet" if isinstance(error, FileExistsError) else ""
        return cls(str(error) if error.filename is None else f"{error.filename}: {error.strerror}{expected}")


@contextmanager
def ending(*errors: type[Exception], kind: type[click.ClickException] = click.ClickException) -> Iterator[None]:
    """Ends the command with the message of an error of these types."""
    try:
        yield
    except errors as error:
        raise kind(str(error)) from None


def first_of(errors: BaseExceptionGroup[_Error]) -> _Error:
    """The first error in a group, however deep it is."""
    first = errors.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first


@contextmanager
def unified() -> Iterator[None]:
    """Gives the errors that every command can have their exit code and a text that cannot command the terminal."""
    try:
        with _printable_messages(), _file_problems():
            yield
    except* (KeyboardInterrupt, BrokenPipeError) as ends:
        if ends.subgroup(KeyboardInterrupt) is not None:
            raise SystemExit(INTERRUPTED) from None
        raise BrokenPipeError(errno.EPIPE, "nobody reads the output") from None  # click then ends quietly, with FAILED


@contextmanager
def _printable_messages() -> Iterator[None]:
    """Makes the messages of errors printable: many repeat what a daemon or a file has said."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = printable_lines(error.message)  # click 8.5 has made it final; nobody has seen it yet
        raise


@contextmanager
def _file_problems() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileProblem.of(error) from None
    except ExceptionGroup as errors:  # the nursery in which the file was opened
        problems, others = errors.split(lambda error: isinstance(error, OSError) and error.filename is not None)
        if problems is None or others is not None:
            raise
        raise FileProblem.of(cast("OSError", first_of(problems))) from None
    except click.FileError as error:  # click's code for it is FAILED
        raise FileProblem(error.format_message()) from None
