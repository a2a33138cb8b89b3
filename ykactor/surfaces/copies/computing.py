"""Starts the process that answers a question from copies of partitions, one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import msgspec
import trio
from msgspec import Struct

from ykactor.actors.bases import write_durable_base
from ykactor.actors.gateway import ReadGateway
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.files.helper_process import HelperProcessError, in_helper_process
from ykactor.wire.si.lengths import shortened

#: The time for one answer; the next question is refused meanwhile.
LIMIT_S = 30.0
#: The bytes that the process may have.
MEMORY_MAX = 2**30
_BUSY = "BUSY: another answer is being computed from a copy of the state: try again"
#: The beginnings of a list of two, a mapping and bytes in msgpack; the last two are followed by a size.
_LIST_OF_TWO, _MAPPING, _BYTES = b"\x92", b"\xdf", b"\xc6"
_SIZE_BYTES = 4
_encode = msgspec.msgpack.Encoder().encode


class NotComputedError(Exception):
    """An answer was not computed, as a sentence; ``is_busy``: it may be soon."""

    def __init__(self, reason: str, *, is_busy: bool = False) -> None:
        super().__init__(reason)
        self.is_busy = is_busy


class Computing:
    """Answers questions, one after the other."""

    def __init__(self) -> None:
        self._is_busy = False

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Claim the only place for a question, within the block.

        Raises:
            NotComputedError: another one is being answered.
        """
        if self._is_busy:
            raise NotComputedError(_BUSY, is_busy=True)
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    async def answer(
        self, gateway: ReadGateway, names: Sequence[PartitionName], work: Callable[[bytes], bytes], question: Struct
    ) -> bytes:
        """The answer of the process.

        Args:
            names: the partitions of which it gets copies.
            work: ``child.work``, which loads the scheduler.
            question: for it.

        Raises:
            NotComputedError: a partition does not run, or the process fails or takes too long.
        """
        try:
            with trio.fail_after(LIMIT_S):  # a partition that waits for the disk makes no copy
                with os.fdopen(os.memfd_create("copies"), "w+b") as file:
                    await _write(file, gateway, names, question)
                    return await in_helper_process(work, file.fileno(), limit_s=LIMIT_S)
        except trio.TooSlowError:
            raise NotComputedError(f"the answer took longer than {LIMIT_S:g} s") from None
        except HelperProcessError as error:
            raise NotComputedError(f"the process that computes the answer failed: {shortened(str(error))}") from error
        except OSError as error:
            raise NotComputedError(f"no copy could be written: {error}") from error


async def _write(file: BinaryIO, gateway: ReadGateway, names: Sequence[PartitionName], question: Struct) -> None:
    """Write a question and the bases of partitions as a list of both, in short steps. No base is in memory twice."""
    file.write(_LIST_OF_TWO + _encode(question) + _MAPPING + _size(len(names)))
    for name in names:
        file.write(_encode(name) + _BYTES)
        place = file.tell()
        file.write(bytes(_SIZE_BYTES))  # it is known afterwards
        try:
            await write_durable_base(gateway, name, file.write)
        except (KeyError, trio.ClosedResourceError, trio.BrokenResourceError):
            raise NotComputedError(f"partition {name} does not run at the moment", is_busy=True) from None
        file.flush()
        size = file.tell() - place - _SIZE_BYTES
        if size > MEMORY_MAX:
            raise NotComputedError(f"partition {name} has {size} bytes, expected at most {MEMORY_MAX} for a copy")
        os.pwrite(file.fileno(), _size(size), place)
    file.seek(0)


def _size(number: int) -> bytes:
    return number.to_bytes(_SIZE_BYTES, "big")
