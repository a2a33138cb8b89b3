"""What a limited reader sees of the state of a partition (SE-84)."""

from typing import Any

from test_view import ALL_QUEUES, ONE_PARTITION, view
from world import app, ask, limit, make_world, node, queue, record, terminate, tree

from ykactor.access.view import (
    APPLICATION_FIELDS,
    APPLICATION_TIMES,
    ATTEMPT_FIELDS,
    LIMIT_FIELDS,
    PENDING_FIELDS,
    QUEUE_FIELDS,
    View,
)
from ykactor.core.values.parts import PART_MAX, finished

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


def seen(state: dict[str, Any], by: View) -> dict[str, Any]:
    return finished(by.of_state(state))


def test_the_own_part_of_a_state() -> None:
    """SE-84: own queues, applications and limits, and why asks wait; nothing of nodes, predicates and preemption."""
    shown = seen(small_state(), view("root.team"))
    assert shown.keys() == {"name", "queues", "applications", "limits"}
    assert list(shown["queues"]) == ["root.team", "root.team.x", "root.team.y"]
    assert list(shown["applications"]) == ["app-1", "app-4"]
    assert shown["applications"]["app-4"]["reason"] == "Terminated"
    assert shown["applications"]["app-4"]["records"] == [
        {"allocationKey": "gone", "state": "Completed", "exitCode": 0, "startTime": 5_000_000}
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
    queues = seen(whole, view("root.team"))["queues"]
    assert whole["queues"]["root.team.y"]["headroom"] == {"vcore": 1}  # of root
    assert [queues[path]["headroom"] for path in queues] == [{"vcore": 5}, {"vcore": 2}, {"vcore": 5}]
    assert [queues[path]["actualGuaranteed"] for path in queues] == [{"vcore": 5}] * 3
    assert "share" not in queues["root.team"]
    assert seen(whole, view("root.team.y"))["queues"]["root.team.y"]["headroom"] is None


def test_every_field_is_either_listed_or_hidden() -> None:
    """SE-80, SE-84: a new field fails here until it is decided."""
    whole = small_state()
    decided = {*QUEUE_FIELDS, "headroom", "actualGuaranteed", "share"}
    assert set().union(*whole["queues"].values()) <= decided
    live = [entry for entry in whole["applications"].values() if "pending" in entry]
    of_applications = {*APPLICATION_FIELDS, *APPLICATION_TIMES, "reason", "pending", "records"}
    assert set().union(*whole["applications"].values()) == of_applications - {"replacing", "usedSeconds", "lostSeconds"}
    groups = [group for entry in live for group in entry["pending"]]
    made_anew = {"reason", "place", "leftOut", "creationTimes"}
    assert set().union(*groups) <= {*PENDING_FIELDS, *ATTEMPT_FIELDS, *made_anew}
    assert set().union(*whole["limits"]) == set(LIMIT_FIELDS)


def test_all_queues_are_not_everything() -> None:
    """SE-80: who sees ``root`` sees all queues, and still no nodes; a state that is shown as a whole is the same object."""
    whole = small_state()
    shown = seen(whole, ALL_QUEUES)
    assert list(shown["queues"]) == list(whole["queues"])
    assert [queue["headroom"] for queue in shown["queues"].values()] == [queue["headroom"] for queue in whole["queues"].values()]
    assert list(shown["applications"]) == ["app-1", "app-2", "app-4"]
    assert "nodes" not in shown
    assert seen(whole, ONE_PARTITION) is whole


def test_times_do_not_tell_how_much_arrived_before() -> None:
    """SE-84: of a batch each ask is one ns after the one before, whosever it is."""
    w = make_world(TEXT)
    asks = [ask(f"o{number}", "app-2", vcore=1) for number in range(3)]
    w.send(app("app-2", "root.other"), app("app-1", "root.team.x"), *asks, ask("t1", "app-1", vcore=1), at=7)
    state = w.state()
    (pending,) = state["applications"]["app-1"]["pending"]
    assert pending["creationTimes"] != [7 * 10**9]
    (pending,) = seen(state, view("root.team"))["applications"]["app-1"]["pending"]
    assert pending["creationTimes"] == [7 * 10**9]


def test_the_state_is_not_changed_and_other_tasks_run() -> None:
    """SE-84: others read the same state; a large one is cut in parts."""
    whole = small_state()
    application = whole["applications"]["app-1"]
    whole["applications"] = {f"app-{number}": application for number in range(2 * PART_MAX)}
    before = str(whole)
    work = view("root.team").of_state(whole)
    assert sum(1 for _ in work) > 2
    assert str(whole) == before
