"""What a new configuration changes, in sentences for people."""

import pytest
from world import World, app, ask, configure, limit, load, node, queue, template, tree, world

from ykactor.core.config.diff import partition_changes
from ykactor.core.messages.facts import ConfigurationChanged


def told(it: World) -> list[str]:
    """The sentences of the last configuration."""
    return list([fact for fact in it.facts if isinstance(fact, ConfigurationChanged)][-1].changes)


def changes(before: str, after: str) -> list[str]:
    """What is told when one text follows the other."""
    it = world(before)
    it.send(configure(after))
    it.expect("configuration accepted")
    return told(it)


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
    """One sentence for each setting of a queue; quantities are told, longer things only named."""
    found = changes(tree(queue("a", **before)), tree(queue("a", **after)))
    assert found == [f"queue root.a: {sentence}" for sentence in sentences]


def test_inherited_settings() -> None:
    """What a queue inherits is re-derived (CF section 9.2), and told for every queue that it changes for."""
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
    it = world(tree(queue("a"), queue("b", queue("c"))))
    it.send(app("app-1", "root.b.c"))
    it.send(configure(tree(queue("a"), queue("d"))))
    assert told(it) == [
        "queue root.d: added",
        "queue root.b: removed, drains until it is empty",
        "queue root.b.c: removed, drains until it is empty",
    ]
    it.send(configure(tree(queue("a"), queue("d"), queue("b", queue("c")))))
    assert told(it) == ["queue root.b: active again", "queue root.b.c: active again"]


def test_types() -> None:
    """A leaf becomes a parent at once, a parent becomes a leaf in its time (CF-60)."""
    one, other = tree(queue("a")), tree(queue("a", parent=True))
    assert changes(one, other) == ["queue root.a: leaf becomes parent"]
    assert changes(other, one) == ["queue root.a: parent becomes leaf once it has no children"]


def test_dynamic_queues_that_become_managed() -> None:
    """Their settings are those of the text from now on (CF section 9.2)."""
    rules = [{"name": "provided", "create": True}]
    it = world(tree(placementrules=rules))
    it.send(app("app-1", "root.p.a", namespace__resourcemaxapps="4"))
    it.send(configure(tree(queue("p", queue("a")), placementrules=rules)))
    assert told(it) == [
        "queue root.p: managed by the configuration from now on",
        "queue root.p.a: managed by the configuration from now on",
        "queue root.p.a: maxapplications 4 -> 0",
    ]


def test_partitions() -> None:
    """What is not about a queue comes first."""
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
    """Another usergroupresolver is told and ignored each time (CF section 9.2)."""
    it = world(tree(queue("a")))
    for _ in range(2):
        it.send(configure(tree(queue("a"), usergroupresolver={"type": "os"})))
        assert told(it) == ["usergroupresolver changed: ignored until the partition starts anew"]
    assert it.direct.core.roster.config.user_group_resolver == ""


def test_refused_configurations_change_nothing() -> None:
    """A leaf with applications that is to be a parent refuses everything (CF-61)."""
    it = world(tree(queue("a")), [node("n1", vcore=9)])
    it.given(app("app-1"), ask("t1", "app-1", vcore=1))
    before = it.state()
    it.send(configure(tree(queue("a", parent=True), queue("b"), placementrules=[{"name": "user"}])))
    assert told(it) == []
    assert it.state() == before
