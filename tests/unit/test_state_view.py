"""The view that a limited reader has of the state of a partition (SE-84)."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import pytest
from msgspec import structs
from test_view import ALL_QUEUES, ONE_PARTITION, view
from world import app, ask, decoded, limit, make_world, node, queue, record, seen, terminate, tree

from ykactor.core.inspection.application_status import (
    OF_THE_APPLICATION,
    OF_THE_ASKS,
    OF_THE_RECORD,
    RECORD_TIMES,
    TIMES,
    ApplicationStatus,
    AsksPart,
    PendingStatus,
    RecordStatus,
    ReplacementStatus,
)
from ykactor.core.inspection.partition_status import LimitStatus, PartitionStatus
from ykactor.core.inspection.queue_status import OF_THE_QUEUE, QueueStatus
from ykactor.core.inspection.shown import Shown
from ykactor.core.values.parts import PART_MAX, finished, paced

TEAM = queue(
    "team", queue("x", max={"vcore": 4}), queue("y"), max={"vcore": 7}, guaranteed={"vcore": 5}, limits=[limit("alice", vcore=3)]
)
TEXT = tree(TEAM, queue("other"), limits=[limit("alice", vcore=9)], preemption={"enabled": True})


def small_state() -> dict[str, Any]:
    """An own application with a pending and a running ask, one that has failed, one that was rejected, and another team."""
    w = make_world(TEXT, [node("n1", vcore=6)])
    w.send(app("app-1", "root.team.x"), ask("t1", "app-1", vcore=2), ask("t2", "app-1", vcore=9))
    w.send(app("app-2", "root.other"), ask("t3", "app-2", vcore=3), app("app-3", "root.team.none"))
    w.given(app("app-4", "root.team.y"), ask("t4", "app-4", vcore=1), at=1)
    w.given(record("gone", "app-4", exit_code=0, started_ns=5_000_001))
    assert w.administer(terminate("app-4")) == ""
    w.given(at=3)
    return w.state()


def test_the_own_part_of_a_state() -> None:
    """SE-84: own queues, applications and limits, and why asks wait; nothing of nodes, predicates and preemption."""
    shown = seen(view("root.team"), small_state())
    assert shown.keys() == {"name", "queues", "applications", "limits"}
    assert list(shown["queues"]) == ["root.team", "root.team.x", "root.team.y"]
    assert list(shown["applications"]) == ["app-1", "app-4"]
    assert shown["applications"]["app-4"]["reason"] == "Terminated"
    assert shown["applications"]["app-4"]["records"] == [
        {"allocationKey": "gone", "state": "Completed", "exitCode": 0, "startTime": 5_000_000, "queueName": "root.team.y"}
    ]
    assert [(entry["queue"], entry["allocated"]) for entry in shown["limits"]] == [("root.team", {"vcore": 2})]
    (pending,) = shown["applications"]["app-1"]["pending"]
    assert (
        pending["reason"]
        == "can never fit: wants 0.009, may have at most 0.003 vcore in the limit of user alice in queue root.team"
    )
    assert (pending["count"], pending["allocationKeys"]) == (1, ["t2"])


def test_amounts_are_those_below_the_highest_queue_in_view() -> None:
    """SE-84: what others leave of root is not seen in what is left for the own queue, nor is the share of root."""
    whole = small_state()
    queues = seen(view("root.team"), whole)["queues"]
    assert whole["queues"]["root.team.y"]["headroom"] == {"vcore": 1}  # of root
    assert [queues[path]["headroom"] for path in queues] == [{"vcore": 5}, {"vcore": 2}, {"vcore": 5}]
    assert [queues[path]["actualGuaranteed"] for path in queues] == [{"vcore": 5}] * 3
    assert "share" not in queues["root.team"]
    assert seen(view("root.team.y"), whole)["queues"]["root.team.y"]["headroom"] is None


#: By struct, the fields that a limited reader sees as they are, that are made anew for it, and that it does not see.
DECIDED: dict[type[Shown], tuple[Iterable[str], Iterable[str], Iterable[str]]] = {
    QueueStatus: (OF_THE_QUEUE, ["headroom", "actual_guaranteed", "held", "held_with"], ["share", "above_max"]),
    ApplicationStatus: (
        OF_THE_APPLICATION,
        [*TIMES, "pending", "held", "held_with", "records", "reason", "effective_priority"],
        ["last_work_time", "outcome"],
    ),
    RecordStatus: (OF_THE_RECORD, [*RECORD_TIMES, "queue_name"], ["reason"]),
    PendingStatus: (
        OF_THE_ASKS,
        ["reason", "place", "left_out", "creation_times", "oldest_time", "last_attempt", "next_attempt", "effective_priority"],
        [],
    ),
    AsksPart: (["application_id", "allocation_keys", "creation_times"], [], []),
    ReplacementStatus: (["allocation_key", "placeholder", "node_id"], [], []),
    LimitStatus: (["queue", "whose", "max", "allocated", "max_applications", "applications"], [], []),
    PartitionStatus: (["name"], ["queues", "applications", "limits", "pending_asks"], ["nodes", "predicates", "preemption"]),
}


@pytest.mark.parametrize("kind", DECIDED)
def test_every_field_is_either_shown_or_hidden(kind: type[Shown]) -> None:
    """SE-80, SE-84: a new field fails here until it is decided."""
    assert sorted(chain(*DECIDED[kind])) == sorted(kind.__struct_fields__)


def test_all_queues_are_not_everything() -> None:
    """SE-80: who sees ``root`` sees all queues, and still no nodes; a state that is shown as a whole is the same object."""
    whole = small_state()
    shown = seen(ALL_QUEUES, whole)
    assert list(shown["queues"]) == list(whole["queues"])
    assert [queue["headroom"] for queue in shown["queues"].values()] == [queue["headroom"] for queue in whole["queues"].values()]
    assert list(shown["applications"]) == ["app-1", "app-2", "app-4"]
    assert "nodes" not in shown
    state = decoded(whole)
    assert finished(ONE_PARTITION.of_state(state)) is state


def test_times_do_not_tell_how_much_arrived_before() -> None:
    """SE-84: of a batch each ask is one ns after the one before, whosever it is."""
    w = make_world(TEXT)
    asks = [ask(f"o{number}", "app-2", vcore=1) for number in range(3)]
    w.send(app("app-2", "root.other"), app("app-1", "root.team.x"), *asks, ask("t1", "app-1", vcore=1), at=7)
    state = w.state()
    (pending,) = state["applications"]["app-1"]["pending"]
    assert pending["creationTimes"] != [7 * 10**9]
    (pending,) = seen(view("root.team"), state)["applications"]["app-1"]["pending"]
    assert pending["creationTimes"] == [7 * 10**9]


def test_the_state_is_not_changed_and_other_tasks_run() -> None:
    """SE-84: others read the same state; a large one is cut in parts."""
    whole = decoded(small_state())
    application = whole.applications["app-1"]
    whole = structs.replace(whole, applications={f"app-{number}": application for number in range(2 * PART_MAX)})
    before = str(whole)
    work = paced(view("root.team").of_state(whole))
    assert sum(1 for _ in work) > 2
    assert str(whole) == before
