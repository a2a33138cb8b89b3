"""The garbage collector as it is set for a process that schedules."""

import gc
import weakref

import pytest
import trio

from ykactor.actors.pauses import OLD_LATEST_S, OLD_S, collect_old, settle_memory


class Knot:
    """Refers to itself: only the collector can free it."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def collector():
    """Puts the collector back as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


def test_knots_are_still_found(collector):
    """Whatever is rare about it: young garbage that refers to itself goes without being asked for."""
    settle_memory()
    knots = weakref.WeakSet()
    for _ in range(2 * gc.get_threshold()[0]):
        knots.add(Knot())
    assert len(knots) <= gc.get_threshold()[0]


def test_what_is_there_is_looked_at_no_more(collector):
    """Modules, configuration and first nodes are left out of later collections."""
    kept = [[] for _ in range(1000)]
    settle_memory()
    assert gc.get_freeze_count() > len(kept)


@pytest.mark.parametrize("is_ever_quiet", [True, False])
@pytest.mark.parametrize("is_permanent", [True, False])
async def test_old_knots_are_freed(collector, autojump_clock, is_ever_quiet, is_permanent):
    """Knots that young collections have passed over, or that were made at the start and seemed permanent: freed in the first
    quiet moment after ten minutes, within the hour at the latest.
    """
    gc.disable()
    try:
        knot = Knot()
        if is_permanent:
            settle_memory()
        freed = trio.Event()
        weakref.finalize(knot, freed.set)
        del knot
        began_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_old, lambda: is_ever_quiet and trio.current_time() - began_at > OLD_S + 100)
            with trio.fail_after(3700):
                await freed.wait()
            nursery.cancel_scope.cancel()
    finally:
        gc.enable()
    at_s = trio.current_time() - began_at
    assert at_s == pytest.approx(OLD_S + (100 if is_ever_quiet else OLD_LATEST_S), abs=2)
