"""A base: all rows of a partition between two turns, from which the turns that follow can be run again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from ykactor.core.config.model import PartitionConfig
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.records.encoding import UnreadableRowError, decode, encode, pairs
from ykactor.core.records.export import everything
from ykactor.core.records.restore import Rows, restore
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn.scheduler import SchedulerCore, without_anything
from ykactor.core.values.parts import PART_MAX, Steps, emptied, finished, in_parts


class Base(Struct, frozen=True, forbid_unknown_fields=True):
    """The state that a partition was made from.

    Attributes:
        reserves: True if asks reserve nodes (SC-50).
        rows: key and row of each object, as JSON.
    """

    reserves: bool
    rows: list[tuple[Raw, Raw]]


class Restored(NamedTuple):
    """A partition with its scheduler, and the text of the base from which they were made; empty if that is in the history."""

    core: PartitionCore
    scheduler: SchedulerCore
    base: bytes


_DECODER = msgspec.json.Decoder(Base)


def new(config: PartitionConfig, *, reserves: bool) -> Restored:
    """A partition without an applied configuration; ``reserves``: asks reserve nodes (SC-50)."""
    core, scheduler = without_anything(config, reserves=reserves)
    return Restored(core, scheduler, finished(encode_base(core, scheduler.state)))


def renewed(partition: PartitionCore, scheduler: SchedulerCore) -> Steps[Restored]:
    """A partition made from the rows of another one between two turns, which is not changed and may take no turn meanwhile.

    Cost: 15 us for each row. No step takes more than 10 ms, but for the last one: 20 ms with 100,000 rows, to join the base.

    Raises:
        UnreadableRowError, DamagedStateError: the state of the partition is inconsistent.
    """
    rows = yield from _rows(partition, scheduler.state)
    return (yield from made_from(chain.from_iterable(emptied(rows)), reserves=scheduler.state.reserves))


def made_from(rows: Iterable[tuple[bytes, bytes]], *, reserves: bool) -> Steps[Restored]:
    """Make a partition from rows, each with its key, as text.

    Raises:
        UnreadableRowError, DamagedStateError: rows are damaged or of a later version, or do not belong together.
    """
    texts: list[bytes] = []
    found: Rows = defaultdict(dict)
    for part in in_parts(rows):
        texts.append(b",".join([b"[%b,%b]" % row for row in part]))
        for _, (kind, *identity), row in (decode(*row) for row in part):
            found[str(kind)][tuple(identity)] = row
        yield len(part)
    core, scheduler = yield from restore(found, reserves=reserves)
    for rows_of_kind in found.values():
        while rows_of_kind:  # to free many at once takes long
            for key in list(islice(rows_of_kind, PART_MAX)):
                del rows_of_kind[key]
            yield PART_MAX
    return Restored(core, scheduler, base_of(texts, reserves=reserves))


def encode_base(partition: PartitionCore, state: SchedulerState) -> Steps[bytes]:
    """The base of a partition between two turns, as JSON. Cost: 10 us and 300 bytes for each row."""
    parts: list[bytes] = []
    yield from write_base(partition, state, parts.append)
    return b"".join(parts)  # the text may have 40 MB: it is copied once


def write_base(partition: PartitionCore, state: SchedulerState, write: Callable[[bytes], object]) -> Steps[None]:
    """Write the same in parts, which nobody has to join."""
    write(b'{"reserves":%b,"rows":[' % msgspec.json.encode(state.reserves))
    separator = b""
    for rows in in_parts(everything(partition, state)):
        write(separator + b",".join([b"[%b,%b]" % row for row in pairs(encode(partition.name, rows))]))
        separator = b","
        yield len(rows)
    write(b"]}")


def _rows(partition: PartitionCore, state: SchedulerState) -> Steps[list[tuple[bytes, bytes]]]:
    texts: list[tuple[bytes, bytes]] = []
    for rows in in_parts(everything(partition, state)):
        texts += pairs(encode(partition.name, rows))
        yield len(rows)
    return texts


def base_of(texts: Iterable[bytes], *, reserves: bool) -> bytes:
    """The base that consists of these rows, each ``[key, row]`` as JSON; a text may have several, with commas between them."""
    parts = list(texts) or [b""]
    parts[0] = b'{"reserves":%b,"rows":[%b' % (msgspec.json.encode(reserves), parts[0])
    parts[-1] += b"]}"
    return b",".join(parts)  # the text may have 40 MB: it is copied once


def decode_base(data: bytes) -> Base:
    """The base that ``encode_base`` made into ``data``.

    Raises:
        UnreadableRowError: the data is something else.
    """
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise UnreadableRowError(f"base: {error}") from error


def partition_from(base: Base) -> Steps[tuple[PartitionCore, SchedulerCore]]:
    """Make the partition again from the base.

    Raises:
        UnreadableRowError, DamagedStateError: rows are of a later version, or do not belong together.
    """
    core, scheduler, _ = yield from made_from(((bytes(key), bytes(row)) for key, row in base.rows), reserves=base.reserves)
    return core, scheduler


def differing_row(expected: Base, found: Base) -> tuple[bytes, bytes, bytes] | None:
    """The first row that differs: its key, the expected and the found row, as JSON, "null" for no row.

    The order of rows, and of items within sets, does not count.
    """
    wanted, here = _texts(expected), _texts(found)
    for key in sorted(wanted.keys() | here.keys()):
        one, other = wanted.get(key, b"null"), here.get(key, b"null")
        if one != other and (b"null" in (one, other) or decode(key, one) != decode(key, other)):
            return key, one, other
    return None


def _texts(base: Base) -> dict[bytes, bytes]:
    return {bytes(key): bytes(row) for key, row in base.rows}
