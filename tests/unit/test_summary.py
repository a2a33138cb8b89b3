"""``sim/summary.py``: the books of a run."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    AskAdded,
    AskRemoved,
    Fact,
    NodeAdded,
    NodeCapacityChanged,
    NodeRejected,
    NodeRemoved,
    Released,
)
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.sim.devices import DeviceUse
from ykactor.sim.summary import (
    Example,
    Preemptions,
    Reason,
    Summary,
    SummaryReport,
    Utilisation,
    WaitTimes,
    print_report,
    wide_console,
)

S = 1_000_000_000
QUEUE = QueuePath("root.a")
NODE = NodeID("n1")


def ask(key: str, vcore: int = 1000) -> Ask:
    return Ask(AllocationKey(key), ApplicationID("app"), {"vcore": vcore})


def waits(at_s: int, key: str) -> Fact:
    return AskAdded(at_s * S, ask(key), QUEUE)


def placed(at_s: int, key: str, vcore: int = 1000) -> Fact:
    return Allocated(at_s * S, ask(key, vcore), QUEUE, NODE)


def released(at_s: int, key: str, vcore: int = 1000) -> Fact:
    return Released(at_s * S, ask(key, vcore), QUEUE, NODE, "STOPPED_BY_RM", "")


def node(at_s: int, vcore: int, name: str = "n1") -> Fact:
    return NodeAdded(at_s * S, NodeID(name), {"vcore": vcore}, True, {})


def summary_of(*facts: Fact) -> Summary:
    summary = Summary()
    for fact in facts:
        summary.observe(fact)
    return summary


def test_counts_what_happened() -> None:
    """Placed, released, cancelled and rejected are counted; an allocation that ended is not a cancelled ask."""
    report = summary_of(
        node(0, 4000),
        waits(1, "k1"),
        waits(1, "k2"),
        placed(2, "k1"),
        AllocationRejected(2 * S, AllocationKey("k3"), ApplicationID("app"), "no"),
        AskRemoved(3 * S, ask("k2"), QUEUE, pending=True),
        waits(3, "k4"),
        AskRemoved(3 * S, ask("k4"), QUEUE, pending=False),
        AskRemoved(4 * S, ask("k1"), QUEUE, pending=False),
        released(4, "k1"),
    ).finish(5 * S, [])
    assert (report.placed, report.released, report.cancelled, report.rejected) == (1, 1, 2, 1)
    assert (report.pending, report.duration_s) == (0, 5.0)


def test_a_refused_node_is_reported() -> None:
    """Refused nodes are reported as refused asks and applications are; the last line of a longer reason says most."""
    report = summary_of(node(0, 4000), NodeRejected(1 * S, NODE, "node rejected with error: \nthere is a node n1")).finish(S, [])
    assert report.rejected == 1
    assert [(group.reason, group.examples[0].owner) for group in report.rejected_reasons] == [("there is a node n1", "node")]


def test_average_utilisation_is_weighted_by_time() -> None:
    """Half of the node for 5 of 10 seconds is 25 % on average, and nothing at the end."""
    report = summary_of(node(0, 2000), waits(0, "k"), placed(0, "k"), released(5, "k")).finish(10 * S, [])
    assert report.utilisation == {"vcore": Utilisation(used=0, capacity=2000, end_percent=0.0, average_percent=25.0)}


def test_average_utilisation_is_weighted_by_capacity() -> None:
    """Unit-seconds used of unit-seconds offered: nodes that come, change and go count for the time they were there."""
    report = summary_of(
        node(0, 1000),
        placed(0, "k"),
        node(2, 1000, "n2"),
        NodeCapacityChanged(4 * S, NodeID("n2"), {"vcore": 3000}),
        NodeRemoved(6 * S, NodeID("n2")),
    ).finish(10 * S, [])
    offered = 1000 * 10 + 1000 * 2 + 3000 * 2
    assert report.utilisation["vcore"] == Utilisation(1000, 1000, 100.0, 100 * 10_000 / offered)


def test_a_resized_allocation_is_used_as_resized() -> None:
    """The new size counts from a resize on, and the release of the new size balances the books (AP-111)."""
    report = summary_of(
        node(0, 4000),
        placed(0, "k", vcore=1000),
        AllocationResized(5 * S, ask("k", 1000), ask("k", 3000), QUEUE, NODE),
        released(10, "k", vcore=3000),
    ).finish(10 * S, [])
    assert report.utilisation["vcore"] == Utilisation(0, 4000, 0.0, 100 * (1000 * 5 + 3000 * 5) / 40_000)


def test_no_capacity_gives_no_percentage() -> None:
    """A resource that no node offers has no percentage rather than a division by zero."""
    report = summary_of(placed(0, "k")).finish(S, [])
    assert report.utilisation["vcore"] == Utilisation(1000, 0, None, None)


def test_wait_times_by_queue() -> None:
    """Waits run from ask to allocation; percentiles are the nearest rank, an observed value."""
    facts = [waits(0, f"k{wait}") for wait in range(1, 11)] + [placed(wait, f"k{wait}") for wait in range(1, 11)]
    report = summary_of(*facts).finish(20 * S, [])
    assert report.waits == {QUEUE: WaitTimes(count=10, mean_s=5.5, p50_s=5.0, p90_s=9.0, max_s=10.0)}


def test_a_recovered_allocation_never_waited() -> None:
    """An allocation that came with its node is placed but has no wait time."""
    report = summary_of(placed(3, "k")).finish(4 * S, [])
    assert (report.placed, report.waits) == (1, {})


def test_pending_is_grouped_by_reason() -> None:
    """Most frequent reason first, with the first three asks as examples."""
    pending = [(AllocationKey(f"k{number}"), QUEUE, "quota" if number else "no node") for number in range(5)]
    report = summary_of().finish(S, pending)
    examples = tuple(Example(f"k{number}", QUEUE) for number in (1, 2, 3))
    assert report.pending == 5
    assert report.pending_reasons == (
        Reason("quota", 4, examples),
        Reason("no node", 1, (Example("k0", QUEUE),)),
    )


def test_the_report_prints_reasons_as_they_are() -> None:
    """Square brackets in reasons and keys are text, not rich's markup; an empty table is left out."""
    report = summary_of(node(0, 1000)).finish(S, [(AllocationKey("k[red]"), QUEUE, "root.a lacks map[vcore:10]")])
    console = Console(width=120)
    with console.capture() as capture:
        print_report(report, console)
    text = capture.get()
    assert "root.a lacks map[vcore:10]" in text
    assert "k[red] (root.a)" in text
    assert "0 placed, 1 pending" in text
    assert "Wait times" not in text


