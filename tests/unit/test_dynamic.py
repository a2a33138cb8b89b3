"""Dynamic queues: what placement creates, and with which settings (QU-9 to QU-17, QU-100 to QU-102)."""

import pytest
from world import World, app, ask, configure, load, make_world, node, queue, remove, template, tree

from ykactor.core.config.model import QueueConfig
from ykactor.core.config.properties import QueueProperties
from ykactor.core.messages.acts import SetQueueQuotas
from ykactor.core.messages.facts import QueueAdded, QueueLimitChanged
from ykactor.core.placement.dynamic import with_quotas
from ykactor.core.values.ids import QueuePath

CREATE = [{"name": "provided", "create": True}]
FORCED = {"application__create__force": "true"}


def settings(world: World, path: str) -> QueueConfig:
    """The settings that the queue at ``path`` has."""
    return world.direct.core.registry.queues[QueuePath(path)].config


def created(*queues: dict[str, object], path: str, **root: object) -> QueueConfig:
    """The settings of the queue that placement creates at ``path``."""
    world = make_world(tree(*queues, placementrules=CREATE, **root))
    world.send(app("app-1", path))
    world.expect("app-1 New")
    return settings(world, path)


# ---- queues


def test_a_whole_path_is_created() -> None:
    """Every missing level: dynamic parents, and the leaf (PL-47, QU-7, QU-9, QU-10); paths are in lower case (QU-6, PL-53)."""
    world = make_world(tree(queue("a", parent=True), placementrules=CREATE), [node("n1", vcore=9)])
    world.send(app("app-1", "root.A.B.C.D"), ask("t1", "app-1", vcore=1))
    world.expect("app-1 New", "app-1 Accepted", "app-1 Starting", "t1 on n1")
    found = world.state()["queues"]
    paths = ["root", "root.a", "root.a.b", "root.a.b.c", "root.a.b.c.d"]
    assert {path: queue["isLeaf"] for path, queue in found.items()} == {path: path == paths[-1] for path in paths}
    assert [settings(world, path).managed for path in paths] == [True, True, False, False, False]
    assert [(fact.queue, fact.managed) for fact in world.facts if isinstance(fact, QueueAdded)][-3:] == [
        ("root.a.b", False), ("root.a.b.c", False), ("root.a.b.c.d", False),
    ]  # fmt: skip
    assert world.queue("root.a")["allocated"] == {"vcore": 1}
    assert world.state()["applications"]["app-1"]["queueName"] == "root.a.b.c.d"


def test_existing_queues_are_used() -> None:
    """Nothing is created twice, in whatever case it is named."""
    world = make_world(tree(placementrules=CREATE))
    world.send(app("app-1", "root.a.b"), app("app-2", "root.a.c"))
    world.send(app("app-3", "root.A.b"))
    assert list(world.state()["queues"]) == ["root", "root.a", "root.a.b", "root.a.c"]


def test_defaults() -> None:
    """A new dynamic queue has no ACL of its own, no max, no guarantee, no limit, no properties (QU-12)."""
    assert created(path="root.a") == QueueConfig(QueuePath("root.a"), is_parent=False, managed=False)


def test_access_comes_from_above() -> None:
    """A user that may submit to an ancestor may submit to a queue that was created for somebody else (QU-12, QU-82)."""
    world = make_world(tree(queue("p", parent=True, submitacl="bob dev"), placementrules=CREATE, submitacl=""))
    world.given(app("app-1", "root.p.a", user="bob"))
    world.send(app("app-2", "root.p.a", user="eve"), app("app-3", "root.p.a", user="eve", groups=("dev",)))
    assert [line.split(":")[0] for line in world.heard()] == ["app-2 Rejected", "app-3 New"]


def test_recovery_queue() -> None:
    """Directly below root: fifo, no quota, no template, no properties, whatever root says (QU-13, CF-39)."""
    root = {
        "childtemplate": template(applications=1, max={"vcore": 1}, p={"application.sort.policy": "fair"}),
        "p": {"application.sort.priority": "disabled", "application.sort.policy": "fair"},
    }
    world = make_world(tree(queue("a"), submitacl="bob", **root))
    world.send(app("app-1", "nowhere", **FORCED))
    world.expect("app-1 New")
    assert settings(world, "root.@recovery@") == QueueConfig(QueuePath("root.@recovery@"), is_parent=False, managed=False)
    world.send(app("app-2", "nowhere", namespace__resourcemaxapps="7", **FORCED))
    assert settings(world, "root.@recovery@").max_applications == 0  # QU-100


