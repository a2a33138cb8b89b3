"""The garbage collector as it is set for a process that schedules."""

import gc
import weakref

import pytest

from ykactor.actors.memory import settle_memory


class Knot:
    """Refers to itself: only the collector can free it."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def collector():
    """Puts the collector back as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
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