def test_a_pipe_is_not_as_wide_as_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines are not wrapped or cut without a terminal, and none is filled with spaces."""
    reason = "not enough " + "of what it wants " * 40
    report = summary_of(node(0, 1000)).finish(S, [(AllocationKey("k" * 200), QUEUE, reason)])
    print_report(report, wide_console())
    printed = capsys.readouterr().out
    assert reason.strip() in printed
    assert "k" * 200 + " (root.a)" in printed
    assert max(map(len, printed.splitlines())) < 1200


# ---- as JSON

#: The keys that programs read; they stay.
KEYS = {
    SummaryReport: "durationSeconds placed released cancelled rejected rejectedReasons pending pendingReasons preemptions "
    "utilisation waits devices",
    DeviceUse: "placed withoutDevice",
    Reason: "reason count examples",
    Example: "key owner",
    Preemptions: "count evictions workLost inVain",
    Utilisation: "used capacity endPercent averagePercent",
    WaitTimes: "count meanSeconds p50Seconds p90Seconds maxSeconds",
}


def test_the_keys_of_the_summary() -> None:
    """They are these, and all of them are in the page about scenarios."""
    page = (Path(__file__).parents[2] / "ykactor" / "sim" / "README.md").read_text().partition("## The summary as JSON")[2]
    for kind, keys in KEYS.items():
        assert list(kind.__struct_encode_fields__) == keys.split()
        assert {key for key in keys.split() if f"`{key}`" not in page} == set()


def test_the_summary_as_json() -> None:
    """Base units and seconds, null without capacity, reasons with their examples."""
    facts = [waits(0, "k1"), placed(2, "k1")]
    report = summary_of(*facts).finish(4 * S, [(AllocationKey("k2"), QUEUE, "no node")])
    document: dict[str, Any] = json.loads(msgspec.json.encode(report))
    assert document["durationSeconds"] == 4.0
    assert document["utilisation"] == {"vcore": {"used": 1000, "capacity": 0, "endPercent": None, "averagePercent": None}}
    assert document["waits"]["root.a"]["meanSeconds"] == 2.0
    assert document["pendingReasons"] == [{"reason": "no node", "count": 1, "examples": [{"key": "k2", "owner": "root.a"}]}]
