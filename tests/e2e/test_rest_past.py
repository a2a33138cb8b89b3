"""Past of applications in the REST API: live, ended and rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from daemon import real_daemon
from msgspec import structs
from test_rest import CONFIG, VCORE, read
from test_rest import ask as fetch
from world import S_NS, World, app, ask, make_world, node, queue, release, terminate, tree

from ykactor.access.model import Names
from ykactor.access.view import View
from ykactor.client import Refused, connect
from ykactor.core.accounting.accounts import ALL_DAYS, DAY_S
from ykactor.core.inspection.accounting import Column
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import finished, paced
from ykactor.surfaces.http.readings import applications
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.readings.usage import resource_seconds
from ykactor.wire.rest.codec import Pieces
from ykactor.wire.si import messages as si

NEVER = -62_135_596_800_000


def look(world: World) -> Look:
    return Look(world.direct.core, world.direct.scheduler.state, world.now_ns)


def live(world: World) -> dict[str, Any]:
    (shown,) = (json.loads(part) for part in finished(applications.live(look(world))))
    return shown  # type: ignore[no-any-return]


def test_a_live_application() -> None:
    """States that are shown alike are one entry of the log; times are nanoseconds, the start is in milliseconds (AP-140)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1", user="alice", groups=("dev", "ops")))
    assert (live(world)["startTime"], "stateLog" in live(world), live(world)["resourceHistory"]) == (NEVER, False, {})
    world.given(ask("k1", "app-1", vcore=3), at=2)
    world.given(ask("k2", "app-1", vcore=1), at=3)
    world.given(release("k1"), at=7)
    shown = live(world)
    assert shown["stateLog"] == [
        {"time": 2 * S_NS, "applicationState": "Accepted"},
        {"time": 2 * S_NS, "applicationState": "Running"},
    ]
    assert (shown["startTime"], shown["usedResource"], shown["maxUsedResource"]) == (2000, {"vcore": 1}, {"vcore": 4})
    assert shown["resourceHistory"] == {"resourceUsage": {"UNKNOWN": {"vcore": 15}}}
    world.given(ask("k3", "app-1", vcore=3, memory=0), ask("k4", "app-1", gpu=0, vcore=1), at=8)
    assert live(world)["maxUsedResource"] == {"vcore": 4}


def test_a_large_application_is_read_in_parts() -> None:
    """However many asks and tasks one has, others run after 50 of them; they are in their order."""
    world = make_world(tree(queue("a")), [node("n1", vcore=400)])
    world.given(app("app-1"), *(ask(f"k{number}", "app-1", vcore=1) for number in range(1000)))
    for reading in (applications.live(look(world)), applications.one(look(world), ApplicationID("app-1"))):
        pausing = paced(reading)
        for _ in range(1000 // 50):
            next(pausing)
        shown = finished(pausing)
    assert isinstance(shown, Pieces)
    shown = json.loads(b"".join(shown.pieces))
    arrived = [int(entry["allocationKey"][1:]) for name in ("allocations", "requests") for entry in shown[name]]
    assert (arrived, len(shown["allocations"])) == (list(range(1000)), 400)
    assert shown["pendingResource"] == {"vcore": 600}


def test_a_replaced_placeholder() -> None:
    """The real task says that it has replaced one, and since when that was requested (GA-31)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("gang", placeholders={"vcore": 2}), ask("p1", "gang", vcore=2, placeholder=True, group="g"), at=1)
    world.given(ask("t1", "gang", vcore=2, group="g"), at=5)
    shown = live(world)
    (task,) = shown["allocations"]
    assert (task["allocationKey"], task["placeholderUsed"], task["allocationDelay"]) == ("t1", True, 4 * S_NS - 1)
    assert (task["requestTime"], task["allocationTime"]) == (S_NS + 1, 5 * S_NS)
    assert shown["resourceHistory"] == {"placeholderResource": {"UNKNOWN": {"vcore": 8}}}


def test_an_application_that_has_ended() -> None:
    """An ended application keeps its user, groups, submission, states and use; without asks it has the lowest priority."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1", user="alice", groups=("dev",)), ask("k1", "app-1", vcore=3), at=2)
    world.administer(terminate("app-1"), at=6)
    world.wait(7)
    (shown,) = (json.loads(part) for part in finished(applications.completed(look(world))))
    assert [entry["applicationState"] for entry in shown.pop("stateLog")] == ["Accepted", "Running", "Failing", "Failed"]
    assert shown == {
        "applicationID": "app-1",
        "maxUsedResource": {"vcore": 3},
        "partition": "default",
        "queueName": "root.a",
        "submissionTime": 2 * S_NS,
        "finishedTime": 6 * S_NS,
        "applicationState": "Failed",
        "user": "alice",
        "groups": ["dev"],
        "maxRequestPriority": -(2**31),
        "startTime": 2000,
        "resourceHistory": {"resourceUsage": {"UNKNOWN": {"vcore": 12}}},
    }


