"""Applications that an administrator ends or moves to another leaf."""

import pytest
from msgspec import structs
from world import app, ask, configure, limit, make_world, move, node, queue, release, remove, terminate, tree

from ykactor.core.config.access import UserGroups
from ykactor.core.messages import facts as fact
from ykactor.core.messages.acts import Operator
from ykactor.wire.si.events import events

OPS, EVE = UserGroups("bob", ("ops",)), UserGroups("eve", ("dev",))
NODE = node("n1", vcore=100)
TERMINATED = "TIMEOUT (releasing allocations on application termination)"


def two(a=None, b=None, **root):
    """Leaves ``root.a`` and ``root.b`` with these settings, on one node."""
    return make_world(tree(queue("a", **(a or {})), queue("b", **(b or {})), **root), [NODE])


# ---- terminate


def test_terminated_at_once_without_allocations():
    """Pending asks are timed out, and the application has failed at once when nothing of it runs (AP-47, AP-135)."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=999))
    assert world.administer(terminate("app-1")) == ""
    world.expect("app-1 Failing", "app-1 Failed")
    (removed,) = [each for each in world.facts if isinstance(each, fact.AskRemoved)]
    assert (removed.pending, removed.timed_out) == (True, True)
    assert world.final()["applications"]["app-1"]["state"] == "Failed"
    changes = [each.why or each.event for each in world.facts if isinstance(each, fact.ApplicationChanged)]
    assert changes[-2:] == ["Terminated", "failApplication"]


def test_terminated_waits_for_the_resource_manager():
    """Running tasks are asked to end; the application has failed only when all releases are confirmed (AP-135)."""
    world = make_world(tree(queue("a")), [NODE], confirms=False)
    world.given(app("app-1"), ask("t1", "app-1", vcore=10), ask("t2", "app-1", vcore=10), ask("t3", "app-1", vcore=999))
    assert world.administer(terminate("app-1")) == ""
    world.expect("app-1 Failing", f"t1 releasing {TERMINATED}", f"t2 releasing {TERMINATED}")
    assert world.administer(terminate("app-1")) == "application app-1 is failing already"
    world.send(release("t1", termination_type="TIMEOUT"))
    world.expect()
    world.send(release("t2", termination_type="TIMEOUT"))
    world.expect("app-1 Failed")
    assert world.administer(terminate("app-1")) == "application app-1 has ended: Failed"


def test_a_gang_that_is_terminated():
    """Placeholders that wait are given up, those that run are released; no timer of the gang moves it afterwards."""
    world = make_world(tree(queue("a", max={"vcore": 20})), [NODE], confirms=False)
    gang = app("app-1", placeholders={"vcore": 20}, style="Hard", timeout_ms=5000)
    holders = [ask(key, "app-1", group="g", placeholder=True, vcore=10) for key in ("p1", "p2")]
    world.given(
        gang, holders[0], ask("big", "app-1", group="g", placeholder=True, vcore=15), ask("r1", "app-1", group="g", vcore=5)
    )
    world.administer(terminate("app-1"))
    heard = world.heard()
    assert "app-1 Failing" in heard
    world.wait(100)
    assert world.state_of("app-1") == "Failing"
    world.expect()
    for key in ("p1", "big"):
        world.send(release(key, termination_type="TIMEOUT"))
    assert world.heard() == ["app-1 Failed"]


def test_a_replacement_under_way_ends_after_it_came():
    """A task that takes a placeholder's place in a failing application is released at once (GA-47)."""
    world = make_world(tree(queue("a")), [NODE], confirms=False)
    world.given(app("app-1", placeholders={"vcore": 10}), ask("p1", "app-1", group="g", placeholder=True, vcore=10))
    world.given(ask("r1", "app-1", group="g", vcore=10))
    world.administer(terminate("app-1"))
    world.expect("app-1 Failing")
    world.send(release("p1", termination_type="PLACEHOLDER_REPLACED"))
    world.expect("r1 on n1", f"r1 releasing {TERMINATED}")
    world.send(release("r1", termination_type="TIMEOUT"))
    world.expect("app-1 Failed")


# ---- who may


def test_who_may():
    """Admin ACLs up the tree decide, of both queues; the resource manager itself needs none (QU-81)."""
    world = two(b={"adminacl": " ops"}, adminacl="root-admin")
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    assert world.administer(terminate("app-1", EVE)) == "user eve may not administer root.a"
    assert world.administer(move("app-1", "root.b", OPS)) == "user bob may not administer root.a"
    assert world.administer(move("app-1", "root.b", UserGroups("root-admin", ()))) == ""
    assert world.administer(move("app-1", "root.a", OPS)) == "user bob may not administer root.a"
    world.heard()
    assert world.administer(terminate("app-1", OPS)) == ""
    world.expect("app-1 Failing", f"t1 releasing {TERMINATED}", "app-1 Failed")


def test_groups_that_are_known():
    """An administrator without groups has those of his last application, as applications do (QU-94)."""
    world = two(adminacl=" ops")
    world.given(app("app-1"), app("app-2", user="bob", groups=("ops",)))
    assert world.administer(move("app-1", "root.b", UserGroups("eve", ()))) != ""
    assert world.administer(move("app-1", "root.b", UserGroups("bob", ()))) == ""


