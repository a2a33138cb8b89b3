"""How the garbage collector is set in a process that schedules."""

import gc

#: Containers made before the young are looked at. Facts and events hold no cycles (most structs are not even tracked), so
#: that looking often finds nothing. One look takes as long as there are live ones among them: 4 to 25 ms for 100,000.
_YOUNG_MAX = 100_000
#: Looks at the young before one at the middle-aged, and at those before one at everything.
_MIDDLE_AFTER = 50
_ALL_AFTER = 1000


def settle_memory() -> None:
    """Collect once, leave what is there now out of later collections, and make those rare.

    Called once when a process has set up what it keeps for good (modules, configuration, first nodes).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, _MIDDLE_AFTER, _ALL_AFTER)
