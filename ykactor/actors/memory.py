"""Settings of the garbage collector in a process that schedules."""

import gc

#: Net new containers before a collection of the young generation. Facts, events and asks have no reference cycles (most structs
#: are not even tracked), so a collection rarely frees anything, but the process pauses for it. The pause grows with the size of
#: the young generation. Worst pauses while 50,000 asks of 1,000 applications are placed on 2,000 nodes: 40 ms with a threshold
#: of 100,000, 25 ms with 10,000, 5 to 15 ms with 2,000, 2 ms with 1,000. In each case all pauses together take about 5 % of the
#: time.
_YOUNG_MAX = 1_000
#: Collections of the young generation before one of the middle generation: one for each 5 million net new containers, or 700,000
#: additional allocations. It takes 13 ms with 50,000 allocations and grows with their number, so it must be rare.
_MIDDLE_AFTER = 5_000
#: Collections of the middle generation before a full one: practically never.
_ALL_AFTER = 1_000


def settle_memory() -> None:
    """Collect once, exclude all present objects from later collections, and make those short or rare.

    Called once when a process has made its permanent objects (modules, configuration, first nodes).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, _MIDDLE_AFTER, _ALL_AFTER)
