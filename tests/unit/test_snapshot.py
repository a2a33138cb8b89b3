"""A partition's state as plain data."""

import json

from gangs import gang, real, room, three
from msgspec import to_builtins
from test_view import view
from world import S_NS, app, ask, foreign, hold, make_world, node, queue, release, remove, seen, terminate, tree

from ykactor.core.inspection.pending_asks import waiting_asks
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.values import parts


def test_final_state() -> None:
    """The format of the simulator's ``--final``, with the lowest int32 as "nothing pending" and zeros left out."""
    world = make_world(tree(queue("p", queue("a")), queue("b", p={"priority.offset": 5})), [node("n1", vcore=4, memory=0)])
    world.given(node("n2", "CREATE_DRAIN", vcore=1), foreign("f1", "n1", vcore=1, memory=0))
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=3), app("app-2", "root.b"), ask("t2", "app-2", vcore=9))
    assert world.final() == {
        "queues": {
            "root": {"allocated": {"vcore": 3}, "pending": {"vcore": 9}, "priority": 5, "state": "Active"},
            "root.p": {"allocated": {"vcore": 3}, "pending": {}, "priority": PRIORITY_MIN, "state": "Active"},
            "root.p.a": {"allocated": {"vcore": 3}, "pending": {}, "priority": PRIORITY_MIN, "state": "Active"},
            "root.b": {"allocated": {}, "pending": {"vcore": 9}, "priority": 5, "state": "Active"},
        },
        "applications": {
            "app-1": {"state": "Starting", "queueName": "root.p.a"},
            "app-2": {"state": "Accepted", "queueName": "root.b"},
        },
        "nodes": {
            "n1": {"allocated": {"vcore": 3}, "allocations": ["f1", "t1"], "schedulable": True, "occupied": {"vcore": 1}},
            "n2": {"allocated": {}, "allocations": [], "schedulable": False, "occupied": {}},
        },
    }


def test_who_is_listed() -> None:
    """Ended and rejected applications are listed, removed ones are not; a live one hides an ended one of its name."""
    world = make_world(tree(queue("a")))
    world.given(*(app(name) for name in ("ended", "again", "removed")), app("refused", "root.nowhere"))
    world.given(*(ask("t1", name, vcore=1) for name in ("ended", "again", "removed")))
    world.given(release("t1", "ended"), release("t1", "again"), remove("removed"))
    world.wait(30)
    world.given(app("again"))
    assert {name: found["state"] for name, found in world.final()["applications"].items()} == {
        "again": "New",
        "ended": "Completed",
        "refused": "Rejected",
    }


def test_what_a_follower_sees() -> None:
    """Beside the final state: limits, shares, running applications, capacities, and why asks wait, with a few examples."""
    world = make_world(tree(queue("a", max={"vcore": 4}, guaranteed={"vcore": 2}, maxapplications=3)), [node("n1", vcore=8)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=3), *(ask(f"w{n}", "app-1", vcore=2) for n in range(5)))
    state = world.state()
    assert state["name"] == "default"
    assert state["queues"]["root.a"] == {
        "allocated": {"vcore": 3},
        "pending": {"vcore": 10},
        "priority": 0,
        "state": "Active",
        "isManaged": True,
        "max": {"vcore": 4},
        "headroom": {"vcore": 1},
        "guaranteed": {"vcore": 2},
        "actualGuaranteed": {"vcore": 2},
        "share": 1.5,
        "maxApplications": 3,
        "runningApplications": 1,
        "isLeaf": True,
        "sortPolicy": "fifo",
        "priorityPolicy": "default",
        "priorityOffset": 0,
        "preemptionPolicy": "default",
        "pendingAsks": 5,
    }
    assert (state["nodes"]["n1"]["capacity"], state["nodes"]["n1"]["available"]) == ({"vcore": 8}, {"vcore": 5})
    assert state["applications"]["app-1"]["pending"] == [
        {
            "reason": "wants 0.002, has 0.001 of 0.004 vcore in queue root.a",
            "code": "QUOTA",
            "place": {"queueName": "root.a", "resource": "vcore", "used": 3, "max": 4},
            "count": 5,
            "priority": 0,
            "resource": {"vcore": 2},
            "allocationKeys": ["w0", "w1", "w2"],
            "creationTimes": [3, 4, 5],
            "oldestTime": 3,
            "effectivePriority": 0,
        }
    ]
    json.dumps(state)


