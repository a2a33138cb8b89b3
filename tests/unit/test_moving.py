"""Applications that an administrator ends or moves to another leaf."""

import pytest
from world import app, ask, configure, limit, move, node, queue, release, remove, terminate, tree, world

from ykactor.core.config.access import UserGroups
from ykactor.core.messages import facts as fact
from ykactor.wire.si.events import events

OPS, EVE = UserGroups("bob", ("ops",)), UserGroups("eve", ("dev",))
NODE = node("n1", vcore=100)
TERMINATED = "TIMEOUT (releasing allocations on application termination)"


def two(a=None, b=None, **root):
    """Leaves ``root.a`` and ``root.b`` with these settings, on one node."""
    return world(tree(queue("a", **(a or {})), queue("b", **(b or {})), **root), [NODE])


# ---- terminate


def test_terminated_at_once_without_allocations():
    """Pending asks are timed out, and the application has failed at once when nothing of it runs (AP-47, AP-135)."""
    it = two()
    it.given(app("app-1"), ask("t1", "app-1", vcore=999))
    assert it.administer(terminate("app-1")) == ""
    it.expect("app-1 Failing", "app-1 Failed")
    (removed,) = [each for each in it.facts if isinstance(each, fact.AskRemoved)]
    assert (removed.pending, removed.timed_out) == (True, True)
    assert it.final()["applications"]["app-1"]["state"] == "Failed"
    changes = [each.why or each.event for each in it.facts if isinstance(each, fact.ApplicationChanged)]
    assert changes[-2:] == ["Terminated", "failApplication"]


def test_terminated_waits_for_the_resource_manager():
    """What runs is asked to end; only when all of it is confirmed has the application failed (AP-135)."""
    it = world(tree(queue("a")), [NODE], confirms=False)
    it.given(app("app-1"), ask("t1", "app-1", vcore=10), ask("t2", "app-1", vcore=10), ask("t3", "app-1", vcore=999))
    assert it.administer(terminate("app-1")) == ""
    it.expect("app-1 Failing", f"t1 releasing {TERMINATED}", f"t2 releasing {TERMINATED}")
    assert it.administer(terminate("app-1")) == "application app-1 is failing already"
    it.send(release("t1", termination_type="TIMEOUT"))
    it.expect()
    it.send(release("t2", termination_type="TIMEOUT"))
    it.expect("app-1 Failed")
    assert it.administer(terminate("app-1")) == "failed to find application app-1"


def test_a_gang_that_is_terminated():
    """Placeholders that wait are given up, those that run are released; no timer of the gang moves it afterwards."""
    it = world(tree(queue("a", max={"vcore": 20})), [NODE], confirms=False)
    gang = app("app-1", placeholders={"vcore": 20}, style="Hard", timeout_ms=5000)
    holders = [ask(key, "app-1", group="g", placeholder=True, vcore=10) for key in ("p1", "p2")]
    it.given(gang, holders[0], ask("big", "app-1", group="g", placeholder=True, vcore=15), ask("r1", "app-1", group="g", vcore=5))
    it.administer(terminate("app-1"))
    heard = it.heard()
    assert "app-1 Failing" in heard
    it.wait(100)
    assert it.state_of("app-1") == "Failing"
    it.expect()
    for key in ("p1", "big"):
        it.send(release(key, termination_type="TIMEOUT"))
    assert it.heard() == ["app-1 Failed"]


def test_a_replacement_under_way_ends_after_it_came():
    """What takes a placeholder's place in a failing application is released at once (GA-47)."""
    it = world(tree(queue("a")), [NODE], confirms=False)
    it.given(app("app-1", placeholders={"vcore": 10}), ask("p1", "app-1", group="g", placeholder=True, vcore=10))
    it.given(ask("r1", "app-1", group="g", vcore=10))
    it.administer(terminate("app-1"))
    it.expect("app-1 Failing")
    it.send(release("p1", termination_type="PLACEHOLDER_REPLACED"))
    it.expect("r1 on n1", f"r1 releasing {TERMINATED}")
    it.send(release("r1", termination_type="TIMEOUT"))
    it.expect("app-1 Failed")


# ---- who may


