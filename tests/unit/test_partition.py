"""The partition: order of input, refusals with their exact texts, nodes that come and go, and fresh starts."""

import pytest
from world import RELEASED, World, app, ask, configure, foreign, make_world, node, queue, release, remove, reset, tree

from ykactor.core.messages.facts import (
    AllocationRejected,
    ApplicationRejected,
    NodeCapacityChanged,
    NodeRejected,
    NodeRemoved,
    NodeSchedulable,
    QueueLimitChanged,
)
from ykactor.core.messages.submissions import AddApplication, RefuseConfig, RefuseEntry, Submission
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID
from ykactor.wire.si.responses import responses

AB = tree(queue("a"), queue("b"))
DUPLICATE = (
    "n1 rejected: failure while adding new node, node rejected with error: \n"
    "failed to add node n1 to partition default, error: partition default has an existing node n1, node name must be unique"
)


def room(**capacity: int) -> World:
    return make_world(AB, [node("n1", **(capacity or {"vcore": 10}))])


# ---- node actions


@pytest.mark.parametrize(("action", "schedulable"), [("CREATE", True), ("CREATE_DRAIN", False)])
def test_create(action: str, schedulable: bool) -> None:
    """An unknown node is added, with the flag as its only state (SC-101); a known one is refused (SC-102, SC-153)."""
    world = make_world(AB)
    world.send(node("n1", action, vcore=10))
    world.expect("n1 accepted")
    before, count = world.state(), len(world.facts)
    assert world.node("n1")["schedulable"] is schedulable
    for again in ("CREATE", "CREATE_DRAIN"):
        world.send(node("n1", again, vcore=99))
        world.expect(DUPLICATE)
    assert world.state() == before
    assert len(world.facts) == count + 2


@pytest.mark.parametrize("action", ["UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION"])
def test_unknown_node_is_ignored(action: str) -> None:
    """Every other action for an unknown node: nothing, not even a fact (SC-152)."""
    world = room()
    count = len(world.facts)
    world.send(node("n9", action, vcore=1))
    assert len(world.facts) == count


@pytest.mark.parametrize(
    ("submission", "facts"),
    [
        (node("n1", "UPDATE", vcore=12), [QueueLimitChanged, NodeCapacityChanged]),
        (node("n1", "UPDATE", vcore=10), []),
        (node("n1", "UPDATE"), []),
        (node("n1", "DRAIN_NODE"), [NodeSchedulable]),
        (node("n1", "DRAIN_TO_SCHEDULABLE"), []),
        (node("n1", "DECOMISSION"), [NodeSchedulable, QueueLimitChanged, NodeRemoved]),
    ],
    ids=["update", "same capacity", "without capacity", "drain", "flag as it is", "decommission"],
)
def test_known_node(submission: Submission, facts: list[type]) -> None:
    """The facts by which each action is reported; none gives an answer (SC-103, SC-111, SC-152)."""
    world = room()
    count = len(world.facts)
    world.send(submission)
    world.expect()
    assert [type(fact) for fact in world.facts[count:]] == facts


def test_answers_share_a_message() -> None:
    """Accepted and rejected entries of one request go out in one NodeResponse (SC-100)."""
    world = make_world(AB)
    count = len(world.facts)
    world.send(node("n1", vcore=1), node("n2", vcore=1), node("n1", vcore=1), node("n3", "UPDATE", vcore=1))
    (response,) = responses(world.facts[count:], "default")
    assert [entry.node_id for entry in response.accepted] == ["n1", "n2"]  # type: ignore[union-attr]
    assert [entry.node_id for entry in response.rejected] == ["n1"]  # type: ignore[union-attr]


def test_root_max_is_the_sum_of_capacities() -> None:
    """All nodes count, schedulable or not, without zero types; there is no maximum while nothing is positive (QU-30)."""
    world = make_world(AB)
    story: list[tuple[Submission, dict[str, int] | None]] = [
        (node("n1"), None),
        (node("n2", "CREATE_DRAIN", vcore=4, memory=0), {"vcore": 4}),
        (node("n3", vcore=1, gpu=2), {"vcore": 5, "gpu": 2}),
        (node("n3", "UPDATE", vcore=2), {"vcore": 6}),
        (node("n2", "DRAIN_TO_SCHEDULABLE"), {"vcore": 6}),
        (node("n2", "DECOMISSION"), {"vcore": 2}),
        (node("n3", "DECOMISSION"), None),
        (node("n1", "UPDATE", memory=7), {"memory": 7}),
    ]
    for submission, total in story:
        world.send(submission)
        assert world.queue("root")["max"] == total


