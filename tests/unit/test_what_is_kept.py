"""Every attribute of a partition and its scheduler is in a row, or follows from rows, or may start empty (DU-4, DU-5).

A new attribute of a class that has something to keep fails here until somebody has decided which of the three it is.
"""

from __future__ import annotations

from collections import defaultdict
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import pytest
from world import app, ask, make_world, node, queue, release, tree

from ykactor.core.records.rows import ApplicationRow, PartitionRow, UseRow

#: Classes with attributes that are in rows: those, then what follows from them, then what may start empty.
KEPT: dict[str, tuple[str, str, str]] = {
    "Registry": ("applications config nodes queues", "books dynamic_queues", "changed unsent"),
    "PartitionCore": ("name turns", "cluster holdings registry rounds timers users", ""),
    "Rounds": ("arrivals last_arrival_ns", "_cluster _holdings _registry _timers _users", ""),
    "Books": ("accounts", "_instance_types types", "changed"),
    "Accounts": ("days", "_count", "_changed tidy_ns"),
    "Account": ("allocated lost waited", "", ""),
    "Past": ("failure job max_used placeholders preempted records started_ns states used", "", "message outcome"),
    "Timers": ("cleaning_ns ended rejected", "_expiries _leaves _noted recheck_ns", ""),
    "Users": ("known", "", ""),
    "Cluster": ("", "_books _capacities _nodes _partition _total _used foreign", ""),
    "LeafCore": ("applications config hold path state", "_timers deadline_ns", "_books _changed ended"),
    "ParentCore": ("config hold path state", "children", "_changed"),
    "NodeCore": (
        "attributes capacity foreign node_id schedulable",
        "allocated allocations available occupied revision",
        "_changed",
    ),
    "Application": (
        "account application_id arrival ending gang hold lifecycle past queue submission_ns tags tasks who",
        "backoffs",
        "_note books changed",
    ),
    "ApplicationTasks": (
        "allocations asks began_ns preempted released replaced_ns replacing sized_ns",
        "_placeholders placeholder_count real_count",
        "_changed",
    ),
    "ApplicationAccount": ("counted_ns day of_day", "_application_id _tasks has_grown key past used", "books"),
    "Backoffs": ("", "_entries", ""),
    "Lifecycle": ("execution_timeout_ns state timers", "_past armed stateaware", "_note"),
    "Gang": ("allocated_ever groups is_hard is_over timeout_ns total", "", "_note"),
    "TaskGroup": ("count min_resource replaced timed_out", "", ""),
    "PendingApplication": (
        "backoff_ns counted_as_running enrolled group held holds_slot kept_history",
        (
            "allocated application_id arrival asks charged_to gang hold leaf own_waits queues reserved reserving state "
            "stateaware submission_ns trackers who"
        ),
        (
            "_changed _last_queue _queues_made _waits ask_queues changed closed in_classes opened priorities shown_priority "
            "sort_key unreported used"
        ),
    ),
    "NotifiedAsks": ("asks", "", "_changed"),
    "Waits": ("classes queues", "has_nodes", "_unclaimed changed is_rebuilding now_ns"),
    "CodeHistory": ("changes first merged merged_from_ns", "", ""),
    "Reservations": ("by_ask", "_by_node _by_shape _nodes _shapes", "_next_old changes"),
    "PreemptionAttempts": ("by_ask counts cycle_guard last_attempts victims", "", "changes"),
    "Counts": ("evictions in_vain preemptions refused work_lost", "", ""),
    "CycleGuard": ("taken", "", ""),
    "QuotaClocks": ("starts", "", ""),
    "Predicates": ("_answers is_answered", "_known_count _open_count counted deadlines", "_changed changes readmissions"),
    "PredicateClient": ("", "_nodes _predicates", "_reported asked"),
    "SchedulerState": (
        "",
        (
            "applications backoffs clocks ledger nodes pairs preemptions quota_reports registry reservations reserves "
            "scheduling_states tasks trackers tree"
        ),
        "generation next_eligible_ns",
    ),
    "SchedulingStates": (
        "is_wanted",
        "",
        "_ahead _began_ns _early_ns _kept _last _next_ns has_changed is_restored items queue_number",
    ),
    "Planner": (
        "",
        "_placeholders _predicate_client _reserved _scheduling_states _state _unschedulable preemptor",
        "_search_work",
    ),
}
#: Orders, indexes, sums and memories of failed searches: they follow from the rest, or start empty.
DERIVED = """
    AccountKey AskQueue BestNodes ChildOrder ChildPlace Effort EquivalenceClass GangPairs Holdings IndexedNode
    Labels LeafOrder Ledger NeedList NodeIndex NodeLog Observer OpenedNodes PendingCauses PendingGang PlaceholderStep Preemptor
    PriorityBag PromisingNodes QueueLimits QueueNode QueueTree QuotaReports Reservation ReservationStep
    ReservedShapes ResourceTypes RunningTasks SchedulerCore SchedulingQueue SchedulingStateStep SortedList Stamp Tasks Tracker
    Trackers Tried UnschedulableStep UnsentPlacements WaitingClasses WaitingGroup Worklist
    _Answers _Group _Heap _Silence
"""
_PLAIN = (str, int, float, bytes, type, FunctionType, MethodType, BuiltinFunctionType, type(None))


