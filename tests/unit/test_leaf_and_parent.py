"""Leaves and parents: batches in order, timers, and what configuration does to them."""

from world import S_NS, app, ask, configure, load, make_world, node, queue, release, tree

from ykactor.core.accounting.books import Books
from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import Allocated, ApplicationChanged, Fact
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import AddApplication, ReleaseAllocations, RemoveApplication
from ykactor.core.objects.commands import (
    Admitted,
    Adopt,
    Close,
    Configure,
    Disown,
    EndAllocations,
    FireTimers,
    SettleBatch,
    SubmitBatch,
)
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.placement.rules import NO_MATCH
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath

PATH = QueuePath("root.a")
ALICE = UserGroups("alice", ("alice",))


def leaf(*names: str) -> LeafCore:
    """A leaf with these applications, in this order of registration."""
    leaf_core = LeafCore(QueueConfig(PATH, False), Books())
    added = [AddApplication(ApplicationID(name), PATH, "alice") for name in names]
    leaf_core.handle(SubmitBatch(0, [(n, Admitted(spec, ALICE), n, n) for n, spec in enumerate(added)]))
    return leaf_core


def running(key: str, name: str) -> Ask:
    return Ask(AllocationKey(key), ApplicationID(name), {"vcore": 1}, node_id=NodeID("n1"))


def states(facts: list[Fact]) -> list[str]:
    return [f"{fact.application_id} {fact.state}" for fact in facts if isinstance(fact, ApplicationChanged)]


def test_batch_answers_by_position() -> None:
    """Each entry is answered under its position, also when it has nothing to say."""
    leaf_core = leaf("app-1")
    entries = [
        (3, Ask(AllocationKey("t1"), ApplicationID("app-1"), {"vcore": 1}), 5, 1),
        (5, ReleaseAllocations(ApplicationID("app-1"), AllocationKey("t9"), TerminationType.STOPPED_BY_RM), 6, 2),
        (8, RemoveApplication(ApplicationID("app-1")), 7, 3),
    ]
    answer = leaf_core.handle(SubmitBatch(10, entries))
    assert [position for position, _ in answer] == [3, 5, 8]
    assert [states(facts) for _, facts in answer] == [["app-1 Accepted"], [], ["app-1 Completing", "app-1 Completed"]]
    assert leaf_core.applications == {}


def test_settle_answers_state_changes_only() -> None:
    """The scheduler has the allocation already; it wants to know what the leaf made of it, by place in the plan."""
    leaf_core = leaf("app-1")
    ask = Ask(AllocationKey("t1"), ApplicationID("app-1"), {"vcore": 1})
    leaf_core.handle(SubmitBatch(1, [(0, ask, 1, 1)]))
    asked = leaf_core.applications[ApplicationID("app-1")].tasks.asks[AllocationKey("t1")]
    placement = Allocated(2, asked, PATH, NodeID("n1"))
    answer = leaf_core.handle(SettleBatch(2, [(7, placement)]))
    assert [(position, states(facts)) for position, facts in answer] == [(7, ["app-1 Starting"])]
    assert leaf_core.applications[ApplicationID("app-1")].tasks.allocations == {"t1": (asked, "n1")}
    assert leaf_core.deadline_ns == 2 + 300 * S_NS


def test_timers_ring_by_deadline_then_arrival() -> None:
    """Due timers in order of (deadline, registration); a stopped one does not ring."""
    leaf_core = leaf("late", "early", "also-early", "stopped")
    for now_ns, name in [(0, "early"), (0, "also-early"), (0, "stopped"), (9, "late")]:
        leaf_core.handle(SubmitBatch(now_ns, [(0, running("t1", name), now_ns, 1)]))
    leaf_core.handle(SubmitBatch(10, [(0, running("t2", "stopped"), 10, 1)]))  # the second allocation: Running, no timer
    assert leaf_core.deadline_ns == 300 * S_NS
    assert leaf_core.handle(FireTimers(300 * S_NS - 1)) == []
    answer = leaf_core.handle(FireTimers(400 * S_NS))
    assert [states(facts) for _, facts in answer] == [["early Running"], ["also-early Running"], ["late Running"]]
    assert [key for key, _ in answer] == sorted(key for key, _ in answer)
    assert leaf_core.deadline_ns is None


def test_ended_applications_leave() -> None:
    """An application that its timer completes is no longer in the queue (AP-70, QU-99)."""
    leaf_core = leaf("app-1")
    leaf_core.handle(SubmitBatch(0, [(0, running("t1", "app-1"), 0, 1)]))
    leaf_core.handle(EndAllocations(0, [(ApplicationID("app-1"), AllocationKey("t1"))], "why"))
    ((_, facts),) = leaf_core.handle(FireTimers(30 * S_NS))
    assert states(facts) == ["app-1 Completed"]
    assert leaf_core.applications == {}


def test_a_name_that_comes_back_has_its_own_timers() -> None:
    """The timer of a removed application does not ring for a new one of the same id."""
    leaf_core = leaf("app-1")
    leaf_core.handle(SubmitBatch(0, [(0, running("t1", "app-1"), 0, 1)]))
    leaf_core.handle(SubmitBatch(1, [(0, RemoveApplication(ApplicationID("app-1")), 1, 2)]))
    leaf_core.handle(SubmitBatch(1, [(0, Admitted(AddApplication(ApplicationID("app-1"), PATH, "alice"), ALICE), 1, 3)]))
    assert leaf_core.deadline_ns is None


def test_configure_and_close() -> None:
    """A queue takes over settings and state; a closed one keeps nothing."""
    leaf_core = leaf("app-1")
    leaf_core.handle(Configure(QueueConfig(PATH, False, max_applications=7), QueueState.DRAINING))
    assert (leaf_core.config.max_applications, leaf_core.state) == (7, QueueState.DRAINING)
    leaf_core.handle(Close())
    assert leaf_core.applications == {}
    parent = ParentCore(QueueConfig(QueuePath("root"), True), Changed())
    parent.handle(Adopt((PATH,)))
    assert list(parent.children) == [PATH]
    parent.handle(Disown((PATH,)))
    assert not parent.children
    parent.handle(Adopt((PATH,)))
    parent.handle(Close())
    assert not parent.children


def test_names_ignore_case() -> None:
    """Paths are lower case and look-ups ignore case; the same short name may occur under different parents (QU-6)."""
    paths = [entry.path for entry in load(tree(queue("CompanyA", queue("Dev")), queue("b", queue("dev")))).root.children]
    assert paths == ["root.companya", "root.b"]
    world = make_world(tree(queue("CompanyA", queue("Dev")), queue("b", queue("dev"))), [node("n1", vcore=2)])
    world.given(app("app-1", "root.COMPANYA.dev"), ask("t1", "app-1", vcore=1))
    assert world.final()["applications"]["app-1"]["queueName"] == "root.companya.dev"


def test_draining_goes_on_scheduling() -> None:
    """A queue that left the text: its applications run and are scheduled, new asks too; new applications are refused (QU-95)."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=1)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    world.given(configure(tree(queue("b"))))
    world.send(release("t1"), ask("t3", "app-1", vcore=1), app("app-2", "root.a"))
    tried = "(provided: queue root.a is draining; root.default: does not exist)"
    refusal = f"failed to place application app-2: {NO_MATCH} {tried}"
    assert [line for line in world.heard() if "released" not in line] == [
        f"app-2 Rejected: {refusal}",
        "app-1 Running",
        "t2 on n1",
    ]
