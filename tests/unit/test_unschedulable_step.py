"""The steps left to asks for which there is no room (``core/planner/unschedulable_step.py``)."""

import pytest
from world import app, ask, make_world, node, queue, tree

from ykactor.core.planner import planner


def starving_and_served():
    """Two queues that are about to preempt on a full node, and one whose asks arrive at the same time and have room."""
    hungry = {"guaranteed": {"vcore": 8}}
    queues = queue("s", **hungry), queue("t", **hungry), queue("full"), queue("z")
    nodes = [node("n1", vcore=8), node("n2", vcore=8), node("n3", memory=9)]
    world = make_world(tree(*queues), nodes, placements_max=1, confirms=False)
    world.given(app("full", "root.full"), *(ask(f"f{n}", "full", vcore=4) for n in range(4)))
    world.given(app("s", "root.s"), app("t", "root.t"), app("z", "root.z"))
    world.given(ask("s1", "s", vcore=8, preempt_other=True), ask("t1", "t", vcore=8, preempt_other=True))
    world.send(*(ask(f"z{n}", "z", memory=1) for n in range(3)), at=31)
    return [line.split()[0] for line in world.heard() if " on " in line or " reserves " in line]


def test_others_are_placed_between_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a plan with a long search comes one without; everybody gets what he would have got."""
    assert starving_and_served() == ["s1", "t1", "z0", "z1", "z2"]
    monkeypatch.setattr(planner, "SEARCH_WORK_MAX", 1)
    assert starving_and_served() == ["s1", "z0", "t1", "z1", "z2"]
