"""A sort policy of applications: ``lifo``, the youngest first."""

from __future__ import annotations

from additions.applying import Edits, after, before

EDITS: Edits = {
    "core/config/properties.py": [after('"fifo": SortPolicy(),', '    "lifo": SortPolicy(),\n')],
    "core/queueing/leaf_order.py": [
        before(
            "#: The place of an application in the order of its leaf",
            '''
def by_youth(application: PendingApplication, rank: int, guaranteed: Resource | None, by_priority: bool) -> SortKey:
    """The youngest application first."""
    youth, arrival = -application.submission_ns, -application.arrival
    return (rank, youth, arrival) if by_priority else (youth, rank, arrival)


''',
        ),
        after('"fifo": by_age,', '    "lifo": by_youth,\n'),
    ],
}


def works() -> None:
    """Check that it decides, gangs are taken, it is shown, and the queue file knows it; the invariants hold after each step."""
    from gangs import gang, three
    from world import app, ask, make_world, node, queue, tree

    from ykactor.wire import queuefile

    text = tree(queue("g", p={"application.sort.policy": "Lifo"}))
    assert queuefile.load(text).warnings == ()
    world = make_world(text, [node("n1", vcore=2)])
    world.given(*(app(name, "root.g") for name in ("old", "young")), ask("o1", "old", vcore=2))
    world.send(ask("o2", "old", vcore=1), ask("y1", "young", vcore=1), ask("o3", "old", vcore=1, priority=1))
    assert world.placed() == []
    world.send(node("n2", vcore=2), at=60)
    assert world.placed() == ["o3", "y1"]
    assert world.queue("root.g")["sortPolicy"] == "lifo"
    world.send(gang(3), *three())
    assert "gang New" in world.heard()