def attributes(thing: Any) -> set[str]:
    listed = ("__slots__", "__mypyc_attrs__")  # of a class of Python, and of a compiled one
    slots = [name for kind in type(thing).__mro__ for names in listed for name in vars(kind).get(names, ())]
    return {*slots, *getattr(thing, "__dict__", ()), *getattr(thing, "__struct_fields__", ())} - {"__weakref__", "__dict__"}


def found_in(*roots: Any) -> dict[str, set[str]]:
    """The classes of the core that are reached from these objects, with their attributes; no messages, settings or values."""
    found: dict[str, set[str]] = defaultdict(set)
    ahead, seen = list(roots), set[int]()
    while ahead:
        thing = ahead.pop()
        if id(thing) in seen or isinstance(thing, _PLAIN):
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            ahead += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            ahead += thing
        package = type(thing).__module__.removeprefix("ykactor.core.").split(".")[0]
        if type(thing).__module__.startswith("ykactor.core.") and package not in ("messages", "config"):
            names = attributes(thing)
            found[type(thing).__name__] |= names
            ahead += [getattr(thing, name) for name in names if hasattr(thing, name)]
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    """A partition with something of everything."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=4), node("n2", vcore=4)])
    world.given(
        app("app-1"), app("gang", "root.b", placeholders={"vcore": 2}), ask("k1", "app-1", vcore=3), ask("k2", "app-1", vcore=3)
    )
    world.given(ask("p1", "gang", vcore=1, placeholder=True, group="g"), ask("wide", "app-1", vcore=2))
    world.given(ask("asked", "app-1", vcore=1, predicate="zone"), release("nobody"))
    world.run(until=10)
    return found_in(world.direct.core, world.direct.scheduler)


def test_every_attribute_has_its_place(found: dict[str, set[str]]) -> None:
    """Attributes of a class that keeps something are kept, follow from what is kept, or may start empty."""
    for name, parts in KEPT.items():
        assert sorted(" ".join(parts).split()) == sorted(found[name]), name


def test_every_class_has_its_place(found: dict[str, set[str]]) -> None:
    """A new class has something to keep, or has not."""
    assert found.keys() - KEPT.keys() - set(DERIVED.split()) == set()


def test_what_is_kept_is_in_a_row() -> None:
    """The names in the table are those of the rows, where a row describes an object of two classes."""
    of_account, of_states = {"account", "day"}, {"failure", "states", "started_ns"}
    of_owner = set(f"{KEPT['Application'][0]} {KEPT['Lifecycle'][0]} {KEPT['ApplicationAccount'][0]}".split())
    of_owner -= {"application_id", "lifecycle", "of_day", "past", "tasks"} | of_account
    assert set(ApplicationRow.__struct_fields__) == of_owner | of_states | set(KEPT["PendingApplication"][0].split())
    assert set(UseRow.__struct_fields__) == of_account | (set(KEPT["Past"][0].split()) - of_states)
    kept = {"turns", "arrivals", "last_arrival_ns", "cleaning_ns", "counts", "is_answered", "states_wanted"}
    assert set(PartitionRow.__struct_fields__) == kept
