"""Parsing takes linear time: 16 times the text takes about 16 times as long, and not 256 times."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from costs import is_linear
from queuetexts import PARTITION, mistakes_of, partition_of, queue_with

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import Limit
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.placement.rules import Applicant
from ykactor.core.quota.limits import QueueLimits, choose_group
from ykactor.core.values import expressions
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.names import is_group_name, is_user_name
from ykactor.core.values.quantities import QuantityError, is_queue_name, parse_quantity
from ykactor.wire.queuefile import placement_rules, rules


@pytest.mark.parametrize(
    "hostile",
    [
        lambda n: "1" * n,
        lambda n: "0" * n + "1",
        lambda n: "1" + " " * n + "!",
        lambda n: "1 " * n,
        lambda n: "1" + "k" * n + "!",
        lambda n: "1." + "0" * n + "!",
    ],
    ids=["digits", "zeros", "spaces", "words", "suffix", "decimals"],
)
def test_quantities(hostile: Callable[[int], str]) -> None:
    """CF-29: legal or not, and with the advice what to write instead."""

    def read(text: str) -> None:
        with suppress(QuantityError):
            parse_quantity("vcore", text)

    assert is_linear(read, hostile, 4_000)


@pytest.mark.parametrize("is_name", [is_user_name, is_group_name, is_queue_name])
@pytest.mark.parametrize("hostile", [lambda n: "a" * n + "!", lambda n: "a$" * n, lambda n: "a@" * n + " "])
def test_names(is_name: Callable[[str], bool], hostile: Callable[[int], str]) -> None:
    """CF-20 to CF-22: a text that looks like a name for long is no trap."""
    assert is_linear(is_name, hostile, 4_000)


@pytest.mark.parametrize(
    "hostile",
    [lambda n: "," * n, lambda n: "a," * n + " " + "b," * n, lambda n: ",".join(f"u{number}" for number in range(n))],
    ids=["commas", "two fields", "users"],
)
def test_access_lists(hostile: Callable[[int], str]) -> None:
    """QU-106: lists of many users and groups, and of many words that are none."""
    assert is_linear(rules.parse_access_list, hostile, 4_000)


def test_access_lists_with_many_fields() -> None:
    """E06: two fields are allowed; the other ones are counted in one pass."""
    assert is_linear(rules.is_access_list, lambda n: " a" * n, 4_000)


def test_the_path_of_a_fixed_rule() -> None:
    """E34: the nearest queue of the file is found without a look at every level that does not exist."""
    rule = "    placementrules: [{name: fixed, create: true, value: "
    assert is_linear(partition_of, lambda n: PARTITION + rule + ".".join("a" * n) + "}]\n", 4_000)


@pytest.mark.parametrize("part", ["[", "[^", "[\\]", "(", "{1,", "a|", "\\", "(a?", "a*"])
def test_expressions(part: str) -> None:
    """PL-17: an expression has up to 1000 characters."""
    assert is_linear(
        lambda text: placement_rules.name_filter_objection([text], is_user_name),
        lambda n: (part * n)[:n],
        60,
    )


@pytest.mark.parametrize("expression", ["^team-.*-.*-.*prod$", "(a+)+$", "(a|b|ab)*c", "(a?){50}a{50}$", "((.?){9}){9}$"])
@pytest.mark.parametrize("hostile", [lambda n: "team" + "-" * n, lambda n: "a" * n + "!", lambda n: "ab" * (n // 2)])
def test_searches_for_expressions(expression: str, hostile: Callable[[int], str]) -> None:
    """PL-17: every expression that is allowed is searched for in linear time."""
    assert not expressions.objection(expression)
    assert is_linear(lambda text: [expressions.matches(expression, text) for _ in range(20)], hostile, 7)


def test_the_choice_of_a_group() -> None:
    """QU-68: the groups of a user are not compared with the limits one by one, however many there are of both."""

    def choose(text: str) -> None:
        names = text.split()
        limits = QueueLimits(QueuePath("root"), tuple(Limit(groups=(f"{name}-prod",)) for name in names))
        assert choose_group([limits], UserGroups("bob", tuple(names))) is None

    assert is_linear(choose, lambda n: " ".join(f"team-{number}" for number in range(n)), 100)


def test_rules_that_ask_for_tags() -> None:
    """PL-34: the tags of an application are not compared with each rule one by one."""

    def ask(text: str) -> None:
        names = text.split()
        application = AddApplication(ApplicationID("a"), "", "bob", tags={f"{name}-x": "v" for name in names})
        applicant = Applicant(application, UserGroups("bob", ()))
        assert {applicant.tag(f"{name}-Y") for name in names} == {""}
        assert {applicant.tag(f"{name}-X") for name in names} == {"v"}

    assert is_linear(ask, lambda n: " ".join(f"tag-{number}" for number in range(n)), 60)


def test_mistakes() -> None:
    """P2: each mistake costs the same, however many there are."""
    assert is_linear(mistakes_of, lambda n: queue_with("bad: 1, " * n), 500)
