"""Encodes a loaded configuration for another process of the daemon, in frames that each take little time to decode.

Queues are sent in post-order, each without its children but with their number. So the receiver can rebuild a tree of thousands
of queues one frame at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, structs

from ykactor.core.config.model import PartitionConfig, QueueConfig, SchedulerConfig
from ykactor.core.values.parts import PART_MAX, Steps
from ykactor.wire.queuefile.text import ConfigError, Mistake

#: Queues in a frame: about 1 ms of work.
FRAME_QUEUES = 200


class _Head(Struct, tag=True):
    """The first frame of a configuration: all but its queues; each partition has an empty root."""

    partitions: list[PartitionConfig]
    checksum: str
    warnings: tuple[str, ...]


class _Refusal(Struct, tag=True):
    """The only frame of a text that has mistakes."""

    mistakes: list[Mistake]
    warnings: tuple[str, ...]


_encode = msgspec.msgpack.Encoder().encode
_frames = msgspec.msgpack.Decoder(Annotated[list[bytes], Meta(min_length=1)])
_first = msgspec.msgpack.Decoder(_Head | _Refusal)
#: The further frames: queues of all partitions, each without its children but with their number.
_queues = msgspec.msgpack.Decoder(list[tuple[int, QueueConfig]])


def encode(loaded: SchedulerConfig | ConfigError) -> bytes:
    """All frames. The text of the configuration is not included."""
    if isinstance(loaded, ConfigError):
        return _encode([_encode(_Refusal(loaded.mistakes, loaded.warnings))])
    bare = [structs.replace(whole, root=structs.replace(whole.root, children=())) for whole in loaded.partitions]
    flat = [entry for partition in loaded.partitions for entry in _flatten(partition.root)]
    parts = [flat[start : start + FRAME_QUEUES] for start in range(0, len(flat), FRAME_QUEUES)]
    return _encode([_encode(_Head(bare, loaded.checksum, loaded.warnings)), *map(_encode, parts)])


def _flatten(queue: QueueConfig) -> Iterator[tuple[int, QueueConfig]]:
    for child in queue.children:
        yield from _flatten(child)
    yield len(queue.children), structs.replace(queue, children=())


def decoding(data: bytes, text: str) -> Steps[SchedulerConfig]:
    """Decode a configuration, whose text is ``text``, one frame at a time.

    Raises:  ConfigError if the text has mistakes; ValueError if the data are not the frames of a configuration, for example
    because another version of this program sent them.
    """
    try:
        return (yield from _decoding(data, text))
    except msgspec.DecodeError as error:
        raise ValueError(f"found data that are not frames: {error}") from None


def _decoding(data: bytes, text: str) -> Steps[SchedulerConfig]:
    first, *further = _frames.decode(data)
    head = _first.decode(first)
    if isinstance(head, _Refusal):
        raise ConfigError(head.mistakes, head.warnings)
    found: list[QueueConfig] = []
    for frame in further:
        yield PART_MAX
        for children_count, queue in _queues.decode(frame):
            begin = len(found) - children_count
            children = tuple(found[begin:])
            del found[begin:]
            found.append(structs.replace(queue, children=children) if children else queue)
    roots = zip(head.partitions, found, strict=True)
    partitions = tuple(structs.replace(partition, root=root) for partition, root in roots)
    return SchedulerConfig(partitions, head.checksum, text, head.warnings)
