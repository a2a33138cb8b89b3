"""Preemption between the queues of replica sets, which submit again what is preempted: it ends (PE-94).

One node of 100; tasks of 10; ``prod`` wants more at second 10. Each release of a victim is confirmed, and the victim is submitted
again, at once.
"""

from typing import Any

from replicasets import ReplicaSets
from world import World, app, ask, make_world, node, queue, tree

T0 = 10.0
DELAY = 30.0
UNDER = "may not preempt: its queue has no guarantee left for it"


def start(
    prod: dict[str, Any],
    test: dict[str, Any],
    *,
    prod_runs: int = 4,
    prod_wants: int = 3,
    test_runs: int = 6,
    sizes: dict[int, int] | None = None,
    parent: dict[str, Any] | None = None,
    confirms_s: float | None = 0.0,
    wants: dict[str, Any] | None = None,
    test_is: dict[str, Any] | None = None,
) -> ReplicaSets:
    """A full node with ``p1``... of prod and ``t1``... of test, the last the newest, and ``w1``... of prod, which wait.

    Args:
        sizes: of test's tasks that are not 10, by number.
        wants, test_is: more of prod's asks and of test's tasks.
    """
    delay = {"preemption.delay": "30s"}
    for keys in (prod, test):
        keys["p"] = delay | keys.get("p", {})
    text = tree(queue("parent", queue("prod", **prod), queue("test", **test), **(parent or {})))
    world = make_world(text, [node("n1", vcore=100)], confirms=False)
    world.given(app("prod-repl", "root.parent.prod"), app("test-repl", "root.parent.test"))
    for n in range(1, prod_runs + 1):
        world.given(ask(f"p{n}", "prod-repl", vcore=10, on="n1", preempt_other=True))
    for n in range(1, test_runs + 1):
        flags = {"preempt_other": True} | (test_is or {})
        world.given(ask(f"t{n}", "test-repl", vcore=(sizes or {}).get(n, 10), on="n1", **flags), at=n / 10)
    for n in range(1, prod_wants + 1):
        world.given(ask(f"w{n}", "prod-repl", vcore=10, **{"preempt_other": True} | (wants or {})), at=T0)
    return ReplicaSets(world, confirms_s)


def played(prod: dict[str, Any], test: dict[str, Any], **setup: Any) -> ReplicaSets:
    """Ten minutes of it."""
    sets = start(prod, test, **setup)
    sets.run(T0 + 600)
    return sets


def used(world: World) -> tuple[int, int]:
    """The vcores that prod and test use."""
    queues = world.state()["queues"]
    return tuple(queues[f"root.parent.{name}"]["allocated"].get("vcore", 0) for name in ("prod", "test"))  # type: ignore[return-value]


def expect(sets: ReplicaSets, *evicted: str, ends: tuple[int, int]) -> None:
    """Exactly these went, and prod and test use so much in the end."""
    assert sets.keys() == list(evicted)
    assert used(sets.world) == ends


def guaranteed(amount: int, **p: str) -> dict[str, Any]:
    keys: dict[str, Any] = {"guaranteed": {"vcore": amount}, "p": p}
    return keys


def policy(value: str) -> dict[str, str]:
    return {"preemption.policy": value}


def test_case_1_one_step_above_the_guarantee() -> None:
    """PE-26: exactly one goes, test's newest, after the delay; then both are above their guarantees and nothing moves."""
    sets = played(guaranteed(45), guaranteed(45))
    expect(sets, "t6", ends=(50, 50))
    assert sets.evicted == [(T0 + DELAY, "t6")]
    assert sets.world.waiting() == ["t6'1", "w2", "w3"]
    assert UNDER in sets.world.why("w2")
    assert sets.world.node("n1")["reservations"] == []


def test_case_1b_while_the_releases_are_not_confirmed() -> None:
    """The victims of the first ask count (PE-19), so the others are stopped although prod still uses 40."""
    sets = start(guaranteed(45), guaranteed(45), confirms_s=60)
    sets.run(T0 + DELAY + 59)
    expect(sets, "t6", ends=(40, 60))
    assert UNDER in sets.world.why("w2")
    sets.run(T0 + 600)
    expect(sets, "t6", ends=(50, 50))


def test_case_2_the_other_would_be_left_below_its_guarantee() -> None:
    """60 - 10 < 55 (law 2, PE-41): nothing is preempted, and nothing is reserved by preemption."""
    sets = played(guaranteed(60), guaranteed(55), prod_wants=2)
    expect(sets, ends=(40, 60))
    assert sets.preemptions == []
    assert sets.world.node("n1")["reservations"] == []
    assert "Preemption does not help" in sets.world.why("w1")


def test_case_3_one_after_another_up_to_the_guarantee() -> None:
    """Three go, then prod is at its guarantee; what test submits again never triggers, for test is at its own (PE-25, PE-51)."""
    sets = played(guaranteed(60), guaranteed(40), prod_runs=3, prod_wants=5, test_runs=7)
    expect(sets, "t7", "t6", "t5", ends=(60, 40))