def test_nobody_asks_for_the_recovery_queue() -> None:
    """Access to it fails always: only forced applications get there, and only as the last resort (QU-13)."""
    world = make_world(tree(placementrules=CREATE, adminacl="*"))
    world.given(app("app-1", "root..x", **FORCED))  # a mistake of a rule is one also for forced applications (PL-5)
    world.given(app("app-2", "", **FORCED))
    world.send(app("app-3", "root.@recovery@"))
    assert world.heard()[0].startswith("app-3 Rejected: failed to place application app-3")
    assert list(world.state()["queues"]) == ["root", "root.@recovery@"]


# ---- child templates

TEN = template(applications=10, max={"vcore": 20})


def test_the_nearest_template_wins_as_a_whole() -> None:
    """A template of a parent replaces that of the queues above it (QU-14 to QU-16)."""
    parents = queue("parent", parent=True, childtemplate=template(max={"vcore": 21})), queue("notemplate", parent=True)
    sales = created(*parents, path="root.parent.sales", childtemplate=TEN)
    assert (sales.max, sales.max_applications) == ({"vcore": 21}, 0)
    sales = created(*parents, path="root.notemplate.sales", childtemplate=TEN)
    assert (sales.max, sales.max_applications) == ({"vcore": 20}, 10)


def test_dynamic_parents_pass_templates_on() -> None:
    """They do not get the values themselves (QU-14, QU-15)."""
    world = make_world(tree(placementrules=CREATE, childtemplate=TEN))
    world.given(app("app-1", "root.p.q.a"))
    assert [settings(world, path).max_applications for path in ("root.p", "root.p.q", "root.p.q.a")] == [0, 0, 10]
    world.given(app("app-2", "root.p.q.b"))
    assert settings(world, "root.p.q.b").max == {"vcore": 20}


def test_managed_leaves_have_no_template() -> None:
    """QU-14."""
    world = make_world(tree(queue("a"), childtemplate=TEN))
    assert (settings(world, "root.a").max, settings(world, "root.a").max_applications) == (None, 0)


def test_a_template_is_in_force() -> None:
    """Max and maxapplications of a template bound like configured ones."""
    world = make_world(
        tree(placementrules=CREATE, childtemplate=template(applications=1, max={"vcore": 2})), [node("n1", vcore=9)]
    )
    world.given(
        app("app-1"), app("app-2"), *(ask(key, "app-1", vcore=1) for key in ("t1", "t2", "t3")), ask("t4", "app-2", vcore=1)
    )
    assert world.queue("root.a")["allocated"] == {"vcore": 2}
    assert world.why("t3") == "wants 0.001, has 0 of 0.002 vcore in queue root.a"
    assert world.why("t4") == "queue root.a runs 1 of at most 1 application"


def test_zeros_of_a_template() -> None:
    """A max of zeros alone forbids these types, a guarantee of zeros alone is none (QU-16, QU-33)."""
    leaf = created(path="root.a", childtemplate=template(max={"gpu": 0}, guaranteed={"vcore": 0}))
    assert (leaf.max, leaf.guaranteed) == ({"gpu": 0}, None)


def test_limits_of_a_template_are_told() -> None:
    """A queue that comes with a max tells it, like a configured one."""
    world = make_world(tree(placementrules=CREATE, childtemplate=template(max={"vcore": 2}, guaranteed={"vcore": 1})))
    world.given(app("app-1"))
    told = [(fact.queue, fact.limit, fact.resource) for fact in world.facts if isinstance(fact, QueueLimitChanged)]
    assert told == [("root.a", "max", {"vcore": 2}), ("root.a", "guaranteed", {"vcore": 1})]


def test_templates_are_read_at_creation() -> None:
    """A changed template is for queues created later (QU-17); what a parent inherits follows (CF-80)."""
    world = make_world(tree(queue("p", parent=True), placementrules=CREATE, childtemplate=TEN))
    world.given(app("app-1", "root.p.a"))
    for _ in range(2):  # a reload that changes nothing keeps what was inherited
        world.given(configure(tree(queue("p", parent=True), placementrules=CREATE, childtemplate=template(applications=3))))
    world.given(app("app-2", "root.p.b"), app("app-3", "root.p.a"))
    assert (settings(world, "root.p.a").max_applications, settings(world, "root.p.a").max) == (10, {"vcore": 20})
    assert (settings(world, "root.p.b").max_applications, settings(world, "root.p.b").max) == (3, None)


