"""Limits of users and groups (QU-60 to QU-78)."""

import pytest
from gangs import gang, holder, real, room
from world import World, app, ask, configure, hand_back, limit, make_world, node, queue, release, remove, tree

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import Limit
from ykactor.core.messages.facts import GroupLinkChanged, LimitChanged
from ykactor.core.messages.kinds import Change
from ykactor.core.quota.limits import GroupChoice, QueueLimits, Trackers, choose_group
from ykactor.core.values.ids import QueuePath

BIG = [node("n1", vcore=100, memory=100)]
DEV = limit(groups=("dev",), vcore=1)


def asks(application_id: str, *keys: str, **resource: int) -> list[object]:
    return [ask(key, application_id, **(resource or {"vcore": 1})) for key in keys]


def held(world: World) -> dict[str, dict[str, int]]:
    """The resources in use of every tracker that somebody holds."""
    trackers = world.direct.scheduler.state.trackers.in_use.values()
    return {f"{tracker.whose} in {tracker.path}": tracker.allocated for tracker in trackers}


# ---- the model


def test_a_limit_bounds_a_queue_and_all_below() -> None:
    """Per user, in that queue and below; elsewhere and for others it does not exist (QU-60)."""
    world = make_world(tree(queue("p", queue("a"), queue("b"), limits=[limit("bob", vcore=3)]), queue("c")), BIG)
    world.given(app("one", "root.p.a", user="bob"), app("two", "root.p.b", user="bob"), app("three", "root.c", user="bob"))
    world.given(app("four", "root.p.a"))
    world.send(*asks("one", "a1", "a2"), *asks("two", "b1", "b2"), *asks("three", *"123456"), *asks("four", *"uvwxyz"))
    placed = world.placed()
    assert len(placed) == 3 + 6 + 6
    assert len({"a1", "a2", "b1", "b2"} - set(placed)) == 1


def test_root_limits_are_cluster_wide() -> None:
    """QU-60."""
    world = make_world(tree(queue("a"), queue("b"), limits=[limit("bob", vcore=3)]), BIG)
    world.given(app("one", user="bob"), app("two", "root.b", user="bob"))
    world.send(*asks("one", "a1", "a2"), *asks("two", "b1", "b2"))
    assert len(world.placed()) == 3


def test_everybody_named_has_the_full_amount() -> None:
    """A limit that names several users or groups is not shared by them (QU-61)."""
    limits = [limit("bob", "eve", vcore=2), limit(groups=("dev", "ops"), vcore=1)]
    world = make_world(tree(queue("a", limits=limits)), BIG)
    world.given(app("bob", user="bob"), app("eve", user="eve"))
    world.given(app("dev", user="x", groups=("dev",)), app("ops", user="y", groups=("ops",)))
    for name in ("bob", "eve", "dev", "ops"):
        world.send(*asks(name, *(f"{name}{number}" for number in "123")))
    assert world.placed() == ["bob1", "bob2", "eve1", "eve2", "dev1", "ops1"]


def test_star_is_for_each_user_that_is_not_named() -> None:
    """Each for itself; who is named at the queue does not get the values of ``*``, not even for other types (QU-62)."""
    world = make_world(tree(queue("a", limits=[limit("bob", vcore=2), limit("*", vcore=1, memory=1)])), BIG)
    world.given(*(app(name, user=name) for name in ("bob", "eve", "sue")))
    for name in ("bob", "eve", "sue"):
        world.send(*asks(name, f"{name}1", f"{name}2"), *asks(name, f"{name}3", memory=5))
    assert world.placed() == ["bob1", "bob2", "bob3", "eve1", "sue1"]


def test_star_at_other_levels() -> None:
    """The other queues of the path apply their own entries (QU-62)."""
    world = make_world(tree(queue("a", limits=[limit("bob", vcore=2, memory=1)]), queue("b"), limits=[limit("*", vcore=3)]), BIG)
    world.given(app("one", user="bob"), app("two", "root.b", user="bob"))
    world.given(*asks("one", "t1", "t2", "t3"), *asks("two", "t4", "t5"))
    assert world.why("t3") == "wants 0.001, has 0 of 0.002 vcore in the limit of user bob in queue root.a"
    assert world.why("t5") == "wants 0.001, has 0 of 0.003 vcore in the limit of user bob in queue root"


