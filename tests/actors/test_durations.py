"""The durations of turns, by phase."""

from samplefacts import ALLOCATED, ASK, S

from ykactor.actors import durations
from ykactor.actors.durations import TurnTimes
from ykactor.core.messages import facts

PREEMPTED = facts.Preempted(S, ASK, "root.a", "n1", "", (), {}, {}, (), {})


class Watch:
    """A clock that is set."""

    def __init__(self, monkeypatch):
        self.now_s = 0.0
        monkeypatch.setattr(durations, "elapsed_s", lambda: self.now_s)
        self.times = TurnTimes()

    def take(self, phase, seconds):
        self.times.begin(phase)
        self.now_s += seconds


def test_a_cycle_is_what_its_phases_take(monkeypatch):
    """Neither what was before it counts, nor a phase of the cycle before that it does without; each decision has the mean."""
    watch = Watch(monkeypatch)
    times = watch.times
    watch.take("observe", 100)
    watch.take("plan", 6)
    watch.take("settle", 1)
    times.end()
    times.note_cycle([ALLOCATED, ALLOCATED, PREEMPTED])
    assert times.cycles.sum == 7
    assert (times.placements.sum, sum(times.placements.counts)) == (4, 2)
    assert (times.preemptions.sum, sum(times.preemptions.counts)) == (2, 1)
    watch.take("plan", 2)
    times.end()
    times.note_cycle([])
    assert times.cycles.sum == 9
    assert sum(times.placements.counts) == 2
    assert times.phases["plan"].histogram.sum == 8
    assert times.phases["observe"].histogram.sum == 100
    assert times.of_cycles() == {"count": 2, "lastSeconds": 2, "meanSeconds": 4.5, "maxSeconds": 7}


def test_a_phase_that_failed_does_not_count(monkeypatch):
    """Nor what comes after it, until the next one begins."""
    watch = Watch(monkeypatch)
    watch.take("plan", 6)
    watch.times.drop()
    watch.now_s += 100
    watch.take("ingest", 1)
    watch.times.end()
    sums = {name: phase.histogram.sum for name, phase in watch.times.phases.items()}
    assert sums == {"ingest": 1, "observe": 0, "plan": 0, "commit": 0, "settle": 0, "publish": 0}


def test_no_cycle_yet() -> None:
    """All durations are 0."""
    assert set(TurnTimes().of_cycles().values()) == {0}
