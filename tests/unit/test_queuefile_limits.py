"""Limits of users and groups in queue files: the configuration, and E05, E07 to E20, E40 to E47."""

import pytest
from queuetexts import HEAD, RA, ROOT, A, R, assert_mistake, codes_of, partition_of, queue_with, queues_of

from ykactor.core.config.model import Limit
from ykactor.wire.queuefile.load import load

L = f"{A}.limits[0]"


def limits(*entries: str, fields: str = "") -> str:
    """A configuration whose only leaf ``root.a`` has these limits (flow style)."""
    return queue_with(f"{fields}limits: [{', '.join(f'{{{entry}}}' for entry in entries)}]")


def chain(*entries: str) -> str:
    """A configuration with limits of root, of root.a, of root.a.b and so on, one entry each; "" for none."""
    text = "partitions:\n  - queues:\n"
    for depth, (name, entry) in enumerate(zip(["root", *"abcd"], entries, strict=False)):
        indent = "      " + "    " * depth
        text += f"{indent}- name: {name}\n{indent}  limits: [{f'{{{entry}}}' if entry else ''}]\n{indent}  queues:\n"
    return text


# ---- the configuration


def test_limits() -> None:
    """CF-31, CF-68: users and groups in the order of the text; an amount that is not set is not limited."""
    text = limits(
        "limit: some words, users: [bob, ann@example.org, eve$], maxapplications: 3, maxresources: {vcore: 2, gpu: 0}",
        "groups: [dev, 'a:b.c-d', '*'], maxapplications: 1",
    )
    assert queues_of(text)["root.a"].limits == (
        Limit(("bob", "ann@example.org", "eve$"), (), {"vcore": 2000, "gpu": 0}, 3),
        Limit((), ("dev", "a:b.c-d", "*"), None, 1),
    )


def test_partition_limits_are_those_of_root() -> None:
    """CF-18: limits of the partition without limits of the root queue are its limits, also if the root is not written."""
    entry = "limits: [{users: [bob], maxapplications: 2}]"
    for queues in ("[]", "[{name: a}]", "[{name: root}]", "[{name: root, limits: []}]"):
        partition = partition_of(f"partitions: [{{queues: {queues}, {entry}}}]")
        assert partition.root.limits == (Limit(("bob",), (), None, 2),)
        assert all(not child.limits for child in partition.root.children)


def test_equal_limits_at_both_places() -> None:
    """CF-44: the same entries, in the same order and with the same descriptions, may be in both places."""
    entry = "limits: [{limit: x, users: [bob], maxapplications: 2, maxresources: {vcore: 1}}, {groups: [g], maxapplications: 1}]"
    assert len(partition_of(f"partitions: [{{queues: [{{name: root, {entry}}}], {entry}}}]").root.limits) == 2


@pytest.mark.parametrize(
    "other",
    [
        "{limit: y, users: [bob], maxapplications: 2}, {users: [eve], maxapplications: 1}",
        "{users: [eve], maxapplications: 1}, {limit: x, users: [bob], maxapplications: 2}",
        "{limit: x, users: [bob], maxapplications: 2}",
        "{limit: x, users: [bob], maxapplications: 3}, {users: [eve], maxapplications: 1}",
    ],
)
def test_other_limits_at_both_places(other: str) -> None:
    """E05: two lists that differ in entries, order or descriptions are refused."""
    own = "{limit: x, users: [bob], maxapplications: 2}, {users: [eve], maxapplications: 1}"
    text = f"partitions:\n  - queues: [{{name: root, limits: [{own}]}}]\n    §limits: [{other}]\n"
    assert_mistake(text, "E05", "partitions[0].limits", "found limits that differ from those of partitions[0].queues[0](root)")


# ---- mistakes within one queue

ENOUGH = "maxapplications: 1"