def test_who_may():
    """Admin ACLs up the tree decide, of both queues; the resource manager itself needs none (QU-81)."""
    it = two(b={"adminacl": " ops"}, adminacl="root-admin")
    it.given(app("app-1"), ask("t1", "app-1", vcore=1))
    assert it.administer(terminate("app-1", EVE)) == "user eve may not administer root.a"
    assert it.administer(move("app-1", "root.b", OPS)) == "user bob may not administer root.a"
    assert it.administer(move("app-1", "root.b", UserGroups("root-admin", ()))) == ""
    assert it.administer(move("app-1", "root.a", OPS)) == "user bob may not administer root.a"
    it.heard()
    assert it.administer(terminate("app-1", OPS)) == ""
    it.expect("app-1 Failing", f"t1 releasing {TERMINATED}", "app-1 Failed")


def test_groups_that_are_known():
    """An administrator without groups has those of his last application, as applications do (QU-94)."""
    it = two(adminacl=" ops")
    it.given(app("app-1"), app("app-2", user="bob", groups=("ops",)))
    assert it.administer(move("app-1", "root.b", UserGroups("eve", ()))) != ""
    assert it.administer(move("app-1", "root.b", UserGroups("bob", ()))) == ""


# ---- move


def test_all_of_it_moves():
    """Running and waiting, usage, slots and priorities are those of the new leaf; age, arrival and state stay (AP-136)."""
    it = two()
    it.given(app("app-1"), ask("t1", "app-1", vcore=10), ask("t2", "app-1", priority=7, vcore=999))
    before = it.direct.core.registry.leaf_of("app-1").applications["app-1"]
    kept = before.state, before.submission_ns, before.arrival
    assert it.administer(move("app-1", "b")) == ""
    it.expect("app-1 moved to root.b")
    after = it.direct.core.registry.leaf_of("app-1").applications["app-1"]
    assert (after.state, after.submission_ns, after.arrival) == kept
    assert it.queue("root.a")["allocated"] == it.queue("root.a")["pending"] == {}
    assert (it.queue("root.b")["allocated"], it.queue("root.b")["pending"]) == ({"vcore": 10}, {"vcore": 999})
    assert it.priorities() == {"root": 7, "root.a": None, "root.b": 7}
    count = len(it.facts)
    it.send(ask("t3", "app-1", vcore=1), release("t1"))
    assert {each.queue for each in it.facts[count:] if hasattr(each, "queue")} == {"root.b"}
    it.send(remove("app-1"))
    assert it.queue("root.b")["allocated"] == {}


def test_what_it_waited_for_is_there():
    """An ask that did not fit into the old leaf's quota is placed in the new one."""
    it = two(a={"max": {"vcore": 5}})
    it.given(app("app-1"), ask("t1", "app-1", vcore=10))
    it.administer(move("app-1", "root.b"))
    it.expect("app-1 moved to root.b", "app-1 Starting", "t1 on n1")


def test_room_that_it_leaves_is_used():
    """Whoever waited for the old leaf's quota is tried again."""
    it = two(a={"max": {"vcore": 10}})
    it.given(app("app-1"), ask("t1", "app-1", vcore=10), app("app-2"), ask("t2", "app-2", vcore=10))
    it.administer(move("app-1", "root.b"))
    it.expect("app-1 moved to root.b", "app-2 Starting", "t2 on n1")


def test_timers_move():
    """Starting and the execution timeout end in the new leaf at the time they were set for, also after a way back."""
    it = two()
    it.given(app("app-1", timeout_ms=400_000), ask("t1", "app-1", vcore=10))
    for second, path in ((10, "root.b"), (20, "root.a"), (30, "root.b")):
        it.administer(move("app-1", path), at=second)
    it.heard()
    it.wait(299)
    it.expect()
    it.wait(300)
    it.expect("app-1 Running")
    it.wait(400)
    assert it.heard()[0] == "app-1 Failing"
    assert [each.queue for each in it.facts if isinstance(each, fact.ApplicationLeft)] == ["root.b"]


