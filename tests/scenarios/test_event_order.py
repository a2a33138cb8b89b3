"""The order of events inside one step (EV-22, EV-30), smoke tests of the whole stream."""

from test_event_table import N1, ONE, PLAIN, records
from world import World, app, ask, make_world, node, queue, release, remove, tree

from ykactor.core.messages.facts import Allocated


class Told:
    """A world, and its records step by step in a short form."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._heard = 0

    def since(self) -> list[str]:
        """Type, object, change, detail and reference of every record since the last time."""
        start, self._heard = self._heard, len(self.world.facts)
        return [" ".join(filter(None, record[:5])) for record in records(self.world, start)]


def test_the_life_of_an_application() -> None:
    """Each step tells exactly its records, in this order (EV-30); ask records outlive tasks (EV-10), usage is the leaf's (EV-28).

    A third allocation changes no state and tells none (EV-11).
    """
    session = Told(make_world(PLAIN))
    assert session.since() == ["QUEUE root ADD DETAILS_NONE", "QUEUE root.a ADD DETAILS_NONE", "QUEUE root SET QUEUE_CONFIG"]
    session.world.send(N1)
    assert session.since() == ["NODE n1 SET NODE_SCHEDULABLE", "QUEUE root SET QUEUE_MAX", "NODE n1 ADD DETAILS_NONE"]
    session.world.send(app("app-1"))
    assert session.since() == ["APP app-1 ADD APP_NEW", "QUEUE root.a ADD QUEUE_APP app-1"]
    session.world.send(ask("t1", "app-1", vcore=1))
    assert session.since() == [
        "APP app-1 SET APP_ACCEPTED", "APP app-1 ADD APP_REQUEST t1",
        "NODE n1 ADD NODE_ALLOC t1", "APP app-1 SET APP_STARTING", "USERGROUP alice ADD UG_USER_RESOURCE root.a",
        "APP app-1 ADD APP_ALLOC t1",
    ]  # fmt: skip
    session.world.send(ask("t2", "app-1", vcore=1))
    assert session.since() == [
        "APP app-1 ADD APP_REQUEST t2", "NODE n1 ADD NODE_ALLOC t2", "APP app-1 SET APP_RUNNING",
        "USERGROUP alice ADD UG_USER_RESOURCE root.a", "APP app-1 ADD APP_ALLOC t2",
    ]  # fmt: skip
    session.world.send(ask("t3", "app-1", vcore=1))
    assert session.since() == [
        "APP app-1 ADD APP_REQUEST t3", "NODE n1 ADD NODE_ALLOC t3", "USERGROUP alice ADD UG_USER_RESOURCE root.a",
        "APP app-1 ADD APP_ALLOC t3",
    ]  # fmt: skip
    session.world.send(release("t1"))
    assert session.since() == [
        "USERGROUP alice REMOVE UG_USER_RESOURCE root.a", "APP app-1 REMOVE ALLOC_CANCEL t1", "NODE n1 REMOVE NODE_ALLOC t1",
        "APP app-1 REMOVE REQUEST_CANCEL t1",
    ]  # fmt: skip
    session.world.send(release("t2"))
    session.since()
    session.world.send(release("t3"))
    assert session.since() == [
        "USERGROUP alice REMOVE UG_USER_RESOURCE root.a", "APP app-1 SET APP_COMPLETING", "APP app-1 REMOVE ALLOC_CANCEL t3",
        "NODE n1 REMOVE NODE_ALLOC t3", "APP app-1 REMOVE REQUEST_CANCEL t3",
    ]  # fmt: skip
    session.world.wait(30)
    assert session.since() == [
        "APP app-1 SET APP_COMPLETED",
        "APP app-1 REMOVE DETAILS_NONE",
        "QUEUE root.a REMOVE QUEUE_APP app-1",
    ]


def test_a_replacement() -> None:
    """The confirmation of a replacement: the application first, then the node, the user, and the placeholder's ask (EV-21)."""
    session = Told(make_world(PLAIN, [N1]))
    session.world.send(app("app-1", placeholders=ONE), ask("p1", "app-1", group="g", placeholder=True, vcore=1))
    session.since()
    session.world.send(ask("t1", "app-1", group="g", vcore=1))
    assert session.since() == [
        "APP app-1 ADD APP_REQUEST t1",
        "APP app-1 REMOVE ALLOC_REPLACED p1", "APP app-1 ADD APP_ALLOC t1", "NODE n1 REMOVE NODE_ALLOC p1",
        "NODE n1 ADD NODE_ALLOC t1", "USERGROUP alice REMOVE UG_USER_RESOURCE root.a",
        "USERGROUP alice ADD UG_USER_RESOURCE root.a", "APP app-1 REMOVE REQUEST_CANCEL p1",
    ]  # fmt: skip