def test_case_3b_until_the_other_is_near_its_guarantee() -> None:
    """70 - 10 >= 55, then 60 - 10 < 55 (PE-41)."""
    sets = played(guaranteed(60), guaranteed(55), prod_runs=3, prod_wants=5, test_runs=7)
    expect(sets, "t7", ends=(40, 60))


def test_case_4_a_task_too_large_is_skipped() -> None:
    """Two tasks of 10 go, because without the 30 test would use 40 < 50 (PE-40, PE-41)."""
    sets = played(guaranteed(60), guaranteed(50), prod_runs=3, prod_wants=5, test_runs=5, sizes={5: 30})
    expect(sets, "t4", "t3", ends=(50, 50))


def test_case_5_opted_out_is_a_suggestion() -> None:
    """Tasks that opted out are preempted if there are no others (law 1, PE-91)."""
    expect(played(guaranteed(45), guaranteed(45), test_is={"preempt_self": False}), "t6", ends=(50, 50))


def test_case_6_not_a_higher_priority() -> None:
    """A task of higher priority is no victim (law 6, PE-28)."""
    expect(played(guaranteed(45), guaranteed(45), test_is={"priority": 1}), ends=(40, 60))


def test_case_7_not_out_of_a_fence() -> None:
    """An ask behind a fence takes nothing outside of it (law 7, PE-20, PE-92)."""
    expect(played(guaranteed(45, **policy("fence")), guaranteed(45)), ends=(40, 60))


def test_case_8_a_fence_does_not_protect() -> None:
    """A fence does not protect from asks outside (PE-92)."""
    expect(played(guaranteed(45), guaranteed(45, **policy("fence"))), "t6", ends=(50, 50))


def test_case_9_disabled_protects() -> None:
    """Tasks of a queue with the policy ``disabled`` are no victims (PE-30, PE-92)."""
    expect(played(guaranteed(45), guaranteed(45, **policy("disabled"))), ends=(40, 60))


def test_disabled_may_still_trigger() -> None:
    """PE-92: ``disabled`` protects the tasks of a queue; its asks preempt as others do."""
    expect(played(guaranteed(45, **policy("disabled")), guaranteed(45)), "t6", ends=(50, 50))


def test_case_10_without_a_guarantee() -> None:
    """A queue without any guarantee above it may not preempt (law 4, PE-25)."""
    sets = played({}, guaranteed(45))
    expect(sets, ends=(40, 60))
    assert UNDER in sets.world.why("w1")


def test_case_11_not_allowed_to_preempt_others() -> None:
    """An absent policy does not allow it (PE-11, AP-53)."""
    expect(played(guaranteed(45), guaranteed(45), wants={"preempt_other": False}), ends=(40, 60))


def test_case_12_not_in_its_own_queue() -> None:
    """PE-30: the 60 are another application's in prod itself; there is no preemption inside a queue."""
    sets = start(guaranteed(105), {}, test_runs=0, prod_wants=0)
    entry = sets.world
    entry.given(app("other-repl", "root.parent.prod"), *(ask(f"o{n}", "other-repl", vcore=10, on="n1") for n in range(6)))
    entry.given(*(ask(f"w{n}", "prod-repl", vcore=10, preempt_other=True) for n in (1, 2, 3)), at=T0)
    sets.run(T0 + 600)
    expect(sets, ends=(100, 0))
    assert "Preemption does not help" in entry.why("w1")


def storm(prod: dict[str, Any]) -> ReplicaSets:
    """A parent below its guarantee of 100, in a cluster of 140 whose rest somebody else uses."""
    text = tree(
        queue("parent", queue("prod", **prod), queue("test"), guaranteed={"vcore": 100}),
        queue("other"),
    )
    world = make_world(text, [node("n1", vcore=140)], confirms=False)
    names = ("parent.prod", "parent.test", "other")
    world.given(*(app(name, f"root.{name}") for name in names))
    for n in range(1, 5):
        world.given(ask(f"p{n}", names[0], vcore=10, on="n1"), ask(f"t{n}", names[1], vcore=10, on="n1"), at=n / 10)
    world.given(*(ask(f"o{n}", names[2], vcore=10, on="n1", created=0) for n in range(6)))
    world.given(*(ask(f"w{n}", names[0], vcore=10, preempt_other=True) for n in range(4)), at=T0)
    return ReplicaSets(world)


def test_case_13_no_storm_below_a_starving_parent() -> None:
    """PE-27, PE-41: the parent's guarantee triggers (inherited), so nobody below it goes; two others do, older as they are."""
    sets = storm({})
    sets.run(T0 + 600)
    expect(sets, "o0", "o1", ends=(60, 40))


def test_case_14_a_queue_with_its_own_guarantee_may_exchange() -> None:
    """PE-27, PE-41: prod's own guarantee triggers, so test's newest may be preempted; the exchange leaves the parent at 80."""
    sets = storm({"guaranteed": {"vcore": 50}})
    sets.run(T0 + DELAY)
    assert used(sets.world) == (50, 30)
    sets.run(T0 + 600)
    expect(sets, "t4", ends=(50, 30))