# ---- properties


def properties(*queues: dict[str, object], path: str, **root: object) -> QueueProperties:
    return created(*queues, path=path, **root).properties


def test_properties_are_those_of_the_template() -> None:
    """Exactly these: nothing else is inherited (CF-37)."""
    root = {"p": {"priority.offset": 9, "application.sort.policy": "fair"}}
    found = properties(path="root.a", childtemplate=template(p={"priority.offset": 5, "priority.policy": "fence"}), **root)
    assert found == QueueProperties(priority_fence=True, priority_offset=5)
    assert properties(path="root.a", p={"priority.offset": 9, "priority.policy": "fence"}) == QueueProperties()


def test_sort_priority_disabled_is_for_the_subtree() -> None:
    """The property reaches dynamic queues through any number of levels, unless the template says otherwise (CF-37)."""
    disabled = {"p": {"application.sort.priority": "disabled"}}
    world = make_world(tree(queue("p", parent=True, **disabled), placementrules=CREATE))
    world.given(app("app-1", "root.p.q.a"))
    assert [settings(world, path).properties.sort_by_priority for path in ("root.p.q", "root.p.q.a")] == [False, False]
    enabled = template(p={"application.sort.priority": "enabled"})
    assert properties(path="root.a", childtemplate=enabled, **disabled).sort_by_priority
    assert not properties(path="root.a", childtemplate=template(applications=1), **disabled).sort_by_priority
    assert properties(path="root.a", p={"application.sort.priority": "enabled"}).sort_by_priority


def test_sort_policy_of_a_parent_without_template() -> None:
    """A dynamic leaf copies it, and only it, from the parent itself; with a template it does not (CF-37)."""
    fair = {"p": {"application.sort.policy": "fair", "mine": "x"}}
    assert created(path="root.a", **fair).property_map == {"application.sort.policy": "fair"}
    assert properties(path="root.a", **fair).sort_policy == "fair"
    assert properties(path="root.a", childtemplate=TEN, **fair).sort_policy == "fifo"
    assert properties(path="root.p.a", **fair).sort_policy == "fifo"  # a dynamic parent has none
    inherited = queue("p", parent=True)
    assert properties(inherited, path="root.p.a", **fair).sort_policy == "fair"  # a managed one inherits


# ---- quotas from tags

LEAF = QueueConfig(QueuePath("root.a"), is_parent=False, managed=False, max={"gpu": 1}, guaranteed={"gpu": 1}, max_applications=9)


def quota(**amounts: object) -> str:
    return str({"resources": {name: {"value": value} for name, value in amounts.items()}}).replace("'", '"')


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        (quota(vcore=500), {"vcore": 500}),
        (quota(vcore=0, memory=5), {"vcore": 0, "memory": 5}),
        (quota(vcore=2**63 - 1), {"vcore": 2**63 - 1}),
        (quota(vcore=2**63), None),
        (quota(vcore=-1, memory=5), None),
        (quota(vcore=0), None),
        (quota(), None),
        (quota(vcore="5"), None),
        (quota(vcore=1.5), None),
        ('{"vcore": 5}', None),
        ('{"resources": {"vcore": 5}}', None),
        ('{"resources": null}', None),
        ("null", None),
        ("5", None),
        ("{", None),
        ("", None),
        ("\ud800", None),
        ('{"x": ' + "[" * 100_000, None),
    ],
)
def test_quota_texts(text: str, resource: dict[str, int] | None) -> None:
    """A quota that does not parse, or has a negative or no positive quantity, is ignored (QU-101)."""
    for tag, field in (("namespace.resourcequota", "max"), ("NAMESPACE.ResourceGuaranteed", "guaranteed")):
        found = with_quotas(LEAF, {tag: text, "other": "x"})
        assert getattr(found, field) == resource or (resource is None and found is LEAF)


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), ("0", 9), ("", 9), ("-1", 9), ("+5", 9), ("1.0", 9), ("x", 9), (str(2**64), 9)]
)
def test_numbers_of_applications(text: str, number: int) -> None:
    """A number without sign; 0 is ignored (QU-101)."""
    assert with_quotas(LEAF, {"namespace.resourcemaxapps": text}).max_applications == number


