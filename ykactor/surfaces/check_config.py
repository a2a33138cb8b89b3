"""``ykactor check-config``: is a queue file right, and if not, where is it wrong."""

from pathlib import Path

import click

from ykactor.core.queueconfig import QueueConfig
from ykactor.wire.queuefile import ConfigError, load


@click.command()
@click.argument("file", type=click.Path())
def command(file: str) -> None:
    """Check a queue configuration FILE.

    Prints a summary and any warnings and exits 0, or prints every mistake with line and column and exits 1.
    """
    try:
        text = Path(file).read_bytes().decode()
    except OSError as error:
        _fail(f"{file}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        _fail(f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}")
    try:
        config = load(text, file)
    except ConfigError as error:
        _fail(str(error))
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    queues_count = sum(_count(partition.root) for partition in config.partitions)
    partitions = _plural(len(config.partitions), "partition")
    click.echo(f"{file}: ok, {partitions}, {_plural(queues_count, 'queue')}, checksum {config.checksum}")


def _count(queue: QueueConfig) -> int:
    """The queue and all below it."""
    return 1 + sum(map(_count, queue.children))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _fail(message: str) -> None:
    click.echo(message, err=True)
    raise SystemExit(1)
