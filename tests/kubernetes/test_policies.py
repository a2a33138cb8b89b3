"""The submitter of a pod cannot be forged: the admission policies of the manifests, with their CEL expressions evaluated."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from celpolicies import Policies, User
from fakehttp import Body
from policytable import (
    ADAPTER,
    ALICE,
    BOB,
    KINDS,
    NAMESPACES,
    POD,
    SCHEDULED,
    USER_INFO,
    Simulation,
    failures,
    full,
    info,
    manifest,
    name_in,
    placings,
    validating,
)
from test_manifests import documents

from ykactor.kubernetes.model import Pod
from ykactor.kubernetes.pods import USER_ANNOTATION, application_of, user_of
from ykactor.wire.si import messages as si

MANIFEST = documents("admission.yaml")


def with_all(found: list[Body]) -> Iterator[str]:
    """The failures of these policies from 1.36 on."""
    return failures(Simulation(Policies(found, NAMESPACES)), full(), placings())


def with_the_last(found: list[Body]) -> Iterator[str]:
    """The failures of these policies from 1.30 on."""
    return failures(Simulation(Policies(validating_of(found), NAMESPACES)), validating())


def validating_of(found: list[Body]) -> list[Body]:
    """The last policy and its binding."""
    return [each for each in found if each["kind"].startswith("Validating")]


def test_with_all_policies() -> None:
    """The caller is named in whatever makes pods, and stays named."""
    assert list(with_all(MANIFEST)) == []


def test_with_the_last_policy_only() -> None:
    """The last policy alone keeps everybody from naming another user."""
    assert list(with_the_last(MANIFEST)) == []


def without_a_part(found: list[Body]) -> Iterator[tuple[str, list[Body]]]:
    """The documents with one policy, binding, rule, resource, operation, condition, patch or validation left out."""
    for number in range(len(found)):
        yield f"document {number}", found[:number] + found[number + 1 :]
    for path in [[number, "spec", *rest] for number, each in enumerate(found) for rest in lists_in(each["spec"])]:
        is_whole_rule = len(at(found, path)) == 1 and isinstance(path[-2], int)
        for number in range(0 if is_whole_rule else len(at(found, path))):
            changed = copy.deepcopy(found)
            gone = at(changed, path).pop(number)
            yield f"{path} {gone}", changed


def lists_in(found: Any) -> Iterator[list[Any]]:
    for name, value in found.items() if isinstance(found, dict) else enumerate(found):
        if isinstance(value, list):
            yield [name]
        if isinstance(value, dict | list):
            yield from ([name, *rest] for rest in lists_in(value))


def at(found: Any, path: list[Any]) -> Any:
    for part in path:
        found = found[part]
    return found


def is_noticed(changed: list[Body]) -> bool:
    """True if a check fails; the last policy alone is right while nothing of it has changed."""
    is_of_the_last = validating_of(changed) != validating_of(MANIFEST)
    try:
        return (is_of_the_last and any(with_the_last(changed))) or any(with_all(changed))
    except KeyError:
        return True  # a variable that is used


def test_each_part_of_the_policies_is_needed() -> None:
    """A check fails without any part of the policies, so the tables see each of them."""
    assert [what for what, changed in without_a_part(MANIFEST) if not is_noticed(changed)] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_without_policies_anybody_can_name_anybody(kind: Any) -> None:
    """Then limits of users protect nobody."""
    acting = Simulation(Policies([], NAMESPACES))
    body = manifest(kind, info(BOB))
    assert name_in(kind, acting.create(ALICE, kind, body, "team")) == info(BOB)


def test_the_adapter_reads_what_the_policies_write() -> None:
    """The user and the groups of the caller, also without a group."""
    assert USER_INFO == USER_ANNOTATION
    for user in (ALICE, User("carol", ())):
        made = Simulation(Policies(MANIFEST, NAMESPACES)).create(user, POD, manifest(POD, None), "team")
        assert user_of(msgspec.convert(made, Pod)) == (si.UserGroupInformation(user=user.name, groups=list(user.groups)), "")


def test_an_application_id_of_the_longest_namespace_is_the_one_that_the_adapter_gives() -> None:
    """The application ID is an annotation, because a label holds 63 characters only."""
    namespace = "n" * 63
    body = manifest(POD, None)
    body["metadata"]["namespace"] = namespace
    made = Simulation(Policies(MANIFEST, {namespace: SCHEDULED})).create(ALICE, POD, copy.deepcopy(body), namespace)
    assert application_of(msgspec.convert(made, Pod)) == application_of(msgspec.convert(body, Pod))
    assert made["metadata"]["labels"] == body["metadata"]["labels"]


def test_the_trusted_account_is_that_of_the_manifests() -> None:
    """The adapter runs with it."""
    (account,) = [each["metadata"] for each in documents("rbac.yaml") if each["kind"] == "ServiceAccount"]
    assert ADAPTER.name == f"system:serviceaccount:{account['namespace']}:{account['name']}"