MISTAKES = [
    ("E07", limits(f"§{ENOUGH}").replace("{§", "§{"), f"{L}.users", "found neither users nor groups"),
    ("E07", limits(f"§users: [], groups: [], {ENOUGH}"), f"{L}.users", "expected at least one"),
    ("E08", limits(f"users: [bob, §9b], {ENOUGH}"), f"{L}.users[1]", "found '9b', expected \"*\" or a user name"),
    ("E08", limits(f"users: [§'**'], {ENOUGH}"), f"{L}.users[0]", "found '**'"),
    ("E08", limits(f"users: [§], {ENOUGH}").replace("§]", "§'']"), f"{L}.users[0]", "found nothing"),
    ("E08", limits(f"users: [§a b], {ENOUGH}"), f"{L}.users[0]", "found 'a b'"),
    ("E09", limits(f"users: [bob, §bob], {ENOUGH}"), f"{L}.users[1]", "the user bob a second time in this queue"),
    ("E09", limits(f"users: [bob], {ENOUGH}", f"users: [§bob], {ENOUGH}"), f"{A}.limits[1].users[0]", "first is in line 4"),
    ("E09", limits(f"users: ['*', §'*'], {ENOUGH}"), f"{L}.users[1]", "the user * a second time"),
    ("E10", limits(f"users: ['*', §bob], {ENOUGH}"), f"{L}.users[1]", 'found the user bob after "*", put "*" last'),
    ("E10", limits(f"users: ['*'], {ENOUGH}", f"users: [§bob], {ENOUGH}"), f"{A}.limits[1].users[0]", 'put "*" last'),
    ("E11", limits(f"groups: [dev, §a/b], {ENOUGH}"), f"{L}.groups[1]", "found 'a/b', expected \"*\" or a group name"),
    ("E12", limits(f"groups: [dev, §dev], {ENOUGH}"), f"{L}.groups[1]", "the group dev a second time"),
    ("E12", limits(f"groups: [dev, '*'], {ENOUGH}", f"groups: [§'*'], {ENOUGH}"), f"{A}.limits[1].groups[0]", "group *"),
    ("E13", limits(f"groups: [dev, '*', §ops], {ENOUGH}"), f"{L}.groups[2]", 'found the group ops after "*", put "*" last'),
    ("E14", limits(f"groups: [§'*'], {ENOUGH}"), f"{L}.groups[0]", "name a group first"),
    ("E14", limits(f"users: [dev], {ENOUGH}", f"groups: [§'*'], {ENOUGH}"), f"{A}.limits[1].groups[0]", "name a group first"),
    ("E15", limits("users: [bob], maxresources: {vcore: §-1}"), f"{L}.maxresources.vcore", "found '-1'"),
    ("E15", limits("users: [bob], maxresources: {memory: §0.5}"), f"{L}.maxresources.memory", "found '0.5'"),
    ("E15", limits("users: [bob], maxresources: {§memory: }"), f"{L}.maxresources.memory", "found nothing"),
    ("E16", limits(f"users: [bob], §maxresources: {{gpu: 0, vcore: 0}}, {ENOUGH}"), f"{L}.maxresources", "found zeros only"),
    ("E17", limits("§users: [bob]").replace("{§", "§{"), f"{L}.maxresources", "found a limit without amounts"),
    ("E17", limits("users: [bob], §maxresources: {}, maxapplications: 0"), f"{L}.maxresources", "maxapplications above 0"),
    ("E18", limits("users: [bob], maxapplications: §4", fields="maxapplications: 3, "), f"{L}.maxapplications",
     "found 4, expected at most 3, the maxapplications of root.a"),
    ("E18", HEAD + "      - {name: root, maxapplications: 3, limits: [{groups: [dev], maxapplications: §4}]}\n",
     f"{R}.limits[0].maxapplications", "expected at most 3, the maxapplications of root"),
    ("E19", limits(f"users: [bob], {ENOUGH}", fields="resources: {max: {vcore: §2GB}}, "), f"{A}.resources.max.vcore",
     "unknown suffix 'GB'"),
    ("E20", limits("users: [bob], maxresources: {gpu: 9, vcore: §3}", fields="resources: {max: {vcore: 2}}, "),
     f"{L}.maxresources.vcore", "found 3 vcore, expected at most 2, the max of root.a"),
    ("E20", ROOT + "          - name: a\n            resources: {max: {gpu: 0}}\n"
     "            limits: [{users: [bob], maxresources: {gpu: §1}}]\n", f"{RA}.limits[0].maxresources.gpu", "at most 0"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "path", "part"), MISTAKES)
def test_mistakes_within_a_queue(code: str, text: str, path: str, part: str) -> None:
    """E07 to E20, CF-22: each mistake has its code, its place, and what was found and expected."""
    assert_mistake(text, code, path, part)


