"""One application: its entries, its tags, and the facts that each step causes."""

import pytest
from world import RELEASED, app, ask, make_world, node, queue, release, remove, spoken, tree

from ykactor.core.accounting.books import Books
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.asks import Ask, created_ns
from ykactor.core.messages.facts import AllocationResized, AskAdded, AskRemoved, AskResized, Fact, Released
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.application import Application
from ykactor.core.objects.lifecycle import Timer, is_stateaware
from ykactor.core.values.parts import finished
from ykactor.core.values.times import S_NS


def application(**tags: str) -> Application:
    spec = AddApplication("app-1", "root.a", "alice", tags={name.replace("__", "."): entry for name, entry in tags.items()})  # type: ignore[arg-type]
    return Application(spec, UserGroups("alice", ("dev",)), "root.a", (100, 1), Books())  # type: ignore[arg-type]


def entry(key: str = "t1", on: str | None = None, priority: int = 0, **resource: int) -> Ask:
    return Ask(key, "app-1", resource or {"vcore": 1}, priority, on)  # type: ignore[arg-type]


def said(facts: list[Fact]) -> list[str]:
    return [line for fact in facts if (line := spoken(fact)) is not None]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("application.stateaware.disable", "true", False),
        ("Application.StateAware.Disable", "TRUE", False),
        ("application.stateaware.disable", "1", False),
        ("application.stateaware.disable", "T", False),
        ("application.stateaware.disable", "false", True),
        ("application.stateaware.disable", "", True),
        ("application.stateaware.disable", "yes", True),
        ("another", "true", True),
    ],
)
def test_stateaware_tag(name: str, value: str, expected: bool) -> None:
    """Tag names ignore case; only ``1 t true`` in any case are true (AP-40)."""
    assert is_stateaware({name: value}) is expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"creationTime": "5"}, 5 * S_NS),
        ({"creationTime": "0"}, 0),
        ({}, 7),
        ({"creationTime": "soon"}, 7),
        ({"creationTime": "-5"}, 7),
        ({"creationTime": ""}, 7),
        ({"creationTime": "²"}, 7),
        ({"creationTime": "9" * 5000}, 7),  # more digits than Python cares to convert
    ],
)
def test_creation_time(tags: dict[str, str], expected: int) -> None:
    """Tag in Unix seconds if it parses, else the arrival (PR-52)."""
    assert created_ns(Ask("t1", "app-1", {"vcore": 1}, tags=tags), 7) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        ({}, "allocation contains no resources"),
        ({"vcore": 0}, "allocation contains no resources"),
        ({"vcore": 1, "memory": -1}, "allocation contains negative resources"),
        ({"vcore": -1}, "allocation contains negative resources"),
    ],
)
@pytest.mark.parametrize("on", [None, "n1"])
def test_refused_entries_change_nothing(resource: dict[str, int], reason: str, on: str | None) -> None:
    """AP-105, AP-106, exact texts; the application stays as it was."""
    pending_application = application()
    ask = Ask("t1", "app-1", resource, 0, on)  # type: ignore[arg-type]
    assert said(pending_application.submit(5, ask, 5, 1)) == [f"t1 rejected: {reason}"]
    assert (pending_application.state, pending_application.tasks.asks, pending_application.tasks.allocations) == (
        ApplicationState.NEW,
        {},
        {},
    )


def test_state_change_precedes_the_ask() -> None:
    """The first ask: Accepted, then the ask itself (AP-34, AP-96); the second one changes no state (AP-48)."""
    pending_application = application()
    facts = pending_application.submit(5, entry(), 5, 1)
    assert said(facts) == ["app-1 Accepted"]
    assert isinstance(facts[-1], AskAdded)
    assert [type(fact) for fact in pending_application.submit(5, entry("t2"), 5, 2)] == [AskAdded]


def test_same_key_twice() -> None:
    """Nothing changed, no effect (AP-114); another size is a resize (AP-110); the priority is kept (AP-116)."""
    pending_application = application()
    pending_application.submit(5, entry(vcore=1), 5, 1)
    assert pending_application.submit(6, entry(vcore=1, priority=9), 6, 2) == []
    (resized,) = pending_application.submit(7, entry(vcore=3, priority=9), 7, 3)
    assert isinstance(resized, AskResized)
    assert (resized.before.resource, resized.after.resource) == ({"vcore": 1}, {"vcore": 3})
    assert (resized.after.priority, resized.after.created_ns, resized.after.arrival) == (0, 5, 1)


def test_running_key_again() -> None:
    """Allocated: the same is nothing, also with another node (AP-113); another size is a resize without a word (AP-111)."""
    pending_application = application()
    pending_application.submit(5, entry(on="n1", vcore=1), 5, 1)
    assert pending_application.submit(6, entry(on="n2", vcore=1), 6, 2) == []
    (resized,) = pending_application.submit(7, entry(vcore=3), 7, 3)
    assert isinstance(resized, AllocationResized)
    assert resized.node_id == "n1"
    assert said([resized]) == []