# ---- move


def test_all_of_it_moves():
    """Running and waiting, usage, slots and priorities are those of the new leaf; age, arrival and state stay (AP-136)."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=10), ask("t2", "app-1", priority=7, vcore=999))
    before = world.direct.core.registry.leaf_of("app-1").applications["app-1"]
    kept = before.state, before.submission_ns, before.arrival
    assert world.administer(move("app-1", "b")) == ""
    world.expect("app-1 moved to root.b")
    after = world.direct.core.registry.leaf_of("app-1").applications["app-1"]
    assert (after.state, after.submission_ns, after.arrival) == kept
    assert world.queue("root.a")["allocated"] == world.queue("root.a")["pending"] == {}
    assert (world.queue("root.b")["allocated"], world.queue("root.b")["pending"]) == ({"vcore": 10}, {"vcore": 999})
    assert world.priorities() == {"root": 7, "root.a": None, "root.b": 7}
    count = len(world.facts)
    world.send(ask("t3", "app-1", vcore=1), release("t1"))
    assert {each.queue for each in world.facts[count:] if hasattr(each, "queue")} == {"root.b"}
    world.send(remove("app-1"))
    assert world.queue("root.b")["allocated"] == {}


def test_what_it_waited_for_is_there():
    """An ask that did not fit into the old leaf's quota is placed in the new one."""
    world = two(a={"max": {"vcore": 5}})
    world.given(app("app-1"), ask("t1", "app-1", vcore=10))
    world.administer(move("app-1", "root.b"))
    world.expect("app-1 moved to root.b", "app-1 Starting", "t1 on n1")


def test_room_that_it_leaves_is_used():
    """Whoever waited for the old leaf's quota is tried again."""
    world = two(a={"max": {"vcore": 10}})
    world.given(app("app-1"), ask("t1", "app-1", vcore=10), app("app-2"), ask("t2", "app-2", vcore=10))
    world.administer(move("app-1", "root.b"))
    world.expect("app-1 moved to root.b", "app-2 Starting", "t2 on n1")


def test_timers_move():
    """Starting and the execution timeout end in the new leaf at the time they were set for, also after a way back."""
    world = two()
    world.given(app("app-1", timeout_ms=400_000), ask("t1", "app-1", vcore=10))
    for second, path in ((10, "root.b"), (20, "root.a"), (30, "root.b")):
        world.administer(move("app-1", path), at=second)
    world.heard()
    world.wait(299)
    world.expect()
    world.wait(300)
    world.expect("app-1 Running")
    world.wait(400)
    assert world.heard()[0] == "app-1 Failing"
    assert [each.queue for each in world.facts if isinstance(each, fact.ApplicationLeft)] == ["root.b"]


def test_a_gang_moves():
    """Placeholders are replaced in the new leaf, and the slot that they keep moves along."""
    world = two(a={"maxapplications": 1}, b={"maxapplications": 1})
    world.given(app("app-1", placeholders={"vcore": 20}), ask("p1", "app-1", group="g", placeholder=True, vcore=10))
    world.given(ask("r1", "app-1", group="g", vcore=999))
    world.administer(move("app-1", "root.b"))
    world.given(app("app-2", "root.b"), ask("t1", "app-2", vcore=1), app("app-3", "root.a"), ask("t2", "app-3", vcore=1))
    assert world.state_of("app-2") == "Accepted"
    assert world.state_of("app-3") == "Starting"
    world.send(release("r1"), ask("r2", "app-1", group="g", vcore=10))
    assert "r2 on n1" in world.heard()


def test_a_dynamic_queue_that_is_left_goes():
    """A queue that placement created is cleaned up when its last application has moved away (QU-96)."""
    world = make_world(tree(queue("a"), placementrules=[{"name": "provided", "create": True}]), [NODE])
    world.given(app("app-1", "root.x"))
    world.administer(move("app-1", "root.a"), at=1)
    world.wait(30)
    assert "root.x" not in world.state()["queues"]


