"""Bases of running partitions: the state of one between two turns, for copies elsewhere."""

from __future__ import annotations

from ykactor.actors.commands import read_partition
from ykactor.actors.gateway import ReadGateway
from ykactor.core.records.base import encode_base
from ykactor.core.values.ids import PartitionName


async def durable_base(gateway: ReadGateway, name: PartitionName) -> bytes:
    """The base of a partition, made in short steps, when all that has led to it is durable.

    Raises:
        trio.ClosedResourceError, trio.BrokenResourceError: there is none that runs.
    """
    base: bytes = await read_partition(gateway.partitions[name], lambda core, state, _: encode_base(core, state))
    await gateway.feed.published(name)
    if gateway.feed.journal is not None:
        await gateway.feed.journal.flushed()
    return base