def test_who_owns_an_application() -> None:
    """A follower sees who owns an application, when it was submitted, its priority and usage, and the age of its asks."""
    world = make_world(tree(queue("a")), [node("n1", vcore=2)])
    world.wait(5)
    world.given(app("app-1", user="bob", groups=("dev", "ops")), ask("t1", "app-1", vcore=2))
    world.given(ask("t2", "app-1", priority=3, created=2, vcore=1), app("app-2"))
    bob = world.state()["applications"]["app-1"]
    (pending,) = bob.pop("pending")
    assert (pending["allocationKeys"], pending["creationTimes"]) == (["t2"], [2 * 10**9])
    assert bob == {
        "state": "Starting",
        "queueName": "root.a",
        "user": "bob",
        "groups": ["dev", "ops"],
        "submissionTime": 2 * 10**9,  # an older ask makes the application older (PR-40)
        "priority": 3,
        "allocated": {"vcore": 2},
        "allocations": {"t1": "n1"},
        "effectivePriority": 3,
    }
    nothing = world.state()["applications"]["app-2"]
    assert (nothing["priority"], nothing["effectivePriority"]) == (PRIORITY_MIN, PRIORITY_MIN)


def test_what_decides_the_priority_of_an_ask() -> None:
    """The own priority of the most important pending ask, and the offset and fence of each queue on its way."""
    text = tree(queue("a", p={"priority.offset": -7, "priority.policy": "fence", "preemption.policy": "disabled"}))
    world = make_world(text, [node("n1", vcore=1)])
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", priority=number, vcore=2) for number in (2, 9, 3)))
    (pending,) = world.state()["applications"]["app-1"]["pending"]
    assert (pending["count"], pending["priority"], pending["allocationKeys"]) == (3, 9, ["t9", "t3", "t2"])
    of_queue = world.queue("root.a")
    assert (of_queue["priorityOffset"], of_queue["priorityPolicy"], of_queue["preemptionPolicy"]) == (-7, "fence", "disabled")
    assert world.queue("root")["priorityPolicy"] == "default"


def test_the_effective_priority_is_told() -> None:
    """PR-11: each queue adds its offset, and a fence shows its own; for limited readers in their queues."""
    text = tree(queue("p", queue("a", p={"priority.offset": -7}), p={"priority.policy": "fence", "priority.offset": 50}))
    world = make_world(text)
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", priority=9, vcore=2))
    for state, expected in ((world.state(), 50), (seen(view("root.p.a"), world.state()), 2)):
        application = state["applications"]["app-1"]
        assert [application["effectivePriority"], application["pending"][0]["effectivePriority"]] == [expected] * 2


def test_what_is_held_with_a_queue_is_told() -> None:
    """OP-2: the nearest queue above that is held; for limited readers among theirs; an application that has ended is not held."""
    world = make_world(tree(queue("p", queue("a"), queue("b")), queue("c")), [node("n1", vcore=4)])
    world.given(app("ended", "root.p.a"), ask("t1", "ended", vcore=1), release("t1", "ended"))
    world.wait(30)
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1), app("app-2", "root.c"))
    world.administer(hold("root.p"))
    state = world.state()
    shown = state["queues"] | state["applications"]
    held = {name: entry["heldWith"] for name, entry in shown.items() if "heldWith" in entry}
    assert held == {"root.p.a": "root.p", "root.p.b": "root.p", "app-1": "root.p"}
    limited = seen(view("root.p.a"), state)
    assert ["heldWith" in entry for entry in (limited["queues"]["root.p.a"], limited["applications"]["app-1"])] == [False] * 2
    world.administer(hold("root.p.a"))
    state = world.state()
    assert (state["queues"]["root.p.a"]["heldWith"], state["applications"]["app-1"]["heldWith"]) == ("root.p", "root.p.a")
    assert seen(view("root.p.a"), state)["applications"]["app-1"]["heldWith"] == "root.p.a"


