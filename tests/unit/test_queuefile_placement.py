"""Placement rules in queue files: the configuration (CF-71), and E28 to E35 and E36a."""

import pytest
from queuetexts import assert_mistake, codes_of, partition_of

from ykactor.core.config.model import NameFilter, PlacementFilter, PlacementRule
from ykactor.wire.queuefile.load import ConfigError, load

P = "partitions[0].placementrules[0]"

#: A parent with a leaf and an empty parent, and a leaf.
QUEUES = "{name: users, queues: [{name: alice}, {name: teams, parent: true}]}, {name: default}"


def rules(*entries: str, queues: str = QUEUES) -> str:
    """A configuration with these placement rules (flow style)."""
    return f"partitions:\n  - queues: [{queues}]\n    placementrules:\n" + "".join(f"      - {{{entry}}}\n" for entry in entries)


def with_filter(text: str) -> str:
    return rules(f"name: user, filter: {{{text}}}")


# ---- what they become


def test_rules() -> None:
    """CF-71, PL-6: rules in the order of the text, names in lower case, the queue of fixed too, no other value."""
    text = rules(
        "name: Provided",
        "name: TAG, value: NameSpace, create: true, parent: {name: user, parent: {name: fixed, value: Root.Users}}",
        "name: fixed, value: Default",
    )
    assert partition_of(text).placement_rules == (
        PlacementRule("provided"),
        PlacementRule(
            "tag",
            create=True,
            value="NameSpace",
            parent=PlacementRule("user", parent=PlacementRule("fixed", value="root.users")),
        ),
        PlacementRule("fixed", value="default"),
    )


@pytest.mark.parametrize("text", ["partitions: [{queues: []}]", "partitions: [{queues: [], placementrules: []}]"])
def test_no_rules(text: str) -> None:
    """PL-2: without rules in the file the configuration has none."""
    assert partition_of(text).placement_rules == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", PlacementFilter()),
        ("type: ''", PlacementFilter()),
        ("type: allow", PlacementFilter()),
        ("type: Deny", PlacementFilter(allow=False)),
        ("users: [bob]", PlacementFilter(users=NameFilter(True, frozenset({"bob"})))),
        ("users: [a.b]", PlacementFilter(users=NameFilter(True, frozenset({"a.b"})))),
        ("users: [user$]", PlacementFilter(users=NameFilter(True, expression="user$"))),
        ("groups: ['dev*']", PlacementFilter(groups=NameFilter(True, expression="dev*"))),
        ("groups: [a/b, dev]", PlacementFilter(groups=NameFilter(True, frozenset({"dev"})))),
        ("users: [x, 'y*', x]", PlacementFilter(users=NameFilter(True, frozenset({"x"})))),
        ("users: ['y*', 'z*']", PlacementFilter(users=NameFilter(True))),
        ("users: [], groups: [ops]", PlacementFilter(groups=NameFilter(True, frozenset({"ops"})))),
    ],
)
def test_filters(text: str, expected: PlacementFilter) -> None:
    """PL-10 to PL-15: deny in any case; one entry with a special character is an expression, several are names."""
    assert partition_of(with_filter(text)).placement_rules[0].filter == expected


def test_dropped_names_are_warnings() -> None:
    """PL-14: of several entries one that is not a valid name is ignored, with a warning; also in a parent rule."""
    text = rules("name: user, parent: {name: user, filter: {users: [x, 'y*'], groups: [dev, ops]}}")
    (warning,) = load(text, "q.yaml").warnings
    assert warning == (
        f"q.yaml:4:63: {P}.parent.filter.users[1]: found 'y*', not a valid name, which is ignored; "
        "a regular expression must be the only entry"
    )


def nested(count: int) -> str:
    return rules("name: user, parent: {" * count + "name: user" + "}" * count)


def test_chains_may_be_deep() -> None:
    """PL-21: parents nest as deep as queues may."""
    rule: PlacementRule | None = partition_of(nested(63)).placement_rules[0]
    depth = 0
    while rule is not None:
        rule, depth = rule.parent, depth + 1
    assert depth == 64
    with pytest.raises(ConfigError, match=r"found 64 nested parent rules, expected at most 63 \(E36a\)"):
        partition_of(nested(64))


# ---- mistakes

