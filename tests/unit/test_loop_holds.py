"""The lateness of timers."""

import trio

from ykactor.surfaces.metrics.instruments import PERIOD_S, WINDOW_S, LoopHolds


async def test_a_loop_that_serves_everybody_is_not_late(nursery, autojump_clock):
    """The lateness is measured every 50 ms; nothing is late in simulated time."""
    holds = LoopHolds()
    nursery.start_soon(holds.run)
    await trio.sleep(10 * PERIOD_S + 0.001)
    assert sum(holds.holds.counts) == 10
    assert holds.longest_s() == 0


async def test_the_longest_hold_is_forgotten_after_a_minute_or_two(mock_clock):
    """The longest hold of the minute before still counts, so that no scrape misses it."""
    holds = LoopHolds()
    mock_clock.jump(WINDOW_S)
    holds.note(0.2)
    holds.note(0.1)
    assert holds.longest_s() == 0.2
    mock_clock.jump(WINDOW_S)
    holds.note(0.15)
    assert holds.longest_s() == 0.2
    mock_clock.jump(WINDOW_S)
    assert holds.longest_s() == 0.15
    mock_clock.jump(3 * WINDOW_S)
    assert holds.longest_s() == 0
