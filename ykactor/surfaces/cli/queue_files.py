"""Queue files as the command line reads them: files, pipes and standard input, whole and as text."""

from pathlib import Path

import click

from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.files.regular import read_regular, read_stream
from ykactor.wire.queuefile.load import ConfigError

#: Standard input as an argument, and its name in messages.
DASH, STANDARD_INPUT = "-", "standard input"


class NoTextError(Exception):
    """The content is not UTF-8 text."""


def name_of(file: str) -> str:
    """The name of a file for messages."""
    return STANDARD_INPUT if file == DASH else file


def read_once(file: str) -> str:
    """The text of a file, a pipe or standard input.

    Raises:
        NoTextError: it is no text; OSError: it cannot be read, or is too large.
    """
    with click.open_file(file, "rb") as stream:
        return _decoded(read_stream(stream, name_of(file)), file)


def read_watched(file: str) -> str:
    """Read a file like ``read_once``, but only a regular file or standard input: others cannot be read again when they change."""
    return read_once(file) if file == DASH else _decoded(read_regular(Path(file)), file)


def _decoded(content: bytes, file: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise NoTextError(f"{name_of(file)}: not UTF-8 text: {error.reason} at byte {error.start}") from None


def explained(error: ConfigError) -> str:
    """The mistakes, and how to look up the code of the first."""
    return f"{error}\nykactor rule {error.mistakes[0].code} explains a code"


def warn(warnings: tuple[str, ...]) -> None:
    """Print one line each on standard error."""
    for warning in warnings:
        say(f"warning: {warning}", err=True)
