"""Starts the process that answers a question from copies of partitions, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Literal

import msgspec
import trio

from ykactor.actors.bases import write_durable_base
from ykactor.actors.gateway import ReadGateway
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.copies.questions import MEMORY_MAX, Question
from ykactor.surfaces.files.helper_process import HelperProcessError, in_helper_process
from ykactor.wire.si.lengths import shortened

#: The time for one answer; the next question is refused meanwhile.
LIMIT_S = 30.0
_BUSY = "another answer is being computed from a copy of the state: try again"
#: The beginnings of a list of two, a mapping and bytes in msgpack; the last two are followed by a size.
_LIST_OF_TWO, _MAPPING, _BYTES = b"\x92", b"\xdf", b"\xc6"
_SIZE_BYTES = 4
_encode = msgspec.msgpack.Encoder().encode


class NotComputedError(Exception):
    """An answer was not computed, as a sentence; of the code ``BUSY`` if another one is being computed."""

    def __init__(self, reason: str, code: Literal["BUSY", "UNAVAILABLE"] = "UNAVAILABLE") -> None:
        super().__init__(reason)
        self.code = code


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
            raise NotComputedError(_BUSY, "BUSY")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    async def answer(self, gateway: ReadGateway, names: Sequence[PartitionName], question: Question) -> bytes:
        """The answer of the process.

        Args:
            names: the partitions of which it gets copies.

        Raises:
            NotComputedError: a partition does not run, or the process fails or takes too long.
        """
        try:
            with trio.fail_after(LIMIT_S):  # a partition that waits for the disk makes no copy
                with os.fdopen(os.memfd_create("copies"), "w+b") as file:
                    await _write(file, gateway, names, question)
                    return await in_helper_process(_answer, file.fileno(), limit_s=LIMIT_S)
        except trio.TooSlowError:
            raise NotComputedError(f"the answer took longer than {LIMIT_S:g} s") from None
        except HelperProcessError as error:
            raise NotComputedError(f"the process that computes the answer failed: {shortened(str(error))}") from error
        except OSError as error:
            raise NotComputedError(f"no copy could be written: {error}") from error


def _answer(data: bytes) -> bytes:
    from ykactor.surfaces.copies.child import answer  # loads simulations, which the daemon does without

    return answer(data)


async def _write(file: BinaryIO, gateway: ReadGateway, names: Sequence[PartitionName], question: Question) -> None:
    """Write a question and the bases of partitions as a list of both, in short steps. No base is in memory twice."""
    file.write(_LIST_OF_TWO + _encode(question) + _MAPPING + _size(len(names)))
    for name in names:
        file.write(_encode(name) + _BYTES)
        place = file.tell()
        file.write(bytes(_SIZE_BYTES))  # it is known afterwards
        try:
            await write_durable_base(gateway, name, file.write)
        except (KeyError, trio.ClosedResourceError, trio.BrokenResourceError):
            raise NotComputedError(f"partition {name} does not run at the moment") from None
        file.flush()
        size = file.tell() - place - _SIZE_BYTES
        if size > MEMORY_MAX:
            raise NotComputedError(f"partition {name} has {size} bytes, expected at most {MEMORY_MAX} for a copy")
        os.pwrite(file.fileno(), _size(size), place)
    file.seek(0)


def _size(number: int) -> bytes:
    return number.to_bytes(_SIZE_BYTES, "big")
