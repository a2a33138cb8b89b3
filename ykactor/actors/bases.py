"""Bases of running partitions: the state of one between two turns, for copies elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from ykactor.actors.commands import read_partition
from ykactor.actors.gateway import ReadGateway
from ykactor.core.records.base import encode_base, write_base
from ykactor.core.values.ids import PartitionName


async def durable_base(gateway: ReadGateway, name: PartitionName) -> bytes:
    """The base of a partition, made in short steps, when all that has led to it is durable.

    Raises:
        trio.ClosedResourceError, trio.BrokenResourceError: there is none that runs.
    """
    base: bytes = await read_partition(gateway.partitions[name], lambda core, state, _: encode_base(core, state))
    await _durable(gateway, name)
    return base


async def write_durable_base(gateway: ReadGateway, name: PartitionName, write: Callable[[bytes], object]) -> None:
    """Write the base of a partition in short parts; returns when all that has led to it is durable. Raises the same."""
    await read_partition(gateway.partitions[name], lambda core, state, _: write_base(core, state, write))
    await _durable(gateway, name)


async def _durable(gateway: ReadGateway, name: PartitionName) -> None:
    await gateway.feed.published(name)
    if gateway.feed.journal is not None:
        await gateway.feed.journal.flushed()
