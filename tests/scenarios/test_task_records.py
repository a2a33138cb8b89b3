"""A resource manager says how tasks have ended (AP-152)."""

from typing import Any

import pytest
from kept_rows import all_rows
from world import World, app, ask, make_world, node, queue, record, release, remove, report, terminate, tree

from ykactor.core.accounting.past import ENDED_RECORDS_MAX, MESSAGE_MAX, RECORDS_MAX
from ykactor.core.messages.states import NAME_MAX, Outcome
from ykactor.core.records.base import made_from
from ykactor.core.values.parts import finished


def room() -> World:
    return make_world(tree(queue("a")), [node("n1", vcore=10)])


def restart(world: World) -> None:
    """Go on with a partition that is made from its rows."""
    rows = all_rows(world.direct.core, world.direct.scheduler)
    world.direct.restore(*finished(made_from(rows.items(), reserves=True))[:2])


def records(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.state()["applications"]["app-1"].get("records", [])
    return found


def test_a_record_changes_nothing_but_what_is_shown() -> None:
    """The node of a task is known until it is released; afterwards, and of one that never ran, it is not."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=99))
    used = {"peak_memory": 0, "cpu_ns": 4, "eligible_ns": 1, "message": "m" * (MESSAGE_MAX + 1)}
    world.send(record("t1", state="Failed", exit_code=137, signal="SIGKILL", started_ns=2, finished_ns=3, **used))
    world.expect()
    world.send(release("t1"), record("t2", state="Rejected"))
    more = {"eligibleTime": 1, "cpuTime": 4, "reason": "m" * MESSAGE_MAX, "queueName": "root.a"}
    t1 = {"state": "Failed", "exitCode": 137, "signal": "SIGKILL", "startTime": 2, "finishedTime": 3, "peakMemory": 0} | more
    assert records(world) == [
        {"allocationKey": "t1", "nodeID": "n1", **t1},
        {"allocationKey": "t2", "state": "Rejected", "queueName": "root.a"},
    ]


def test_a_later_record_of_a_task_replaces_the_one_before() -> None:
    world = room()
    world.given(app("app-1"), record("t1"), record("t2"), record("t1", state="Lost", exit_code=0))
    assert records(world) == [
        {"allocationKey": "t2", "state": "Completed", "queueName": "root.a"},
        {"allocationKey": "t1", "state": "Lost", "exitCode": 0, "queueName": "root.a"},
    ]


@pytest.mark.parametrize("before", [[], [app("app-1"), remove("app-1", Outcome.COMPLETED)], [app("app-1", "root.no")]])
def test_a_record_of_an_application_that_does_not_live_is_ignored(before: list[Any]) -> None:
    world = room()
    world.given(*before)
    known = world.state()["applications"]
    world.send(record("t1"))
    world.expect()
    assert world.state()["applications"] == known


@pytest.mark.parametrize("is_removed", [True, False])
def test_the_newest_records_are_kept(is_removed: bool) -> None:
    """The newest records of a live application are kept, fewer of an ended one, with bounded names, also after a restart."""
    world = room()
    world.given(app("app-1"), ask("t", "app-1", vcore=1))
    for number in range(RECORDS_MAX + 2):
        world.send(record(f"{number:<{NAME_MAX}}longer"))
    assert [entry["allocationKey"] for entry in records(world)] == [f"{n:<{NAME_MAX}}" for n in range(2, RECORDS_MAX + 2)]
    if is_removed:
        world.send(remove("app-1", Outcome.FAILED, "why"))
    else:
        assert world.administer(terminate("app-1")) == ""
    newest = [f"{number:<{NAME_MAX}}" for number in range(RECORDS_MAX + 2)][-ENDED_RECORDS_MAX:]
    assert [entry["allocationKey"] for entry in records(world)] == newest
    restart(world)
    assert [entry["allocationKey"] for entry in records(world)] == newest


def test_a_journal_keeps_the_order_of_records() -> None:
    """A live application has nothing else that would be kept with the records."""
    world = room()
    world.given(app("app-1"), *(record(key, exit_code=3) for key in ("c", "a", "b")))
    before = records(world)
    restart(world)
    assert records(world) == before
    assert [entry["allocationKey"] for entry in before] == ["c", "a", "b"]


@pytest.mark.parametrize("is_removed", [True, False])
def test_the_last_report_of_a_job_is_kept(is_removed: bool) -> None:
    """AP-160: it replaces the one before, with a bounded name, also after a restart and when the application has ended."""
    world = room()
    world.given(app("app-1"), report(tasks=3), report(name="n" * (NAME_MAX + 1), tasks=4, completed=1, failed=1, cancelled=2))
    world.expect()
    if is_removed:
        world.send(remove("app-1", Outcome.FAILED, "why"))
    restart(world)
    told = {"name": "n" * NAME_MAX, "tasks": 4, "completed": 1, "failed": 1, "cancelled": 2}
    assert world.state()["applications"]["app-1"]["job"] == told


def test_a_report_of_a_job_that_is_not_there_is_ignored() -> None:
    world = room()
    world.given(report(tasks=1))
    assert world.state()["applications"] == {}
