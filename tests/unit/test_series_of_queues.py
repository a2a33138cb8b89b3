"""Series of queues: bounded, and gone with their queue."""

from ykactor.surfaces.metrics.series import NAMES_MAX, OTHER, SeriesOfQueues


def test_queues_beyond_the_bound_share_one_series() -> None:
    """A later queue gets its own when there is room again, and begins at zero; what was counted for the others stays."""
    queues = SeriesOfQueues(2)
    for path in ("root", "root.a", "root.b", "root.c"):
        queues.of(path).counts["allocated"] += 1
    assert [queues.named(path)[0] for path in ("root", "root.a", "root.b", "root.c")] == ["root", "root.a", OTHER, OTHER]
    queues.remove("root.a")
    name, series = queues.named("root.c")
    assert (name, series.counts["allocated"]) == ("root.c", 0)
    assert queues.named("root.b")[1].counts["allocated"] == 2


def test_a_queue_that_was_removed_begins_anew() -> None:
    queues = SeriesOfQueues()
    queues.of("root.a").counts["allocated"] += 3
    queues.remove("root.a")
    assert queues.of("root.a").counts["allocated"] == 0


def test_what_two_scrapes_do_not_find_is_forgotten() -> None:
    """One is not enough: a queue may be newer than what was read of its partition."""
    queues = SeriesOfQueues()
    queues.of("root.a").counts["allocated"] += 1
    queues.end_scrape([])
    assert queues.of("root.a").counts["allocated"] == 1
    queues.end_scrape([])
    assert queues.of("root.a").counts["allocated"] == 0


def test_what_was_shown_once_becomes_zero() -> None:
    """A series that vanished would look like a daemon that does not answer."""
    series = SeriesOfQueues().of("root.a")
    assert series.with_zeros("allocated", {}) == {}
    assert series.with_zeros("allocated", {"vcore": 5}) == {"vcore": 5}
    assert series.with_zeros("allocated", {"gpu": 1}) == {"vcore": 0, "gpu": 1}
    assert series.with_zeros("pending", {}) == {}


def test_what_is_shown_although_it_is_zero_is_bounded() -> None:
    """Resource types are chosen by clients: if there were too many, only those that are there are shown."""
    series = SeriesOfQueues().of("root.a")
    for number in range(NAMES_MAX):
        series.with_zeros("pending", {f"type-{number}": 1})
    assert len(series.with_zeros("pending", {})) == NAMES_MAX
    assert series.with_zeros("pending", {"vcore": 5}) == {"vcore": 5}
