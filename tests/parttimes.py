"""Times of the parts of long work."""

import gc
from time import thread_time

from ykactor.core.values.parts import Steps, paced


def longest_part_s(work: Steps[object]) -> float:
    """The CPU time of the longest part, in seconds; without the garbage collector, which looks at all that earlier tests left."""
    gc.disable()
    try:
        longest_s, since_s = 0.0, thread_time()
        for _ in paced(work):
            longest_s = max(longest_s, thread_time() - since_s)
            since_s = thread_time()
        return max(longest_s, thread_time() - since_s)
    finally:
        gc.enable()
