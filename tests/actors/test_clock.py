"""Unix time on trio's clock: whole microseconds, exact both ways, virtual where trio's clock is."""

from types import SimpleNamespace

import pytest
import trio

from ykactor.actors import clock as clock_module
from ykactor.actors.clock import Clock
from ykactor.wire.scenario.model import SECONDS_MAX

S_NS = 10**9
NOW_NS = 1_790_000_000 * S_NS


async def test_time_goes_as_trio_does(autojump_clock):
    """A virtual second is a second."""
    clock = Clock(NOW_NS)
    assert clock.now_ns() == NOW_NS
    await trio.sleep(1.5)
    assert clock.now_ns() == NOW_NS + 1_500_000_000


async def test_start_does_not_depend_on_trio(autojump_clock):
    """A clock that is made later begins at its own start."""
    await trio.sleep(100)
    assert Clock(7_000).now_ns() == 7_000


@pytest.mark.parametrize("start_ns", [0, NOW_NS])
@pytest.mark.parametrize("delay_ns", [1_000, 30 * S_NS, 300 * S_NS + 1_000, 72 * 3600 * S_NS, 20 * 365 * 86400 * S_NS])
async def test_who_sleeps_until_a_deadline_wakes_exactly_then(autojump_clock, start_ns, delay_ns):
    """``to_trio`` is the inverse of ``now_ns``, from a microsecond to decades: a timer fires at its time, not a little early."""
    clock = Clock(start_ns)
    await trio.sleep(0.123456)
    due_ns = clock.now_ns() + delay_ns
    await trio.sleep_until(clock.to_trio(due_ns))
    assert clock.now_ns() == due_ns


@pytest.mark.parametrize("before_us", range(1, 40))
async def test_the_clock_is_exact_up_to_the_end_of_the_longest_scenario(autojump_clock, before_us):
    """A clock that rounded microseconds would let a player wait for ever for a time that it never shows."""
    clock = Clock(0)
    due_ns = round(SECONDS_MAX) * S_NS - before_us * 1_000
    await trio.sleep_until(clock.to_trio(due_ns))
    assert clock.now_ns() == due_ns


async def test_nanoseconds_are_cut():
    """Whole microseconds only: more than a float of seconds can tell apart would come out differently each time."""
    assert Clock(NOW_NS + 1_999).now_ns() % 1_000 == 0


async def test_corrections_of_the_system_do_not_move_it(autojump_clock, monkeypatch):
    """The clock begins at the system's time and is steady from then on."""
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(time_ns=lambda: NOW_NS))
    clock = Clock.of_the_system()
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(time_ns=lambda: 0))
    await trio.sleep(1)
    assert clock.now_ns() == NOW_NS + S_NS
