"""A scrape of a large cluster lets other tasks run in between."""

from collections import Counter

from costs import longest_part_s, loop_s

from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.surfaces.metrics import own, yunikorn
from ykactor.surfaces.metrics.exposition import Exposition
from ykactor.surfaces.metrics.fact_counts import FactCounts
from ykactor.surfaces.metrics.reading import PartitionFigures, QueueFigures
from ykactor.surfaces.metrics.series import QUEUES_MAX

HERE = PartitionName("default")
QUEUES = 5000


def figures() -> PartitionFigures:
    types = {"vcore": 1, "memory": 2**30, "nvidia.com/gpu": 3}
    amounts = dict.fromkeys(("guaranteed", "max", "allocated", "pending", "preempting"), types)
    paths = [QueuePath(f"root.p{number % 50}.q{number}") for number in range(QUEUES)]
    queues = {path: QueueFigures(True, dict(amounts), Counter(running=2, accepted=1)) for path in paths}
    return PartitionFigures(HERE, queues)


def once() -> float:
    to, counts, read = Exposition(), FactCounts({HERE}), figures()
    for path in read.queues:
        counts.queues.of(path).counts["allocated"] += 1
    counts.waited |= {QueuePath(f"root.gone{number}"): Counter(dict.fromkeys(own.WAITED_FOR, 1)) for number in range(QUEUES_MAX)}
    counts.ended |= {QueuePath(f"root.gone{number}"): Counter(completed=1, failed=2) for number in range(QUEUES_MAX)}

    def scrape() -> Steps[list[bytes]]:
        yield from yunikorn.add_queues(to, [read], counts)
        yield from own.add_waited(to, [read], counts)
        return (yield from to.encoded())

    return longest_part_s(scrape())


def test_no_part_is_long() -> None:
    """Each part is shorter than a million steps of a loop, with 5,000 queues, and 10,000 that are gone; best of three, because
    a processor may be slow for a moment.
    """
    assert any(once() < loop_s(1_000_000) for _ in range(3))
