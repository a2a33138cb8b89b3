"""The leaf of an application: rules, filters, names, access, recovery and the last resort."""

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import app, configure, make_world, queue, tree

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import AccessList, NameFilter, PartitionConfig, PlacementFilter, PlacementRule, QueueConfig
from ykactor.core.messages.kinds import Rejection, RejectionCode
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.objects.registry import Registry
from ykactor.core.placement import rules
from ykactor.core.placement.rules import NO_MATCH, TRIED_MAX, Applicant, Mistake, NoMatch, Outcome, Placed, is_forced, tag_value
from ykactor.core.values.ids import ApplicationID, PartitionName, QueuePath
from ykactor.core.values.parts import finished, paced
from ykactor.core.values.quantities import is_queue_name

FORCED = {"application.create.force": "true"}

# ---- small worlds


def acl(text: str) -> AccessList:
    """``bob,eve ops`` or ``*``, as a queue file writes it."""
    users, _, groups = text.partition(" ")
    return AccessList(
        everybody=text == "*",
        users=frozenset(filter(None, users.split(","))) - {"*"},
        groups=frozenset(filter(None, groups.split(","))),
    )


def registry(*queues: str, rules: tuple[PlacementRule, ...] = (), **acls: str) -> Registry:
    """Root and ``queues``: parents end in ``/``, ``!`` says draining. ACLs by last name, everybody's on root if none is given."""
    acls.setdefault("root", "*")
    told = [line.rstrip("!") for line in ("root/", *queues)]
    draining = {line.rstrip("/!") for line in queues if line.endswith("!")}
    config = PartitionConfig(PartitionName("default"), QueueConfig(QueuePath("root"), is_parent=True), placement_rules=rules)
    known = Registry(config)
    for line in told:
        path = QueuePath(line.rstrip("/"))
        submit = acl(acls.get(path.rpartition(".")[2], ""))
        settings = QueueConfig(path, is_parent=line.endswith("/"), submit_acl=submit)
        known.queues[path] = ParentCore(settings, known.changed) if settings.is_parent else LeafCore(settings, known.books)
        known.queues[path].state = QueueState.DRAINING if path in draining else QueueState.ACTIVE
    return known


def submission(name: str = "", tags: dict[str, str] | None = None, user: str = "bob") -> AddApplication:
    return AddApplication(ApplicationID("app-1"), name, user, tags=tags or {})


def who(user: str = "bob", *groups: str) -> UserGroups:
    return UserGroups(user, groups or (user,))


def rule(name: str, value: str = "", *, create: bool = False, parent: PlacementRule | None = None,
         only: PlacementFilter | None = None) -> PlacementRule:  # fmt: skip
    return PlacementRule(name, create, value, only or PlacementFilter(), parent)


def provided(**keys: object) -> PlacementRule:
    return rule("provided", **keys)  # type: ignore[arg-type]


def user(**keys: object) -> PlacementRule:
    return rule("user", **keys)  # type: ignore[arg-type]


def fixed(value: str, **keys: object) -> PlacementRule:
    return rule("fixed", value, **keys)  # type: ignore[arg-type]


def tag(value: str, **keys: object) -> PlacementRule:
    return rule("tag", value, **keys)  # type: ignore[arg-type]


def names(*entries: str) -> NameFilter:
    """Literal names; an expression if the one entry has a character of PL-13; entries of a list that are no names drop."""
    if len(entries) == 1 and set(entries[0]) & set("^$*+?()[{}|"):
        return NameFilter(listed=True, expression=entries[0])
    return NameFilter(bool(entries), frozenset(entry for entry in entries if not set(entry) & set("^$*+?()[{}|")))


