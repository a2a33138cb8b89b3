"""``ykactor check-config``: validates a queue file and prints its mistakes."""

from pathlib import Path

import click
import msgspec

from ykactor.core.config.model import QueueConfig
from ykactor.surfaces.cli import exit_codes
from ykactor.wire.queuefile.load import ConfigError, load
from ykactor.wire.queuefile.schema import json_schema


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False), required=False)
@click.option("--schema", is_flag=True, help="Print the JSON schema of queue files, for editors, and check no file.")
def command(file: str | None, schema: bool) -> None:
    """Check the queue configuration FILE.

    If the file is valid: prints its warnings and a summary, and exits with code 0. Otherwise: prints its warnings and every
    mistake, with line, column and the code of the broken rule (see ykactor rule), and exits with code 1.
    """
    if schema:
        click.echo(schema_text(), nl=False)
    elif file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    else:
        _check(file)


def schema_text() -> str:
    """The JSON schema, as in the file that is shipped with the samples."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n"


def _check(file: str) -> None:
    try:
        text = Path(file).read_bytes().decode()
    except UnicodeDecodeError as error:
        _fail(f"{file}: not UTF-8 text: {error.reason} at byte {error.start}")
    try:
        config = load(text, file)
    except ConfigError as error:
        _warn(error.warnings)
        _fail(f"{error}\nykactor rule {error.mistakes[0].code} explains a code")
    _warn(config.warnings)
    count = sum(queues_count(partition.root) for partition in config.partitions)
    partitions = plural(len(config.partitions), "partition")
    what = "" if text else "empty, so the built-in default is used: "
    click.echo(f"{file}: ok, {what}{partitions}, {plural(count, 'queue')}, checksum {config.checksum}")


def queues_count(queue: QueueConfig) -> int:
    """The queue and all below it."""
    return 1 + sum(map(queues_count, queue.children))


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def plural(count: int, noun: str) -> str:
    """``1 queue``, ``2 queues``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _fail(message: str) -> None:
    click.echo(message, err=True)
    raise SystemExit(exit_codes.FAILED)
