"""The accounts and the past of applications are bounded (AP-140, AP-142)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, pairwise

import pytest
from costs import longest_part_s, loop_s
from msgspec import structs
from world import S_NS, app, ask, make_world, move, node, queue, release, remove, tree

from ykactor.core.accounting import accounts as accounts_module
from ykactor.core.accounting.accounts import (
    ALL_DAYS,
    DAY_S,
    DAYS_MAX,
    TYPES_MAX,
    Account,
    AccountKey,
    Accounts,
    Spans,
    add_times,
    by_day,
    told,
)
from ykactor.core.accounting.past import INSTANCE_TYPES_MAX, LOG_MAX, Past
from ykactor.core.inspection.accounting import Column, sums
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.states import ApplicationState
from ykactor.core.partition import timers
from ykactor.core.partition.timers import GROUPS_MAX
from ykactor.core.records.encoding import decode, encode, pairs
from ykactor.core.values.ids import ApplicationID, PartitionName, QueuePath
from ykactor.core.values.parts import finished
from ykactor.core.values.resources import QUANTITY_MAX

ONE = {"vcore": 1}
M5 = {"si/instance-type": "m5"}


def whose(user: str, application: str = "app-1") -> AccountKey:
    return AccountKey(QueuePath("root.a"), user, "dev", application)


def total(accounts: Accounts) -> int:
    return sum(account.allocated["vcore"] for day in accounts.days.values() for account in day.values())


def test_seconds_are_divided_among_days() -> None:
    """Each second belongs to one UTC day."""
    assert by_day(5, 5) == []
    assert by_day(DAY_S - 1, 2 * DAY_S + 3) == [(0, 1), (1, DAY_S), (2, 3)]


def test_amounts_are_exact_at_any_size() -> None:
    """They are kept as they are, however large; what is 0 is not there."""
    accounts = Accounts(Changed())
    for _ in range(3):
        accounts.use(whose("alice"), {"memory": QUANTITY_MAX, "none": 0}, 0, 9, is_lost=True)
    expected = Account({"memory": 27 * QUANTITY_MAX}, {}, {"memory": 27 * QUANTITY_MAX})
    assert accounts.days == {0: {whose("alice"): expected}}
    ((_, row),) = pairs(encode(PartitionName("default"), [(("account", 0, *whose("alice")), expected)]))
    assert row is not None
    assert decode(b'["default","account",0,"","","",""]', row)[2] == expected


def test_what_lasts_is_divided_among_days() -> None:
    """Spans of any length: the same seconds of each day as one by one; none of an empty span."""
    ends = (0, 5, DAY_S - 1, DAY_S, DAY_S + 7, 3 * DAY_S, 5 * DAY_S + 1, 9 * DAY_S)
    found, expected, spans = Counter[int](), Counter[int](), Spans()
    for number, (since_s, until_s) in enumerate(combinations_with_replacement(ends, 2), 1):
        spans.add({"vcore": number, "none": 0}, since_s, until_s)
        for day, seconds in by_day(since_s, until_s):
            expected[day] += number * seconds
    for day, amounts in spans.by_day():
        assert amounts.keys() == {"vcore"}
        found[day] += amounts["vcore"]
    assert found == expected


def test_days_between_two_spans_are_empty() -> None:
    """Nothing is counted for them, not even 0."""
    spans = Spans()
    for day in (1, 9):
        spans.add(ONE, day * DAY_S - 1, (day + 2) * DAY_S)
    whole = {"vcore": DAY_S}
    assert sorted(spans.by_day()) == [(0, ONE), (1, whole), (2, whole), (8, ONE), (9, whole), (10, whole)]


def test_resource_types_are_bounded() -> None:
    """AP-140, AP-142: clients choose their names; those that came first are counted on."""
    account, past = Account(), Past()
    for number in (*range(TYPES_MAX + 5), 0):
        resource = {f"type-{number}": 2}
        account.add(Account(resource, resource, resource))
        past.reach(resource)
    for amounts in (account.allocated, account.waited, account.lost, past.max_used):
        assert [*amounts] == [f"type-{number}" for number in range(TYPES_MAX)]
    assert account.allocated["type-0"] == 4


def test_what_lasts_for_long_is_counted_in_parts() -> None:
    """AP-141: 3,000 tasks that last for most of a year: no part takes as long as a loop of a million steps; the best of three,
    because a processor may be slow for a moment.
    """
    world = make_world(tree(queue("a")), [node("n1", vcore=2000)])
    world.given(app("app-1"), *(ask(f"k{number}", "app-1", vcore=1) for number in range(3000)))

    def once_s() -> float:
        work = sums(world.direct.core.registry, 300 * DAY_S * S_NS, [*Column], ALL_DAYS)
        return longest_part_s(work)

    assert any(once_s() < loop_s(1_000_000) for _ in range(3))


def test_what_lasted_before_the_oldest_day_is_not_counted() -> None:
    """AP-142: also when an application moves after more days than are kept."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=4)])
    world.given(app("app-1"), ask("k1", "app-1", vcore=1))
    world.administer(move("app-1", "root.b"), at=(DAYS_MAX + 5) * DAY_S)
    days = world.direct.core.registry.books.accounts.days
    assert (min(days), max(days)) == (5, DAYS_MAX + 4)