def test_decommission() -> None:
    """One released message with both allocations, Completing as nothing else is left (SC-112, SC-113)."""
    world = room()
    world.given(app("app-1", "root.a"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    count = len(world.facts)
    world.send(node("n1", "DECOMISSION"))
    world.expect(
        "app-1 Completing",
        "t1 released STOPPED_BY_RM (Node n1 Removed)",
        "t2 released STOPPED_BY_RM (Node n1 Removed)",
    )
    updated, released = responses(world.facts[count:], "default")
    assert [entry.state for entry in updated.updated] == ["Completing"]  # type: ignore[union-attr]
    assert [entry.allocation_key for entry in released.released] == ["t1", "t2"]  # type: ignore[union-attr]
    assert world.queue("root")["allocated"] == {}
    assert world.final()["nodes"] == {}
    world.wait(30)
    world.expect("app-1 Completed")


def test_decommission_of_a_shared_node() -> None:
    """Applications of several leaves: each completes or goes on by what is left of it."""
    world = room()
    world.given(app("app-1", "root.a"), app("app-2", "root.b"), ask("t1", "app-1", vcore=1), ask("t2", "app-2", vcore=1))
    world.given(ask("t3", "app-2", vcore=11))
    world.send(node("n1", "DECOMISSION"))
    assert sorted(world.heard()) == [
        "app-1 Completing",
        "t1 released STOPPED_BY_RM (Node n1 Removed)",
        "t2 released STOPPED_BY_RM (Node n1 Removed)",
    ]
    world.send(node("n2", vcore=11))
    world.expect("n2 accepted", "app-2 Running", "t3 on n2")


def test_node_comes_back() -> None:
    """The same name after a decommission is a new node, also within one input."""
    world = room()
    world.given(app("app-1", "root.a"), ask("t1", "app-1", vcore=10), ask("t2", "app-1", vcore=4))
    world.send(node("n1", "DECOMISSION"), node("n1", "CREATE", vcore=4))
    world.expect("t1 released STOPPED_BY_RM (Node n1 Removed)", "n1 accepted", "app-1 Running", "t2 on n1")


# ---- applications


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("", "empty user cannot resolve: ugi names no user"),
        ("eve!", "invalid username, it contains invalid characters"),
        ("1st", "invalid username, it contains invalid characters"),
        ("a$b", "invalid username, it contains invalid characters"),
        ("a$", None),
        ("_a:#/.@-Z9", None),
    ],
)
def test_users(user: str, reason: str | None) -> None:
    """AP-11 by the grammar of CF-21; the user is looked at before the queue."""
    world = room()
    world.send(app("app-1", "root.nowhere" if reason else "root.a", user=user))
    world.expect(f"app-1 Rejected: {reason}" if reason else "app-1 New")


def test_duplicates() -> None:
    """AP-13: refused while the first lives; the first goes on as it was; a removed one may come again in the same input."""
    world = room()
    world.given(app("app-1", "root.a"), ask("t1", "app-1", vcore=1))
    world.send(app("app-1", "root.b"), remove("app-1"), app("app-1", "root.b"))
    world.expect(
        "app-1 Rejected: adding application app-1 to partition default, but application already existed",
        "app-1 Completing",
        "app-1 Completed",
        "t1 released STOPPED_BY_RM (Application app-1 Removed)",
        "app-1 New",
    )


def test_placeholder_asks_of_nothing_are_no_gang() -> None:
    """A placeholder ask of zeros is no gang, and so nothing has to be able to hold it (AP-18, AP-19)."""
    world = make_world(tree(queue("a", max={"vcore": 0})))
    for number, placeholders in enumerate([{"vcore": 1}, {"vcore": 0}, {}]):
        world.send(AddApplication(f"app-{number}", "root.a", "alice", placeholder_ask=placeholders))  # type: ignore[arg-type]
    world.expect(
        "app-0 Rejected: queue root.a cannot fit application app-0: "
        "task group request map[vcore:1] larger than max queue allocation map[vcore:0]",
        "app-1 New",
        "app-2 New",
    )


# ---- allocations


@pytest.mark.parametrize(
    ("submission", "reason"),
    [
        (ask("t1", "app-9", on="n9"), "failed to find application app-9"),
        (ask("t1", "app-1", on="n9"), "failed to find node n9"),
        (ask("t1", "app-1", on="n1"), "allocation contains no resources"),
        (ask("t1", "app-1", vcore=0), "allocation contains no resources"),
        (ask("t1", "app-1", vcore=1, memory=-1), "allocation contains negative resources"),
    ],
)
def test_refused_allocations(submission: Submission, reason: str) -> None:
    """AP-103 to AP-106, exact texts, the first match decides; other entries of the request are not affected (AP-115)."""
    world = room()
    world.given(app("app-1", "root.a"))
    world.send(submission, ask("t2", "app-1", vcore=1))
    world.expect(f"t1 rejected: {reason}", "app-1 Accepted", "app-1 Starting", "t2 on n1")


