"""Access lists in queue files (QU-106)."""

import pytest
from queuetexts import PARTITION, A, assert_mistake, codes_of, partition_of, queue_with, queues_of

from ykactor.core.config.model import AccessList
from ykactor.wire.queuefile.load import load

NOBODY = AccessList()
EVERYBODY = AccessList(everybody=True)


def named(users: str, groups: str = "") -> AccessList:
    return AccessList(False, frozenset(users.split()), frozenset(groups.split()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", NOBODY),
        (" ", NOBODY),
        ("*", EVERYBODY),
        (" *", EVERYBODY),
        ("* ", EVERYBODY),
        ("* g1", EVERYBODY),
        ("u1 *", EVERYBODY),
        ("u", named("u")),
        ("u ", named("u")),
        ("u1,u2", named("u1 u2")),
        ("u1 g1,g2", named("u1", "g1 g2")),
        (" g1", named("", "g1")),
        ("a,b c,d", named("a b", "c d")),
        ("#u1,u2", named("u2")),
        ("u1,*", named("u1")),
        ("u1 g,*", named("u1", "g")),
        ("U,u", named("U u")),
        ("ann@example.org,bob$ dev:ops", named("ann@example.org bob$", "dev:ops")),
    ],
)
@pytest.mark.parametrize("key", ["submitacl", "adminacl"])
def test_who_is_named(key: str, text: str, expected: AccessList) -> None:
    """QU-106 and CF-24: the names of both lists are those of limits, with their case."""
    queue = queues_of(queue_with(f"{key}: '{text}'"))["root.a"]
    assert (queue.submit_acl if key == "submitacl" else queue.admin_acl) == expected
    assert (queue.admin_acl if key == "submitacl" else queue.submit_acl) == NOBODY


@pytest.mark.parametrize("text", ["a  b", "a b ", "  ", " a b", "a b c", r"a\tb\tc"])
def test_more_than_two_fields(text: str) -> None:
    """E06: what splits into more than two fields, at single spaces or at white space, is refused."""
    assert codes_of(queue_with(f'submitacl: "{text}"')) == ["E06"]
    assert_mistake(queue_with(f'adminacl: §"{text}"'), "E06", f"{A}.adminacl", "expected users, one space, groups")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("al!ce,bob", "'al!ce' is no legal name and is dropped"),
        ("u dev/ops", "'dev/ops' is no legal name and is dropped"),
        ("u1,*", '"*" among names is dropped; it stands alone for everybody'),
        ("alice, bob", "with an empty name, which is dropped; what follows the first space are groups"),
    ],
)
def test_dropped_words_are_warnings(text: str, warning: str) -> None:
    """CF-24: a word that is no name is dropped with a warning at the list, which stays legal."""
    (found,) = load(queue_with(f"submitacl: '{text}'"), "q.yaml").warnings
    assert found == f"q.yaml:4:30: {A}.submitacl: found {text!r}" + (", " if not warning.startswith("with") else " ") + warning


@pytest.mark.parametrize("text", ["", " ", "*", "u g", "* g!", "u1 *"])
def test_ordinary_lists_are_no_warnings(text: str) -> None:
    """A list of which nothing is dropped is not worth a word; beside * nothing else counts."""
    assert load(queue_with(f"submitacl: '{text}'")).warnings == ()


# ---- who knows the groups


@pytest.mark.parametrize(
    ("text", "expected", "warning"),
    [
        ("{}", "", ""),
        ("{type: ''}", "", ""),
        ("{type: }", "", ""),
        ("{type: os}", "os", ""),
        ("{type: ldap}", "os", "found ldap: groups come from the operating system's name service"),
        ("{type: test}", "", "found test: there is no such resolver"),
    ],
)
def test_resolvers(text: str, expected: str, warning: str) -> None:
    """CF-62: what is no resolver of ours is replaced by the one that comes nearest, with a warning."""
    config = load(PARTITION + f"    usergroupresolver: {text}\n", "q.yaml")
    assert config.partitions[0].user_group_resolver == expected
    prefix = "q.yaml:4:31: partitions[0].usergroupresolver.type: "
    assert all(line.startswith(prefix + warning) for line in config.warnings)
    assert bool(config.warnings) == bool(warning)


def test_unknown_resolvers_are_refused() -> None:
    """CF-62: another text would silently mean the default; it is refused, with the names that are known."""
    text = PARTITION + "    usergroupresolver: {type: §OS}\n"
    assert_mistake(text, "CF-62", "partitions[0].usergroupresolver.type", "found 'OS', expected os, ldap, test, or nothing")


def test_resolver_by_default() -> None:
    """CF-62: without a resolver a user has one group with the user's name."""
    assert partition_of(PARTITION).user_group_resolver == ""
