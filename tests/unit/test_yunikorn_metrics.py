"""Metrics of queues with Apache YuniKorn's names: sums, bounds and zeros."""

from __future__ import annotations

import re
from collections import Counter

from samplefacts import S

from ykactor.core.messages import facts as fact
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.core.values.parts import finished
from ykactor.core.values.resources import Resource
from ykactor.surfaces.metrics import yunikorn
from ykactor.surfaces.metrics.exposition import Exposition
from ykactor.surfaces.metrics.fact_counts import FactCounts
from ykactor.surfaces.metrics.reading import PartitionFigures, QueueFigures
from ykactor.surfaces.metrics.series import SeriesOfQueues

ASK = Ask(AllocationKey("t1"), ApplicationID("app-1"), {"vcore": 1}, created_ns=0, arrival=1)


STATES = ("new", "accepted", "running", "resuming", "failing", "completing", "completed", "failed")


def queue(applications_max: int = 0, running: int = 0, *, is_leaf: bool = True, **amounts: Resource) -> QueueFigures:
    states = ("guaranteed", "max", "allocated", "pending", "preempting")
    applications = Counter({"running": running} if running else {})
    slots = {"apps": applications_max} if applications_max else {}
    of_states = {state: dict(amounts.get(state, {})) for state in states}
    return QueueFigures(is_leaf, of_states | {"maxRunningApps": slots}, applications)


def partition(name: str = "default", /, **queues: QueueFigures) -> PartitionFigures:
    """The names of queues have ``__`` for a dot and ``_`` for a hyphen."""
    paths = {QueuePath(path.replace("__", ".").replace("_", "-")): each for path, each in queues.items()}
    return PartitionFigures(PartitionName(name), paths)


def placed(*paths: str) -> list[fact.Fact]:
    return [fact.Allocated(S, ASK, QueuePath(path), NodeID("n1")) for path in paths]


class Scrapes:
    def __init__(self, *facts: fact.Fact) -> None:
        self.counts = FactCounts(())
        self.counts.count(PartitionName("default"), facts)

    def lines(self, *figures: PartitionFigures, has_old_names: bool = False) -> set[str]:
        """The lines of a scrape about queues."""
        to = Exposition()
        finished(yunikorn.add_queues(to, figures, self.counts, has_old_names=has_old_names))
        return {line for line in b"".join(finished(to.encoded())).decode().splitlines() if line[0] != "#"}


def test_partitions_are_added_up() -> None:
    """Equal paths of two partitions share a series."""
    first = partition(root=queue(3, 1, allocated={"vcore": 5}, max={"vcore": 9}))
    found = Scrapes().lines(first, partition("gpu", root=queue(2, 4, allocated={"vcore": 7}, max={"vcore": 1})))
    assert {line for line in found if 'queue="root"' in line and not line.endswith(" 0")} == {
        'yunikorn_queue_app{queue="root",state="running"} 5',
        'yunikorn_queue_resource{queue="root",resource="vcore",state="max"} 10',
        'yunikorn_queue_resource{queue="root",resource="vcore",state="allocated"} 12',
        'yunikorn_queue_resource{queue="root",resource="apps",state="maxRunningApps"} 5',
    }


def test_what_is_not_limited_has_no_value() -> None:
    """RE-7: 0 would say that nothing is allowed; of several queues the sum is limited only where each of them is."""
    unlimited, forbidden = queue(max={"gpu": 2}), queue(1, max={"vcore": 0, "gpu": 0}, guaranteed={"vcore": 3})
    alone = Scrapes().lines(partition(root__a=unlimited, root__b=forbidden), has_old_names=True)
    assert {line for line in alone if re.search(r'state="(max|guaranteed|maxRunningApps)"', line)} == {
        'yunikorn_queue_resource{queue="root.a",resource="gpu",state="max"} 2',
        'yunikorn_root_a_queue_resource{resource="gpu",state="max"} 2',
        'yunikorn_queue_resource{queue="root.b",resource="vcore",state="guaranteed"} 3',
        'yunikorn_root_b_queue_resource{resource="vcore",state="guaranteed"} 3',
        *(f'yunikorn_queue_resource{{queue="root.b",resource="{name}",state="max"}} 0' for name in ("vcore", "gpu")),
        *(f'yunikorn_root_b_queue_resource{{resource="{name}",state="max"}} 0' for name in ("vcore", "gpu")),
        'yunikorn_queue_resource{queue="root.b",resource="apps",state="maxRunningApps"} 1',
        'yunikorn_root_b_queue_resource{resource="apps",state="maxRunningApps"} 1',
    }
    together = Scrapes().lines(partition(root__a=unlimited), partition("gpu", root__a=forbidden))
    assert {line for line in together if re.search(r'state="(max|guaranteed|maxRunningApps)"', line)} == {
        'yunikorn_queue_resource{queue="root.a",resource="gpu",state="max"} 2',
        'yunikorn_queue_resource{queue="root.a",resource="vcore",state="guaranteed"} 3',
    }


