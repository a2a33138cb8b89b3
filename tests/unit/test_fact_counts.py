"""The counters of single facts; ``test_metrics_histories`` counts whole histories."""

import pytest
from samplefacts import ASK, ONLY_EVENTS, S, released

from ykactor.core.messages import facts as fact
from ykactor.core.messages.acts import Act
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import Consequence, PendingCode, TerminationType
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import finished
from ykactor.surfaces.metrics import fact_counts, own
from ykactor.surfaces.metrics.exposition import Exposition
from ykactor.surfaces.metrics.fact_counts import FactCounts
from ykactor.surfaces.metrics.reading import PartitionFigures, QueueFigures

HERE = PartitionName("default")
PINNED = Ask("t2", "app-2", {"vcore": 1}, tags={"yunikorn.apache.org/requiredNode": "n1"}, created_ns=0, arrival=2)


def counted(*facts: fact.Fact, partition: str = HERE) -> FactCounts:
    counts = FactCounts({HERE})
    counts.count(PartitionName(partition), facts)
    return counts


def changed(state: ApplicationState, event: ApplicationEvent = ApplicationEvent.RUN) -> fact.ApplicationChanged:
    return fact.ApplicationChanged(S, "app-1", "root.a", state, event)


def preempted(ask: Ask, *victims: str) -> fact.Preempted:
    entries = tuple(("root.b", "app-3", victim) for victim in victims)
    return fact.Preempted(S, ask, "root.a", "n1", "", entries, {}, {}, (), {})


def test_preemptions_by_kind() -> None:
    """Preemptions are counted by the kind of the ask, not by the sentence; an attempt without victims is not counted."""
    quota = [fact.QuotaPreempted(S, "root.a", {}, {}, 5, victims, {}) for victims in (0, 3)]
    counts = counted(preempted(ASK, "v1", "v2"), preempted(PINNED, "v3"), *quota, fact.PreemptionRefused(S, ASK, "root.a", ""))
    assert counts.counters["preemptions"] == {"generic": 1, "required_node": 1, "quota": 1}
    assert counts.counters["preempted_tasks"] == {"generic": 2, "required_node": 1, "quota": 3}
    assert counts.refused_preemptions == 1


def test_what_the_resource_manager_confirms_itself_is_not_told() -> None:
    """The queue counts each container that has ended, the scheduler those that it has told."""
    started = fact.ReleaseStarted(S, ASK, "root.a", "n1", TerminationType.TIMEOUT, "too long")
    counts = counted(started, released(message=""), released(message="gone"))
    assert counts.containers["released"] == 2
    assert counts.queues.of("root.a").counts["released"] == 2


def test_only_registrations_for_partitions_that_do_not_exist_have_failed() -> None:
    rejected = fact.NodeRejected(S, "n1", "why")
    assert counted(rejected).nodes["failed"] == 0
    assert counted(rejected, partition="none").nodes["failed"] == 1


def test_an_application_that_goes_on_was_accepted_before() -> None:
    states = ApplicationState
    resumed = [changed(states.ACCEPTED), changed(states.RESUMING), changed(states.ACCEPTED), changed(states.FAILED)]
    counts = counted(*resumed, *resumed)
    assert counts.submissions["accepted"] == 2
    assert counts.applications == {"completed": 0, "failed": 2}


def test_what_has_ended_survives_its_queue() -> None:
    """The rest goes with it."""
    counts = counted(changed(ApplicationState.COMPLETED), fact.QueueRemoved(2 * S, "root.a"))
    assert counts.ended == {"": {"rejected": 0}, "root.a": {"completed": 1}}
    assert counts.queues.of("root.a").counts["completed"] == 0


def test_a_queue_that_comes_again_in_the_same_facts_begins_at_zero() -> None:
    placed = fact.Allocated(S, ASK, "root.a", "n1")
    counts = counted(placed, placed, fact.QueueRemoved(S, "root.a"), placed)
    assert counts.queues.of("root.a").counts["allocated"] == 1
    assert counts.containers["allocated"] == 3


def test_waits_are_of_placements() -> None:
    """An allocation that came with its node has not waited, and a clock that was set back makes no negative wait."""
    placements = [fact.Allocated(at_ns, ASK, "root.a", "n1") for at_ns in (5 * S, -S)]
    counts = counted(*placements, fact.Allocated(9 * S, ASK, "root.a", "n1", recovered=True))
    assert (sum(counts.waits.counts), counts.waits.sum) == (2, 5.0)
    assert {name: (each.count, each.seconds) for name, each in counts.placed.items()} == {"default": (2, 5.0)}


def test_the_daemon() -> None:
    """Refusals with how many one stands for; configurations; failures of partitions. Acts that were allowed are not refusals."""
    refused = fact.Audited(S, "", "127.0.0.1:1", "rm", Act.CONNECT, "x", refusal="why", times=7)
    settings = [fact.ConfigurationChanged(S, accepted, "") for accepted in (True, False, True)]
    counts = counted(refused, *settings, fact.PartitionFailed(S, Consequence.QUARANTINED, "why"), *ONLY_EVENTS)
    assert (counts.counters["refusals"]["connect"], counts.counters["refusals"]["drain"]) == (7, 0)
    assert counts.counters["configurations"] == {"accepted": 2, "rejected": 1}
    assert counts.counters["partition_failures"] == {"restarted": 0, "quarantined": 1, "stopped": 0}


def test_waits_by_code() -> None:
    """AP-154: of asks that were placed or cancelled; one that has only waited for its turn says nothing. Queues may be gone."""
    quota, nodes = {PendingCode.QUOTA: 3 * S, PendingCode.NODES: S}, {PendingCode.NODES: 5 * S}
    counts = counted(
        fact.Allocated(6 * S, ASK, "root.a", "n1", waited=quota),
        fact.Allocated(7 * S, ASK, "root.a", "n1"),
        fact.Allocated(8 * S, ASK, "root.a", "n1", recovered=True),
        fact.AskRemoved(9 * S, ASK, "root.b", pending=True, waited=nodes),
        fact.AskRemoved(9 * S, ASK, "root.b", pending=True),
        fact.AskRemoved(9 * S, ASK, "root.b", pending=False),
        fact.QueueRemoved(9 * S, "root.a"),
    )
    waited = {path: dict(found) for path, found in counts.waited.items()}
    turn_ns = 7 * S - ASK.since_ns
    assert waited == {
        "root.a": {**quota, PendingCode.NEXT: turn_ns},
        "root.b": {**nodes, PendingCode.NEXT: 9 * S - ASK.since_ns},
    }


def test_waits_of_very_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound they share the queue ``other``; many zeros are not shown."""
    monkeypatch.setattr(fact_counts, "QUEUES_MAX", 2)
    waited = {PendingCode.QUOTA: S}
    counts = counted(*(fact.Allocated(S, ASK, f"root.{name}", "n1", waited=waited) for name in "abcd"))
    assert {path: found[PendingCode.QUOTA] for path, found in counts.waited.items()} == {"root.a": S, "root.b": S, "other": 2 * S}
    monkeypatch.setattr(own, "ZEROS_MAX", 5)
    leaf = QueueFigures(True, {})
    to = Exposition()
    finished(own.add_waited(to, [PartitionFigures(HERE, {QueuePath("root.a"): leaf, QueuePath("root.z"): leaf})], counts))
    lines = b"".join(finished(to.encoded())).decode().splitlines()[2:]
    shown = [("root.a", 1.0), ("root.b", 1.0), ("other", 2.0)]
    assert lines == [f'ykactor_wait_seconds_total{{queue="{path}",code="QUOTA"}} {count}' for path, count in shown]