def test_accounts() -> None:
    """AP-141: sums by columns in their order; a limited reader sees its queues, and no types of instances."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=4)])
    world.given(app("app-1", "root.a"), app("app-2", "root.b", user="bob"), at=DAY_S - 1)
    world.given(ask("k1", "app-1", vcore=3), ask("k2", "app-2", vcore=2))
    world.given(release("k1"), at=DAY_S + 1)
    world.given(at=DAY_S + 2)

    def sums(of: Look, *columns: Column, days: range = ALL_DAYS) -> list[Any]:
        return [json.loads(part) for part in finished(resource_seconds(of, columns, days))]

    days = [
        {"day": "1970-01-01", "allocated": {"vcore": 3}, "waited": {"vcore": 2}},
        {"day": "1970-01-02", "allocated": {"vcore": 5}, "waited": {"vcore": 2}},
    ]
    assert sums(look(world), Column.DAY) == days
    assert sums(look(world), Column.DAY, days=range(1, 2)) == days[1:]
    assert sums(look(world), Column.DAY, days=range(1)) == days[:1]
    limited = structs.replace(look(world), view=View(Names.of(["default"]), frozenset(["root.b"])))
    assert sums(limited, Column.USER, Column.QUEUE) == [
        {"queue": "root.b", "user": "bob", "allocated": {"vcore": 2}, "waited": {"vcore": 4}}
    ]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("by=colour", "by: found 'colour'"),
        ("by=user,user", "by: found 'user,user'"),
        ("since=soon", "since: found 'soon'"),
        ("until=soon", "until: found 'soon'"),
    ],
)
async def test_wrong_queries(query: str, found: str) -> None:
    """They are refused with what was found."""
    async with real_daemon(http="127.0.0.1:0") as daemon:
        answer = await fetch(daemon, f"/ws/v1/partition/default/usage/accounting?{query}")
        assert answer.status == 400
        assert answer.content["message"].startswith(found)


async def test_a_daemon_remembers(tmp_path: Path) -> None:
    """Failed and rejected applications of a real daemon, also after a restart."""
    (tmp_path / "queues.yaml").write_text(CONFIG)
    arguments = ("--config", tmp_path / "queues.yaml", "--state-dir", tmp_path / "state")
    async with real_daemon(*arguments, http="127.0.0.1:0") as daemon:
        async with connect(daemon.url, rm_id="rm") as rm:
            capacity = si.NodeInfo(
                node_id="n1", action="CREATE", schedulable_resource=VCORE, attributes={"si/instance-type": "m5.large"}
            )
            await rm.request(si.NodeRequest(nodes=[capacity]))
            alice = si.UserGroupInformation(user="alice", groups=["dev"])
            wanted = [
                si.AddApplicationRequest(application_id="good", queue_name="root.a", ugi=alice),
                si.AddApplicationRequest(application_id="bad", queue_name="root.none", ugi=alice),
            ]
            with pytest.raises(Refused, match="application bad"):
                await rm.request(si.ApplicationRequest(new=wanted))
            entry = si.Allocation(allocation_key="t1", application_id="good", resource_per_alloc=VCORE, node_id="n1")
            await rm.request(si.AllocationRequest(allocations=[entry]))
            await trio.sleep(1.1)
            await rm.request(si.TerminateApplication(application_id="good"))
            confirmed = si.AllocationRelease(application_id="good", allocation_key="t1", termination_type="TIMEOUT")
            await rm.request(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[confirmed])))
        before = await told(daemon)
        (account,) = await read(daemon, "partition/default/usage/accounting?by=group,application&since=7d")
        assert (account["group"], account["application"], set(account)) == ("dev", "good", {"group", "application", "allocated"})
        assert account["allocated"]["vcore"] >= 1000
        await daemon.stop()
    async with real_daemon(*arguments, http="127.0.0.1:0") as daemon:
        assert await told(daemon) == before
    (failed,), (rejected,) = before
    used = failed["resourceHistory"]["resourceUsage"]["m5.large"]["vcore"]
    assert (failed["applicationState"], failed["user"], failed["maxUsedResource"]) == ("Failed", "alice", VCORE)
    assert used >= 1000
    assert used % 1000 == 0
    assert (rejected["applicationState"], rejected["user"], rejected["groups"]) == ("Rejected", "alice", ["dev"])
    assert rejected["submissionTime"] == rejected["finishedTime"] == rejected["stateLog"][0]["time"]


async def told(daemon: Any) -> tuple[list[Any], list[Any]]:
    """The remembered applications that failed, and those that were rejected."""
    return (
        await read(daemon, "partition/default/applications/completed"),
        await read(daemon, "partition/default/applications/rejected"),
    )