def test_a_gang_moves():
    """Placeholders are replaced in the new leaf, and the slot that they keep moves along."""
    it = two(a={"maxapplications": 1}, b={"maxapplications": 1})
    it.given(app("app-1", placeholders={"vcore": 20}), ask("p1", "app-1", group="g", placeholder=True, vcore=10))
    it.given(ask("r1", "app-1", group="g", vcore=999))
    it.administer(move("app-1", "root.b"))
    it.given(app("app-2", "root.b"), ask("t1", "app-2", vcore=1), app("app-3", "root.a"), ask("t2", "app-3", vcore=1))
    assert it.state_of("app-2") == "Accepted"
    assert it.state_of("app-3") == "Starting"
    it.send(release("r1"), ask("r2", "app-1", group="g", vcore=10))
    assert "r2 on n1" in it.heard()


def test_a_dynamic_queue_that_is_left_goes():
    """A queue that placement created is cleaned up when its last application has moved away (QU-96)."""
    it = world(tree(queue("a"), placementrules=[{"name": "provided", "create": True}]), [NODE])
    it.given(app("app-1", "root.x"))
    it.administer(move("app-1", "root.a"), at=1)
    it.wait(30)
    assert "root.x" not in it.state()["queues"]


def test_a_leaf_can_become_a_parent_after_its_applications_moved():
    """The way out that a refused configuration names."""
    it = two()
    it.given(app("app-1"), ask("t1", "app-1", vcore=1))
    it.administer(move("app-1", "root.b"))
    it.heard()
    it.send(configure(tree(queue("a", queue("c")), queue("b"))))
    it.expect("configuration accepted")


def test_events():
    """The feed says that the application is no longer in one queue and now in the other, and that it was a move."""
    told = events(fact.ApplicationMoved(5, "app-1", "root.a", "root.b"), "default", 8)  # type: ignore[arg-type]
    assert [(it.sequence, it.object_id, it.event_change_type, it.event_change_detail, it.message) for it in told] == [
        (8, "root.a", "REMOVE", "QUEUE_APP", "moved to root.b"),
        (9, "root.b", "ADD", "QUEUE_APP", "moved from root.a"),
    ]
    assert {it.reference_id for it in told} == {"app-1"}


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
    it = world(text, [NODE])
    it.given(app("app-1", groups=("dev",)), ask("t1", "app-1", vcore=10), ask("t2", "app-1", vcore=1))
    it.given(app("app-2", "root.p.full"), ask("t1", "app-2", vcore=1), app("app-3", "root.p.count"), ask("t1", "app-3", vcore=1))
    state = it.state()
    if path == "root.p.count":
        why = why.replace("*", "alice")
    assert it.administer(move("app-1", path)) == why
    it.expect()
    assert it.state() == state


def test_quotas_it_counts_in_already_do_not_matter():
    """Queues above both leaves have its usage and its slot, full as they are."""
    leaves = queue("a", maxapplications=1), queue("b", maxapplications=1)
    children = queue("p", *leaves, max={"vcore": 10}, maxapplications=1, limits=[limit("alice", vcore=10, applications=1)])
    it = world(tree(children), [NODE])
    it.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=10))
    assert it.administer(move("app-1", "root.p.b")) == ""


def test_a_draining_target():
    """Only an Active queue takes applications."""
    it = two()
    it.given(app("app-1"), app("app-2", "root.b"))
    it.given(configure(tree(queue("a"))))
    assert it.administer(move("app-1", "root.b")) == "queue root.b is draining"
    assert it.administer(move("app-2", "root.a")) == ""


def test_a_gang_and_the_fair_policy():
    """A gang goes to no leaf that sorts by usage (AP-18), nor to one that could never hold it (AP-19)."""
    it = two(b={"p": {"application.sort.policy": "fair"}})
    it.given(app("app-1", placeholders={"vcore": 10}), app("app-2"))
    why = "queue root.b cannot run application app-1 with task group request: unsupported sort type"
    assert it.administer(move("app-1", "root.b")) == why
    assert it.administer(move("app-2", "root.b")) == ""


def test_limits_count_in_the_new_leaf_only():
    """Trackers of the old leaf forget it, those of the new one have all it uses."""
    limits = {"limits": [limit("alice", vcore=10, applications=1)]}
    it = two(limits, limits)
    it.given(app("app-1"), ask("t1", "app-1", vcore=10))
    assert it.administer(move("app-1", "root.b")) == ""
    it.given(app("app-2"), ask("t2", "app-2", vcore=10), app("app-3", "root.b"), ask("t3", "app-3", vcore=1))
    assert it.state_of("app-2") == "Starting"
    assert it.state_of("app-3") == "Accepted"
