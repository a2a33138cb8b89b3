"""How long turns take, by phase."""

from samplefacts import ALLOCATED, ASK, S

from ykactor.actors import turn_times
from ykactor.actors.turn_times import TurnTimes
from ykactor.core.messages import facts
from ykactor.core.messages.planned import Budget
from ykactor.core.turn.phases import MakePlan, Observe, Settle

PREEMPTED = facts.Preempted(S, ASK, "root.a", "n1", "", (), {}, {}, (), {})


class Watch:
    """A clock that is set."""

    def __init__(self, monkeypatch):
        self.now_s = 0.0
        monkeypatch.setattr(turn_times, "elapsed_s", lambda: self.now_s)
        self.times = TurnTimes()

    def take(self, phase, seconds):
        with self.times.of(phase):
            self.now_s += seconds


def test_a_cycle_is_what_its_phases_take(monkeypatch):
    """Neither what was before it counts, nor a phase of the cycle before that it does without; each decision has the mean."""
    watch = Watch(monkeypatch)
    times = watch.times
    watch.take(Observe([]), 100)
    watch.take(MakePlan(0, Budget(1, 1)), 6)
    watch.take(Settle(None), 1)
    times.note_cycle([ALLOCATED, ALLOCATED, PREEMPTED])
    assert times.cycles.sum == 7
    assert (times.placements.sum, sum(times.placements.counts)) == (4, 2)
    assert (times.preemptions.sum, sum(times.preemptions.counts)) == (2, 1)
    watch.take(MakePlan(0, Budget(1, 1)), 2)
    times.note_cycle([])
    assert times.cycles.sum == 9
    assert sum(times.placements.counts) == 2
    assert times.phases["plan"].histogram.sum == 8
    assert times.phases["observe"].histogram.sum == 100
    assert times.of_cycles() == {"count": 2, "lastSeconds": 2, "meanSeconds": 4.5, "maxSeconds": 7}


def test_no_cycle_yet() -> None:
    """Everything is 0."""
    assert set(TurnTimes().of_cycles().values()) == {0}
