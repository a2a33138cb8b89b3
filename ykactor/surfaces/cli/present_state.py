"""The present state of a daemon, from which copies are made to try changes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click

from ykactor.actors.clock import system_ns
from ykactor.client.connection import MessageStream, open_connection
from ykactor.client.login import Login
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.records.base import decode_base, partition_from
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.core.values.times import US_NS
from ykactor.sim.what_if import Fork
from ykactor.surfaces.admission.slots import BASES_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.history import opened
from ykactor.surfaces.cli.options import reserves_nodes
from ykactor.surfaces.cli.urls import Destination, options_given
from ykactor.surfaces.files.recovery import configuration_of, recover_partitions
from ykactor.wire.si.codec import MSGPACK
from ykactor.wire.turns import Base, Hello, OtherBuildError, Process, UnreadableTurnsError, unpacked

on_option = click.option(
    "--on",
    "journal",
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR|BACKUP",
    help="The state directory of a daemon, which may run meanwhile, or a backup of its journal. Default: the daemon at --url, or "
    "one of its replicas, which has more time for it.",
)


def check_asks_nobody(instead: str) -> None:
    """Refuse options about a daemon beside one that asks none; those of the environment are for all commands.

    Raises:
        UsageError: one is given.
    """
    if given := options_given():
        raise click.UsageError(f"found {given[0]} with {instead}, expected one of them: {instead} asks no daemon")


def present_state(daemon: Destination, journal: Path | None) -> tuple[Fork, int]:
    """Copies of the state of a daemon, or of a journal, and the Unix time at which a run from it begins.

    Raises:
        ClickException: there is none, or it cannot be read.
    """
    return recorded_state(journal) if journal is not None else _state(*daemon.run(_told, daemon))


def recorded_state(journal: Path) -> tuple[Fork, int]:
    """The same of a journal."""
    return _state(*_recorded(journal))


def _state(bases: Mapping[PartitionName, bytes], at_ns: int) -> tuple[Fork, int]:
    return partial(_made, bases), -(-max(system_ns(), at_ns) // US_NS) * US_NS


async def _told(daemon: Destination) -> tuple[dict[PartitionName, bytes], int]:
    """The base of each partition, as a daemon or a replica tells it, and the Unix time there.

    Raises:
        ClickException: it has another build. Disconnected, RequestRefused.
    """
    found, wanted, at_ns = dict[PartitionName, bytes](), 1, 0
    async with open_connection(daemon.url, BASES_PATH, login=Login(**daemon.login()), subprotocols=[MSGPACK.name]) as connection:
        stream = MessageStream(connection, MSGPACK)
        while len(found) < wanted:
            data = await stream.receive()
            assert isinstance(data, bytes), "the subprotocol is msgpack"
            with exit_codes.ending(UnreadableTurnsError):
                messages = unpacked(data)
            for message in messages:
                match message:
                    case Hello(now_ns=now_ns):
                        with exit_codes.ending(OtherBuildError):
                            message.check_build(daemon.url)
                        at_ns = now_ns
                    case Process(partitions=partitions):
                        wanted = len(partitions)
                    case Base(partition=name, state=state):
                        found[name] = state
    return found, at_ns


def _recorded(journal: Path) -> tuple[dict[PartitionName, bytes], int]:
    """The base of each partition after the last transaction, and the Unix time of that."""
    with opened(journal) as reader:
        partitions = recover_partitions(reader, reserves=reserves_nodes(os.environ))
        newest = next(reader.rows_backwards(), None)
    if not partitions or newest is None:
        raise click.ClickException(f"{journal}: found no partition, expected the journal of a daemon that has started")
    return {name: restored.base for name, restored in partitions.items()}, newest.at_ns


def _made(bases: Mapping[PartitionName, bytes]) -> dict[PartitionName, Cores]:
    return {name: finished(partition_from(decode_base(base))) for name, base in bases.items()}


def recorded_configuration(journal: Path) -> SchedulerConfig:
    """The configuration in force that a journal has.

    Raises:
        ClickException: there is none.
    """
    with opened(journal) as reader:
        found = configuration_of(reader)
    if found is None:
        raise click.ClickException(f"{journal}: found no configuration, expected the journal of a daemon that has started")
    return found
