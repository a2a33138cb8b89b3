"""Tries of changes in forked processes: they change nothing here, and all of them end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from generate import generate

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.values.ids import AllocationKey, ApplicationID
from ykactor.sim.direct import DirectPartition
from ykactor.sim.smallest import EndedError, Outcome
from ykactor.sim.twin import Forks, Twin
from ykactor.wire import queuefile

#: Tests run in processes with threads; the command does not.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def twin() -> Twin:
    """A twin without anything."""
    config = queuefile.load(generate(1).config).partitions[0]
    partition = DirectPartition(config, CYCLE_BUDGET, lambda _: None)
    return Twin((partition.core, partition.scheduler), 0, (ApplicationID("app"), AllocationKey("t1")))


def ticking(seconds: list[float]) -> Iterator[float]:
    yield from seconds
    while True:
        yield seconds[-1]


def test_the_outcome_of_a_fork() -> None:
    """The outcome is that of the process; it has changed its own copy."""
    forks, seen = Forks(twin(), time.monotonic, 60), list[int]()
    assert forks._in_fork(lambda: seen.append(1) or Outcome("n1")) == Outcome("n1")
    assert seen == []


def test_a_fork_that_fails_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    """The error of the fork is printed on standard error."""
    with pytest.raises(RuntimeError, match="a try has failed"):
        Forks(twin(), time.monotonic, 60)._in_fork(lambda: Outcome(str(1 // 0)))
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_fork_ends_when_the_time_is_over() -> None:
    """A try that does not end is ended, and none begins any more."""
    clock = ticking([0, 0, 0, 0.01, 2])
    forks = Forks(twin(), lambda: next(clock), 1)
    with pytest.raises(EndedError):
        forks._in_fork(lambda: time.sleep(3600) or Outcome())
    with pytest.raises(EndedError):
        forks.attempt([], False)
