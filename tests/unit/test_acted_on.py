"""The targets of operators' acts, before and after (SE-72)."""

from typing import get_args

import pytest
from gangs import gang, real, room, three
from world import app, ask, cancel, hold, make_world, move, node, prioritise, queue, release, terminate, tree

from ykactor.core.messages.acts import Administration, ApplicationAct, Operator
from ykactor.core.objects.acts import EFFECTS
from ykactor.core.objects.commands import GiveAway
from ykactor.core.values.parts import finished
from ykactor.surfaces.sessions.operator_session import is_releasing, look, tasks_named
from ykactor.wire.si import acts
from ykactor.wire.si import messages as si

ACTS = [hold("app-1"), cancel("app-1", "t1"), prioritise("app-1", 5, "t1"), prioritise("app-1", 5), move("app-1", "root.b")]


def test_every_act_has_its_rows() -> None:
    """Each message of an operator becomes an act, and each act of a leaf on an application has an effect."""
    assert acts.ACTS.keys() == {*get_args(si.OperatorAct)}
    assert EFFECTS.keys() == {*get_args(ApplicationAct)}


def test_what_the_audit_tells() -> None:
    """The audit tells the state of an application or of one of its tasks; the priority of all asks is the highest."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=1)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=9, priority=2), ask("t2", "app-1", vcore=9, priority=3))
    told = [look(world.direct.core.registry, act) for act in ACTS]
    assert told == ["not held", "pending", "priority 2", "priority 3", "Accepted in root.a"]
    assert look(world.direct.core.registry, prioritise("app-1", 5, "t9")) == ""


@pytest.mark.parametrize("act", [*ACTS, terminate("app-1")])
def test_in_the_middle_of_a_turn_an_application_may_be_in_no_leaf(act: Administration) -> None:
    """While it moves or ends with many tasks, others are served, and another operator may act on it."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=1)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=9))
    registry = world.direct.core.registry
    registry.leaf_of("app-1").handle(GiveAway("app-1"))  # type: ignore[arg-type]
    assert look(registry, act) == ""
    assert not is_releasing(registry, act)


def test_what_waits_for_the_resource_manager() -> None:
    """AP-128: an allocation that is cancelled, and an application that has one; not an ask, and nothing that has ended."""
    text = tree(queue("a"), queue("b"))
    world = make_world(text, [node("n1", vcore=1), app("app-1"), app("app-2")], confirms=False)
    world.given(ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    registry = world.direct.core.registry
    acts = [cancel("app-1", "t1"), cancel("app-1", "t2"), terminate("app-1"), terminate("app-2"), hold("app-1")]
    assert not any(is_releasing(registry, act) for act in acts)
    told = []
    for act in acts[:4]:
        world.administer(act)
        told.append(is_releasing(registry, act))
    assert told == [True, False, True, False]
    world.given(release("t1"))
    assert not any(is_releasing(registry, act) for act in acts)


def test_tasks_are_found_by_their_keys() -> None:
    """OP-15: asks, allocations, and asks that wait for their placeholder; only in the queues of the operator, whatever moves."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"), app("other", "root.g"), ask("t2", "other", vcore=99))
    registry = world.direct.core.registry
    every, keys = Operator("ops"), frozenset({"t1", "t2", "p2", "none"})
    assert finished(tasks_named(registry, keys, every)) == ["gang/p2", "gang/t1", "other/t2"]
    assert finished(tasks_named(registry, keys, Operator("ops", ("root.elsewhere",)))) == []
    registry.leaf_of("other").handle(GiveAway("other"))  # type: ignore[arg-type]
    assert finished(tasks_named(registry, keys, every)) == ["gang/p2", "gang/t1"]
