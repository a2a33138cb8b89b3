"""The text format of Prometheus."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from world import app, ask, configure, make_world, node, queue, tree

from ykactor.actors.durations import Histogram
from ykactor.core.messages.kinds import AboveMaxCause
from ykactor.core.state.above_max import AboveMax
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import finished, paced
from ykactor.surfaces.metrics import own
from ykactor.surfaces.metrics.exposition import Exposition, labels, name_part
from ykactor.surfaces.metrics.reading import PartitionFigures, read


def text(to: Exposition) -> str:
    return b"".join(finished(to.encoded())).decode()


@pytest.mark.parametrize("value", ["root.a-b", 'quote"', "back\\slash", "line\nend", "\\n", "ünïcode", "(10%,20%]", "a,b{}="])
def test_values_of_labels_come_back_as_they_were(value: str) -> None:
    to = Exposition()
    to.gauge("some", "Words.").add(1, labels(name=value))
    (family,) = text_string_to_metric_families(text(to))
    assert [sample.labels for sample in family.samples] == [{"name": value}]


def test_a_histogram_is_cumulative_and_ends_with_its_count() -> None:
    to, histogram = Exposition(), Histogram((0.1, 1))
    for value in (0.05, 0.1, 0.5, 7):
        histogram.observe(value)
    to.histogram("some", "Words.").add_histogram(histogram, labels(phase="plan"))
    assert text(to).splitlines()[2:] == [
        'some_bucket{phase="plan",le="0.1"} 2',
        'some_bucket{phase="plan",le="1"} 3',
        'some_bucket{phase="plan",le="+Inf"} 4',
        'some_sum{phase="plan"} 7.65',
        'some_count{phase="plan"} 4',
    ]


def test_values_counted_together_are_counted_as_one_by_one() -> None:
    """Also those on a bound, above all bounds, and none."""
    values = [5.0, 0.1, 0.05, 1.0, 0.1, 100.0]
    together, alone = Histogram((0.1, 1, 10)), Histogram((0.1, 1, 10))
    together.observe_all([])
    together.observe_all([*values])
    for value in values:
        alone.observe(value)
    assert (together.counts, together.sum) == (alone.counts, pytest.approx(alone.sum))
    assert together.counts == [3, 1, 1, 1]


def test_a_metric_stands_together_and_one_without_series_is_left_out() -> None:
    """Whoever names it again gets the same one; each line ends."""
    to = Exposition()
    to.gauge("empty", "Words.")
    to.counter("first_total", "Words.").add(1, labels(a="1"))
    to.gauge("second", "Words.").add(2)
    to.counter("first_total", "Words.").add(3, labels(a="2"))
    assert text(to) == (
        '# HELP first_total Words.\n# TYPE first_total counter\nfirst_total{a="1"} 1\nfirst_total{a="2"} 3\n'
        "# HELP second Words.\n# TYPE second gauge\nsecond 2\n"
    )


def test_long_texts_are_made_in_parts() -> None:
    """So that other tasks run in between."""
    to = Exposition()
    family = to.gauge("some", "Words.")
    for number in range(5000):
        family.add(number, labels(number=str(number)))
    assert len(list(paced(to.encoded()))) >= 9


def test_names() -> None:
    """Each character that is not allowed in a name becomes an underscore."""
    assert name_part("root.a-b.ü") == "root_a_b__"
    assert name_part("nvidia.com/gpu") == "nvidia_com_gpu"


def test_queues_above_their_max() -> None:
    """PE-98: how many by what keeps them there, also where there are none; and how far, of the first ones."""
    world = make_world(tree(queue("a", max={"vcore": 2})), [node("n1", vcore=4)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=2))
    world.given(configure(tree(queue("a", max={"vcore": 1}))))
    figures = finished(read(world.direct.core, world.direct.scheduler.state))
    to = Exposition()
    own.add_above_max(to, [figures])
    assert [line for line in text(to).splitlines() if not line.startswith("#")] == [
        'ykactor_queues_above_max{partition="default",cause="off"} 1',
        'ykactor_queues_above_max{partition="default",cause="waits"} 0',
        'ykactor_queues_above_max{partition="default",cause="guarantee"} 0',
        'ykactor_queues_above_max{partition="default",cause="given"} 0',
        'ykactor_queue_above_max{partition="default",queue="root.a",resource="vcore",cause="off"} 1',
    ]


def test_of_many_queues_above_their_max_the_first_have_series() -> None:
    found = AboveMax({"vcore": 1}, AboveMaxCause.OFF, "why")
    figures = PartitionFigures(PartitionName("default"), above_max={QueuePath(f"root.{n}"): found for n in range(1000)})
    to = Exposition()
    own.add_above_max(to, [figures])
    written = text(to)
    assert written.count("ykactor_queue_above_max{") == own.ABOVE_MAX
    assert 'ykactor_queues_above_max{partition="default",cause="off"} 1000' in written