def test_what_is_not_mentioned_is_left_alone() -> None:
    """A quota does not clear the guarantee, nor the reverse (QU-102)."""
    found = with_quotas(LEAF, {"namespace.resourcequota": quota(vcore=5)})
    assert (found.max, found.guaranteed, found.max_applications) == ({"vcore": 5}, {"gpu": 1}, 9)
    found = with_quotas(LEAF, {"namespace.resourceguaranteed": quota(vcore=5)})
    assert (found.max, found.guaranteed, found.max_applications) == ({"gpu": 1}, {"vcore": 5}, 9)


def test_later_applications_overwrite() -> None:
    """Tags are applied each time an application is added, and take effect at once (QU-100, AP-17)."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=9)])
    world.given(app("app-1", namespace__resourcequota=quota(vcore=1)), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=2))
    assert world.why("t2") == "can never fit: wants 0.002, may have at most 0.001 vcore in queue root.a"
    before = len(world.facts)
    world.send(app("app-2", namespace__resourcequota=quota(vcore=3)))
    world.expect("app-2 New", "app-1 Running", "t2 on n1")
    told = [(fact.limit, fact.resource) for fact in world.facts[before:] if isinstance(fact, QueueLimitChanged)]
    assert told == [("max", {"vcore": 3})]
    world.send(app("app-3"), app("app-4", namespace__resourcequota="x"))
    assert world.queue("root.a")["max"] == {"vcore": 3}


def test_the_last_of_one_message_wins() -> None:
    """Also among applications that come together (QU-100)."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=9)])
    world.given(
        app("app-1", namespace__resourcequota=quota(vcore=1)),
        app("app-2", namespace__resourceguaranteed=quota(vcore=2)),
        app("app-3", namespace__resourcequota=quota(vcore=3), namespace__resourcemaxapps="2"),
    )
    found = world.queue("root.a")
    assert (found["max"], found["guaranteed"], found["maxApplications"]) == ({"vcore": 3}, {"vcore": 2}, 2)