@pytest.mark.parametrize(
    "text",
    [
        limits(f"users: [bob, '*'], {ENOUGH}"),
        limits(f"users: [bob], {ENOUGH}", f"users: ['*'], {ENOUGH}"),
        limits(f"groups: [dev, '*'], {ENOUGH}"),
        limits(f"groups: [dev], {ENOUGH}", f"groups: ['*'], {ENOUGH}"),
        limits(f"users: ['*'], groups: [bob], {ENOUGH}"),
        limits(f"users: [bob], groups: [bob], {ENOUGH}"),
        limits(f"users: [bob, Bob], {ENOUGH}"),
        limits("users: [bob], maxresources: {gpu: 1}, maxapplications: 0"),
        limits("users: [bob], maxresources: {gpu: 0, vcore: 1}"),
        limits("users: [bob], maxapplications: 3", fields="maxapplications: 3, "),
        limits("users: [bob], maxapplications: 3", fields="maxapplications: 0, "),
        limits("users: [bob], maxresources: {vcore: 2, gpu: 7}", fields="resources: {max: {vcore: 2}}, "),
        limits(),
        chain("users: [bob], maxapplications: 1", "users: [eve], maxapplications: 9"),
        chain(f"users: [bob], {ENOUGH}", f"users: [bob], {ENOUGH}"),
    ],
)
def test_legal_neighbours(text: str) -> None:
    """Allowed: a star after the names, a name as user and as group, equal amounts, and types that only one side has."""
    load(text)


def test_limits_are_checked_where_they_are_written() -> None:
    """CF-18: a mistake in the limits of the partition is found there, once, though they are those of the root queue."""
    text = "partitions:\n  - queues: [{name: root}]\n    limits: [{users: [§9], maxapplications: 1}]\n"
    assert_mistake(text, "E08", "partitions[0].limits[0].users[0]")


def test_unreadable_values_break_no_further_rule() -> None:
    """An unreadable value of a limit is one mistake: it does not also count as a missing value."""
    assert codes_of(limits("users: bob, maxapplications: 1")) == ["P4"]
    assert codes_of(limits("user: [bob], maxapplications: 1")) == ["P2"]
    assert codes_of(limits("users: [bob], maxapplications: x")) == ["P6"]
    assert codes_of(limits("users: [bob], maxresources: 5")) == ["P4"]
    assert codes_of(limits("users: [bob], maxresources: {a: 0, b: x}")) == ["E15"]
    assert codes_of(chain("users: [bob], maxapplications: 5", "users: [bob], maxapplications: x")) == ["P6"]


# ---- mistakes along a path

OVER = "found 6 gpu for user {}, expected at most 5, the limit of user {} in root"

PATHS = [
    ("E40", ("users: [bob], maxresources: {gpu: 5}", "users: [bob], maxresources: {gpu: §6}"), "maxresources.gpu",
     OVER.format("bob", "bob")),
    ("E40", ("users: [bob], maxresources: {gpu: 5}", "", "users: [bob], maxresources: {gpu: §6}"), "maxresources.gpu",
     OVER.format("bob", "bob")),
    ("E40", ("users: [bob, '*'], maxresources: {gpu: 5}", "users: [bob], maxresources: {gpu: §6}"), "maxresources.gpu",
     OVER.format("bob", "bob")),
    ("E40", ("users: [bob], maxresources: {gpu: 5}", "users: [bob], maxresources: {gpu: 4, vcore: 1}",
             "users: [bob], maxresources: {gpu: 4, vcore: §2}"), "maxresources.vcore", "the limit of user bob in root.a"),
    ("E40", ("users: [bob], maxresources: {gpu: 5}", "users: [bob], maxresources: {vcore: 1}",
             "users: [bob], maxresources: {gpu: §6}"), "maxresources.gpu", OVER.format("bob", "bob")),
    ("E41", ("users: ['*'], maxresources: {gpu: 5}", "users: [bob], maxresources: {gpu: §6}"), "maxresources.gpu",
     OVER.format("bob", "*")),
    ("E41", ("users: ['*'], maxresources: {gpu: 5}", "users: ['*'], maxresources: {gpu: §6}"), "maxresources.gpu",
     OVER.format("*", "*")),
    ("E42", ("groups: [dev], maxresources: {gpu: 5}", "groups: [dev], maxresources: {gpu: §6}"), "maxresources.gpu",
     "found 6 gpu for group dev, expected at most 5, the limit of group dev in root"),
    ("E43", ("groups: [ops, '*'], maxresources: {gpu: 5}", "groups: [dev], maxresources: {gpu: §6}"), "maxresources.gpu",
     "for group dev, expected at most 5, the limit of group * in root"),
    ("E44", ("users: [bob], maxapplications: 5", "users: [bob], maxapplications: §6"), "maxapplications",
     "found 6 for user bob, expected 1 to 5, the limit of user bob in root"),
    ("E44", ("users: [bob], maxapplications: 5", "users: [bob], maxapplications: §0, maxresources: {gpu: 1}"), "maxapplications",
     "found no limit (0) for user bob, expected 1 to 5"),
    ("E44", ("users: [bob], maxapplications: 5", "users: [bob], maxapplications: 4", "users: [bob], maxapplications: §5"),
     "maxapplications", "expected 1 to 4, the limit of user bob in root.a"),
    ("E45", ("users: ['*'], maxapplications: 5", "users: [bob], maxapplications: §6"), "maxapplications",
     "found 6 for user bob, expected 1 to 5, the limit of user * in root"),
    ("E45", ("users: ['*'], maxapplications: 5", "users: ['*'], maxapplications: §6"), "maxapplications", "for user *"),
    ("E46", ("groups: [dev], maxapplications: 5", "groups: [dev], maxapplications: §6"), "maxapplications",
     "found 6 for group dev, expected 1 to 5, the limit of group dev in root"),
    ("E47", ("groups: [ops, '*'], maxapplications: 5", "groups: [dev], maxapplications: §6"), "maxapplications",
     "the limit of group * in root"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "entries", "key", "part"), PATHS)
