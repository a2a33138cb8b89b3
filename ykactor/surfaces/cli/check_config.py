"""``ykactor check-config``: validates queue files and prints their mistakes."""

import click

from ykactor.core.config.model import QueueConfig
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.queue_files import NoTextError, explained, name_of, read_once, warn
from ykactor.surfaces.cli.terminal import indented, say, say_lines
from ykactor.wire.queuefile.load import ConfigError, load
from ykactor.wire.queuefile.schema import json_schema

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


def plural(count: int, noun: str) -> str:
    """``1 queue``, ``2 queues``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