def test_moves_that_are_errors_change_nothing() -> None:
    """Rejected, Failing or Completed + run, New + complete, Running + run: unchanged, no message (AP-30, AP-31)."""
    pending_application = application()
    for state, event in [
        ("Rejected", ApplicationEvent.RUN),
        ("Failing", ApplicationEvent.RUN),
        ("New", ApplicationEvent.COMPLETE),
        ("Completed", ApplicationEvent.RUN),
        ("Running", ApplicationEvent.RUN),
    ]:
        lifecycle = pending_application.lifecycle
        lifecycle.state, lifecycle.timers = ApplicationState(state), {Timer.STATE: 77}
        assert pending_application.move(5, event) == []
        assert (lifecycle.state, lifecycle.timers) == (state, {Timer.STATE: 77})


def test_timers_belong_to_states() -> None:
    """Armed on entering Starting and Completing, stopped on leaving any state (AP-43)."""
    pending_application = application()
    found = []
    for event in ("run", "run", "run", "complete", "run", "complete", "complete"):
        pending_application.move(1000 * S_NS, ApplicationEvent(f"{event}Application"))
        due_ns = pending_application.lifecycle.timers.get(Timer.STATE)
        found.append((pending_application.state.value, None if due_ns is None else due_ns // S_NS - 1000))
    assert found == [
        ("Accepted", None), ("Starting", 300), ("Running", None), ("Completing", 30), ("Running", None), ("Completing", 30),
        ("Completed", None),
    ]  # fmt: skip


def test_release_all_in_order() -> None:
    """One echo for each allocation, none for asks, and the end of the application comes with the last (AP-126)."""
    pending_application = application()
    for key, on in [("t1", "n1"), ("t2", None), ("t3", "n1")]:
        pending_application.submit(5, entry(key, on), 5, 1)
    facts = finished(pending_application.release_all(9, "STOPPED_BY_RM"))
    assert said(facts) == [f"t1 {RELEASED}", f"t3 {RELEASED}", "app-1 Completing"]
    assert [fact.pending for fact in facts if isinstance(fact, AskRemoved)] == [False, False, True]


@pytest.mark.parametrize(
    ("termination_type", "told", "echo"),
    [
        ("STOPPED_BY_RM", "STOPPED_BY_RM", "allocation remove as per RM request"),
        ("UNKNOWN_TERMINATION_TYPE", "STOPPED_BY_RM", "allocation remove as per RM request"),
        ("TIMEOUT", "TIMEOUT", ""),
        ("PREEMPTED_BY_SCHEDULER", "PREEMPTED_BY_SCHEDULER", ""),
        ("PLACEHOLDER_REPLACED", "PLACEHOLDER_REPLACED", ""),
    ],
)
def test_echoes(termination_type: str, told: str, echo: str) -> None:
    """AP-131: wishes are echoed, confirmations are not; every type ends asks and allocations."""
    pending_application = application()
    pending_application.submit(5, entry("t1", "n1"), 5, 1)
    pending_application.submit(5, entry("t2"), 5, 2)
    facts = pending_application.release(6, "t1", termination_type)  # type: ignore[arg-type]
    assert [fact.termination_type for fact in facts if isinstance(fact, Released)] == [told]
    assert [line for line in said(facts) if "released" in line] == ([f"t1 released {told} ({echo})"] if echo else [])
    assert said(pending_application.release(7, "t2", termination_type)) == ["app-1 Completing"]  # type: ignore[arg-type]
    assert pending_application.release(8, "t1", termination_type) == []  # type: ignore[arg-type]


def test_unknown_type_is_told_as_stopped() -> None:
    """UNKNOWN_TERMINATION_TYPE is echoed as STOPPED_BY_RM (AP-131)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=2)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    world.send(release("t1", termination_type="UNKNOWN_TERMINATION_TYPE"))
    world.expect(f"t1 {RELEASED}")


def test_removal_echoes_once_for_each_allocation() -> None:
    """AP-80, AP-81: through Completing and Completed, then the list of what ended; asks go in silence."""
    world = make_world(tree(queue("a")), [node("n1", vcore=2)])
    world.given(app("app-1"), *(ask(f"t{n}", "app-1", vcore=1) for n in range(3)))
    world.send(remove("app-1"))
    world.expect(
        "app-1 Completing",
        "app-1 Completed",
        "t0 released STOPPED_BY_RM (Application app-1 Removed)",
        "t1 released STOPPED_BY_RM (Application app-1 Removed)",
    )
