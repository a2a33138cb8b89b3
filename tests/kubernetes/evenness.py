"""Differences between the pods that the daemon knows and those of the API server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fakehttp import Body


def differences(pods: list[Body], nodes: list[Body], state: Body) -> list[str]:
    """Objects that only the daemon or only the API server has, wrong sums, and asks that wait though they fit."""
    alive = [body for body in pods if body["status"]["phase"] not in ("Succeeded", "Failed")]
    names = {body["metadata"]["name"] for body in nodes}
    found = [f"{name} is not known" for name in names - state["nodes"].keys()]
    found += [f"{name} is known to the daemon only" for name in state["nodes"].keys() - names]
    return [*found, *_places(alive, state), *_sums(alive, state), *_waiting(alive, state)]


def _places(alive: list[Body], state: Body) -> Iterator[str]:
    there = {key_of(body): body["spec"]["nodeName"] for body in alive if body["spec"].get("nodeName")}
    known = {key: name for name, node in state["nodes"].items() for key in node["allocations"]}
    yield from (f"{key} is on {node}, not for the daemon" for key, node in there.items() if known.get(key) != node)
    yield from (f"{key} is on {node} for the daemon only" for key, node in known.items() if there.get(key) != node)


def _sums(alive: list[Body], state: Body) -> Iterator[str]:
    used = Counter[str]()
    for body in alive:
        used[body["spec"].get("nodeName", "")] += cpu_of(body)
    for name, node in state["nodes"].items():
        if node["allocated"].get("vcore", 0) != used[name]:
            yield f"{name} has {used[name]} in use, for the daemon {node['allocated'].get('vcore', 0)}"
    total = sum(used[name] for name in state["nodes"])
    if (counted := state["queues"]["root"]["allocated"].get("vcore", 0)) != total:
        yield f"{total} is in use, for the daemon {counted}"


def _waiting(alive: list[Body], state: Body) -> Iterator[str]:
    waiting = {key_of(body): cpu_of(body) for body in alive if not body["spec"].get("nodeName")}
    applications = state["applications"].values()
    asked = {key for each in applications for pending in each.get("pending", ()) for key in pending["allocationKeys"]}
    yield from (f"{key} waits for the daemon only" for key in asked - waiting.keys())
    unexplained = waiting.keys() - _explained(alive)
    counted = sum(pending["count"] for each in applications for pending in each.get("pending", ()))
    if counted < len(unexplained):
        yield f"{len(unexplained)} wait and do not say why they are not asked for, {counted} wait for the daemon"
    root = state["queues"]["root"]
    left = (root["max"] or {}).get("vcore", 0) - root["allocated"].get("vcore", 0)  # none while others have overfilled nodes
    room = min(left, max((free_of(node) for node in state["nodes"].values()), default=0))
    yield from (f"{key} fits and waits" for key, cpu in waiting.items() if cpu <= room)


def _explained(alive: list[Body]) -> set[str]:
    """Pods that say why they are not asked for."""
    reasons = {key_of(body): {each.get("reason") for each in body["status"].get("conditions", ())} for body in alive}
    return {key for key, found in reasons.items() if found & {"SchedulingSkipped", "SchedulingGated"}}


def key_of(body: Body) -> str:
    meta = body["metadata"]
    return f"{meta['namespace']}.{meta['name']}-{meta['uid'][:8]}"


def cpu_of(body: Body) -> int:
    """The vcores of a pod: the larger of its requests and what it was given; what it was given, if it gets no more."""
    wanted, given = asked_by(body), asked_by(given_to(body))
    conditions = {each["type"]: each.get("reason") for each in body["status"].get("conditions", ())}
    return given if conditions.get("PodResizePending") == "Infeasible" else max(wanted, given)


def given_to(body: Body) -> Body:
    """A pod with what its containers were given, where its kubelet has said that."""
    given = {each["name"]: each for each in body["status"].get("containerStatuses", ()) if each.get("resources")}
    containers = [{**each, "resources": given.get(each["name"], each)["resources"]} for each in body["spec"]["containers"]]
    return {**body, "spec": {"containers": containers}}


def asked_by(body: Body) -> int:
    return sum(milli(each["resources"]["requests"]["cpu"]) for each in body["spec"]["containers"])


def milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def free_of(node: dict[str, Any]) -> int:
    return int(node["capacity"].get("vcore", 0) - node["allocated"].get("vcore", 0))
