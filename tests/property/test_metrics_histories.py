"""Over random histories the metrics are what the facts and the state say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from checked import LARGE, World
from histories import draw_history
from prometheus_client.parser import text_string_to_metric_families
from seeds import seeds

from ykactor.core.messages import facts as fact
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.messages.states import ApplicationState
from ykactor.core.values.parts import finished
from ykactor.core.values.times import S_NS
from ykactor.surfaces.metrics import own, yunikorn
from ykactor.surfaces.metrics.exposition import Exposition, name_part
from ykactor.surfaces.metrics.fact_counts import FactCounts
from ykactor.surfaces.metrics.reading import PartitionFigures, read

#: A series: name and labels.
Key = tuple[str, frozenset[tuple[str, str]]]
_ENDED = {ApplicationState.COMPLETED: "completed", ApplicationState.FAILED: "failed"}


def key(name: str, **labels: str) -> Key:
    return name, frozenset(labels.items())


def queue_of(series: Key) -> str | None:
    """The queue of a series by its path, or by its part of the name; None if it is of no queue."""
    name, labels = series
    is_of_one = name.endswith("_queue_container")
    return name.removeprefix("yunikorn_").removesuffix("_queue_container") if is_of_one else dict(labels).get("queue")


class Scraped:
    """A partition and what is scraped of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counts = FactCounts({world.core.name})
        self.counted = 0
        self.counters: dict[Key, float] = {}
        self.seen: set[Key] = set()
        #: The paths of the leaves of the last scrape, also as they stand in names.
        self.leaves: set[str] = set()

    def scrape(self) -> dict[Key, float]:
        """All series; no counter has ever become smaller, but those of a queue that was removed."""
        new = self.world.facts[self.counted :]
        self.counted += len(new)
        for start in range(0, len(new), 7):
            self.counts.count(self.world.core.name, new[start : start + 7])
        figures = [finished(read(self.world.core, self.world.scheduler.state))]
        to = Exposition()
        yunikorn.add_scheduler(to, figures, self.counts, [])
        finished(yunikorn.add_queues(to, figures, self.counts, has_old_names=True))
        self.counts.queues.end_scrape(figures[0].queues)
        own.add_waiting(to, figures)
        finished(own.add_waited(to, figures, self.counts))
        own.add_above_max(to, figures)
        own.add_counts(to, self.counts, len(figures[0].queues))
        found: dict[Key, float] = {}
        counting: set[Key] = set()
        for family in text_string_to_metric_families(b"".join(finished(to.encoded())).decode()):
            for sample in family.samples:
                # the parser adds what the name of a counter lacks; Prometheus does not
                series = key(sample.name.replace("_container_total", "_container"), **sample.labels)
                assert series not in found, f"{series} is there twice"
                found[series] = sample.value
                if family.type in ("counter", "histogram"):
                    counting.add(series)
                if family.type == "counter" and not series[0].endswith("_container"):
                    assert sample.value >= self.counters.get(series, 0)
                    self.counters[series] = sample.value
        assert {series for series, count in self.counters.items() if count} <= found.keys()
        self.check_beginnings({series: found[series] for series in counting}, figures[0])
        return found

    def check_beginnings(self, counters: dict[Key, float], figures: PartitionFigures) -> None:
        """RE-8: a counter was there before its first event, unless its queue was not."""
        begun = counters.keys() - self.seen if self.seen else set()
        assert {series for series in begun if queue_of(series) in self.leaves | {None}} == set()
        self.seen |= counters.keys()
        leaves = [path for path, queue in figures.queues.items() if queue.is_leaf]
        self.leaves = {*leaves, *map(name_part, leaves)}