def allow(users: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> PlacementFilter:
    return PlacementFilter(True, names(*users), names(*groups))


def deny(users: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> PlacementFilter:
    return PlacementFilter(False, names(*users), names(*groups))


def applicant(application: AddApplication, by: UserGroups) -> Applicant:
    return Applicant(application, by)


def place(known: Registry, application: AddApplication, by: UserGroups) -> Placed | Rejection:
    return finished(rules.place(known, applicant(application, by)))


def evaluate(rule: PlacementRule, known: Registry, application: AddApplication, by: UserGroups) -> Outcome:
    return finished(rules.evaluate(rule, known, applicant(application, by)))


def admits(rule_filter: PlacementFilter, by: UserGroups) -> bool:
    return finished(rules.admits(rule_filter, applicant(submission(), by)))


def where(known: Registry, application: AddApplication, by: UserGroups | None = None) -> str:
    """The path, with ``+`` if it is to be created; ``rejected`` with the text of PL-40, ``error`` for a mistake."""
    placed = place(known, application, by or who(application.user))
    if isinstance(placed, Placed):
        return placed.path + "+" * placed.creates
    return "rejected" if placed.reason.startswith(NO_MATCH) else "error"


# ---- what all rules share


@pytest.mark.parametrize(
    ("rule_filter", "by", "runs"),
    [
        (allow(), who("bob"), True),
        (deny(), who("bob"), False),
        (allow(("bob",)), who("bob"), True),
        (allow(("bob",)), who("Bob"), False),
        (deny(("bob",)), who("bob"), False),
        (deny(("bob",)), who("eve"), True),
        (allow((), ("dev*",)), who("eve", "model"), True),  # hm: "de" is within "model"
        (allow((), ("^dev",)), who("eve", "ops", "devel"), True),
        (allow(("x", "y*")), who("y1"), False),
        (allow(("x",), ("ops",)), who("eve", "ops"), True),
        (deny(("x",), ("ops",)), who("eve", "ops"), False),
        (allow(("user$",)), who("myuser"), True),
        (allow(("user$",)), who("user$"), False),  # the expression wins over the name (PL-13)
        (allow(("a.b",)), who("axb"), False),
        (allow(("(?i)^bob",)), who("BOBBY"), True),
        (allow(("y*", "z*")), who("y"), False),  # all dropped: nobody matches (PL-15)
        (deny(("y*", "z*")), who("y"), True),
        (allow(("eve",)), UserGroups("bob", ()), False),
        (allow((), (".*",)), UserGroups("bob", ()), False),  # no group, nothing to match
    ],
)
def test_filter(rule_filter: PlacementFilter, by: UserGroups, runs: bool) -> None:
    """A filter says for which users a rule runs (PL-10 to PL-15)."""
    assert admits(rule_filter, by) is runs


def test_long_names_match_no_expression() -> None:
    """An expression is searched for in names of up to 128 characters (PL-17)."""
    assert admits(allow(("^a*$",)), who("a" * 128))
    assert not admits(allow(("^a*$",)), who("a" * 129))


def test_an_expression_that_re2_refuses_matches_nobody() -> None:
    """PL-17: an old journal may have one that was allowed when the configuration was read."""
    assert not admits(PlacementFilter(True, NameFilter(listed=True, expression="(?x)bob")), who("bob"))


def groups_of(count: int) -> UserGroups:
    return UserGroups("bob", tuple(f"team-a-b-{number}-dev" for number in range(count)))


@pytest.mark.parametrize("filtered", [allow((), ("^team-.*-.*-.*prod$",)), allow((), ("ops", "prod"))])
def test_names_are_compared_in_parts(filtered: PlacementFilter) -> None:
    """PL-57: other tasks may run however many groups an application has, and however many rules have filters."""
    known = registry("root.a", rules=tuple(fixed("root.a", only=filtered) for _ in range(8)))

    def pauses(count: int) -> int:
        return sum(1 for _ in paced(rules.place(known, applicant(submission(), groups_of(count)))))

    assert pauses(2000) > 2 * pauses(500) > 0


def test_too_many_names_are_not_compared() -> None:
    """PL-57: the application is rejected, and nothing is compared that would be one name too many."""
    filtered = allow((), ("^prod$",))
    few, many = (tuple(fixed("root.a", only=filtered) for _ in range(count)) for count in (4, 5))
    assert where(registry("root.a", rules=few), submission(), groups_of(TRIED_MAX // 4 - 1)) == "rejected"
    outcome = place(registry("root.a", rules=many), submission(), groups_of(TRIED_MAX // 4 - 1))
    assert outcome == Rejection(
        RejectionCode.NO_QUEUE,
        f"application rejected: more than {TRIED_MAX} names to compare with filters (rule fixed root.a)",
    )


@pytest.mark.parametrize(
    ("tags", "value"),
    [
        ({}, ""),
        ({"Name": "a"}, "a"),
        ({"Name": "a", "NAME": "b"}, "b"),  # sorted: capitals first
        ({"NAME": "b", "Name": "a", "name": "c"}, "c"),
        ({"Name": "a", "name": ""}, ""),  # the exact one counts, also when it is empty
        ({"names": "a"}, ""),
    ],
)
def test_tag_case(tags: dict[str, str], value: str) -> None:
    """A tag's name ignores case; among several the exact one counts, else the first in sorted order (PL-34)."""
    assert tag_value(tags, "name") == value


NAMESPACE = tag("namespace", create=True, parent=tag("namespace.parentqueue"))
LABELS = tag("label1", parent=tag("label2"))


@pytest.mark.parametrize(
    ("asked", "application", "queues", "result"),
    [
        (provided(create=True, parent=user(create=True)), submission("my_special_queue", user="developer"), [],
         "root.developer.my_special_queue"),
        (provided(create=True, parent=user(create=True)), submission("root.dev_queue", user="developer"), [], "root.dev_queue"),
        (user(), submission(user="finance.test"), ["root.finance_dot_test"], "root.finance_dot_test"),
        (user(), submission(user="developer"), [], NoMatch),
        (fixed("last_resort"), submission("anything"), ["root.last_resort"], "root.last_resort"),
        (fixed("testparent.testchild"), submission(), ["root.testparent/", "root.testparent.testchild"],
         "root.testparent.testchild"),
        (fixed("testchild", parent=fixed("testparent")), submission(), ["root.testparent/", "root.testparent.testchild"],
         "root.testparent.testchild"),
        (fixed("x", create=True, parent=fixed("testchild")), submission(), ["root.testchild"], Mistake),
        (fixed("q", create=True, parent=fixed("new")), submission(), [], NoMatch),
        (fixed("q", create=True, parent=fixed("new", create=True)), submission(), [], "root.new.q"),
        (fixed("q", create=True, parent=fixed("root")), submission(), [], "root.root.q"),
        (provided(), submission("a.b"), ["root.a/", "root.a.b"], NoMatch),
        (provided(), submission("a.b"), ["root.a_dot_b"], "root.a_dot_b"),
        (provided(create=True), submission("root.unkno!wn"), [], Mistake),
        (tag("namespace", create=True), submission(tags={"NameSpace": "Testing"}), [], "root.testing"),
        (NAMESPACE, submission(tags={"namespace": "finance", "namespace.parentqueue": "root.production"}), ["root.production/"],
         "root.production.finance"),
        (NAMESPACE, submission(tags={"namespace": "finance", "namespace.parentqueue": "production"}), ["root.production/"],
         "root.production.finance"),
        (LABELS, submission(tags={"label1": "a"}), ["root.a"], NoMatch),
        (LABELS, submission(tags={"label1": "root.x.y", "label2": "p!q"}), ["root.x/", "root.x.y"], "root.x.y"),
        (LABELS, submission(tags={"label1": "a", "label2": "p!q"}), [], Mistake),
    ],
)  # fmt: skip
def test_name_building(asked: PlacementRule, application: AddApplication, queues: list[str], result: object) -> None:
    """The result of one rule from its value, before anybody asks whether the queue is usable (PL-20 to PL-29, PL-55)."""
    outcome = evaluate(asked, registry(*queues), application, who(application.user))
    assert (outcome if isinstance(outcome, str) else type(outcome)) == result


@pytest.mark.parametrize(
    ("asked", "application", "result"),
    [
        (provided(create=True), submission("root.A.B"), "root.a.b"),
        (provided(create=True), submission("Root.a"), "root.root_dot_a"),
        (provided(create=True), submission("root"), "root.root"),  # PL-35
        (provided(create=True), submission("rootless.q"), "root.rootless_dot_q"),
        (provided(create=True), submission(), NoMatch),
        (provided(create=True), submission("root..a"), Mistake),
        (provided(create=True), submission("root."), Mistake),
        (provided(create=True), submission("a b"), Mistake),
        (provided(create=True), submission("x" * 64), "root." + "x" * 64),
        (provided(create=True), submission("x" * 65), Mistake),
        (provided(create=True), submission("x" * 59 + "."), "root." + "x" * 59 + "_dot_"),
        (provided(create=True), submission("x" * 60 + "."), Mistake),  # 64 characters after replacement (PL-27)
        (provided(create=True), submission("\u212a"), Mistake),  # a letter whose lower case is "k"
        (provided(create=True), submission("root.\u212a"), Mistake),
        (user(create=True), submission(user="root.x"), "root.root_dot_x"),  # always unqualified
        (user(create=True), submission(user="bob$"), Mistake),
        (fixed("a.b", create=True), submission(), "root.a.b"),  # dots are hierarchy (PL-32)
        (fixed("a.b", create=True, parent=fixed("p", create=True)), submission(), "root.p.a.b"),
        (fixed("root.a", create=True), submission(), "root.a"),
        (fixed("rootless.q", create=True, parent=fixed("p", create=True)), submission(), "root.p.rootless.q"),  # PL-33
        (tag("t", create=True), submission(tags={"t": ""}), NoMatch),
        (tag("t", create=True), submission(tags={"T": "root.A"}), "root.a"),
        (provided(create=True), submission("root.@Recovery@"), NoMatch),  # PL-31
        (provided(create=True), submission("@recovery@"), NoMatch),
        (provided(create=True), submission("root.@recovery@.x"), NoMatch),
        (tag("t", create=True, parent=provided(create=True)), submission("@recovery@", {"t": "x"}), NoMatch),
        (provided(create=True), submission("root.@recovery@2"), "root.@recovery@2"),
    ],
)
def test_names(asked: PlacementRule, application: AddApplication, result: object) -> None:
    """Dots, case, legality, what counts as qualified, and the recovery queue (PL-23 to PL-35)."""
    outcome = evaluate(asked, registry(), application, who(application.user))
    assert (outcome if isinstance(outcome, str) else type(outcome)) == result


def test_order_within_a_rule() -> None:
    """Value, filter, legality, parent: an illegal name is an error whatever the parent says (PL-54)."""
    nowhere = fixed("nowhere")
    known = registry()
    assert isinstance(evaluate(provided(parent=nowhere), known, submission("a!"), who()), Mistake)
    assert isinstance(evaluate(provided(only=deny(), parent=nowhere), known, submission("a!"), who()), NoMatch)
    assert isinstance(evaluate(provided(create=True, parent=nowhere), known, submission("a"), who()), NoMatch)


def test_create_is_everybodys_own() -> None:
    """Each rule asks its own flag of its own result (PL-20)."""
    known = registry("root.p/")
    assert isinstance(evaluate(fixed("q", parent=fixed("new", create=True)), known, submission(), who()), NoMatch)
    assert isinstance(evaluate(fixed("q", parent=fixed("p")), known, submission(), who()), NoMatch)
    assert evaluate(fixed("q", create=True, parent=fixed("p")), known, submission(), who()) == "root.p.q"


def test_a_qualified_value_skips_the_parent() -> None:
    """Filter and mistakes of the parent included (PL-26); the rule's own filter still counts."""
    known = registry("root.a")
    never = user(only=deny())
    assert evaluate(provided(parent=never), known, submission("root.a"), who("bob$")) == "root.a"
    assert isinstance(evaluate(provided(only=deny(), parent=never), known, submission("root.a"), who()), NoMatch)


def test_parents_nest() -> None:
    """The innermost parent is nearest to root (PL-21); a parent that does not match takes all rules with it (PL-22)."""
    three = fixed("c", create=True, parent=fixed("b", create=True, parent=user(create=True)))
    assert evaluate(three, registry(), submission(), who("eve")) == "root.eve.b.c"
    outcome = evaluate(tag("t", parent=fixed("b", parent=user())), registry(), submission(tags={"t": "x"}), who("eve"))
    assert outcome == NoMatch("parent fixed b: parent user: queue root.eve does not exist")


def test_parent_that_is_root() -> None:
    """A parent's result without ``root.`` gets one, also ``root``; an existing leaf root.root is an error (PL-23, PL-24)."""
    below_root = fixed("q", create=True, parent=fixed("root"))
    assert isinstance(evaluate(below_root, registry("root.root"), submission(), who()), Mistake)
    assert evaluate(below_root, registry("root.root/"), submission(), who()) == "root.root.q"


# ---- the list of rules, and which result is usable


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("root.a.b", "root.a.b"),
        ("root.A.B", "root.a.b"),
        ("default", "root.default"),
        ("user.name", "root.user_dot_name"),  # PL-30
        ("", "rejected"),
        ("root", "rejected"),
        ("root.a", "rejected"),
        ("root.a.b.c", "rejected"),
        ("b", "rejected"),
        ("nowhere", "rejected"),
        ("a!", "error"),
    ],
)
def test_no_rules(name: str, path: str) -> None:
    """An application has to name an existing leaf if there are no rules (PL-2)."""
    known = registry("root.a/", "root.a.b", "root.user_dot_name", "root.default", default="")
    known.queues[QueuePath("root.default")].state = QueueState.ACTIVE if name == "default" else QueueState.DRAINING
    assert where(known, submission(name)) == path


DEFAULT_TABLE = [
    ("", {}, "any-user", "rejected", "root.default"),
    ("provided", {}, "any-user", "root.provided", "root.provided"),
    ("unknown", {}, "any-user", "rejected", "root.default"),
    ("root.parent", {}, "any-user", "rejected", "root.default"),
    ("root.acldeny", {}, "deny-user", "rejected", "root.default"),
    ("unknown", {"namespace": "namespace"}, "any-user", "root.namespace+", "root.namespace+"),
    ("unknown", {"namespace": "namespace"}, "deny-user", "rejected", "root.default"),
    ("root.provided", FORCED, "any-user", "root.provided", "root.provided"),
    ("unknown", {"namespace": "namespace"} | FORCED, "any-user", "root.namespace+", "root.namespace+"),
    ("unknown", {"namespace": "namespace"} | FORCED, "deny-user", "root.@recovery@+", "root.@recovery@+"),
    ("root.parent", FORCED, "deny-user", "root.@recovery@+", "root.@recovery@+"),
    ("unknown", FORCED, "deny-user", "root.@recovery@+", "root.@recovery@+"),
    ("root.acldeny", FORCED, "deny-user", "root.@recovery@+", "root.@recovery@+"),
]


@pytest.mark.parametrize(("name", "tags", "submitter", "without", "with_default"), DEFAULT_TABLE)
def test_default_queue(name: str, tags: dict[str, str], submitter: str, without: str, with_default: str) -> None:
    """The last resorts: the recovery queue for forced applications, else ``root.default`` (PL-3, PL-4, PL-41, PL-42)."""
    rules = (provided(), tag("namespace", create=True))
    queues = ["root.provided", "root.parent/", "root.acldeny"]
    application = submission(name, tags, submitter)
    assert where(registry(*queues, rules=rules, root="any-user", provided="*", acldeny=" "), application) == without
    with_it = registry(*queues, "root.default", rules=rules, root="any-user", provided="*", acldeny=" ", default="*")
    assert where(with_it, application) == with_default


@pytest.mark.parametrize("default", [[], ["root.default/"], ["root.default!"], ["root.default"]])
def test_the_default_queue_is_checked_like_any_other(default: list[str]) -> None:
    """The default queue is never created, must be a leaf, open, and let the user in (PL-42)."""
    assert where(registry(*default, root="eve"), submission("nowhere")) == "rejected"


@pytest.mark.parametrize(
    ("by", "namespace", "path"),
    [
        (who("john", "john"), "testing", "root.namespaces.testing+"),
        (who("sarah", "sarah", "test_app", "dev_app"), "newapp", "root.newapp.sarah+"),
        (who("bob", "bob"), "testapp", "root.default"),
    ],
)
def test_chain_with_filters(by: UserGroups, namespace: str, path: str) -> None:
    """Filters of a rule and of a parent rule send users on to the next rule (PL-1, PL-12, PL-22)."""
    rules = (
        user(create=True, only=allow((), ("dev*",)), parent=tag("namespace")),
        tag("namespace", create=True, parent=fixed("root.namespaces", only=allow(("john",)))),
        fixed("root.default"),
    )
    known = registry("root.namespaces/", "root.newapp/", "root.default", rules=rules)
    assert where(known, submission("", {"namespace": namespace}, by.user), by) == path


def test_access_moves_on_to_the_next_rule() -> None:
    """A user whom a rule's queue refuses moves on to the next rule; a new queue needs access to its ancestor (PL-38, PL-39)."""
    rules = (fixed("root.production"), user(create=True))
    known = registry("root.production", rules=rules, root="", production="john,bob")
    assert where(known, submission(user="john")) == "root.production"
    assert where(known, submission(user="mary")) == "rejected"
    below_open = (fixed("root.production"), user(create=True, parent=fixed("home")))
    known = registry("root.production", "root.home/", rules=below_open, root="", production="john,bob", home="*")
    assert where(known, submission(user="mary")) == "root.home.mary+"
    known = registry("root.production", rules=rules, root="*", production="john,bob")
    assert where(known, submission(user="mary")) == "root.production"  # an open root opens all (QU-82)


def test_draining_moves_on_to_the_next_rule() -> None:
    """A draining queue takes nobody new, nor does a queue below one (PL-38, CF-83)."""
    rules = (provided(), fixed("root.b"))
    assert where(registry("root.a!", "root.b", rules=rules), submission("root.a")) == "root.b"
    assert where(registry("root.a/!", "root.a.x/", "root.a.x.y", "root.b", rules=rules), submission("root.a.x.y")) == "root.b"


@pytest.mark.parametrize(
    ("queues", "path"),
    [
        (["root.p/"], "root.p.x.y+"),
        (["root.p/", "root.p.x/"], "root.p.x.y+"),
        (["root.p/", "root.p.x/", "root.p.x.y"], "root.p.x.y"),
        ([], "root.p.x.y+"),
        (["root.p"], "rejected"),  # a leaf has nothing below it
        (["root.p/", "root.p.x"], "rejected"),
        (["root.p/!", "root.p.x/"], "rejected"),
        (["root.p/", "root.p.x/!"], "rejected"),
        (["root.p/", "root.p.x/", "root.p.x.y/"], "rejected"),
    ],
)
def test_creation(queues: list[str], path: str) -> None:
    """The nearest existing ancestor must be an open parent all the way up (PL-39, QU-8, QU-10, QU-11)."""
    assert where(registry(*queues, rules=(provided(create=True),)), submission("root.P.x.Y")) == path


def test_creation_asks_the_nearest_ancestor_for_access() -> None:
    """Access to an ancestor is enough, access to a queue elsewhere is not (PL-39, QU-81)."""
    known = registry("root.p/", "root.p.q/", "root.o/", rules=(provided(create=True),), root="", p="bob")
    assert where(known, submission("root.p.q.new")) == "root.p.q.new+"
    assert where(known, submission("root.o.new")) == "rejected"


def test_the_recovery_name_is_not_for_new_queues() -> None:
    """A level of a new path may not have the name, wherever it is (QU-10); a configured queue deeper down may (CF-28)."""
    rules = (provided(create=True),)
    assert where(registry("root.a/", rules=rules), submission("root.a.@recovery@")) == "rejected"
    assert where(registry("root.a/", rules=rules), submission("root.a.@recovery@.b")) == "rejected"
    assert where(registry("root.a/", "root.a.@recovery@", rules=rules), submission("root.a.@recovery@")) == "root.a.@recovery@"


def test_a_very_deep_path_is_answered_at_once() -> None:
    """The search for the nearest ancestor looks at what exists, not at every level of what was submitted."""
    deep = "root" + ".a" * 200_000
    assert where(registry("root.a", rules=(provided(create=True),)), submission(deep)) == "rejected"


def test_created_paths_are_bounded() -> None:
    """A rule creates queues down to 64 levels below root (PL-56)."""
    known = registry(rules=(provided(create=True),))
    assert where(known, submission("root" + ".a" * 64)) == "root" + ".a" * 64 + "+"
    assert where(known, submission("root" + ".a" * 65)) == "rejected"


# ---- forced applications


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "True", "TRUE"])
def test_forced(text: str) -> None:
    """The true texts of the tag, its name in any case (PL-41)."""
    assert is_forced({"application.create.force": text})
    assert is_forced({"other": "x", "Application.Create.FORCE": text})


@pytest.mark.parametrize("tags", [{}, {"application.create.force": "tRUE"}, {"application.create.force": "yes"}, {"force": "1"}])
def test_not_forced(tags: dict[str, str]) -> None:
    """Other texts are not true, other tags do not count."""
    assert not is_forced(tags)


def test_recovery_queue() -> None:
    """The recovery queue is for forced applications only, without a check; a rule never leads there (PL-31, PL-37, QU-13)."""
    known = registry("root.@recovery@!", root="")
    assert where(known, submission("nowhere", FORCED)) == "root.@recovery@"
    known = registry("root.@recovery@", "root.default", root="*")
    assert where(known, submission("root.@recovery@", FORCED)) == "root.@recovery@"
    assert where(known, submission("root.@recovery@")) == "root.default"
    assert where(known, submission("nowhere", FORCED)) == "root.@recovery@"  # never the default queue


def test_a_mistake_ends_the_search() -> None:
    """A mistake leads to no further rule, no default queue, no recovery (PL-5, PL-41)."""
    known = registry("root.b", "root.default", rules=(provided(), fixed("root.b")))
    assert where(known, submission("a!")) == "error"
    assert where(known, submission("a!", FORCED)) == "error"
    assert where(known, submission("a")) == "root.b"


def test_the_first_usable_rule_decides() -> None:
    """Rules are tried in configuration order, and ``provided`` sees the name as submitted (PL-1, PL-36)."""
    known = registry("root.a", "root.b", rules=(fixed("missing"), user(), provided(), fixed("root.b")))
    assert where(known, submission("root.a")) == "root.a"
    assert where(known, submission()) == "root.b"


# ---- reasons


def test_reasons() -> None:
    """A rejection says for each rule why it did not decide, in order, on one line (PL-40)."""
    rules = (
        provided(),
        tag("namespace"),
        user(create=True, parent=fixed("p")),
        provided(only=deny(("bob",))),
        fixed("root.closed"),
        fixed("root.leaf.x", create=True),
        fixed("root.drains"),
    )
    known = registry("root.p/", "root.closed", "root.leaf", "root.drains!", rules=rules, root="", drains="*", leaf="*")
    assert place(known, submission("x"), who()) == Rejection(
        RejectionCode.ACL,
        "application rejected: no placement rule matched (provided: queue root.x does not exist; "
        "tag namespace: the application has no such tag; user: user bob may not submit to root.p; "
        "provided: its filter refuses user bob; fixed root.closed: user bob may not submit to root.closed; "
        "fixed root.leaf.x: queue root.leaf is a leaf, it cannot have queue root.leaf.x below it; "
        "fixed root.drains: queue root.drains is draining; root.default: does not exist)",
    )
    assert place(registry("root.default/"), submission(), who()) == Rejection(
        RejectionCode.NO_QUEUE,
        "application rejected: no placement rule matched "
        "(provided: the application names no queue; root.default: queue root.default is a parent)",
    )


@pytest.mark.parametrize(
    ("asked", "application", "text"),
    [
        (provided(), submission("x!"), "illegal queue name 'x!' (rule provided)"),
        (user(), submission(user="bob$"), "illegal queue name 'bob$' (rule user)"),
        (fixed("q", parent=tag("t")), submission(tags={"t": "a\nb"}), "illegal queue name 'a\\nb' (rule tag t)"),
        (provided(), submission("x" * 1000), f"illegal queue name '{'x' * 60}'... (rule provided)"),
        (user(parent=fixed("leaf")), submission(), "queue root.leaf is a leaf and cannot be a parent (rule fixed leaf)"),
    ],
)
def test_mistakes(asked: PlacementRule, application: AddApplication, text: str) -> None:
    """An error names what is wrong and the rule that found it, on one line of readable length."""
    placed = place(registry("root.leaf", rules=(asked,)), application, who(application.user))
    assert placed == Rejection(RejectionCode.NO_QUEUE, f"application rejected: {text}")


# ---- properties

PARTS = st.text(alphabet="ab.", max_size=4) | st.sampled_from(["root", "Root", "@recovery@", "default", "p", "p.q", "P", "L"])
PATHS = st.sampled_from(["root.p.l", "root.P.Q.x.y", "p_dot_l", "l", "root.l.x", "root.d.a", "root.d.x", "root.p.@recovery@"])
NAMES = PARTS | PARTS.map("root.{}".format) | PATHS | st.text(max_size=5) | st.text(alphabet=string.printable, max_size=70)
LEGAL_PARTS = st.sampled_from(["root", "a", "b", "p", "q", "l", "@recovery@", "rootless"])
LEGAL = st.lists(LEGAL_PARTS, min_size=1, max_size=3).map(".".join)
FILTERS = st.sampled_from([allow(), allow(("bob",)), allow((), ("dev*",)), deny(("bob",)), deny((), ("^ops$",))])


def rules_with(parents: st.SearchStrategy[PlacementRule | None]) -> st.SearchStrategy[PlacementRule]:
    return st.one_of(
        st.builds(PlacementRule, st.sampled_from(["provided", "user"]), st.booleans(), st.just(""), FILTERS, parents),
        st.builds(PlacementRule, st.just("fixed"), st.booleans(), LEGAL, FILTERS, parents),
        st.builds(PlacementRule, st.just("tag"), st.booleans(), st.sampled_from(["t", "T", "n"]), FILTERS, parents),
    )


RULES = st.recursive(rules_with(st.none()), lambda inner: rules_with(st.none() | inner), max_leaves=3)
QUEUES = ("root.p/", "root.p.q/", "root.p.l", "root.l", "root.d/!", "root.d.a", "root.default", "root.@recovery@", "root.root/")


@given(
    st.lists(RULES, max_size=3),
    st.just(set(QUEUES)) | st.sets(st.sampled_from(QUEUES)),
    PATHS | NAMES,
    st.dictionaries(st.sampled_from(["t", "T", "n", "N", "x"]), NAMES, max_size=3),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["bob", "eve.x", "bob$", "root.a"]),
    st.sampled_from(["*", "*", "bob", " dev", ""]),
)
def test_whatever_the_names(
    rules: list[PlacementRule], queues: set[str], name: str, tags: dict[str, str], forced: bool, submitter: str, open_to: str
) -> None:
    """A reason on one line, or a place that the partition can use as it is; the same again; and nobody was changed."""
    told = [each for each in QUEUES if each in queues and not ("p." in each and "root.p/" not in queues)]
    told = [each for each in told if not ("d." in each and "root.d/!" not in queues)]
    known = registry(*told, rules=tuple(rules), root=open_to, p="eve.x")
    application = submission(name, tags | FORCED if forced else tags, submitter)
    by = UserGroups(submitter, ("ops", "dev"))
    before = [(path, queue_core.state, queue_core.config) for path, queue_core in known.queues.items()]
    said = msgspec.json.encode(application)

    placed = place(known, application, by)

    assert place(known, application, by) == placed
    assert [(path, queue_core.state, queue_core.config) for path, queue_core in known.queues.items()] == before
    assert msgspec.json.encode(application) == said
    if isinstance(placed, Rejection):
        assert placed.reason.startswith("application rejected: ")
        assert len(placed.reason.splitlines()) == 1
        return
    root, *parts = placed.path.split(".")
    assert root == "root"
    assert parts
    assert all(map(is_queue_name, parts))
    assert placed.path == placed.path.lower()
    assert placed.creates is (placed.path not in known.queues)
    if placed.path == "root.@recovery@":
        assert forced
        return
    nearest = placed.path
    while nearest not in known.queues:
        assert nearest.rpartition(".")[2] != "@recovery@"
        nearest = QueuePath(nearest.rpartition(".")[0])
    assert isinstance(known.queues[nearest], ParentCore if placed.creates else LeafCore)
    assert "root.d" not in (nearest, nearest.rpartition(".")[0])


# ---- through the partition


@pytest.mark.parametrize(("name", "queue_name"), [("root.A.b", "root.a.b"), ("root.a", "root.default"), ("", "root.default")])
def test_placed(name: str, queue_name: str) -> None:
    """The application has the path of the real queue, overriding what was submitted (PL-29, PL-53)."""
    world = make_world(tree(queue("a", queue("b")), queue("default")))
    world.given(app("app-1", name))
    assert world.final()["applications"]["app-1"] == {"state": "New", "queueName": queue_name}


@pytest.mark.parametrize(
    "left", [tree(queue("c")), tree(queue("a", queue("c"))), tree(queue("a"))], ids=["both drain", "it drains", "no child left"]
)
def test_draining_leaves_are_not_usable(left: str) -> None:
    """A leaf that leaves the configuration, or is below one that does, takes nobody new (PL-38, CF-83)."""
    world = make_world(tree(queue("a", queue("b"))))
    world.given(app("app-0", "root.a.b"), configure(left))
    world.send(app("app-1", "root.a.b"))
    (line,) = world.heard()
    assert line.startswith(f"app-1 Rejected: failed to place application app-1: {NO_MATCH} (provided: queue root.a")