def test_days_that_are_too_old() -> None:
    """AP-142: they are forgotten, and what began before them counts from the oldest day on."""
    changed = Changed()
    accounts = Accounts(changed)
    accounts.use(whose("alice"), ONE, 0, (DAYS_MAX + 9) * DAY_S, is_lost=False)
    assert (min(accounts.days), max(accounts.days)) == (9, DAYS_MAX + 8)
    changed.clear()
    finished(accounts.tidy((DAYS_MAX + 11) * DAY_S * S_NS))
    assert min(accounts.days) == 11
    assert list(changed.keys) == [("account", day, *whose("alice")) for day in (9, 10)]


def test_too_many_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """AP-142: applications of the oldest days go first, users only when that is not enough; no second is lost."""
    monkeypatch.setattr(accounts_module, "ROWS_MAX", 20)
    accounts = Accounts(Changed())
    for day in range(3):
        for number in range(7):
            key = whose(("alice", "bob")[number % 2], f"app-{number}")
            accounts.use(key, ONE, day * DAY_S, day * DAY_S + 10, is_lost=False)
    finished(accounts.tidy(3 * DAY_S * S_NS))
    assert [len(day) for day in accounts.days.values()] == [2, 2, 2]
    assert accounts.days[0] == {whose("alice", ""): Account({"vcore": 40}), whose("bob", ""): Account({"vcore": 30})}
    for number in range(15):
        accounts.use(whose(f"user-{number}"), ONE, 5, 15, is_lost=False)
    finished(accounts.tidy(3 * DAY_S * S_NS))
    assert [len(day) for day in accounts.days.values()] == [1, 2, 2]
    assert list(accounts.days[0]) == [AccountKey(QueuePath(""), "", "", "")]
    assert total(accounts) == 3 * 70 + 150


def test_the_past_of_an_application_is_bounded() -> None:
    """AP-90, AP-140: the newest changes of the state, and some types of instances."""
    past = Past()
    states = [ApplicationState.RUNNING, ApplicationState.COMPLETING] * LOG_MAX
    for number, (before, state) in enumerate(pairwise(states)):
        past.enter(number, before, state)
    assert [at_ns for at_ns, _ in past.states] == list(range(LOG_MAX - 1, 2 * LOG_MAX - 1))
    assert (past.started_ns, past.first_start_ns()) == (2 * LOG_MAX - 3, None)
    for number in range(INSTANCE_TYPES_MAX + 5):
        add_times(past.amounts(past.used, f"type-{number}"), ONE, 2)
    assert len(past.used) == INSTANCE_TYPES_MAX + 1
    assert past.used["UNKNOWN"] == {"vcore": 10}