def test_how_many_asks_are_pending_in_a_queue_is_told() -> None:
    """EV-62: with all below it, for limited readers too; as many as have a reason, also behind placeholders and reservations."""
    world = make_world(tree(queue("p", queue("a"), queue("b")), queue("c")), [node("n1", vcore=4)])
    world.given(app("app-1", "root.p.a"), *(ask(f"t{number}", "app-1", vcore=1 + number) for number in range(4)))
    world.given(app("app-2", "root.p.b"), ask("t1", "app-2", vcore=9))
    state = world.state()
    assert {path: shown["pendingAsks"] for path, shown in state["queues"].items()} == {
        "root": 3,
        "root.p": 3,
        "root.p.a": 2,
        "root.p.b": 1,
        "root.c": 0,
    }
    assert seen(view("root.p.a"), state)["queues"]["root.p.a"]["pendingAsks"] == 2
    world.wait(3)  # for reservations
    held = room(vcore=1)
    held.given(gang(), *three(), real("t1"), real("t2"))
    for each in (world, held):
        waiting = waiting_asks(each.direct.scheduler.state)
        assert each.queue("root")["pendingAsks"] == len(waiting) > 2


def test_the_dominant_share_of_a_node() -> None:
    """The share in use of the scarcest resource, with what other schedulers use; types without capacity do not count."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4, memory=8, gpu=0), node("n2")])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), foreign("f1", "n1", vcore=1, memory=5))
    assert [found["dominantShare"] for found in world.state()["nodes"].values()] == [0.625, 0.0]


def test_a_replacement_under_way() -> None:
    """A real ask is listed apart, neither pending nor on a node, until the release of its placeholder is confirmed."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"))
    replacing = world.state()["applications"]["gang"]["replacing"]
    assert replacing == [{"allocationKey": "t1", "placeholder": "p1", "nodeID": "n1"}]
    world.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    assert "replacing" not in world.state()["applications"]["gang"]


def test_headroom_and_actual_guarantee() -> None:
    """The headroom is that of the whole path, never below zero (QU-36, QU-37); the guarantee the smallest of the path (QU-46)."""
    child = queue("b", max={"memory": 9}, guaranteed={"memory": 1})
    world = make_world(tree(queue("a", child, max={"vcore": 4}, guaranteed={"vcore": 1})), [node("n1", vcore=8, memory=8)])
    world.given(app("app-1", "root.a.b"), ask("t1", "app-1", on="n1", vcore=5))
    assert world.queue("root")["headroom"] == {"vcore": 3, "memory": 8}
    assert world.queue("root.a.b")["headroom"] == {"vcore": 0, "memory": 8}
    assert world.queue("root.a.b")["actualGuaranteed"] == {"vcore": 1, "memory": 1}
    assert world.queue("root")["actualGuaranteed"] is None


def test_limits_of_users_and_groups() -> None:
    """Every limit that somebody counts against, with what is used of it."""
    limits = [{"limit": "all", "users": ["*"], "maxresources": {"vcore": "3m"}, "maxapplications": 2}]
    world = make_world(tree(queue("a", limits=limits)), [node("n1", vcore=8)])
    world.given(app("app-1", "root.a", user="bob"), ask("t1", "app-1", vcore=2), ask("t2", "app-1", vcore=2))
    assert world.state()["limits"] == [
        {
            "queue": "root.a",
            "whose": "user bob",
            "max": {"vcore": 3},
            "allocated": {"vcore": 2},
            "maxApplications": 2,
            "applications": ["app-1"],
        }
    ]
    assert world.why("t2") == "wants 0.002, has 0.001 of 0.003 vcore in the limit of user bob in queue root.a"


