"""The admission of an application to a partition (PL-45 to PL-47, PL-49 to PL-53, AP-13, AP-14, AP-18 to AP-24)."""

from world import World, app, ask, configure, make_world, node, queue, remove, template, tree

from ykactor.core.messages.submissions import AddApplication
from ykactor.core.values.ids import ApplicationID

CREATE = [{"name": "provided", "create": True}]


def paths(world: World) -> list[str]:
    return list(world.state()["queues"])


def test_creating_and_adding_is_one_step() -> None:
    """Applications and asks for a queue that does not exist yet may come in one message (QU-98)."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=9)])
    world.send(
        app("app-1", "root.x.a"), ask("t1", "app-1", vcore=1),
        app("app-2", "root.x.b"), ask("t2", "app-2", vcore=1),
        app("app-3", "root.x.a"), ask("t3", "app-3", vcore=1),
    )  # fmt: skip
    assert sorted(world.placed()) == ["t1", "t2", "t3"]
    assert paths(world) == ["root", "root.x", "root.x.a", "root.x.b"]


def test_a_queue_created_in_this_message_is_a_leaf_in_it() -> None:
    """The next application of the message finds what the one before it created."""
    world = make_world(tree(placementrules=CREATE))
    world.send(app("app-1", "root.x"), app("app-2", "root.x.a"), app("app-3", "root.y.a"), app("app-4", "root.y"))
    assert [line.split(":")[0] for line in world.heard()] == ["app-1 New", "app-2 Rejected", "app-3 New", "app-4 Rejected"]


def test_it_comes_and_goes_in_one_message() -> None:
    """The queue of an application stays until the cleaner comes."""
    world = make_world(tree(placementrules=CREATE))
    world.send(app("app-1", "root.x"), remove("app-1"), app("app-1", "root.y"), at=0)
    world.heard()
    assert paths(world) == ["root", "root.x", "root.y"]
    world.wait(10)
    assert paths(world) == ["root", "root.y"]


def test_who_is_refused_creates_nothing() -> None:
    """A refused application leaves no queue behind (PL-46, PL-51, PL-52, AP-23, AP-14)."""
    small = template(max={"vcore": 1})
    world = make_world(tree(queue("p", parent=True, submitacl="bob", childtemplate=small), placementrules=CREATE, submitacl=""))
    gang = AddApplication(ApplicationID("app-4"), "root.p.x", "bob", placeholder_ask={"vcore": 2})
    world.given(app("app-1", "root.p.a", user="bob"))
    world.send(app("app-1", "root.p.b", user="bob"), app("app-2", "root.p.c", user="eve"), app("app-3", "root.p.d", user="b b"))
    world.expect(
        "app-1 Rejected: adding application app-1 to partition default, but application already existed",
        "app-2 Rejected: failed to place application app-2: application rejected: no placement rule matched "
        "(provided: user eve may not submit to root.p; root.default: does not exist)",
        "app-3 Rejected: invalid username, it contains invalid characters",
    )
    world.send(gang)
    world.expect(
        "app-4 Rejected: queue root.p.x cannot fit application app-4: "
        "task group request map[vcore:2] larger than max queue allocation map[vcore:1]"
    )
    assert paths(world) == ["root", "root.p", "root.p.a"]


def test_rejected_applications_are_remembered() -> None:
    """They are in no queue, and their id is free (AP-22)."""
    world = make_world(tree(queue("a")))
    world.given(app("app-1", "nowhere"))
    assert world.state_of("app-1") == "Rejected"
    world.send(app("app-1", "root.a"))
    world.expect("app-1 New")


def test_the_real_path_is_the_queue() -> None:
    """Whatever was submitted, an application is in the queue where it was placed (PL-53)."""
    rules = [{"name": "tag", "value": "namespace", "create": True}]
    world = make_world(tree(queue("Here"), placementrules=rules))
    world.given(app("app-1", "root.elsewhere", namespace="HERE"), app("app-2", "", namespace="New.One"))
    found = world.state()["applications"]
    assert [found[name]["queueName"] for name in ("app-1", "app-2")] == ["root.here", "root.new_dot_one"]


def test_rules_are_for_new_applications() -> None:
    """Other placement rules hold from the next application on; who is placed never moves (CF-77)."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=9)])
    fixed = tree(queue("a"), queue("b"), placementrules=[{"name": "fixed", "value": "b"}])
    world.given(app("app-1", "root.a"), configure(fixed), app("app-2", "root.a"))
    found = world.state()["applications"]
    assert [found[name]["queueName"] for name in ("app-1", "app-2")] == ["root.a", "root.b"]


def test_access_is_for_new_applications() -> None:
    """An application that was admitted stays, whatever becomes of the ACL (QU-85, CF-77)."""
    world = make_world(tree(queue("a", submitacl="bob"), submitacl=""), [node("n1", vcore=9)])
    world.given(app("app-1", user="bob"), configure(tree(queue("a"), submitacl="")))
    world.send(app("app-2", user="bob"), ask("t1", "app-1", vcore=1))
    assert [line.split(":")[0] for line in world.heard()] == ["app-2 Rejected", "app-1 Accepted", "app-1 Starting", "t1 on n1"]


def test_its_leaf_becomes_a_parent_behind_it() -> None:
    """An application comes and goes, and a configuration turns its leaf into a parent, all in one message."""
    world = make_world(tree(queue("a")))
    world.send(app("app-1"), remove("app-1"), configure(tree(queue("a", queue("x")))), app("app-2", "root.a.x"))
    world.expect("app-1 New", "configuration accepted", "app-2 New")
    assert paths(world) == ["root", "root.a", "root.a.x"]


def test_its_new_queue_becomes_managed_behind_it() -> None:
    """A queue is created, taken over by the text and used again, all in one message."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=9)])
    world.send(
        app("app-1", "root.p.a", namespace__resourcemaxapps="1"), ask("t1", "app-1", vcore=1),
        configure(tree(queue("p", queue("a", max={"vcore": 2})))), app("app-2", "root.p.a"), ask("t2", "app-2", vcore=2),
    )  # fmt: skip
    assert world.placed() == ["t1"]
    assert world.why("t2") == "wants 0.002, has 0.001 of 0.002 vcore in queue root.p.a"
