"""The changes that a new configuration makes, in sentences for people."""

import pytest
from world import World, app, ask, configure, limit, load, make_world, node, queue, template, tree

from ykactor.core.config.model import partition_changes
from ykactor.core.messages.facts import ConfigurationChanged


def told(world: World) -> list[str]:
    """The sentences of the last configuration."""
    return list([fact for fact in world.facts if isinstance(fact, ConfigurationChanged)][-1].changes)


def changes(before: str, after: str) -> list[str]:
    """The sentences when one text follows the other."""
    world = make_world(before)
    world.send(configure(after))
    world.expect("configuration accepted")
    return told(world)


def test_nothing() -> None:
    """The same text again changes nothing (CF-53)."""
    text = tree(queue("a", max={"vcore": 1}, limits=[limit("bob", vcore=1)]), placementrules=[{"name": "user"}])
    assert changes(text, text) == []


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        ({"max": {"vcore": 1}}, {"max": {"vcore": 2, "gpu": 0}}, ["max {vcore: 1} -> {gpu: 0, vcore: 2}"]),
        ({"max": {"vcore": 1}}, {}, ["max {vcore: 1} -> not set"]),
        ({}, {"guaranteed": {"memory": 5}}, ["guaranteed not set -> {memory: 5}"]),
        ({}, {"maxapplications": 3}, ["maxapplications 0 -> 3"]),
        ({"p": {"priority.offset": 5}}, {"p": {"priority.offset": 6}}, ["priority.offset 5 -> 6"]),
        ({"p": {"mine": "x"}}, {"p": {"yours": "x"}}, ["mine x -> not set", "yours not set -> x"]),
        ({}, {"submitacl": "bob"}, ["submitacl changed"]),
        ({"adminacl": "*"}, {"adminacl": "eve"}, ["adminacl changed"]),
        ({}, {"limits": [limit("bob", vcore=1)]}, ["limits changed"]),
        ({"limits": [limit("bob", vcore=1)]}, {"limits": [limit("eve", vcore=1)]}, ["limits changed"]),
        (
            {"max": {"vcore": 1}, "maxapplications": 1},
            {"maxapplications": 2, "submitacl": "*"},
            ["max {vcore: 1} -> not set", "maxapplications 1 -> 2", "submitacl changed"],
        ),
    ],
)  # fmt: skip
def test_settings(before: dict[str, object], after: dict[str, object], sentences: list[str]) -> None:
    """One sentence for each setting of a queue; quantities are shown, longer settings only named."""
    found = changes(tree(queue("a", **before)), tree(queue("a", **after)))
    assert found == [f"queue root.a: {sentence}" for sentence in sentences]


def test_inherited_settings() -> None:
    """Inherited settings are re-derived (CF-80), and reported for every queue that they change for."""
    before = tree(queue("p", queue("a"), childtemplate=template(applications=1)))
    after = tree(queue("p", queue("a"), queue("q", parent=True), p={"application.sort.policy": "fair"}))
    assert changes(before, after) == [
        "queue root.p: application.sort.policy not set -> fair",
        "queue root.p: child template changed",
        "queue root.p.a: application.sort.policy not set -> fair",
        "queue root.p.q: added",
    ]


def test_queues_that_come_and_go() -> None:
    """Added, drained, and active again."""
    world = make_world(tree(queue("a"), queue("b", queue("c"))))
    world.send(app("app-1", "root.b.c"))
    world.send(configure(tree(queue("a"), queue("d"))))
    assert told(world) == [
        "queue root.d: added",
        "queue root.b: removed, drains until it is empty",
        "queue root.b.c: removed, drains until it is empty",
    ]
    world.send(configure(tree(queue("a"), queue("d"), queue("b", queue("c")))))
    assert told(world) == ["queue root.b: active again", "queue root.b.c: active again"]


def test_types() -> None:
    """A leaf becomes a parent at once, a parent becomes a leaf in its time (CF-60)."""
    one, other = tree(queue("a")), tree(queue("a", parent=True))
    assert changes(one, other) == ["queue root.a: leaf becomes parent"]
    assert changes(other, one) == ["queue root.a: parent becomes leaf once it has no children"]


def test_dynamic_queues_that_become_managed() -> None:
    """Their settings are those of the text from now on (CF-76)."""
    rules = [{"name": "provided", "create": True}]
    world = make_world(tree(placementrules=rules))
    world.send(app("app-1", "root.p.a", namespace__resourcemaxapps="4"))
    world.send(configure(tree(queue("p", queue("a")), placementrules=rules)))
    assert told(world) == [
        "queue root.p: managed by the configuration from now on",
        "queue root.p.a: managed by the configuration from now on",
        "queue root.p.a: maxapplications 4 -> 0",
    ]


def test_partitions() -> None:
    """Changes that are not about a queue come first."""
    before = tree(queue("a"), nodesortpolicy={"type": "fair"})
    after = tree(
        queue("a"),
        placementrules=[{"name": "user"}],
        nodesortpolicy={"type": "binpacking", "resourceweights": {"memory": 2.0}},
        preemption={"enabled": False},
        usergroupresolver={"type": "os"},
    )
    sentences = [
        "placement rules changed, for new applications",
        "node sort policy fair {memory: 1.0, vcore: 1.0} -> binpacking {memory: 2.0}",
        "preemption switches changed",
        "usergroupresolver changed: ignored until the partition starts anew",
    ]
    assert list(partition_changes(load(before), load(after))) == sentences
    assert changes(before, after) == sentences


def test_the_resolver_stays() -> None:
    """Another usergroupresolver is reported and ignored each time (CF-79)."""
    world = make_world(tree(queue("a")))
    for _ in range(2):
        world.send(configure(tree(queue("a"), usergroupresolver={"type": "os"})))
        assert told(world) == ["usergroupresolver changed: ignored until the partition starts anew"]
    assert world.direct.core.registry.config.user_group_resolver == ""


def test_refused_configurations_change_nothing() -> None:
    """A leaf with applications that is to be a parent refuses everything (CF-61)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=9)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    before = world.state()
    world.send(configure(tree(queue("a", parent=True), queue("b"), placementrules=[{"name": "user"}])))
    assert told(world) == []
    assert world.state() == before