def test_releases_of_nobody() -> None:
    """Unknown application, unknown key, a key released twice: ignored without a word (AP-122, AP-132)."""
    world = room()
    world.given(app("app-1", "root.a"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    world.send(release("t1", "app-9"), release(None, "app-9"), release("t9"), release("t1"), release("t1"))
    world.expect(f"t1 {RELEASED}")


# ---- the order of input


def test_everything_in_one_input() -> None:
    """Messages are handled in arrival order, whoever owns what they are about (SC-2); then the scheduler runs."""
    world = make_world(AB)
    world.send(
        ask("early", "app-1", vcore=1),
        app("app-1", "root.a"), ask("r1", "app-1", on="n1", vcore=1), node("n1", vcore=10), ask("r1", "app-1", on="n1", vcore=1),
        app("app-2", "root.b"), foreign("f1", "n1", vcore=8), ask("t1", "app-2", vcore=1), ask("t2", "app-2", vcore=1),
        release("r1"), node("n2", "CREATE_DRAIN", vcore=5),
    )  # fmt: skip
    world.expect(
        "early rejected: failed to find application app-1",
        "app-1 New",
        "r1 rejected: failed to find node n1",
        "n1 accepted",
        "app-1 Accepted",
        "app-1 Starting",
        "r1 on n1",
        "app-2 New",
        "app-2 Accepted",
        "app-1 Completing",
        f"r1 {RELEASED}",
        "n2 accepted",
        "app-2 Starting",
        "t1 on n1",
        "app-2 Running",
        "t2 on n1",
    )


def test_one_input_or_many() -> None:
    """The number of submissions that come at once does not change what is decided about them."""
    names = [(f"{leaf}{n}", f"root.{leaf}") for n in range(3) for leaf in "ab"]
    story = [app(name, path) for name, path in names]
    story += [ask(f"{name}-{n}", name, priority=n, vcore=3 + n) for n in range(3) for name, _ in names]
    found = []
    for at_once in (True, False):
        world = make_world(AB)
        for part in [story] if at_once else [[submission] for submission in story]:
            world.given(*part)
        world.send(node("n1", vcore=40))
        found.append(world.heard())
    assert found[0] == found[1]
    assert sum(" on " in line for line in found[0]) > 5


def test_later_is_younger() -> None:
    """Items of one message are slightly apart in time, the earlier is older, even if the clock stands still (PR-31)."""
    world = make_world(tree(queue("a", p={"application.sort.priority": "disabled"})))
    world.given(app("z", "root.a"), app("y", "root.a"), app("x", "root.a"))
    world.given(ask("x", "x", priority=3, vcore=1), ask("y", "y", priority=2, vcore=1), ask("z", "z", priority=1, vcore=1))
    world.send(node("n1", vcore=10))
    assert world.placed() == ["z", "y", "x"]


# ---- fresh starts and configurations


def test_reset() -> None:
    """A fresh registration forgets applications, nodes and what ended; everything may come again (SC-141)."""
    world = room()
    world.given(app("app-1", "root.a"), ask("t1", "app-1", vcore=1), app("app-2", "root.b"), ask("t2", "app-2", vcore=99))
    world.given(foreign("f1", "n1", vcore=1), app("app-3", "root.nowhere"))
    world.given(reset())
    final = world.final()
    assert (final["applications"], final["nodes"]) == ({}, {})
    assert final["queues"]["root"] | {"allocated": {}, "pending": {}} == final["queues"]["root"]
    world.send(node("n1", vcore=10), app("app-1", "root.a"), ask("t1", "app-1", vcore=10), foreign("f1", "n1", vcore=1))
    world.expect("n1 accepted", "app-1 New", "app-1 Accepted")
    world.send(release("f1", ""))
    world.expect("app-1 Starting", "t1 on n1")


def test_refused_configuration_is_told() -> None:
    """A text that was refused before it came here changes nothing (CF-52)."""
    world = room()
    world.given(app("app-1", "root.a"))
    state = world.state()
    world.send(RefuseConfig("line 3: nonsense"))
    world.expect("configuration rejected: line 3: nonsense")
    assert world.state() == state


def test_refused_entries_are_told_in_order() -> None:
    """An entry that was refused before it came here changes nothing, and has the time of the input (AP-138)."""
    world = room()
    world.given(app("app-1", "root.a"))
    state = world.state()
    world.send(
        RefuseEntry(NodeRejected(0, NodeID("n2"), "long")),
        RefuseEntry(ApplicationRejected(0, ApplicationID("app-1"), "long")),
        RefuseEntry(AllocationRejected(0, AllocationKey("t1"), ApplicationID("app-1"), "long")),
    )
    world.expect("n2 rejected: long", "app-1 Rejected: long", "t1 rejected: long")
    assert {fact.at_ns for fact in world.facts[-3:]} == {world.now_ns}
    assert world.state() == state


def test_configurations_one_after_the_other() -> None:
    """Two in one input: both are carried out, the last one stays."""
    world = room()
    world.send(configure(tree(queue("c"))), configure(AB), app("app-1", "root.a"))
    world.expect("configuration accepted", "configuration accepted", "app-1 New")
    world.wait(1000)
    assert sorted(world.final()["queues"]) == ["root", "root.a", "root.b"]
