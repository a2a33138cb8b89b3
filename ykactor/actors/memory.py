"""How the garbage collector is set in a process that schedules."""

import gc

#: Net new containers before the young are looked at. Facts, events and asks hold no cycles (most structs are not even tracked),
#: so that looking rarely finds anything, and everything waits for it. One look takes as long as what the living young hold is
#: large: when 50,000 asks of 1,000 applications are placed on 2,000 nodes, 40 ms at worst with 100,000, 25 ms with 10,000,
#: 5 to 15 ms with 2,000 and 2 ms with 1,000. All looks together take about 5 % of the time, whichever it is.
_YOUNG_MAX = 1_000
#: Looks at the young before one at the middle-aged: one for each 5 million net new containers, which is 700,000 allocations more
#: than before. It takes 13 ms with 50,000 allocations, and grows with their number: it is to be rare.
_MIDDLE_AFTER = 5_000
#: Looks at the middle-aged before one at everything: practically never.
_ALL_AFTER = 1_000


def settle_memory() -> None:
    """Collect once, leave what is there now out of later collections, and make those short or rare.

    Called once when a process has set up what it keeps for good (modules, configuration, first nodes).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, _MIDDLE_AFTER, _ALL_AFTER)
