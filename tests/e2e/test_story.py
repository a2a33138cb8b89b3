"""``ykactor story``: the events about one object, and its present state."""

from typing import Any

import click
import pytest
from daemon import application, asks, node, real_daemon, run_command
from world import decoded, make_world, queue, tree

from ykactor.client import connect
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.surfaces.cli.events import as_text
from ykactor.surfaces.cli.story import _collect, present
from ykactor.surfaces.cli.urls import Destination
from ykactor.wire.si import messages as si
from ykactor.wire.si.events import mentioned


async def test_story_of_each_kind() -> None:
    """Events in order, then the present state, of an application, a pending ask, a running one, a node and a queue."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(node(vcore=2000))
        await rm.request(application())
        await rm.request(asks("t1", "t2", "t3"))

        async def story(key: str) -> list[str]:
            return [click.unstyle(line) for line in await _collect(key, Destination(daemon.url))]

        output, errors = await run_command("story", "app-1", "--url", daemon.url)
        assert errors == ""
        lines = output.splitlines()
        assert lines == await story("app-1")
        details = [line.split()[4] for line in lines if not line.startswith("now")]
        assert details[:3] == ["APP_NEW", "QUEUE_APP", "APP_ACCEPTED"]
        assert lines[-2] == "now: application app-1 is Running in root.default"
        reason = "wants 1, has 0 of 2 vcore in the cluster"
        assert lines[-1] == f"now: 1 ask pending (t3), each 1 vcore: {reason}"
        about_t3 = await story("t3")
        assert about_t3[-1] == lines[-1]
        assert about_t3[-2].endswith("does not fit in queue 'root.default' (requested map[vcore:1000], available map[vcore:0])")
        *events, last = await story("alice")
        assert [line.split()[4] for line in events] == ["UG_USER_RESOURCE"] * 2
        assert last == "now: user alice in queue root.default, uses vcore 2, no limit, running applications 1"
        assert (await story("t1"))[-1] == "now: t1 runs on n1"
        assert "now: node n1, schedulable, uses vcore 2, capacity vcore 2" in await story("n1")
        assert "now: queue root.default Active, uses vcore 2, headroom vcore 0" in await story("root.default")
        output, errors = await run_command("story", "nobody", "--url", daemon.url, expect=1)
        assert output == ""
        assert "the daemon knows, or shows you, no application, ask, node, queue, user or group nobody" in errors


async def test_story_of_what_is_gone() -> None:
    """After the events there is always a sentence about the present, also of what is no longer in the daemon."""
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node())
            await rm.request(si.DeregisterResourceManagerRequest())
        lines = await _collect("n1", Destination(daemon.url))
        assert lines[-1] == "now: the daemon has nothing of n1 any more"
        assert len(lines) > 1


@pytest.mark.parametrize("key", ["g", "t1", "p1"])
def test_a_replacement_under_way(key: str) -> None:
    """The real ask is neither pending nor running: it is said what it waits for."""
    replacing = [{"allocationKey": "t1", "placeholder": "p1", "nodeID": "n1"}]
    application = {"state": "Running", "queueName": "root.g", "pending": [], "replacing": replacing}
    sentence = "t1 replaces placeholder p1, on n1, when the resource manager has confirmed the release of the placeholder"
    assert list(present(key, state(applications={"g": application})))[-1] == f"now: {sentence}"


def test_resources_are_in_the_order_of_events() -> None:
    """vcore and memory first, used and capacity apart."""
    whole = {"vcore": 4000, "memory": 1 << 30, "gpu": 1}
    n1 = {"schedulable": True, "allocated": dict(sorted(whole.items())), "capacity": whole, "allocations": []}
    n1 |= {"occupied": {}, "available": {}, "reservations": []}
    amounts = "vcore 4, memory 1Gi, gpu 1"
    assert list(present("n1", state(nodes={"n1": n1}))) == [f"now: node n1, schedulable, uses {amounts}, capacity {amounts}"]


def test_names_that_a_terminal_would_obey() -> None:
    """Clients choose names: their control characters are printed as escapes, in events and in the present state."""
    event = si.EventRecord(1, "APP", "app\x1b[2J", "ADD", "APP_NEW", 0, message="a\x9bb", partition="default")
    line = click.unstyle(as_text(event))
    assert line.isprintable()
    assert "app\\x1b[2J" in line
    running = {"app\x1b[2J": {"state": "Running", "queueName": "root.a"}}
    assert list(present("app\x1b[2J", state(applications=running))) == ["now: application app\\x1b[2J is Running in root.a"]


def test_what_an_event_is_about() -> None:
    """An event is about its object, its reference, its queue and the queues above."""
    event = si.EventRecord(1, "APP", "app-1", "ADD", "APP_ALLOC", 0, "t1", "", "default", "root.a.b", {})
    assert mentioned([event]) == {"app-1", "t1", "root.a.b", "root.a", "root"}


def state(**parts: Any) -> PartitionStatus:
    return decoded({"name": "default", "applications": {}, "nodes": {}, "queues": {}, "limits": []} | parts)


def test_what_a_user_has_and_may_have() -> None:
    """A line for each limit of the user, and for each other leaf where the user has an application."""
    limits = [
        {"queue": "root", "whose": "user bob", "max": {"vcore": 3000}, "allocated": {"vcore": 2500}}
        | {"maxApplications": 2, "applications": ["app-1", "app-2"]},
        {"queue": "root.a", "whose": "user bob", "max": None, "allocated": {"vcore": 2000}}
        | {"maxApplications": 1, "applications": ["app-1"]},
    ]
    applications = {
        "app-1": {"queueName": "root.a", "state": "Running", "user": "bob", "allocated": {"vcore": 2000}},
        "app-2": {"queueName": "root.b", "state": "Running", "user": "bob", "allocated": {"vcore": 500}},
        "app-3": {"queueName": "root.b", "state": "New", "user": "bob", "allocated": {}},
        "app-4": {"queueName": "root.b", "state": "Running", "user": "eve", "allocated": {"vcore": 500}},
        "app-5": {"queueName": "root.b", "state": "Failed"},
    }
    assert list(present("bob", state(applications=applications, limits=limits))) == [
        "now: user bob in queue root, uses vcore 2.5, limit vcore 3, running applications 2 of 2",
        "now: user bob in queue root.a, uses vcore 2, no limit, running applications 1 of 1",
        "now: user bob in queue root.b, uses vcore 0.5, no limit, running applications 1",
    ]


@pytest.mark.parametrize("asked_for", ["", "root.none"])
def test_an_ended_application(asked_for: str) -> None:
    """A rejected application is in no queue, also if it asked for one."""
    refused = {"app-1": {"state": "Rejected", "queueName": asked_for}}
    assert list(present("app-1", state(applications=refused))) == ["now: application app-1 is Rejected in no queue"]


@pytest.mark.parametrize("key", ["", "root"])
def test_the_root(key: str) -> None:
    """The story of root has every pending ask; the story of an empty key has nothing."""
    group = {"reason": "why", "code": "QUOTA", "count": 2, "priority": 0, "resource": {"vcore": 500}, "allocationKeys": ["t1"]}
    pending = [group | {"creationTimes": [1]}]
    found = state(
        applications={"app-1": {"state": "Accepted", "queueName": "root.a", "pending": pending}},
        queues={"root": make_world(tree(queue("a"))).queue("root")},
    )
    lines = ["now: queue root Active, uses nothing, headroom unlimited", "now: 2 asks of app-1 pending, each 0.5 vcore: why"]
    assert list(present(key, found)) == (lines if key else [])