def test_waiting_asks() -> None:
    """Every ask that waits, with its queue and the reason; none that runs."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=2)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=2), app("app-2", "root.b"))
    world.given(ask("t3", "app-2", requires="n9", vcore=1))
    assert waiting_asks(world.direct.scheduler.state) == [
        ("t2", "root.a", "wants 0.002, has 0.001 of 0.002 vcore in the cluster"),
        ("t3", "root.b", "its required node n9 is not registered"),
    ]


def test_every_pending_ask_is_named_on_request(monkeypatch) -> None:
    """Asks in queues, behind placeholders and with a reservation are named, in parts of one application each; none that runs."""
    monkeypatch.setattr(parts, "PART_MAX", 3)
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=4), node("n2", vcore=4)])
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=3) for number in range(9)))
    world.given(app("app-2", "root.b"), *(ask(f"u{number}", "app-2", vcore=4 + number) for number in range(5)))
    world.wait(3)  # for reservations
    core, state = world.direct.core, world.direct.scheduler.state
    assert "pendingAsks" not in world.state()
    shown = to_builtins(parts.finished(partition_state(core, state, every_ask=True)).pending_asks)
    assert list(shown) == [str(number) for number in range(len(shown))]
    assert {len(part["allocationKeys"]) for part in shown.values()} <= {1, 2, 3}
    assert all(len(part["creationTimes"]) == len(part["allocationKeys"]) for part in shown.values())
    named = [(part["applicationID"], key) for part in shown.values() for key in part["allocationKeys"]]
    expected = [key for key, _, _ in waiting_asks(state)]
    assert sorted(key for _, key in named) == sorted(expected)
    assert len(expected) == 12
    assert all(key.startswith("t" if name == "app-1" else "u") for name, key in named)


def test_a_snapshot_pauses(monkeypatch) -> None:
    """After so many nodes with their tasks, and so many applications with their pending asks; what it shows is the same."""
    world = make_world(tree(queue("a")), [node(f"n{number}", vcore=4) for number in range(10)])
    for number in range(10):
        name = f"app-{number}"
        world.given(app(name, "root.a"), *(ask(f"{name}-{size}", name, vcore=size) for size in (1, 2, 4, 5)))
    whole = world.state()
    core, state = world.direct.core, world.direct.scheduler.state
    assert list(parts.paced(partition_state(core, state))) == []
    monkeypatch.setattr(parts, "PART_MAX", 5)
    pauses = list(parts.paced(partition_state(core, state)))
    assert pauses == [()] * len(pauses)
    assert len(pauses) > 10
    assert world.state() == whole


def test_an_application_that_has_ended() -> None:
    """AP-140: whose it was, when it was submitted, started and ended, what it has used and lost, and why it failed."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1", user="alice", groups=("dev",)), at=1)
    world.given(ask("k1", "app-1", vcore=3), ask("k2", "app-1", vcore=1), at=5)
    world.given(app("app-2"), ask("d1", "app-2", vcore=3, requires="n1"), at=7)  # k1 is preempted
    assert world.administer(terminate("app-1"), at=9) == ""
    world.given(at=10)
    assert world.state()["applications"]["app-1"] == {
        "state": "Failed",
        "queueName": "root.a",
        "user": "alice",
        "groups": ["dev"],
        "submissionTime": 1 * S_NS,
        "startTime": 5 * S_NS,
        "finishedTime": 9 * S_NS,
        "reason": "Terminated",
        "usedSeconds": {"vcore": 3 * 2 + 1 * 4},
        "lostSeconds": {"vcore": 6},
    }
    assert world.final()["applications"]["app-1"] == {"state": "Failed", "queueName": "root.a"}
