"""The admission policies of the manifests on the real API server of now, with its controllers if they are there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import realprocesses
from celpolicies import User
from fakehttp import Body
from policytable import (
    ALICE,
    BOB,
    DEPLOYMENT,
    JOB,
    NAMESPACES,
    POD,
    Check,
    Kind,
    Placing,
    binding,
    failures,
    full,
    info,
    manifest,
    name_in,
    placings,
    validating,
)
from realserver import MANIFESTS, RealServer
from yaml import safe_load_all

_GROUP = "/apis/admissionregistration.k8s.io/v1"


def missing() -> str:
    """The reason for which the policies cannot be tried; "" if they can."""
    absent = realprocesses.missing()
    if not absent and realprocesses.version() < (1, 30):
        absent = "the API server is older than 1.30, which has no policies"
    return absent


class Impersonating:
    """Requests as any user, by an administrator."""

    def __init__(self, server: RealServer) -> None:
        self._server = server

    def create(self, user: User, kind: Kind, body: Body, namespace: str) -> Body:
        return self._server.send("POST", _path(kind, namespace), body, user=user)

    def change(self, user: User, kind: Kind, name: str, patch: Body, subresource: str) -> object:
        path = f"{_path(kind, 'team')}/{name}/{subresource}".rstrip("/")
        if subresource == "bindings":
            path = "/api/v1/namespaces/team/bindings"
        if subresource.startswith("binding"):
            return self._server.send("POST", path, binding(name, patch), user=user)
        return self._server.send("PATCH", path, patch, "application/merge-patch+json", user)

    def read(self, kind: Kind, name: str, namespace: str) -> Body:
        return self._server.send("GET", f"{_path(kind, namespace)}/{name}")


def _path(kind: Kind, namespace: str) -> str:
    return f"/{'apis' if '/' in kind.version else 'api'}/{kind.version}/namespaces/{namespace}/{kind.resource}"


async def play(directory: Path) -> str:
    """Play the tables; returns what was done."""
    with RealServer(directory).running() as server:
        _prepare(server)
        is_full = "mutatingadmissionpolicies" in {each["name"] for each in server.send("GET", _GROUP)["resources"]}
        for body in safe_load_all((MANIFESTS / "admission.yaml").read_text()):
            if is_full or body["kind"].startswith("Validating"):
                server.send("POST", f"{_GROUP}/{_plural(body['kind'])}", body)
        checks, places = (list(full()), list(placings())) if is_full else (list(validating()), [])
        _check(server, checks, places)
        told = f"{len(checks) + len(places)} checks {'with all policies' if is_full else 'with the last policy only'}"
        if not is_full or realprocesses.missing("controllers"):
            return told
        server.start_controllers()
        return f"{told}, and {_controllers(server)} pods of controllers"


def _prepare(server: RealServer) -> None:
    """Namespaces, and everybody may do everything."""
    for name, labels in NAMESPACES.items():
        if name != "kube-system":
            server.create("namespaces", "", {"metadata": {"name": name, "labels": labels}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    everybody = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    server.create("clusterrolebindings", "", {"metadata": {"name": "all"}, "roleRef": role, "subjects": [everybody]})


def _check(server: RealServer, checks: Iterable[Check], places: Iterable[Placing]) -> None:
    """The server takes a while until it knows its policies."""
    for _ in range(10):
        found = list(failures(Impersonating(server), checks, places))
        if not found:
            return
        time.sleep(3)
    raise AssertionError("\n".join(found))


def _controllers(server: RealServer) -> int:
    """The pods of a Job and a Deployment with a forged name have that of who made them."""
    for kind, spec in ((JOB, {"suspend": False, "parallelism": 3, "completions": 3}), (DEPLOYMENT, {"replicas": 3})):
        body = manifest(kind, info(BOB))
        body["spec"].update(spec)
        body["spec"]["template"]["metadata"]["labels"] = {"app": "controlled"}
        if kind is DEPLOYMENT:
            body["spec"]["selector"] = {"matchLabels": {"app": "controlled"}}
        Impersonating(server).create(ALICE, kind, body, "team")
    for _ in range(300):
        pods = [each for each in server.all("pods", "team") if each["metadata"].get("labels", {}).get("app") == "controlled"]
        if len(pods) == 6:
            assert {name_in(POD, each) for each in pods} == {info(ALICE)}
            return len(pods)
        time.sleep(0.1)
    raise AssertionError(f"{len(pods)} pods after half a minute, expected 6")


def _plural(kind: str) -> str:
    return kind.lower()[:-1] + "ies" if kind.endswith("y") else f"{kind.lower()}s"
