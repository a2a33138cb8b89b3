"""Encodes a loaded configuration for another process of the daemon, in frames that each take little time to decode.

Queues are sent in post-order, each without its children but with their number. So the receiver can rebuild a tree of thousands
of queues one frame at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec
from msgspec import Struct, structs

from ykactor.core.config.model import PartitionConfig, QueueConfig, SchedulerConfig
from ykactor.wire.queuefile.text import ConfigError, Mistake

#: Queues in a frame: about 1 ms of work.
FRAME_QUEUES = 200

_LENGTH = struct.Struct(">I")


class _Head(Struct, tag=True):
    """A configuration without its queues; each partition has an empty root."""

    partitions: list[PartitionConfig]
    checksum: str
    warnings: tuple[str, ...]


class _Queues(Struct, tag=True):
    """A part of the queues of all partitions: for each the number of its children, and the queue without them."""

    queues: list[tuple[int, QueueConfig]]


class _Refusal(Struct, tag=True):
    """The text has mistakes."""

    mistakes: list[Mistake]
    warnings: tuple[str, ...]


_decoder = msgspec.msgpack.Decoder(_Head | _Queues | _Refusal)


def encode(loaded: SchedulerConfig | ConfigError) -> bytes:
    """All frames, each after its length. The text of the configuration is not included."""
    if isinstance(loaded, ConfigError):
        return _frame(_Refusal(loaded.mistakes, loaded.warnings))
    bare = [structs.replace(whole, root=structs.replace(whole.root, children=())) for whole in loaded.partitions]
    frames = [_frame(_Head(bare, loaded.checksum, loaded.warnings))]
    flat = [entry for partition in loaded.partitions for entry in _flatten(partition.root)]
    frames += [_frame(_Queues(flat[start : start + FRAME_QUEUES])) for start in range(0, len(flat), FRAME_QUEUES)]
    return b"".join(frames)


def _frame(content: _Head | _Queues | _Refusal) -> bytes:
    data = msgspec.msgpack.encode(content)
    return _LENGTH.pack(len(data)) + data


def _flatten(queue: QueueConfig) -> Iterator[tuple[int, QueueConfig]]:
    for child in queue.children:
        yield from _flatten(child)
    yield len(queue.children), structs.replace(queue, children=())


class FrameReader:
    """Decodes a configuration. Iterate over the reader: each step decodes one frame, and after the last one ``config`` is set.

    Raises, while iterating:  ConfigError if the text has mistakes; ValueError if the data are not the frames of a configuration,
    for example because another version of this program sent them.
    """

    def __init__(self, data: bytes, text: str) -> None:
        self._data = data
        self._text = text
        self.config: SchedulerConfig

    def __iter__(self) -> Iterator[None]:
        try:
            yield from self._read()
        except (msgspec.DecodeError, struct.error) as error:
            raise ValueError(f"found data that are not frames: {error}") from None

    def _read(self) -> Iterator[None]:
        head: _Head | None = None
        open_queues: list[QueueConfig] = []
        position = 0
        while position < len(self._data):
            (length,) = _LENGTH.unpack_from(self._data, position)
            start = position + _LENGTH.size
            position = start + length
            match _decoder.decode(memoryview(self._data)[start:position]):
                case _Refusal(mistakes, warnings):
                    raise ConfigError(mistakes, warnings)
                case _Queues(queues):
                    for children_count, queue in queues:
                        first = len(open_queues) - children_count
                        children = tuple(open_queues[first:])
                        del open_queues[first:]
                        open_queues.append(structs.replace(queue, children=children) if children else queue)
                case _Head() as head:
                    pass
            yield
        if head is None:
            raise ValueError("found no frames")
        roots = zip(head.partitions, open_queues, strict=True)
        partitions = tuple(structs.replace(partition, root=root) for partition, root in roots)
        self.config = SchedulerConfig(partitions, head.checksum, self._text, head.warnings)
