"""The manifests in ``config/kubernetes``, and the permissions that they give."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import yaml

DIRECTORY = Path(__file__).parents[2] / "config" / "kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    """The objects in a file."""
    return [each for each in yaml.safe_load_all((DIRECTORY / name).read_text()) if each]


def permissions(roles: Iterable[dict[str, Any]], namespace: str) -> set[tuple[str, str, str, str]]:
    """Verb, group, resource and namespace: those of a ClusterRole hold everywhere (""), those of a Role in one namespace."""
    return {
        (verb, group, resource, namespace if found["kind"] == "Role" else "")
        for found in roles
        for rule in found.get("rules", ())
        for verb, group, resource in product(rule["verbs"], rule["apiGroups"], rule["resources"])
    }