NAMES = [
    ("E28", rules("name: §''"), f"{P}.name", "found nothing, expected one of provided, user, fixed, tag"),
    ("E28", rules("§create: true").replace("{§", "§{"), f"{P}.name", "found nothing"),
    ("E28", rules("name: §primary-group"), f"{P}.name", "found 'primary-group'"),
    ("E28", rules("name: user, parent: {name: user, parent: {name: §'user '}}"), f"{P}.parent.parent.name", "found 'user '"),
    ("E29", with_filter("type: §forbid"), f"{P}.filter.type", "found 'forbid', expected allow or deny"),
    ("E30", with_filter("users: [§9b]"), f"{P}.filter.users[0]", "found '9b', expected a name or a regular expression"),
    ("E30", with_filter("users: [§'']"), f"{P}.filter.users[0]", "found nothing"),
    ("E30", with_filter("users: [§'(a']"), f"{P}.filter.users[0]", "not a valid regular expression: RE2 says missing )"),
    ("E30", with_filter("users: [§'*']"), f"{P}.filter.users[0]", "RE2 says no argument for repetition operator: *"),
    ("E31", with_filter("groups: [§a/b]"), f"{P}.filter.groups[0]", "found 'a/b'"),
    ("E31", with_filter("groups: [§'[a']"), f"{P}.filter.groups[0]", "found '[a', which is not a valid regular expression"),
    ("E36a", rules("name: §recovery"), f"{P}.name", "which is built in and cannot be configured"),
    ("E36a", rules("name: §test"), f"{P}.name", "which is not a rule, expected one of provided, user, fixed, tag"),
    ("E36a", rules("name: user, parent: {name: §primarygroup}"), f"{P}.parent.name", "which is not a rule"),
    ("E36a", rules("§name: fixed").replace("{§", "§{"), f"{P}.value", "found no value, expected the path of a queue"),
    ("E36a", rules("name: fixed, value: §''"), f"{P}.value", "found no value"),
    ("E36a", rules("§name: tag").replace("{§", "§{"), f"{P}.value", "found no value, expected the name of a tag"),
    ("E36a", rules("name: fixed, value: §root..a"), f"{P}.value", "found 'root..a', expected queue names joined by dots"),
    ("E36a", rules("name: fixed, value: §a b"), f"{P}.value", "'a b' is not a queue name"),
    ("E36a", rules("name: fixed, value: §root.users, parent: {name: user}"), f"{P}.value", "is a full path"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "path", "part"), NAMES)
def test_mistakes_of_one_rule(code: str, text: str, path: str, part: str) -> None:
    """E28 to E31, E36a, CF-23, PL-3, PL-16: mistakes in rules and parent rules have their place and what was expected."""
    assert_mistake(text, code, path, part)


@pytest.mark.parametrize(
    "expression",
    [
        r"(?=a)", r"(?!a)", r"(?<=a)b", r"(?<!a)b", r"(?>a)", r"(?#a)b", r"(a)\1", r"(?P<x>a)(?P=x)", r"(a)?(?(1)b|c)",
        r"a*+", r"a++", r"a?+", r"a{2}+", r"a{1,2}+", r"a\Z|b", r"a**", r"(?P<9 >a)", r"a{1001}", r"(?x)a", r"(a",
        r"\C+", r"(\\\C)", r"[a",
    ],
)  # fmt: skip
def test_expressions_beyond_re2(expression: str) -> None:
    """PL-17: an expression that RE2 does not support is refused, also if only RE2 in Go does not."""
    assert_mistake(with_filter(f"users: [§'{expression}']"), "E30", f"{P}.filter.users[0]", "found ")


@pytest.mark.parametrize(
    "expression",
    [r"^dev", r"dev*", r"^(a|b)$", r"(?i)^BOB$", r"(?P<x>a)b?", r"(?:ab)+?", r"[*+?]+", r"[]+]+", r"\++", r"\\+",
     r"a{1,2}", r"[^]]+", r"\d+\w*\.\s?\b", r"[\]+]x+", "(?i:a)|b", "^(" + "|".join("abcdefghij" * 48) + ")(-dev)?$",
     "(?:a|b)??c{2}(de){3}", "^team-.*-.*-.*prod$", r"\??" * 9 + r"[?|]", r"[[:alpha:]]+", r"\\C+", r"\pL*", "(a+)+", "(a*)*b",
     "a*b*c*d*", "(a|b){9}", "a?" * 99, "(a|a)" * 100],
)  # fmt: skip
def test_expressions_of_re2(expression: str) -> None:
    """PL-13, PL-17: other expressions are kept unchanged, also those that other engines would take long to match."""
    found = partition_of(with_filter(f"users: ['{expression}']")).placement_rules[0].filter.users
    assert found == NameFilter(listed=True, expression=expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a" * 1000 + "*", "expected at most 1000 characters in an expression"),
        ("((.{0,10}){10}){10}$", "expected at most 2000 instructions in an expression, not 9"),
        (r"(\pL{50}){20}", "not a valid regular expression: RE2 says pattern too large - compile failed"),
        ("(" * 500 + "a*", r"not a valid regular expression: RE2 says missing ): "),
    ],
    ids=["characters", "instructions", "memory", "nesting"],
)
def test_expressions_are_bounded(expression: str, expected: str) -> None:
    """The length and the instructions of an expression are limited (PL-17)."""
    assert_mistake(with_filter(f"users: [§'{expression}']"), "E30", f"{P}.filter.users[0]", expected)