def test_recovered_allocations() -> None:
    """Each as a placement (EV-30); one that changes no state is one fact."""
    world = make_world(PLAIN, [N1])
    session = Told(world)
    world.given(app("app-1"), ask("t1", "app-1", on="n1", **ONE))
    session.since()
    start = len(world.facts)
    world.send(*(ask(key, "app-1", on="n1", **ONE) for key in ("t2", "t3", "t4")))
    used, charged, allocated = (
        "NODE n1 ADD NODE_ALLOC {}",
        "USERGROUP alice ADD UG_USER_RESOURCE root.a",
        "APP app-1 ADD APP_ALLOC {}",
    )
    assert session.since() == [
        used.format("t2"), "APP app-1 SET APP_RUNNING", charged, allocated.format("t2"),
        *(event.format(key) for key in ("t3", "t4") for event in (used, charged, allocated)),
    ]  # fmt: skip
    assert [type(fact) for fact in world.facts[start:]][-2:] == [Allocated, Allocated]


def test_a_node_leaves() -> None:
    """EV-22: the flag, reservations, root's max, what ran, the node last."""
    session = Told(make_world(PLAIN, [node("n0", "CREATE_DRAIN", vcore=1), N1]))
    session.world.send(app("app-1"), ask("t1", "app-1", vcore=4), ask("t2", "app-1", requires="n1", vcore=1))
    session.since()
    session.world.send(node("n1", "DECOMISSION"))
    assert session.since() == [
        "NODE n1 SET NODE_SCHEDULABLE", "NODE n1 REMOVE NODE_RESERVATION t2", "QUEUE root SET QUEUE_MAX",
        "NODE n1 REMOVE NODE_ALLOC t1", "USERGROUP alice REMOVE UG_USER_RESOURCE root.a",
        "APP app-1 REMOVE ALLOC_NODEREMOVED t1", "APP app-1 REMOVE REQUEST_CANCEL t1", "NODE n1 REMOVE NODE_DECOMISSION",
    ]  # fmt: skip


def test_a_dynamic_queue_goes() -> None:
    """EV-26: the application leaves its queue first; the queue goes when the cleaner comes."""
    session = Told(make_world(tree(placementrules=[{"name": "provided", "create": True}])))
    session.world.send(app("app-1", "root.new"))
    session.since()
    session.world.send(remove("app-1"))
    assert session.since() == ["APP app-1 REMOVE DETAILS_NONE", "QUEUE root.new REMOVE QUEUE_APP app-1"]
    session.world.wait(10)
    assert session.since() == ["QUEUE root.new REMOVE QUEUE_DYNAMIC"]


def test_refusals_are_silent() -> None:
    """A node that is refused tells nothing (EV-20), a rejected application only that it came and was rejected (EV-14)."""
    session = Told(make_world(tree(queue("a")), [N1]))
    session.since()
    session.world.send(N1)
    assert session.since() == []
    session.world.send(app("app-1", "root.x", user="a b"))
    assert session.since() == ["APP app-1 ADD APP_NEW", "APP app-1 SET APP_REJECT"]
    session.world.wait(400_000)
    assert session.since() == []
