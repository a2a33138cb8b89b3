"""The manifests in ``config/kubernetes``: they can be read, and the role is what the adapter needs."""

from pathlib import Path

import pytest
from manifests import DIRECTORY, documents, permissions

from ykactor.kubernetes.permissions import NEEDED


@pytest.mark.parametrize("path", sorted(DIRECTORY.rglob("*.yaml")), ids=lambda path: path.name)
def test_each_document_has_a_kind(path: Path) -> None:
    for found in documents(str(path.relative_to(DIRECTORY))):
        assert found["kind"]
        assert found["apiVersion"]


def test_the_role_is_what_the_adapter_needs() -> None:
    """Neither more nor less."""
    granted = permissions(documents("rbac.yaml"), "ykactor")
    places = {True: "ykactor", False: ""}
    needed = {(verb, each.group, each.resource, places[each.is_own]) for each in NEEDED for verb in each.verbs}
    assert granted == needed


def test_the_kustomization_has_all_manifests() -> None:
    (found,) = documents("kustomization.yaml")
    there = {path.name for path in DIRECTORY.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(found["resources"]) == there