def naive(facts: list[fact.Fact]) -> dict[Key, float]:
    """The counters, as one who reads all facts again would count them."""
    attempts: Counter[str] = Counter()
    submissions: Counter[str] = Counter()
    ended: Counter[tuple[str, str]] = Counter()
    containers: dict[str, Counter[str]] = {}
    waited: Counter[tuple[str, str]] = Counter()
    accepted: set[str] = set()
    for each in facts:
        if (isinstance(each, fact.Allocated) and not each.recovered) or (isinstance(each, fact.AskRemoved) and each.pending):
            turn_ns = {PendingCode.NEXT: each.at_ns - each.ask.since_ns}
            waited.update({(each.queue, code): ns for code, ns in (each.waited or turn_ns).items()})
        elif isinstance(each, fact.Allocated | fact.AskRemoved):  # placed by the resource manager, or cancelled while it replaces
            waited.update({(each.queue, code): ns for code, ns in (each.waited or {}).items()})
        match each:
            case fact.Allocated():
                attempts["allocated"] += 1
                containers.setdefault(each.queue, Counter())["allocated"] += 1
            case fact.Released():
                attempts["released"] += bool(each.message)
                containers.setdefault(each.queue, Counter())["released"] += 1
            case fact.ReleaseStarted():
                attempts["released"] += bool(each.message)
            case fact.AllocationRejected():
                attempts["rejected"] += 1
            case fact.ApplicationAdded():
                submissions["new"] += 1
                accepted.discard(each.application_id)
            case fact.ApplicationRejected():
                submissions["rejected"] += 1
                ended["", "rejected"] += 1
            case fact.ApplicationChanged(state=ApplicationState.ACCEPTED) if each.application_id not in accepted:
                submissions["accepted"] += 1
                accepted.add(each.application_id)
            case fact.ApplicationChanged(state=state) if state in _ENDED:
                ended[each.queue, _ENDED[state]] += 1
            case fact.QueueRemoved():
                containers.pop(each.queue, None)
    name = "yunikorn_scheduler_"
    found = {key(f"{name}container_allocation_attempt_total", state=state): count for state, count in attempts.items()}
    found |= {key(f"{name}application_submission_total", result=result): count for result, count in submissions.items()}
    found |= {key("yunikorn_queue_app_total", queue=queue, state=state): count for (queue, state), count in ended.items()}
    found |= {key("ykactor_wait_seconds_total", queue=queue, code=code): ns / S_NS for (queue, code), ns in waited.items()}
    by_name: dict[str, Counter[str]] = {}
    for path, by_state in containers.items():
        by_name.setdefault(name_part(path), Counter()).update(by_state)
    for path, by_state in by_name.items():
        found |= {key(f"yunikorn_{path}_queue_container", state=state): count for state, count in by_state.items()}
    return {series: count for series, count in found.items() if count}


def labels_of(found: dict[Key, Any], name: str, label: str) -> set[str]:
    return {dict(labels)[label] for series, labels in found if series == name}


@pytest.mark.parametrize("seed", seeds(30))
def test_metrics_are_what_facts_and_state_say(seed: int) -> None:
    """Counters are those of a naive count and never fall; series go with their queue; every pending ask has one reason."""
    history = draw_history(seed)
    world = World(history.config, LARGE)
    scraped = Scraped(world)
    scraped.scrape()
    for batch in history.batches:
        world.play([batch])
        state = world.scheduler.state
        found = scraped.scrape()
        expected = naive(world.facts)
        assert {series: found.get(series) for series in expected} == expected
        counted = {series for series in found if series[0].endswith("_queue_container")}
        assert {series for series in counted if found[series]} <= expected.keys()
        assert labels_of(found, "yunikorn_queue_resource", "queue") <= set(state.tree.nodes)
        assert labels_of(found, "yunikorn_queue_app", "queue") == {
            path for path, node in state.tree.nodes.items() if node.is_leaf
        } | {""}
        pending = sum(len(application.asks) for application in state.applications.values())
        assert sum(count for (name, _), count in found.items() if name == "ykactor_pending_asks") == pending
        running = sum(len(node.allocations) for node in world.core.registry.nodes.values())
        waits = found[key("ykactor_ask_wait_seconds_count")]
        recovered = sum(isinstance(each, fact.Allocated) and each.recovered for each in world.facts)
        assert waits + recovered == found.get(key("yunikorn_scheduler_container_allocation_attempt_total", state="allocated"), 0)
        assert running <= waits + recovered