def test_a_leaf_can_become_a_parent_after_its_applications_moved():
    """The way out that a refused configuration names."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    world.administer(move("app-1", "root.b"))
    world.heard()
    world.send(configure(tree(queue("a", queue("c")), queue("b"))))
    world.expect("configuration accepted")


def test_events():
    """The feed says that the application is no longer in one queue and now in the other, and that it was a move."""
    told = events(fact.ApplicationMoved(5, "app-1", "root.a", "root.b"), "default", 8)  # type: ignore[arg-type]
    assert [(line.sequence, line.object_id, line.event_change_type, line.event_change_detail, line.message) for line in told] == [
        (8, "root.a", "REMOVE", "QUEUE_APP", "moved to root.b"),
        (9, "root.b", "ADD", "QUEUE_APP", "moved from root.a"),
    ]
    assert {line.reference_id for line in told} == {"app-1"}


# ---- refused


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("root.nowhere", "queue root.nowhere does not exist"),
        ("root", "queue root is a parent"),
        ("root.p", "queue root.p is a parent"),
        ("root.a", "application app-1 is in root.a already"),
        ("ROOT.A", "application app-1 is in root.a already"),
        ("root.p.max", "queue root.p.max has not enough vcore left for what the application uses"),
        ("root.p.zero", "queue root.p.zero has not enough vcore left for what the application uses"),
        ("root.p.full", "queue root.p.full has no room for one more running application"),
        ("root.p.user", "the limit of user alice in root.p.user has not enough vcore left for what the application uses"),
        ("root.p.group", "the limit of group dev in root.p.group has not enough vcore left for what the application uses"),
        ("root.p.count", "the limit of user * in root.p.count has no room for one more application"),
        ("root.small.c", "queue root.small has not enough vcore left for what the application uses"),
    ],
)
def test_refused_moves_change_nothing(path: str, why: str):
    """The target is an existing leaf with room for all that runs: max, slots and limits of each queue new to it (AP-136)."""
    leaves = [
        queue("max", max={"vcore": 9}),
        queue("zero", max={"vcore": 0}),
        queue("full", maxapplications=1),
        queue("user", limits=[limit("alice", vcore=9)]),
        queue("group", limits=[limit(groups=("dev",), vcore=9)]),
        queue("count", limits=[limit("*", applications=1, vcore=90)]),
    ]
    text = tree(queue("a", max={"vcore": 10}), queue("p", *leaves), queue("small", queue("c"), max={"vcore": 9}))
    world = make_world(text, [NODE])
    world.given(app("app-1", groups=("dev",)), ask("t1", "app-1", vcore=10), ask("t2", "app-1", vcore=1))
    world.given(
        app("app-2", "root.p.full"), ask("t1", "app-2", vcore=1), app("app-3", "root.p.count"), ask("t1", "app-3", vcore=1)
    )
    state = world.state()
    if path == "root.p.count":
        why = why.replace("*", "alice")
    assert world.administer(move("app-1", path)) == why
    world.expect()
    assert world.state() == state


def test_quotas_it_counts_in_already_do_not_matter():
    """Queues above both leaves have its usage and its slot, full as they are."""
    leaves = queue("a", maxapplications=1), queue("b", maxapplications=1)
    children = queue("p", *leaves, max={"vcore": 10}, maxapplications=1, limits=[limit("alice", vcore=10, applications=1)])
    world = make_world(tree(children), [NODE])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=10))
    assert world.administer(move("app-1", "root.p.b")) == ""


def test_a_draining_target():
    """Only an Active queue takes applications."""
    world = two()
    world.given(app("app-1"), app("app-2", "root.b"))
    world.given(configure(tree(queue("a"))))
    assert world.administer(move("app-1", "root.b")) == "queue root.b is draining"
    assert world.administer(move("app-2", "root.a")) == ""


def test_a_gang_and_the_fair_policy():
    """A gang goes to no leaf that sorts by usage (AP-18), nor to one that could never hold it (AP-19)."""
    world = two(b={"p": {"application.sort.policy": "fair"}})
    world.given(app("app-1", placeholders={"vcore": 10}), app("app-2"))
    why = "queue root.b cannot run application app-1 with task group request: unsupported sort type"
    assert world.administer(move("app-1", "root.b")) == why
    assert world.administer(move("app-2", "root.b")) == ""


def test_limits_count_in_the_new_leaf_only():
    """Trackers of the old leaf forget it, those of the new one have all it uses."""
    limits = {"limits": [limit("alice", vcore=10, applications=1)]}
    world = two(limits, limits)
    world.given(app("app-1"), ask("t1", "app-1", vcore=10))
    assert world.administer(move("app-1", "root.b")) == ""
    world.given(app("app-2"), ask("t2", "app-2", vcore=10), app("app-3", "root.b"), ask("t3", "app-3", vcore=1))
    assert world.state_of("app-2") == "Starting"
    assert world.state_of("app-3") == "Accepted"


# ---- operators


def operated(request, *queues):
    return structs.replace(request, operator=Operator("ops", queues))


def test_operators_need_no_access_list():
    """SE-71: who may operate is not said by the queues."""
    world = two(adminacl=" ops")
    world.given(app("app-1"), ask("t1", "app-1", vcore=10))
    assert world.administer(operated(move("app-1", "root.b"))) == ""
    assert world.administer(operated(terminate("app-1"), "root")) == ""


@pytest.mark.parametrize("request_of", [terminate, lambda name: move(name, "root.b")], ids=["terminate", "move"])
def test_an_operator_knows_its_queues_only(request_of):
    """SE-26: an application elsewhere is answered as one that does not exist, also if the names of queues begin alike."""
    world = make_world(tree(queue("a"), queue("aa"), queue("b")), [NODE])
    world.given(app("app-1", "root.aa"), app("app-2", "root.a"))
    for name in "app-1", "app-9":
        assert world.administer(operated(request_of(name), "root.a")) == f"failed to find application {name}"
    assert world.administer(operated(request_of("app-2"), "root.x", "root.a")) == ""
    assert world.administer(operated(request_of("app-1"), "root")) == ""