def test_starting_and_running_are_one_start() -> None:
    """AP-140: an application that goes on after Completing has started anew."""
    past = Past()
    steps = ["New", "Accepted", "Starting", "Running", "Completing", "Running"]
    starts = []
    for number, (before, state) in enumerate(pairwise(steps), 1):
        past.enter(number, ApplicationState(before), ApplicationState(state))
        starts.append(past.started_ns)
    assert starts == [None, 2, 2, 2, 5]


def test_ended_applications_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """AP-73: of too many the first to end expire at once, which is reported."""
    monkeypatch.setattr(timers, "ENDED_MAX", 2)
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    for number in range(4):
        world.given(app(f"app-{number}"), ask("k", f"app-{number}", vcore=1), release("k", f"app-{number}"), at=number)
    world.given(at=31.5)
    assert [ended.application_id for ended in world.direct.core.timers.ended.values()] == ["app-0", "app-1"]
    world.send(at=34)
    world.expect("app-2 Completed", "app-0 Expired", "app-3 Completed", "app-1 Expired")
    assert [fact.at_ns // S_NS for fact in world.facts[-2:]] == [33, 33]


def test_what_stays_of_an_application_that_ended() -> None:
    """AP-140: its user, some groups, and what it has used on which instances."""
    world = make_world(tree(queue("a")), [structs.replace(node("n1", vcore=4), attributes=M5), node("n2", vcore=4)])
    groups = tuple(f"{number:0100}" for number in range(50))
    world.given(app("app-1", user="bob", groups=groups), ask("k1", "app-1", vcore=4), ask("k2", "app-1", vcore=2))
    world.given(release("k1"), at=3)
    world.given(release("k2"), at=5.5)
    world.wait(100)
    (ended,) = world.direct.core.timers.ended.values()
    assert (ended.user, ended.groups, ended.submission_ns) == ("bob", groups[: GROUPS_MAX // 100], 1)
    assert ended.past.max_used == {"vcore": 6}
    assert ended.past.used == {"m5": {"vcore": 12}, "UNKNOWN": {"vcore": 10}}
    assert [(at_ns // S_NS, state) for at_ns, state in ended.past.states] == [
        (0, "Accepted"),
        (0, "Starting"),
        (0, "Running"),
        (5, "Completing"),
        (35, "Completed"),
    ]


def test_removed_applications_count() -> None:
    """AP-141: what an application has used stays in its account when it is removed, and when the partition starts anew."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1", user="bob", groups=("dev",)), ask("k1", "app-1", vcore=4), ask("k2", "app-1", vcore=1))
    world.given(remove("app-1"), at=7)
    (accounts,) = world.direct.core.registry.books.accounts.days.values()
    assert accounts == {
        AccountKey(QueuePath("root.a"), "bob", "dev", ApplicationID("app-1")): Account({"vcore": 28}, {"vcore": 7})
    }


def test_a_node_that_leaves_is_still_known() -> None:
    """AP-90: what ran on it counts for its type."""
    world = make_world(tree(queue("a")), [structs.replace(node("n1", vcore=4), attributes=M5)])
    world.given(app("app-1"), ask("k1", "app-1", vcore=4), ask("k2", "app-1", vcore=4))
    world.given(node("n1", "DECOMISSION"), at=2)
    application = world.direct.core.registry.leaf_of(ApplicationID("app-1")).applications[ApplicationID("app-1")]
    assert application.past.used == {"m5": {"vcore": 8}}
    assert application.books.instance_type("n1") == "UNKNOWN"  # type: ignore[arg-type]


def test_resource_seconds_in_messages() -> None:
    """AP-141: exact at any size: msgpack has integers of 64 bits, so larger ones are text; nothing is left out."""
    assert told({"vcore": 2**63 - 1, "memory": 2**63, "gpu": 0}) == {"vcore": 2**63 - 1, "memory": "9223372036854775808"}


def test_the_first_start() -> None:
    """``first_start_ns`` is the first of several starts."""
    past, state = Past(), ApplicationState
    assert past.first_start_ns() is None
    for at_ns, (before, after) in enumerate(pairwise([state.ACCEPTED, state.RUNNING, state.COMPLETING, state.RUNNING])):
        past.enter(at_ns, before, after)
    assert (past.first_start_ns(), past.started_ns) == (0, 2)
