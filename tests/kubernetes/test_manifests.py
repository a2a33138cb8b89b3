"""The manifests in ``config/kubernetes``: they can be read, and the role is what the adapter needs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ykactor.kubernetes.permissions import NEEDED

DIRECTORY = Path(__file__).parents[2] / "config" / "kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DIRECTORY / name).read_text()) if each]


@pytest.mark.parametrize("path", sorted(DIRECTORY.rglob("*.yaml")), ids=lambda path: path.name)
def test_each_document_has_a_kind(path: Path) -> None:
    for found in documents(str(path.relative_to(DIRECTORY))):
        assert found["kind"]
        assert found["apiVersion"]


def test_the_role_is_what_the_adapter_needs() -> None:
    """Neither more nor less."""
    granted = {
        (group, resource, verb, found["kind"] == "Role")
        for found in documents("rbac.yaml")
        for rule in found.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    needed = {(each.group, each.resource, verb, each.is_own) for each in NEEDED for verb in each.verbs}
    assert granted == needed


def test_the_kustomization_has_all_manifests() -> None:
    (found,) = documents("kustomization.yaml")
    there = {path.name for path in DIRECTORY.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(found["resources"]) == there
