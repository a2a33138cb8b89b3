"""The cost of work: calls, memory, and CPU times to compare with others of the same run, because machines differ and are busy."""

import gc
import sys
import timeit
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from types import FrameType
from typing import Self, TypeVar

from ykactor.core.values.parts import Steps, paced

T = TypeVar("T")


class Calls:
    """Counts calls of functions, those of C too, within a block."""

    def __enter__(self) -> Self:
        self.count = 0
        sys.setprofile(self._note)
        return self

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        self.count += event in ("call", "c_call")

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


class Memory:
    """Traces the memory that is allocated within a block; ``peak`` is the largest number of bytes, when the block has ended."""

    def __enter__(self) -> Self:
        self.peak = 0
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        _, self.peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()  # also after an error: later tests would find what this one has allocated


def loop_s(steps: int) -> float:
    """The CPU time in seconds of a loop of so many steps, at present."""
    began_s = thread_time()
    for _ in range(steps):
        pass
    return thread_time() - began_s


def is_linear(work: Callable[[T], object], make: Callable[[int], T], count: int, repeat: int = 5) -> bool:
    """True if ``work`` takes less than 64 times the CPU time for what is made of ``16 * count`` that it takes for ``count``."""

    def seconds(size: int) -> float:
        made = make(size)
        return min(timeit.repeat(lambda: work(made), timer=thread_time, number=1, repeat=repeat))

    return seconds(16 * count) < 64 * seconds(count)


def longest_part_s(work: Steps[object]) -> float:
    """The CPU time of the longest part, in seconds."""
    with without_collector():
        longest_s, since_s = 0.0, thread_time()
        for _ in paced(work):
            longest_s = max(longest_s, thread_time() - since_s)
            since_s = thread_time()
        return max(longest_s, thread_time() - since_s)


@contextmanager
def without_collector() -> Iterator[None]:
    """Within the block nothing is collected: the garbage collector looks at all that earlier tests have left."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