STATIC = [
    # One for each case.
    ("E33", "name: fixed, value: §root.users", "found root.users, which is a parent, expected a leaf"),
    (None, "name: fixed, value: root.default", ""),
    (None, "name: fixed, value: root.users.bob, create: true", ""),
    ("E34", "name: fixed, value: §root.users.bob", "found root.users.bob, which does not exist"),
    ("E35", "name: fixed, value: §root.default.bob", "found root.default.bob below root.default, which is a leaf"),
    ("E35", "name: fixed, value: §root.default.bob, create: true", "below root.default, which is a leaf"),
    ("E33", "name: user, parent: {name: fixed, value: §root.default}", "found root.default, which is a leaf, expected a parent"),
    (None, "name: user, parent: {name: tag, value: t, parent: {name: fixed, value: root.users}}", ""),
    (None, "name: fixed, value: dev, create: true, parent: {name: fixed, value: users}", ""),
    ("E32", "name: fixed, value: §root.dev, parent: {name: fixed, value: root.users}", "found 'root.dev' and a parent rule"),
    # Their neighbours.
    ("E32", "name: user, parent: {name: fixed, value: §root.dev, parent: {name: fixed, value: users}}", "and a parent rule"),
    ("E33", "name: fixed, value: §users", "found root.users"),
    ("E33", "name: fixed, value: §teams, parent: {name: fixed, value: users}", "found root.users.teams, which is a parent"),
    ("E33", "name: fixed, value: §root", "found root, which is a parent"),
    ("E33", "name: Fixed, value: §USERS", "found root.users"),
    ("E34", "name: fixed, value: §rootless.q", "found root.rootless.q"),
    ("E34", "name: fixed, value: §a.b.c", "found root.a.b.c"),
    ("E34", "name: user, parent: {name: fixed, value: §new, create: true}", "create: true in the outermost rule"),
    ("E34", "name: fixed, value: §q, parent: {name: fixed, value: root}", "found root.root.q"),
    ("E35", "name: user, create: true, parent: {name: fixed, value: §default.a.b}", "below root.default"),
    (None, "name: fixed, value: alice, parent: {name: fixed, value: users}", ""),
    (None, "name: user, create: true, parent: {name: fixed, value: new, create: true}", ""),
    (None, "name: user, create: true, parent: {name: fixed, value: new}", ""),
    (None, "name: user, parent: {name: fixed, value: users.teams}", ""),
    (None, "name: fixed, value: nosuch, parent: {name: user}", ""),
    (None, "name: fixed, value: rootless.q, create: true", ""),
]


@pytest.mark.parametrize(("code", "rule", "part"), STATIC)
def test_static_paths(code: str | None, rule: str, part: str) -> None:
    """E32 to E35: the path of the fixed rules nearest to root must match the configured queues."""
    if code is None:
        load(rules(rule))
        return
    depth = rule[: rule.index("§")].count("parent: {")
    assert_mistake(rules(rule), code, f"{P}{'.parent' * depth}.value", part)


def test_static_paths_ignore_case() -> None:
    """CF-17: the case of queue names does not matter, neither in a rule nor in the tree."""
    load(rules("name: fixed, value: ROOT.Dev", queues="{name: DEV}"))


def test_every_rule_is_checked() -> None:
    """PL-7, CF-74: all mistakes of all rules, rule by rule; a chain with a mistake has no path to check."""
    text = rules("name: fixed, value: users", "name: nosuch, parent: {name: fixed, value: default}", "name: '-'")
    assert codes_of(text) == ["E33", "E36a", "E28"]