def test_mistakes_along_a_path(code: str, entries: tuple[str, ...], key: str, part: str) -> None:
    """E40 to E47: a limit may not allow a user or group more than any limit above, in the parent or in other ancestors."""
    depth = len(entries) - 1
    path = "partitions[0]" + ".queues[0]" * (depth + 1) + f"(root{''.join('.' + name for name in 'abcd'[:depth])}).limits[0]"
    assert_mistake(chain(*entries), code, f"{path}.{key}", part)


@pytest.mark.parametrize(
    "entries",
    [
        ("users: [bob], maxresources: {gpu: 5}", "users: [bob], maxresources: {gpu: 5, vcore: 9}"),
        ("users: [bob], maxresources: {gpu: 5}", "users: [bob], maxapplications: 7"),
        ("users: [bob], maxresources: {gpu: 5}", "users: [eve], maxresources: {gpu: 9}"),
        ("users: [bob], maxresources: {gpu: 5}", "users: ['*'], maxresources: {gpu: 9}"),
        ("users: [bob], maxresources: {gpu: 5}", "groups: [bob], maxresources: {gpu: 9}"),
        ("users: [bob, '*'], maxapplications: 5", "users: [bob], maxapplications: 5"),
        ("users: [bob], maxapplications: 0, maxresources: {gpu: 1}", "users: [bob], maxapplications: 5"),
    ],
)
def test_legal_limits_along_a_path(entries: tuple[str, ...]) -> None:
    """Allowed: equal amounts, other types, limits of other names, and a star below names."""
    load(chain(*entries))


def test_a_named_user_may_exceed_the_star_of_the_same_queue() -> None:
    """E40: limits of siblings or of the same queue are not compared; below, the limit with the same name counts."""
    text = "{users: [bob], maxresources: {gpu: 9}}, {users: ['*'], maxresources: {gpu: 5}}"
    load(
        HEAD
        + f"      - {{name: a, limits: [{text}], queues: [{{name: b, limits: [{{users: [bob], maxresources: {{gpu: 8}}}}]}}]}}\n"
    )


def test_text_mistakes_come_first_and_path_limits_last() -> None:
    """CF-74: mistakes in limits come at their place in the order of validation."""
    text = """\
partitions:
  - limits: [{users: [bob], maxapplications: 1}]
    nodesortpolicy: {type: best}
    placementrules: [{name: nosuch}]
    queues:
      - name: root
        maxapplications: 1
        queues:
          - {name: a, limits: [{users: [bob], maxapplications: 2}, {users: [9, eve]}], resources: {guaranteed: {vcore: x}}}
          - {name: b, maxapplications: 1, colour: red}
"""
    assert codes_of(text) == ["P2", "E08", "E17", "E23", "E36a", "E36", "E39", "E44"]
