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
    """QU-106, CF-24: names in access lists follow the same rules as in limits, and keep their case."""
    queue = queues_of(queue_with(f"{key}: '{text}'"))["root.a"]
    assert (queue.submit_acl if key == "submitacl" else queue.admin_acl) == expected
    assert (queue.admin_acl if key == "submitacl" else queue.submit_acl) == NOBODY


@pytest.mark.parametrize("text", ["a  b", "a b ", "  ", " a b", "a b c", r"a\tb\tc"])
def test_more_than_two_fields(text: str) -> None:
    """E06: a list with more than two fields, separated by single spaces or by white space, is refused."""
    assert codes_of(queue_with(f'submitacl: "{text}"')) == ["E06"]
    assert_mistake(queue_with(f'adminacl: §"{text}"'), "E06", f"{A}.adminacl", "expected users, one space, groups")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("al!ce,bob", ", 'al!ce' is not a valid name and is ignored"),
        ("u dev/ops", ", 'dev/ops' is not a valid name and is ignored"),
        ("u1,*", ', "*" is ignored because it is not alone; write "*" without names for everybody'),
        ("alice, bob", ", an empty name is ignored; the names after the first space are groups"),
    ],
)
def test_ignored_words_are_warnings(text: str, warning: str) -> None:
    """CF-24: a word that is not a valid name is ignored with a warning; the list is no mistake."""
    (found,) = load(queue_with(f"submitacl: '{text}'"), "q.yaml").warnings
    assert found == f"q.yaml:4:30: {A}.submitacl: found {text!r}{warning}"


@pytest.mark.parametrize("text", ["", " ", "*", "u g", "* g!", "u1 *"])
def test_ordinary_lists_have_no_warning(text: str) -> None:
    """A list of which no word is ignored has no warning; with * nothing else counts."""
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
    """CF-62: a resolver of YuniKorn that is not supported is replaced by the most similar one, with a warning."""
    config = load(PARTITION + f"    usergroupresolver: {text}\n", "q.yaml")
    assert config.partitions[0].user_group_resolver == expected
    prefix = "q.yaml:4:31: partitions[0].usergroupresolver.type: "
    assert all(line.startswith(prefix + warning) for line in config.warnings)
    assert bool(config.warnings) == bool(warning)


def test_unknown_resolvers_are_refused() -> None:
    """CF-62: an unknown resolver is refused, and the message has the known ones."""
    text = PARTITION + "    usergroupresolver: {type: §OS}\n"
    assert_mistake(text, "CF-62", "partitions[0].usergroupresolver.type", "found 'OS', expected os, ldap, test, or nothing")


def test_resolver_by_default() -> None:
    """CF-62: without a resolver a user has one group with the user's name."""
    assert partition_of(PARTITION).user_group_resolver == ""