def test_counters_of_a_queue_are_there_before_it_has_anything() -> None:
    """RE-8: an increase from nothing to 1 is none to Prometheus. Parents have no applications of their own."""
    assert Scrapes().lines(partition(root=queue(is_leaf=False), root__a=queue())) == {
        *(f'yunikorn_queue_app{{queue="root.a",state="{state}"}} 0' for state in STATES),
        *(f'yunikorn_queue_app_total{{queue="root.a",state="{state}"}} 0' for state in ("completed", "failed")),
        *(f'yunikorn_root_a_queue_container{{state="{state}"}} 0' for state in ("allocated", "released")),
        'yunikorn_queue_app{queue="",state="rejected"} 0',
        'yunikorn_queue_app_total{queue="",state="rejected"} 0',
    }


def test_queues_beyond_the_bound_are_added_up() -> None:
    """Their series is that of a queue with the name other."""
    scrapes = Scrapes()
    scrapes.counts.queues = SeriesOfQueues(2)
    queues = {path: queue(allocated={"vcore": 1}) for path in ("root", "root__a", "root__b", "root__c")}
    found = scrapes.lines(partition(**queues))
    assert {line for line in found if "queue_resource" in line and "allocated" in line} == {
        f'yunikorn_queue_resource{{queue="{name}",resource="vcore",state="allocated"}} {amount}'
        for name, amount in (("root", 1), ("root.a", 1), ("other", 2))
    }


def test_paths_with_the_same_name() -> None:
    """A path stands in the name of a metric: two that give the same name have their sum there, and a line each elsewhere."""
    scrapes = Scrapes(*placed("root.a-b", "root.a.b", "root.a.b"))
    here = partition(root__a_b=queue(running=1, allocated={"vcore": 2}), root__a__b=queue(running=3, allocated={"vcore": 5}))
    found = scrapes.lines(here, has_old_names=True)
    assert 'yunikorn_root_a_b_queue_container{state="allocated"} 3' in found
    assert 'yunikorn_root_a_b_queue_app{state="running"} 4' in found
    assert 'yunikorn_root_a_b_queue_resource{resource="vcore",state="allocated"} 7' in found
    assert 'yunikorn_queue_app{queue="root.a-b",state="running"} 1' in found


def test_what_was_shown_goes_to_zero_and_goes_with_its_queue() -> None:
    """A series does not vanish while its queue is there, and not one line of a queue that is gone is left."""
    scrapes = Scrapes(*placed("root.a"))
    scrapes.lines(partition(root__a=queue(running=1, allocated={"vcore": 2}, guaranteed={"vcore": 1})))
    found = scrapes.lines(partition(root__a=queue()))
    assert 'yunikorn_queue_app{queue="root.a",state="running"} 0' in found
    assert 'yunikorn_queue_resource{queue="root.a",resource="vcore",state="allocated"} 0' in found
    assert [line for line in found if "guaranteed" in line] == []
    assert [line for line in scrapes.lines(partition()) if 'queue=""' not in line] == []


def test_applications_that_have_ended() -> None:
    """While the queue is there as its state, and for ever as a counter; what was refused was in no queue."""
    done = fact.ApplicationChanged(
        S, ApplicationID("app-1"), QueuePath("root.a"), ApplicationState.COMPLETED, ApplicationEvent.COMPLETE
    )
    scrapes = Scrapes(done, fact.ApplicationRejected(S, ApplicationID("app-2"), "why"))
    gone = {
        'yunikorn_queue_app{queue="",state="rejected"} 1',
        'yunikorn_queue_app_total{queue="root.a",state="completed"} 1',
        'yunikorn_queue_app_total{queue="root.a",state="failed"} 0',
        'yunikorn_queue_app_total{queue="",state="rejected"} 1',
    }
    there = scrapes.lines(partition(root__a=queue()))
    assert {line for line in there - gone if not line.endswith(" 0")} == {
        'yunikorn_queue_app{queue="root.a",state="completed"} 1',
    }
    assert scrapes.lines(partition()) == gone


def test_queues_that_come_after_many_amounts_share_a_series(monkeypatch) -> None:
    """However many types each queue has, the number of series is bounded, and nothing is missing in the sums."""
    monkeypatch.setattr(yunikorn, "AMOUNTS_MAX", 30)
    many = {f"root__q{number}": queue(allocated={f"t{name}": 1 for name in range(10)}) for number in range(9)}
    amounts = [
        line for line in Scrapes().lines(partition(root=queue(), **many)) if "resource=" in line and line.endswith(("1", "6"))
    ]
    assert len(amounts) == 3 * 10 + 10
    assert [line for line in amounts if 'queue="other",resource="t7"' in line] == [
        'yunikorn_queue_resource{queue="other",resource="t7",state="allocated"} 6'
    ]
