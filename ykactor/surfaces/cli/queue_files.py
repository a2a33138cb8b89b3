"""Queue files as the command line reads them, whole and as text; ``ykactor check-config``, which prints their mistakes."""

from __future__ import annotations

from pathlib import Path

import click

from ykactor.core.config.model import QueueConfig
from ykactor.core.values.words import plural
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.terminal import indented, say, say_lines
from ykactor.surfaces.files.regular import read_regular, read_stream
from ykactor.wire.queuefile.load import ConfigError, load
from ykactor.wire.queuefile.schema import json_schema

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


_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--schema", is_flag=True, help="Print the JSON schema of queue files, for editors, and check no file.")
def command(files: tuple[str, ...], schema: bool) -> None:
    """Check the queue configuration in each FILE; - is standard input.

    A FILE is a queue file, a manifest with a ConfigMap, or Helm values (see ykactor rule CF-85). If it is valid: prints its
    warnings and a summary. Otherwise: prints its warnings and every mistake, with line, column and the code of the broken rule
    (see ykactor rule). The exit code is that of the worst file: 0 if it is valid, 1 if not, 2 if it cannot be read.
    """
    if schema:
        say_lines(schema_text().removesuffix("\n"))
    elif not files:
        raise click.UsageError("Missing argument 'FILE'.")
    elif code := max(map(_check, files)):
        raise SystemExit(code)


def schema_text() -> str:
    """The JSON schema, as in the file that is shipped with the samples."""
    return indented(json_schema()) + "\n"


def _check(file: str) -> int:
    """Prints what is to be said of one file; returns its exit code."""
    try:
        _FILE.convert(file, None, None)  # only to find what is missing or a directory
        text = read_once(file)
        config = load(text, name_of(file))
    except (click.BadParameter, OSError) as error:
        problem = error if isinstance(error, click.BadParameter) else exit_codes.FileProblem.of(error)
        say_lines(f"Error: {problem.format_message()}", err=True)
        return exit_codes.USAGE
    except NoTextError as error:
        say(str(error), err=True)
        return exit_codes.FAILED
    except ConfigError as error:
        warn(error.warnings)
        say_lines(explained(error), err=True)
        return exit_codes.FAILED
    warn(config.warnings)
    count = sum(queues_count(partition.root) for partition in config.partitions)
    partitions = plural(len(config.partitions), "partition")
    what = "" if text else "empty, so the built-in default is used: "
    say(f"{name_of(file)}: ok, {what}{partitions}, {plural(count, 'queue')}, checksum {config.checksum}")
    return exit_codes.OK


def queues_count(queue: QueueConfig) -> int:
    """The queue and all below it."""
    return 1 + sum(map(queues_count, queue.children))
