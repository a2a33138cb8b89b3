"""Affinity and anti-affinity between pods, and spreading: what the daemon is told, and what is handed back."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Never

import pytest
from dialogue import Dialogue
from msgspec import structs
from objects import changed, namespace, node, pod
from seeds import seeds

from ykactor.kubernetes.messages import Tell
from ykactor.kubernetes.model import Namespace, Node, Pod
from ykactor.wire.si import messages as si

HOST, ZONE = "kubernetes.io/hostname", "zone"


def term(key: str, **labels: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def avoiding(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread(key: str, skew: int = 1, **labels: str) -> list[dict[str, Any]]:
    selector = {"matchLabels": labels}
    return [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def nodes(count: int, zones: int) -> list[Node]:
    return [node(f"n{number}", labels={HOST: f"n{number}", ZONE: f"z{number % zones}"}) for number in range(count)]


def allowed(dialogue: Dialogue, found: Pod) -> set[str]:
    """The nodes that the daemon was told it may use for a pod, by the newest answers."""
    newest: dict[tuple[str, str], str] = {}
    for effect in dialogue.effects:
        if isinstance(effect, Tell) and isinstance(effect.request, si.PredicatesResponse):
            for answer in effect.request.answers:
                if answer.allocate:
                    newest[answer.predicate, answer.node_id] = answer.error
    name = dialogue.state.book.pods[dialogue.state.book.keys[found.metadata.namespace, found.metadata.name]].class_name
    return {node_id for (predicate, node_id), error in newest.items() if predicate == name and not error}


def test_anti_affinity_by_host() -> None:
    """A pod may not run on the host of one of its like; when that one goes, it may."""
    first, second = (pod(name, labels={"app": "a"}, affinity=avoiding(term(HOST, app="a"))) for name in ("w1", "w2"))
    dialogue = Dialogue(*nodes(2, 1), first, second)
    dialogue.register()
    assert allowed(dialogue, second) == {"n0", "n1"}
    dialogue.place(first, "n0")
    assert allowed(dialogue, second) == {"n1"}
    dialogue.lose(first)
    assert allowed(dialogue, second) == {"n0", "n1"}


def test_anti_affinity_is_symmetric() -> None:
    """A pod without wishes is kept away from one that wants it not near, also if it came first."""
    plain = pod("plain", labels={"app": "b"})
    dialogue = Dialogue(*nodes(2, 1), plain)
    dialogue.register()
    proud = pod("proud", node="n0", affinity=avoiding(term(HOST, app="b")))
    assert dialogue.see(proud)[-2:] == ["release plain STOPPED_BY_RM", "ask proud on n0"]
    assert dialogue.confirm() == ["ask plain"]
    assert allowed(dialogue, plain) == {"n1"}


def test_affinity_by_zone() -> None:
    """The first of them may begin anywhere, the others follow it."""
    first, second = (pod(name, labels={"app": "a"}, affinity=near(term(ZONE, app="a"))) for name in ("w1", "w2"))
    dialogue = Dialogue(*nodes(4, 2), first, second)
    dialogue.register()
    assert allowed(dialogue, first) == {"n0", "n1", "n2", "n3"}
    dialogue.place(first, "n1")
    assert allowed(dialogue, second) == {"n1", "n3"}


def test_affinity_to_others_waits_for_them() -> None:
    waiting = pod("w", affinity=near(term(HOST, app="db")))
    dialogue = Dialogue(*nodes(2, 1), waiting)
    dialogue.register()
    assert allowed(dialogue, waiting) == set()
    dialogue.see(pod("db", labels={"app": "db"}, node="n1"))
    assert allowed(dialogue, waiting) == {"n1"}


def test_spreading_over_zones() -> None:
    """A zone may have at most one more than another."""
    pods = [pod(f"w{number}", labels={"app": "a"}, topologySpreadConstraints=spread(ZONE, app="a")) for number in range(4)]
    dialogue = Dialogue(*nodes(4, 2), *pods)
    dialogue.register()
    dialogue.place(pods[0], "n0")
    assert allowed(dialogue, pods[1]) == {"n1", "n3"}
    dialogue.place(pods[1], "n1")
    assert allowed(dialogue, pods[2]) == {"n0", "n1", "n2", "n3"}


def test_a_placement_looks_at_the_nodes_of_its_domain_only() -> None:
    """Unless the fewest pods in a domain change: the cost does not grow with the cluster."""

    class Nodes(dict[str, Any]):
        def items(self) -> Never:
            raise AssertionError("looks at all nodes")

        values = __iter__ = items  # type: ignore[assignment]

    pods = [pod(f"w{number}", labels={"app": "a"}, topologySpreadConstraints=spread(ZONE, 2, app="a")) for number in range(4)]
    dialogue = Dialogue(*nodes(6, 3), *pods)
    dialogue.register()
    book = dialogue.state.book
    book.nodes, book.classes.topology.nodes = Nodes(book.nodes), Nodes(book.classes.topology.nodes)
    assert dialogue.place(pods[0], "n0") == ["bind w0 to n0"]
    assert dialogue.place(pods[1], "n0") == ["bind w1 to n0"]
    assert allowed(dialogue, pods[2]) == {"n1", "n2", "n4", "n5"}
    assert dialogue.place(pods[2], "n1") == ["bind w2 to n1"]
    check = si.PredicateCheck(predicate=book.pods[key_of(dialogue, pods[3])].class_name, node_id="n1", allocate=True)
    dialogue.hear(si.PredicatesRequest(checks=[check]))


def test_what_was_decided_meanwhile_and_does_not_fit_is_handed_back() -> None:
    """Two of a kind in one turn."""
    first, second = (pod(name, labels={"app": "a"}, affinity=avoiding(term(ZONE, app="a"))) for name in ("w1", "w2"))
    dialogue = Dialogue(*nodes(4, 2), first, second)
    dialogue.register()
    keys = [dialogue.state.book.keys["team", name] for name in ("w1", "w2")]
    new = [si.Allocation(allocation_key=key, application_id="a", node_id=at) for key, at in zip(keys, ("n0", "n2"), strict=True)]
    assert dialogue.hear(si.AllocationResponse(new=new)) == ["release w2 SCHEDULING_FAILED_ON_RM", "bind w1 to n0"]


def test_a_node_that_changes_its_zone() -> None:
    waiting = pod("w", affinity=near(term(ZONE, app="db")))
    dialogue = Dialogue(*nodes(2, 2), pod("db", labels={"app": "db"}, node="n1"), waiting)
    dialogue.register()
    assert allowed(dialogue, waiting) == {"n1"}
    dialogue.see(node("n0", labels={HOST: "n0", ZONE: "z1"}))
    assert allowed(dialogue, waiting) == {"n0", "n1"}


def test_a_node_that_goes_takes_its_pods_out_of_their_zone() -> None:
    """The pods are gone later than their node; one that comes back has them again."""
    gone, there = nodes(2, 1)
    waiting = pod("w", affinity=avoiding(term(ZONE, app="db")))
    dialogue = Dialogue(gone, there, pod("db", labels={"app": "db"}, node="n0"), waiting)
    dialogue.register()
    assert allowed(dialogue, waiting) == set()
    dialogue.lose(gone)
    assert allowed(dialogue, waiting) == {"n1"}
    dialogue.confirm()
    dialogue.see(gone)
    assert allowed(dialogue, waiting) == set()


def test_a_pod_that_goes_after_its_node_is_counted_nowhere() -> None:
    gone, there = nodes(2, 1)
    database = pod("db", labels={"app": "db"}, node="n0")
    waiting = pod("w", affinity=avoiding(term(ZONE, app="db")))
    dialogue = Dialogue(gone, there, database, waiting)
    dialogue.register()
    dialogue.lose(gone)
    dialogue.lose(database)
    assert allowed(dialogue, waiting) == {"n1"}


def test_a_node_that_moves_lets_its_old_zone_be_used() -> None:
    waiting = pod("w", affinity=avoiding(term(ZONE, app="db")))
    dialogue = Dialogue(*nodes(4, 2), pod("db", labels={"app": "db"}, node="n0"), waiting)
    dialogue.register()
    assert allowed(dialogue, waiting) == {"n1", "n3"}
    dialogue.see(node("n0", labels={HOST: "n0", ZONE: "z1"}))
    assert allowed(dialogue, waiting) == {"n2"}


def test_zones_that_come_and_go_change_what_spreading_allows_elsewhere() -> None:
    """An empty zone holds the others back, and one that goes does so no longer."""
    pods = [pod(f"w{number}", labels={"app": "a"}, topologySpreadConstraints=spread(ZONE, app="a")) for number in range(2)]
    first, second, third = nodes(3, 3)
    dialogue = Dialogue(first, second, changed(pods[0], node="n0"), pods[1])
    dialogue.register()
    assert allowed(dialogue, pods[1]) == {"n1"}
    dialogue.lose(second)
    assert "n0" in allowed(dialogue, pods[1])
    dialogue.see(third)
    assert "n0" not in allowed(dialogue, pods[1])
    dialogue.see(node("n2", labels={HOST: "n2", ZONE: "z2"}, taints=[{"key": "a", "effect": "NoSchedule"}]))
    assert "n0" not in allowed(dialogue, pods[1])  # taints count only with nodeTaintsPolicy: Honor
    dialogue.see(node("n2", labels={HOST: "n2"}))
    assert "n0" in allowed(dialogue, pods[1])


@pytest.mark.parametrize(
    ("policies", "is_balanced"),
    [
        ({}, {"tainted": False, "unselected": True}),
        ({"nodeTaintsPolicy": "Honor"}, {"tainted": True, "unselected": True}),
        ({"nodeTaintsPolicy": "Ignore"}, {"tainted": False, "unselected": True}),
        ({"nodeAffinityPolicy": "Honor"}, {"tainted": False, "unselected": True}),
        ({"nodeAffinityPolicy": "Ignore"}, {"tainted": False, "unselected": False}),
        ({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}, {"tainted": True, "unselected": False}),
    ],
)
@pytest.mark.parametrize("kind", ["tainted", "unselected"])
def test_policies_say_which_nodes_count_for_spreading(policies: dict[str, str], is_balanced: dict[str, bool], kind: str) -> None:
    """An empty zone holds others back if its nodes count, though the pod cannot run there. By default taints do not matter."""
    constraint = [{**spread(ZONE, app="a")[0], **policies}]
    pods = [
        pod(f"w{number}", labels={"app": "a"}, topologySpreadConstraints=constraint, nodeSelector={"disk": "fast"})
        for number in range(2)
    ]
    here = node("here", labels={ZONE: "z0", "disk": "fast"})
    taints = [{"key": "a", "effect": "NoSchedule"}] if kind == "tainted" else []
    there = node("there", labels={ZONE: "z1", "disk": "fast" if kind == "tainted" else "slow"}, taints=taints)
    dialogue = Dialogue(here, there, changed(pods[0], node="here"), pods[1])
    dialogue.register()
    assert allowed(dialogue, pods[1]) == ({"here"} if is_balanced[kind] else set())


def test_pods_of_other_schedulers_want_their_distance_too() -> None:
    waiting = pod("w", labels={"app": "b"})
    foreign = pod("f", node="n0", schedulerName="other", affinity=avoiding(term(HOST, app="b")))
    dialogue = Dialogue(*nodes(2, 1), foreign, waiting)
    dialogue.register()
    assert allowed(dialogue, waiting) == {"n1"}
    dialogue.see(changed(foreign, phase="Succeeded"))
    assert allowed(dialogue, waiting) == {"n0", "n1"}


def test_a_namespace_that_gets_a_label_is_selected_from_then_on() -> None:
    """Neither the pods there nor those that wait have changed."""
    where = {"namespaceSelector": {"matchLabels": {"kind": "data"}}}
    waiting = pod("w", affinity=avoiding({**term(HOST, app="db"), **where}))
    databases = namespace("data")
    dialogue = Dialogue(*nodes(2, 1), databases, pod("db", namespace="data", labels={"app": "db"}, node="n0"), waiting)
    dialogue.register()
    assert allowed(dialogue, waiting) == {"n0", "n1"}
    meta = structs.replace(databases.metadata, labels={"kind": "data"})
    dialogue.see(structs.replace(databases, metadata=meta))
    assert allowed(dialogue, waiting) == {"n1"}
    dialogue.lose(databases)
    assert allowed(dialogue, waiting) == {"n0", "n1"}


# ---- against a naive check


def violations(pods: list[Pod], where: Mapping[str, Node]) -> list[str]:
    """The violations among pods that all have their places, checked one by one."""

    def together(one: Pod, other: Pod, key: str) -> bool:
        labels = [where[each.spec.node_name].metadata.labels for each in (one, other)]
        return key in labels[0] and labels[0].get(key) == labels[1].get(key)

    def meets(found: Pod, wanted: Any) -> bool:
        return all(found.metadata.labels.get(key) == value for key, value in wanted.label_selector.match_labels.items())

    found = []
    for one in pods:
        anti = one.spec.affinity.pod_anti_affinity if one.spec.affinity else None
        for wanted in anti.required if anti else ():
            found += [f"{one.metadata.name} and {other.metadata.name}" for other in pods
                      if other is not one and meets(other, wanted) and together(one, other, wanted.topology_key)]  # fmt: skip
        for wanted in one.spec.topology_spread_constraints:
            counts = {each.metadata.labels[wanted.topology_key]: 0 for each in where.values()}
            for other in pods:
                counts[where[other.spec.node_name].metadata.labels[wanted.topology_key]] += meets(other, wanted)
            if max(counts.values()) - min(counts.values()) > wanted.max_skew:
                found.append(f"{one.metadata.name}: {counts}")
    return found


@pytest.mark.parametrize("seed", seeds(40))
def test_a_quiet_cluster_violates_nothing(seed: int) -> None:
    """A daemon that places anything where the newest answers allow it, many at once and in any order."""
    rng = random.Random(seed)
    where = {each.metadata.name: each for each in nodes(6, 3)}
    kinds: list[dict[str, Any]] = [
        {"labels": {"app": "a"}, "affinity": avoiding(term(HOST, app="a"))},
        {"labels": {"app": "b"}, "affinity": avoiding(term(ZONE, app="a"))},
        {"labels": {"app": "c"}, "topologySpreadConstraints": spread(ZONE, app="c")},
        {"labels": {"app": "e"}, "topologySpreadConstraints": spread(HOST, 2, app="e")},
        {"labels": {"app": "d"}},
    ]
    waiting = [pod(f"w{number}", created=number, **rng.choice(kinds)) for number in range(20)]
    dialogue = Dialogue(*where.values(), *waiting)
    dialogue.register()
    for _ in range(12):
        batch = [each for each in waiting if not dialogue_place(dialogue, each) and allowed(dialogue, each)]
        new = [
            si.Allocation(
                allocation_key=key_of(dialogue, each), application_id="a", node_id=rng.choice(sorted(allowed(dialogue, each)))
            )
            for each in rng.sample(batch, min(3, len(batch)))
        ]
        dialogue.hear(si.AllocationResponse(new=new))
        placed = [changed(each, node=dialogue_place(dialogue, each)) for each in waiting if dialogue_place(dialogue, each)]
        assert violations(placed, where) == []
    assert len(placed) > 4


@pytest.mark.parametrize("seed", seeds(40))
def test_answers_are_those_of_a_process_that_has_just_begun(seed: int) -> None:
    """Whatever comes, moves and goes: nodes, labels of namespaces, and pods of all schedulers."""
    rng = random.Random(seed)
    data = {"namespaceSelector": {"matchLabels": {"kind": "data"}}}
    kinds: list[dict[str, Any]] = [
        {"labels": {"app": "a"}, "affinity": avoiding(term(HOST, app="a"))},
        {"labels": {"app": "b"}, "affinity": avoiding({**term(ZONE, app="a"), **data})},
        {"labels": {"app": "c"}, "topologySpreadConstraints": spread(ZONE, app="c")},
        {"labels": {"app": "d"}, "affinity": near(term(ZONE, app="a"))},
        {"labels": {"app": "a"}},
    ]
    waiting = [pod(f"w{number}", **kind) for number, kind in enumerate(kinds)]
    there: dict[str, Node | Namespace | Pod] = {}
    dialogue = Dialogue(*waiting)
    dialogue.register()
    for number in range(60):
        name = rng.choice(["n0", "n1", "n2", "data", "team", "p0", "p1", "p2", "p3"])
        if name in there and rng.random() < 0.5:
            dialogue.lose(there.pop(name))
        elif name.startswith("n"):
            there[name] = node(name, labels={HOST: name, **rng.choice([{}, {ZONE: "z0"}, {ZONE: "z1"}])})
            dialogue.see(there[name])
        elif name.startswith("p"):
            where = {"node": rng.choice(["n0", "n1", "n2"]), "namespace": "data" if name in ("p0", "p1") else "team"}
            there[name] = pod(name, schedulerName=rng.choice(["ykactor", "other"]), **where, **rng.choice(kinds))
            dialogue.see(there[name])
        else:
            meta = structs.replace(namespace(name).metadata, labels=rng.choice([{}, {"kind": "data"}]))
            there[name] = structs.replace(namespace(name), metadata=meta)
            dialogue.see(there[name])
        dialogue.confirm()
        fresh = Dialogue(*there.values(), *waiting)
        fresh.register()
        for each in waiting:
            assert allowed(dialogue, each) & there.keys() == allowed(fresh, each), (number, each.metadata.name)


def key_of(dialogue: Dialogue, found: Pod) -> str:
    return dialogue.state.book.keys[found.metadata.namespace, found.metadata.name]


def dialogue_place(dialogue: Dialogue, found: Pod) -> str:
    return dialogue.state.book.pods[key_of(dialogue, found)].place