def test_quotas_without_an_application() -> None:
    """QU-107: they take effect at once; what is not mentioned stays, and an empty value removes the quota."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=9)])
    world.given(app("app-1", namespace__resourcequota=quota(vcore=1), namespace__resourcemaxapps="3"))
    world.given(ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    assert world.administer(quotas("a", {"Namespace.ResourceQuota": quota(vcore=2)})) == ""
    assert world.placed()[-1] == "t2"
    found = world.queue("root.a")
    assert (found["max"], found["maxApplications"]) == ({"vcore": 2}, 3)
    assert world.administer(quotas("root.a", {"namespace.resourcequota": "", "namespace.resourcemaxapps": ""})) == ""
    found = world.queue("root.a")
    assert (found["max"], found["maxApplications"]) == (None, 0)


def test_a_removed_quota_is_that_of_the_template() -> None:
    """QU-107: the queue has what it would have if it were created now."""
    world = make_world(tree(placementrules=CREATE, childtemplate=template(applications=4, max={"vcore": 2})))
    world.given(app("app-1", namespace__resourcequota=quota(vcore=7), namespace__resourcemaxapps="9"))
    assert world.administer(quotas("a", {"namespace.resourcequota": ""})) == ""
    assert (world.queue("root.a")["max"], world.queue("root.a")["maxApplications"]) == ({"vcore": 2}, 9)


@pytest.mark.parametrize(
    ("name", "tags", "found"),
    [
        ("root.b", {}, "queue root.b does not exist"),
        ("root.m", {}, "queue root.m is no dynamic leaf"),
        ("root", {}, "queue root is no dynamic leaf"),
        ("root.@recovery@", {}, "does not exist"),
        ("root.a", {"namespace.quota": "1"}, "tags: found namespace.quota, expected namespace.resourcequota"),
        ("root.a", {"namespace.resourcequota": "{"}, "tags.namespace.resourcequota: found {, expected such as"),
        ("root.a", {"namespace.resourceguaranteed": quota(vcore=0)}, "with a positive quantity"),
        ("root.a", {"namespace.resourcemaxapps": "0"}, "found 0, expected a number above 0"),
        ("root.a", {"namespace.resourcequota": quota(vcore=5), "namespace.resourcemaxapps": "x"}, "found x"),
    ],
)
def test_refused_quotas_change_nothing(name: str, tags: dict[str, str], found: str) -> None:
    """QU-107."""
    world = make_world(tree(queue("m"), placementrules=CREATE))
    world.given(app("app-1", namespace__resourcequota=quota(vcore=1)))
    assert found in world.administer(quotas(name, tags))
    assert world.queue("root.a")["max"] == {"vcore": 1}


def quotas(name: str, tags: dict[str, str]) -> SetQueueQuotas:
    """The request of a resource manager."""
    return SetQueueQuotas(name, tags)


def test_quotas_over_a_template() -> None:
    """Tags come after the template, for what they mention (PL-49); only the result is reported."""
    world = make_world(tree(placementrules=CREATE, childtemplate=template(applications=4, max={"vcore": 2})))
    world.given(app("app-1", namespace__resourcequota=quota(memory=5)))
    assert (world.queue("root.a")["max"], world.queue("root.a")["maxApplications"]) == ({"memory": 5}, 4)
    assert [fact.resource for fact in world.facts if isinstance(fact, QueueLimitChanged)] == [{"memory": 5}]


def test_managed_queues_ignore_tags() -> None:
    """Their quotas are those of the text (QU-100)."""
    world = make_world(tree(queue("a", max={"vcore": 5})))
    world.given(app("app-1", namespace__resourcequota=quota(vcore=1), namespace__resourcemaxapps="1"))
    assert (world.queue("root.a")["max"], world.queue("root.a")["maxApplications"]) == ({"vcore": 5}, 0)


def test_parents_on_the_way_get_no_quota() -> None:
    """Only the leaf (QU-100)."""
    world = make_world(tree(placementrules=CREATE))
    world.given(app("app-1", "root.p.a", namespace__resourcequota=quota(vcore=1)))
    assert (world.queue("root.p")["max"], world.queue("root.p.a")["max"]) == (None, {"vcore": 1})


# ---- dynamic and managed


def test_a_dynamic_queue_becomes_managed() -> None:
    """A queue that becomes managed takes all settings from the text and keeps its tasks (QU-9, CF-76); dropped, it drains."""
    text = tree(placementrules=CREATE, childtemplate=TEN)
    world = make_world(text, [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1))
    world.given(configure(tree(queue("p", queue("a", max={"vcore": 2})), placementrules=CREATE)))
    assert settings(world, "root.p.a") == load(tree(queue("p", queue("a", max={"vcore": 2})))).root.children[0].children[0]
    assert (settings(world, "root.p").managed, world.queue("root.p.a")["allocated"]) == (True, {"vcore": 1})
    world.given(app("app-2", "root.p.a", namespace__resourcemaxapps="1"))
    assert world.queue("root.p.a")["maxApplications"] == 0
    world.given(configure(text))
    assert {path: found["state"] for path, found in world.state()["queues"].items()} == {
        "root": "Active", "root.p": "Draining", "root.p.a": "Draining",
    }  # fmt: skip


def test_reloads_do_not_touch_dynamic_queues() -> None:
    """Neither their settings nor their state (CF-80)."""
    world = make_world(tree(placementrules=CREATE, childtemplate=TEN), [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1))
    before = settings(world, "root.p.a")
    world.given(configure(tree(queue("b"), p={"application.sort.policy": "fair"})))
    assert settings(world, "root.p.a") is before
    assert world.queue("root.p.a")["state"] == "Active"
    world.send(app("app-2", "root.p.a"), ask("t2", "app-1", vcore=1))
    world.expect("app-2 New", "app-1 Running", "t2 on n1")


def test_a_dynamic_leaf_with_applications_stays_a_leaf() -> None:
    """Like any other (CF-61)."""
    world = make_world(tree(placementrules=CREATE))
    world.given(app("app-1", "root.a"))
    world.send(configure(tree(queue("a", queue("b")))))
    world.expect(
        "configuration rejected: queue root.a cannot become a parent: it is a leaf with 1 applications; "
        "wait for them to end or move them"
    )
    assert not settings(world, "root.a").managed


def test_other_quotas_and_a_removal_in_one_message() -> None:
    """Whoever leaves in the message that brings other quotas leaves the order from before it (QU-100)."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=1)])
    world.given(app("old", "root.a", namespace__resourcequota=quota(vcore=3)), ask("t1", "old", vcore=5))
    world.given(app("other", "root.a"), ask("t2", "other", vcore=1))
    world.send(app("new", "root.a", namespace__resourcequota=quota(vcore=9)), remove("old"), ask("t3", "new", vcore=1))
    assert world.placed() == []
    assert list(world.final()["applications"]) == ["new", "other"]