def test_star_of_groups_is_one_budget() -> None:
    """All applications that resolve to ``*`` share it; named groups have nothing to do with it (QU-63)."""
    limits = [limit(groups=("dev",), vcore=3), limit(groups=("*",), vcore=2)]
    world = make_world(tree(queue("a", limits=limits)), BIG)
    world.given(app("ops", user="bob", groups=("ops",)), app("qa", user="eve", groups=("qa",)), app("dev", groups=("dev",)))
    world.send(*asks("ops", "o1"), *asks("qa", "q1", "q2"), *asks("dev", "d1", "d2", "d3", "d4"))
    assert world.placed() == ["o1", "q1", "d1", "d2", "d3"]
    assert world.why("q2") == "wants 0.001, has 0 of 0.002 vcore in the limit of group * in queue root.a"


@pytest.mark.parametrize(("user", "group"), [(1, 2), (2, 1)])
def test_user_and_group_both_hold(user: int, group: int) -> None:
    """The tighter one decides (QU-64)."""
    world = make_world(tree(queue("a", limits=[limit("bob", vcore=user), limit(groups=("dev",), vcore=group)])), BIG)
    world.given(app("app-1", user="bob", groups=("dev",)))
    world.send(*asks("app-1", "t1", "t2", "t3"))
    assert world.placed() == ["t1"]


def test_a_new_limit_sees_what_runs() -> None:
    """Usage counts from the start, limits or not (QU-65)."""
    world = make_world(tree(queue("a"), queue("b")), BIG)
    world.given(app("one", user="bob"), app("two", "root.b", user="bob"), *asks("one", "t1", "t2"), *asks("two", "t3"))
    world.given(configure(tree(queue("a"), queue("b"), limits=[limit("bob", vcore=4, applications=2)])))
    world.given(app("three", user="bob"), *asks("two", "t4", "t5"), *asks("three", "t6"))
    assert world.why("t5") == "wants 0.001, has 0 of 0.004 vcore in the limit of user bob in queue root"
    assert world.why("t6") == "user bob in queue root runs 2 of at most 2 applications"


def test_partitions_share_nothing() -> None:
    """Equal paths in two partitions are two budgets (QU-66)."""
    text = tree(queue("a", limits=[limit("bob", vcore=1)]))
    for world in (make_world(text, BIG), make_world(text, BIG)):
        world.given(app("app-1", user="bob"))
        world.send(*asks("app-1", "t1", "t2"))
        assert world.placed() == ["t1"]


# ---- the group


def listed(path: str, *groups: str) -> QueueLimits:
    return QueueLimits(QueuePath(path), (Limit(groups=groups),))


PARENT_AND_ROOT = [listed("root.parent", "test_parent"), listed("root", "test_root")]


@pytest.mark.parametrize(
    ("path_up", "groups", "chosen"),
    [
        (PARENT_AND_ROOT, ("test", "test_root", "test_parent"), "test_parent in root.parent"),
        (PARENT_AND_ROOT[1:], ("test", "test_root", "test_parent"), "test_root in root"),
        (PARENT_AND_ROOT, ("test", "test_root"), "test_root in root"),
        ([listed("root.a", "dev", "test", "*")], ("ops",), "* in root.a"),
        ([listed("root.a", "dev", "*"), listed("root", "ops")], ("ops",), "* in root.a"),  # QU-69
        ([listed("root", "ops")], ("dev",), None),
        ([listed("root.a", "dev", "test", "*")], ("test", "dev"), "dev in root.a"),  # the order of the text counts
        ([listed("root.a", "dev", "*")], (), None),  # QU-67
        ([], ("dev",), None),
    ],
)
def test_choice_of_group(path_up: list[QueueLimits], groups: tuple[str, ...], chosen: str | None) -> None:
    """The first group counts, from the leaf upwards, in the order of the text (QU-67 to QU-69)."""
    choice = choose_group(path_up, UserGroups("bob", groups))
    assert (choice and f"{choice.group} in {choice.path}") == chosen


