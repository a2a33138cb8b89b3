"""The manifests in ``config/kubernetes``: the role is what the adapter needs, and what they install and show works."""

import copy
import re
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import trio
from cluster import running_cluster
from daemon import real_daemon
from manifests import DIRECTORY, documents, permissions

from ykactor.kubernetes.permissions import NEEDED
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.samples import sample_files


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


# ---- the deployment


def test_each_replica_is_an_adapter_with_a_daemon_that_only_it_can_reach() -> None:
    """One pod has both; what is listened on beyond the pod are the probes. Both commands take their arguments."""
    pod = template()
    daemon, adapter = pod["containers"]
    commands = {each["name"]: command_line(each["args"]).params for each in (daemon, adapter)}
    assert [commands["daemon"][doors][0].host for doors in ("addresses", "http")] == ["127.0.0.1", "127.0.0.1"]
    assert commands["adapter"]["listen"].port == adapter["ports"][0]["containerPort"]
    assert commands["adapter"]["url"] == "ws://{0.host}:{0.port}".format(commands["daemon"]["addresses"][0])
    assert commands["adapter"]["identity"] == "$(POD_NAME)"
    assert adapter["env"] == [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    places = {mount["mountPath"]: mount["name"] for mount in daemon["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert str(commands["daemon"]["state_dir"]).startswith("/state/")
    assert all("emptyDir" in volumes[name] for name in (places["/state"], places["/tmp"]))


def test_two_replicas_take_turns_and_neither_is_evicted_before_the_other_is_there() -> None:
    deployment, budget = documents("deployment.yaml")
    assert deployment["spec"]["replicas"] == 2
    assert template()["priorityClassName"] == "system-cluster-critical"
    assert template()["serviceAccountName"] == documents("rbac.yaml")[0]["metadata"]["name"]
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    assert budget["spec"]["minAvailable"] == 1


def test_the_pods_are_admitted_with_the_restricted_standard() -> None:
    """The namespace enforces the standard: no root, no capabilities, no writing but to volumes."""
    (namespace,) = documents("namespace.yaml")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = template()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        context = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == context


async def test_the_probes_ask_what_is_there() -> None:
    """The adapter at its port, the daemon by a command in its container, because only the pod can reach it."""
    daemon, adapter = template()["containers"]
    for kind, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert adapter[kind]["httpGet"] == {"path": path, "port": adapter["ports"][0]["name"]}
    _, *arguments = daemon["livenessProbe"]["exec"]["command"]
    async with real_daemon(http="127.0.0.1:0") as running:
        assert running.http is not None
        arguments[-1] = arguments[-1].replace("http://127.0.0.1:9080", running.http)
        assert "127.0.0.1:9080" not in arguments[-1]
        await trio.run_process([sys.executable, *arguments])
    assert (await trio.run_process([sys.executable, *arguments], check=False, capture_stderr=True)).returncode


def template() -> dict[str, Any]:
    """The spec of the pods of the deployment."""
    found: dict[str, Any] = documents("deployment.yaml")[0]["spec"]["template"]["spec"]
    return found


def command_line(arguments: list[str]) -> click.Context:
    name, *rest = arguments
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command.make_context(name, rest)


# ---- the samples


def test_ykactor_samples_writes_them_too() -> None:
    there = {Path("config/kubernetes") / path.relative_to(DIRECTORY) for path in DIRECTORY.rglob("*.yaml")}
    assert there <= {Path(str(path)) for path, _ in sample_files()}


def pods_of(path: Path) -> list[dict[str, Any]]:
    """The pods of a sample, and those that a Job would make."""
    found = []
    for document in documents(str(path.relative_to(DIRECTORY))):
        if document["kind"] == "Job":
            spec = document["spec"]
            found += [{**spec["template"], "metadata": {**spec["template"]["metadata"]}} for _ in range(spec["parallelism"])]
        elif document["kind"] == "Pod":
            found.append(document)
    return found


@pytest.mark.parametrize("path", sorted((DIRECTORY / "samples").iterdir()), ids=lambda path: path.stem)
async def test_the_pods_of_a_sample_run(path: Path) -> None:
    """Samples run with the queue file of the manifests, without any complaint; a gang has its placeholders first."""
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        store = cluster.server.store
        (queues,) = documents("configmap.yaml")
        store.patch("configmaps", store.get("configmaps", "ykactor", "yunikorn-configs"), {"data": queues["data"]})
        for number in range(4):
            cluster.node(f"n{number}")
        for group in (each for each in documents(str(path.relative_to(DIRECTORY))) if each["kind"] == "PodGroup"):
            cluster.create("podgroups", copy.deepcopy(group), "team")
        names = set()
        for number, pod in enumerate(pods_of(path)):
            body = copy.deepcopy(pod)
            body["metadata"]["name"] = body["metadata"].pop("name", f"{path.stem}-{number}")
            names.add(cluster.create("pods", body, "team")["metadata"]["name"])
        assert names
        async with cluster.adapter():
            await cluster.until(lambda: names <= set(cluster.bound()))
        events = store.all("events", "")
        assert {each["reason"] for each in events if each["type"] == "Warning"} == set()


def test_the_commands_of_the_handbook_fit_the_manifests() -> None:
    """The files are there, and what has no name yet can only be created."""
    root = DIRECTORY.parents[1]
    chapter = root / "ykactor" / "handbook" / "kubernetes.md"
    commands = re.findall(r"^kubectl (apply|create) -[fk] (\S+)", chapter.read_text(), re.MULTILINE)
    assert {"apply", "create"} == {verb for verb, _ in commands}
    for verb, path in commands:
        found = [root / path] if (root / path).is_file() else sorted((root / path).glob("*.yaml"))
        assert found
        unnamed = ["generateName" in file.read_text() for file in found]
        assert any(unnamed) is (verb == "create")