def test_the_choice_is_kept() -> None:
    """An application keeps the group of its first ask, "no group" too; later ones are resolved anew (QU-70)."""
    world = make_world(tree(queue("a")), BIG)
    world.given(app("early", groups=("dev",)), app("silent", groups=("dev",)), *asks("early", "t1"))
    world.given(configure(tree(queue("a", limits=[DEV]))))
    world.given(app("late", groups=("dev",)))
    world.send(*asks("early", "t2", "t3"), *asks("silent", "t4"), *asks("late", "t5"))
    assert world.placed() == ["t2", "t3", "t4"]
    assert held(world) == {"group dev in root.a": {"vcore": 1}}


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ([], [DEV], "group dev in root.a"),
        ([limit(groups=("ops",), vcore=9)], [DEV, limit(groups=("ops",), vcore=9)], "group dev in root.a"),
        ([DEV], [DEV], "group dev in root.a"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("recovered", [True, False])
def test_nothing_left_then_the_choice_is_made_anew(
    before: list[dict[str, object]], after: list[dict[str, object]], counts: str, at_once: bool, recovered: bool
) -> None:
    """An application that had nothing left, for however short a time, chooses as a new one does (QU-70)."""
    world = make_world(tree(queue("a", limits=before)), BIG)
    world.given(app("app-1", groups=("dev", "ops")), *asks("app-1", "t1"))
    world.given(configure(tree(queue("a", limits=after))), *([] if at_once else [release("t1")]))
    woken = ask("t2", "app-1", on="n1" if recovered else None, vcore=1)
    world.given(*([release("t1")] if at_once else []), woken, *asks("app-1", "t3"))
    assert held(world) == {counts: {"vcore": 1}}
    assert world.waiting() == ["t3"]
    linked = [found.group for found in world.facts if isinstance(found, GroupLinkChanged) and found.change is Change.SET]
    assert linked == (["dev"] if before in ([], [DEV]) else ["ops", "dev"])


def test_a_gang_that_changes_places_keeps_its_choice() -> None:
    """An application has something left all the time when a task takes the place of its last placeholder (QU-70)."""
    world = make_world(tree(queue("a")), BIG)
    world.given(app("gang", groups=("dev",), placeholders={"vcore": 1}), holder("p1"))
    world.given(configure(tree(queue("a", limits=[DEV]))))
    world.given(real("r1"), *asks("gang", "t2"))
    assert world.waiting() == []
    assert held(world) == {}


def test_a_task_that_is_handed_back_keeps_the_choice() -> None:
    """The task waits again, so its application has something left all the time (QU-70, AP-144)."""
    world = make_world(tree(queue("a")), BIG)
    world.given(app("app-1", groups=("dev",)), *asks("app-1", "t1"))
    world.given(configure(tree(queue("a", limits=[DEV]))))
    world.given(hand_back("t1"), *asks("app-1", "t2"), node("n2", vcore=9))
    assert world.waiting() == []


def test_a_closer_limit_does_not_move_the_choice() -> None:
    """A limit that was found higher up stays while it exists, whatever appears below (QU-70, QU-77)."""
    world = make_world(tree(queue("a"), limits=[limit(groups=("dev",), vcore=5)]), BIG)
    world.given(app("app-1", groups=("dev", "ops")), *asks("app-1", "t1"))
    world.given(configure(tree(queue("a", limits=[limit(groups=("ops",), vcore=1)]), limits=[limit(groups=("dev",), vcore=5)])))
    world.send(*asks("app-1", "t2"))
    assert world.placed() == ["t2"]
    assert held(world) == {"group dev in root": {"vcore": 2}}


def test_a_group_counts_at_every_queue_that_limits_it() -> None:
    """Not only where it was found (QU-71)."""
    inner, outer = limit(groups=("dev",), vcore=3), limit(groups=("dev",), vcore=4)
    world = make_world(tree(queue("a", limits=[inner]), queue("b"), limits=[outer]), BIG)
    world.given(app("one", groups=("dev",)), app("two", "root.b", groups=("dev",)))
    world.given(*asks("one", "t1", "t2"), *asks("two", "t3", "t4"), *asks("one", "t5"))
    assert held(world) == {"group dev in root": {"vcore": 4}, "group dev in root.a": {"vcore": 2}}
    assert world.why("t5") == "wants 0.001, has 0 of 0.004 vcore in the limit of group dev in queue root"


# ---- checks


def test_headroom_is_the_smallest_on_the_path() -> None:
    """Bob may use 10 at root and 5 in root.a; he uses 4 there and 3 in root.b (QU-72)."""
    world = make_world(tree(queue("a", limits=[limit("bob", memory=5)]), queue("b"), limits=[limit("bob", memory=10)]), BIG)
    world.given(app("one", user="bob"), app("two", "root.b", user="bob"))
    world.given(ask("t1", "one", memory=4), ask("t2", "two", memory=3))
    world.given(ask("t3", "one", memory=2), ask("t4", "two", memory=4))
    assert world.why("t3") == "wants 2, has 1 of 5 B memory in the limit of user bob in queue root.a"
    assert world.why("t4") == "wants 4, has 3 of 10 B memory in the limit of user bob in queue root"
    world.send(ask("t5", "two", memory=3))
    assert world.placed() == ["t5"]


def test_types_without_a_limit() -> None:
    """A type that is not listed is not limited, one with 0 is forbidden; the next ask is tried (QU-72)."""
    world = make_world(tree(queue("a", limits=[limit("bob", vcore=2, memory=0)])), [node("n1", vcore=9, memory=9, gpu=9)])
    world.given(app("app-1", user="bob"))
    world.send(ask("t1", "app-1", memory=1), ask("t2", "app-1", gpu=9), ask("t3", "app-1", vcore=3), ask("t4", "app-1", vcore=2))
    assert world.placed() == ["t2", "t4"]


def test_a_type_with_0_fits_anywhere() -> None:
    """A negative headroom counts as 0, which an ask for none of it fits in (QU-37, QU-72)."""
    world = make_world(tree(queue("a", limits=[limit("bob", memory=2)])), BIG)
    world.given(app("app-1", user="bob"), ask("t1", "app-1", on="n1", memory=3))
    world.send(ask("t2", "app-1", vcore=1, memory=0))
    assert world.placed() == ["t2"]


def test_people_come_before_queues() -> None:
    """User and group are asked before the queue (QU-39)."""
    world = make_world(tree(queue("a", max={"vcore": 1}, limits=[limit("bob", vcore=1)])), BIG)
    world.given(app("app-1", user="bob"), ask("t1", "app-1", vcore=2))
    assert world.why("t1") == "can never fit: wants 0.002, may have at most 0.001 vcore in the limit of user bob in queue root.a"


def test_who_is_over_the_limit_does_not_hold_up_others() -> None:
    """An ask that its user has no room for is skipped, the next application has its turn (QU-72)."""
    world = make_world(tree(queue("a", limits=[limit("bob", vcore=1)])), BIG)
    world.given(app("one", user="bob"), app("two", user="eve"))
    world.send(*asks("one", "t1", "t2"), *asks("two", "t3"))
    assert world.placed() == ["t1", "t3"]
    world.send(release("t1", "one"))
    assert world.placed() == ["t2"]


@pytest.mark.parametrize("entry", [limit("bob", applications=1), limit(groups=("dev",), applications=1)])
def test_numbers_of_applications(entry: dict[str, object]) -> None:
    """One that counts already goes on, another one waits until there is a place (QU-73)."""
    world = make_world(tree(queue("a", limits=[entry])), BIG)
    world.given(app("one", user="bob", groups=("dev",)), app("two", user="bob", groups=("dev",)), app("other", user="eve"))
    world.send(*asks("one", "t1", "t2"), *asks("two", "t3"), *asks("other", "t4"))
    assert world.placed() == ["t1", "t2", "t4"]
    world.send(remove("one"))
    assert world.placed() == ["t3"]


def test_both_must_allow_one_more_application() -> None:
    """The user has a place left, the group has not (QU-73)."""
    world = make_world(tree(queue("a", limits=[limit("bob", applications=2), limit(groups=("dev",), applications=1)])), BIG)
    world.given(app("one", user="eve", groups=("dev",)), app("two", user="bob", groups=("dev",)))
    world.given(app("three", user="bob", groups=("qa",)), *asks("one", "t1"), *asks("two", "t2"), *asks("three", "t3"))
    assert world.why("t2") == "group dev in queue root.a runs 1 of at most 1 application"
    assert world.state_of("three") == "Starting"


def test_applications_past_accepted_are_not_held() -> None:
    """Numbers are checked for Accepted applications only: lowering one holds up nobody who runs (QU-73)."""
    world = make_world(tree(queue("a", limits=[limit("bob", applications=2)])), BIG)
    world.given(app("one", user="bob"), app("two", user="bob"), app("three", user="bob"))
    world.given(*asks("one", "t1"), *asks("two", "t2"), *asks("three", "t3"))
    world.given(configure(tree(queue("a", limits=[limit("bob", applications=1)]))))
    world.send(*asks("one", "t4"), *asks("two", "t5"))
    assert world.placed() == ["t4", "t5"]
    assert world.why("t3") == "user bob in queue root.a runs 2 of at most 1 application"


def test_what_waits_does_not_count() -> None:
    """An application counts from its first allocation on (QU-74)."""
    world = make_world(tree(queue("a", limits=[limit("bob", applications=1)])), BIG)
    world.given(app("one", user="bob"), app("two", user="bob"), ask("huge", "one", vcore=999))
    world.send(*asks("two", "t1"))
    assert world.placed() == ["t1"]


def test_idle_applications_do_not_count() -> None:
    """An application without asks and allocations does not count, though it has not ended; with asks alone it counts (QU-74)."""
    world = make_world(tree(queue("a", limits=[limit("bob", applications=1)])), BIG)
    world.given(app("one", user="bob"), app("two", user="bob"))
    world.given(*asks("one", "t1"), ask("huge", "one", vcore=999), *asks("two", "t2"))
    world.send(release("t1", "one"))
    assert world.placed() == []
    world.send(release("huge", "one"))
    assert world.placed() == ["t2"]
    assert world.state_of("one") == "Completing"


def test_idle_for_a_moment() -> None:
    """Also if the next ask comes in the same message as the last release (QU-74)."""
    world = make_world(tree(queue("a", limits=[limit("bob", vcore=2, applications=1)])), BIG)
    world.given(app("one", user="bob"), app("two", user="bob"), *asks("one", "t1"), *asks("two", "t2"))
    world.send(release("t1", "one"), ask("huge", "one", vcore=999))
    assert world.placed() == ["t2"]


def test_recovered_allocations_count_unchecked() -> None:
    """Running allocations count, also above the limit; nothing new fits until usage has shrunk (QU-41, QU-74)."""
    world = make_world(tree(queue("a", limits=[limit("bob", vcore=2, applications=1)])), BIG)
    world.given(app("one", user="bob"), app("two", user="bob"))
    world.given(ask("t1", "one", on="n1", vcore=3), ask("t2", "two", on="n1", vcore=1), *asks("one", "t3"))
    assert held(world) == {"user bob in root.a": {"vcore": 4}}
    world.send(release("t1", "one"))
    assert world.placed() == ["t3"]


def test_a_placeholder_counts_until_its_place_is_taken() -> None:
    """Then the amount of the real task counts instead (QU-74, QU-75)."""
    world = room(confirms=False, limits=[limit("alice", vcore=2)])
    world.given(gang(2), holder("p1", vcore=2), real("t1", vcore=1))
    assert held(world) == {"user alice in root.g": {"vcore": 2}}
    world.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    assert held(world) == {"user alice in root.g": {"vcore": 1}}


def test_a_preempted_task_counts_until_it_has_gone() -> None:
    """A preempted task counts until its release is confirmed (QU-75)."""
    limits = [limit("bob", vcore=9)]
    world = make_world(
        tree(queue("a", guaranteed={"vcore": 9}), queue("b", limits=limits)), [node("n1", vcore=9)], confirms=False
    )
    world.given(app("one"), app("two", "root.b", user="bob"), ask("t1", "two", on="n1", vcore=9))
    world.given(ask("t2", "one", vcore=4, preempt_other=True))
    world.run(31)
    assert world.heard()[-2].startswith("t1 releasing PREEMPTED_BY_SCHEDULER")
    assert held(world) == {"user bob in root.b": {"vcore": 9}}
    world.given(release("t1", "two", "PREEMPTED_BY_SCHEDULER"))
    assert held(world) == {"user bob in root.b": {}}


# ---- reload


def test_limits_that_come_change_and_go() -> None:
    """After a reload everybody has the values of the text: the own entry, else that of ``*``, else none (QU-76)."""
    world = make_world(tree(queue("a", limits=[limit("bob", vcore=1), limit("*", vcore=2)])), BIG)
    world.given(*(app(name, user=name) for name in ("bob", "eve")))
    world.send(*asks("bob", *(f"bob{number}" for number in "123456")), *asks("eve", *(f"eve{number}" for number in "123456")))
    assert world.placed() == ["bob1", "eve1", "eve2"]
    world.send(configure(tree(queue("a", limits=[limit("eve", vcore=3), limit("*", vcore=2)]))))
    assert world.placed() == ["bob2", "eve3"]
    world.send(configure(tree(queue("a", limits=[limit("eve", vcore=4)]))))  # ``*`` goes, a name stays
    assert world.placed() == ["bob3", "bob4", "bob5", "bob6", "eve4"]
    world.send(configure(tree(queue("a"))))
    assert world.placed() == ["eve5", "eve6"]
    assert held(world) == {}


def test_a_queue_that_the_file_drops_has_no_limits() -> None:
    """The limits of users and groups end with the queue's place in the file, for resources and for applications (QU-76)."""
    dropped = queue("a", limits=[limit("alice", vcore=1), limit(groups=("dev",), applications=1)])
    world = make_world(tree(dropped, queue("b")), BIG)
    world.given(app("app-1", groups=("dev",)), app("app-2", user="bob", groups=("dev",)))
    world.send(*asks("app-1", "t1", "t2"), *asks("app-2", "t3"))
    assert world.placed() == ["t1"]
    world.send(configure(tree(queue("b"))))
    assert world.placed() == ["t2", "t3"]
    assert held(world) == {}
    ended = [str(found.principal) for found in world.facts if isinstance(found, LimitChanged) and found.change is Change.REMOVE]
    assert ended == ["user alice", "group dev"]


def test_a_parent_that_the_file_drops_has_no_limits() -> None:
    """The leaves of a dropped parent are bound by the limits of the queues that stay only (QU-76)."""
    parent = queue("p", queue("a"), limits=[limit("alice", vcore=1)])
    world = make_world(tree(parent, queue("b"), limits=[limit("alice", vcore=2)]), BIG)
    world.given(app("app-1", "root.p.a"), *asks("app-1", "t1", "t2", "t3"))
    world.send(configure(tree(queue("b"), limits=[limit("alice", vcore=2)])))
    assert world.placed() == ["t2"]
    assert world.why("t3") == "wants 0.001, has 0 of 0.002 vcore in the limit of user alice in queue root"


def test_a_queue_that_the_file_drops_keeps_its_max() -> None:
    """A dropped queue is bound by its own quotas until it is empty: ``max``, and how many applications run in it (QU-76)."""
    world = make_world(tree(queue("a", max={"vcore": 1}, maxapplications=1), queue("b")), BIG)
    world.given(app("app-1"), app("app-2"), *asks("app-1", "t1", "t2"), ask("t3", "app-2", memory=1))
    world.send(configure(tree(queue("b"))))
    assert world.placed() == []
    assert world.why("t2") == "wants 0.001, has 0 of 0.001 vcore in queue root.a"
    assert world.queue("root.a")["state"] == "Draining"


def test_a_queue_that_comes_back_has_the_limits_of_the_file() -> None:
    """Allocations that ran meanwhile count (QU-65, QU-76)."""
    limited = tree(queue("a", limits=[limit("alice", vcore=2)]), queue("b"))
    world = make_world(limited, BIG)
    world.given(app("app-1"), *asks("app-1", "t1", "t2", "t3"))
    world.given(configure(tree(queue("b"))))
    world.send(configure(limited), *asks("app-1", "t4"))
    assert world.placed() == []
    assert held(world) == {"user alice in root.a": {"vcore": 3}}


def test_lowered_limits_stop_nothing() -> None:
    """Usage above is left to shrink (CF-75)."""
    world = make_world(tree(queue("a")), BIG)
    world.given(app("app-1", user="bob"), *asks("app-1", "t1", "t2", "t3"))
    world.given(configure(tree(queue("a", limits=[limit("bob", vcore=2)]))))
    world.given(*asks("app-1", "t4"))
    assert world.why("t4") == "wants 0.001, has 0 of 0.002 vcore in the limit of user bob in queue root.a"
    world.send(release("t1"))
    assert world.placed() == []
    world.send(release("t2"))
    assert world.placed() == ["t4"]


def test_a_group_without_its_limit_is_chosen_anew() -> None:
    """Usage moves to the group that is found now if the limit is gone where it was found (QU-77)."""
    world = make_world(tree(queue("a", limits=[limit(groups=("dev",), vcore=9)]), limits=[limit(groups=("ops",), vcore=9)]), BIG)
    world.given(app("app-1", groups=("dev", "ops")), *asks("app-1", "t1", "t2"))
    assert held(world) == {"group dev in root.a": {"vcore": 2}}
    world.given(configure(tree(queue("a"), limits=[limit(groups=("ops",), vcore=3)])))
    assert held(world) == {"group ops in root": {"vcore": 2}}
    world.send(*asks("app-1", "t3", "t4"))
    assert world.placed() == ["t3"]
    world.given(configure(tree(queue("a"), limits=[limit(groups=("qa",), vcore=3)])))
    assert held(world) == {}
    world.send(remove("app-1"))


def test_the_queue_where_it_was_found_counts() -> None:
    """A limit of the same group higher up does not keep the choice (QU-77)."""
    dev, ops = limit(groups=("dev",), vcore=9), limit(groups=("ops",), vcore=9)
    world = make_world(tree(queue("a", limits=[dev]), limits=[dev]), BIG)
    world.given(app("app-1", groups=("dev", "ops")), *asks("app-1", "t1"))
    world.given(configure(tree(queue("a", limits=[ops]), limits=[dev])))
    assert held(world) == {"group ops in root.a": {"vcore": 1}}


def test_trackers_go_with_the_last_application() -> None:
    """A tracker that nobody holds is forgotten (QU-78)."""
    world = make_world(tree(queue("a", limits=[limit("*", vcore=9)])), BIG)
    world.given(app("one", user="bob"), app("two", user="bob"), app("idle", user="eve"), *asks("one", "t1"), *asks("two", "t2"))
    assert held(world) == {"user bob in root.a": {"vcore": 2}}
    world.given(remove("one"))
    assert held(world) == {"user bob in root.a": {"vcore": 1}}
    world.given(remove("two"))
    assert held(world) == {}


def test_equal_people_hold_equal_trackers() -> None:
    """The same leaf, user and group give the same tuple, from the leaf upwards, user before group."""
    trackers = Trackers()
    path_up = [QueueLimits(QueuePath("root.a"), (Limit(users=("*",)), Limit(groups=("dev",)))), listed("root", "dev")]
    bob, choice = UserGroups("bob", ("dev",)), GroupChoice("dev", QueuePath("root.a"))
    first = trackers.track(path_up, bob, choice)
    assert [repr(tracker) for tracker in first] == [
        "<Tracker user bob in root.a>", "<Tracker group dev in root.a>", "<Tracker group dev in root>",
    ]  # fmt: skip
    assert trackers.track(path_up, bob, choice) == first
    trackers.untrack(first)
    assert len(trackers.in_use) == 3
    trackers.untrack(first)
    assert trackers.in_use == {}
