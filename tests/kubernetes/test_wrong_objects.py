"""Wrong objects: each is told of in an Event or a line of the log, and harms nothing else."""

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest
import trio
from badinput import SAMPLES, VALUES, Body, Reading, asking, gang, group, mutated, namespace, node, other, pod, settings
from directapi import open_api, process
from fakehttp import Refused, Request
from fakeserver import FakeServer
from seeds import seeds

from ykactor.kubernetes.api import ReadError
from ykactor.kubernetes.messages import Kind, Listed, Stimulus
from ykactor.kubernetes.model import Status
from ykactor.kubernetes.process import Outages
from ykactor.kubernetes.reflector import Reader, Reflector, Source

USER = "yunikorn.apache.org/user.info"
APP = "yunikorn.apache.org/app-id"
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}

#: A kind, a wrong object, and a word that people read.
WRONG: list[tuple[Kind, Body, str]] = [
    (Kind.PODS, pod("bad", containers=None), "containers"),
    (Kind.PODS, pod("bad", containers="c"), "containers"),
    (Kind.PODS, pod("bad", containers=asking({"cpu": "12x"})), "cpu"),
    (Kind.PODS, pod("bad", containers=asking({"cpu": "-1"})), "negative"),
    (Kind.PODS, pod("bad", containers=asking({"memory": "1e30"})), "2**63"),
    (Kind.PODS, pod("bad", containers=[*asking({"memory": "7Ei"}), *asking({"memory": "7Ei"})]), "2**63"),
    (Kind.PODS, pod("bad", containers=asking({"cpu": 1})), "requests"),
    (Kind.PODS, pod("bad", containers=asking({"cpu": "12x"}), nodeName="n1"), "not counted"),
    (Kind.PODS, pod("bad", containers=asking({"cpu": "12x"}), nodeName="n1", schedulerName="default-scheduler"), "not counted"),
    (Kind.PODS, pod("bad", containers=asking(["cpu"])), "requests"),
    (Kind.PODS, pod("bad", initContainers=asking({"cpu": "many"})), "cpu"),
    (Kind.PODS, pod("bad", overhead={"cpu": "x"}), "cpu"),
    (Kind.PODS, pod("bad", labels=["a"]), "labels"),
    (Kind.PODS, pod("bad", tolerations={"key": "a"}), "tolerations"),
    (Kind.PODS, pod("bad", priority="high"), "priority"),
    (Kind.PODS, pod("bad", priority=2**70), "priority"),
    (Kind.PODS, pod("bad", nodeName=5), "nodeName"),
    (Kind.PODS, pod("bad", schedulingGates=[{"name": None}]), "schedulingGates"),
    (Kind.PODS, pod("bad", status={"containerStatuses": "c"}), "containerStatuses"),
    (Kind.PODS, pod("bad", status={"conditions": [5]}), "conditions"),
    (Kind.PODS, pod("bad", annotations={USER: "me"}), "user.info"),
    (Kind.PODS, pod("bad", annotations={USER: "{}"}), "no user"),
    (Kind.PODS, pod("bad", annotations={USER: '["me"]'}), "user.info"),
    (Kind.PODS, pod("bad", annotations={APP: "a"}, labels={APP: "b"}), "application"),
    (Kind.PODS, pod("bad", labels={"queue": "root.a", "yunikorn.apache.org/queue": "root.b"}), "queue"),
    (Kind.PODS, pod("bad", annotations=gang("no JSON")), "task-groups"),
    (Kind.PODS, pod("bad", annotations=gang([])), "at least one"),
    (Kind.PODS, pod("bad", annotations=gang([group(), group()])), "name of its own"),
    (Kind.PODS, pod("bad", annotations=gang([group(minMember=0)])), "minMember"),
    (Kind.PODS, pod("bad", annotations=gang([group(minMember="two")])), "minMember"),
    (Kind.PODS, pod("bad", annotations=gang([group(minMember=10**6)])), "members"),
    (Kind.PODS, pod("bad", annotations=gang([group(minResource={"cpu": "x"})])), "minResource"),
    (Kind.PODS, pod("bad", annotations=gang([group(minResource={"memory": "7Ei"})])), "2**63"),
    (Kind.PODS, pod("bad", annotations=gang([group(minResource={"cpus": "1"})])), "cpus"),
    (Kind.PODS, pod("bad", annotations=gang([group(name="UPPER")])), "lower-case"),
    (Kind.PODS, pod("bad", annotations=gang([group()], "placeholderTimeoutInSeconds=soon")), "seconds"),
    (Kind.PODS, pod("bad", annotations=gang([group()], "gangSchedulingStyle=Loose")), "Soft or Hard"),
    (Kind.PODS, pod("bad", annotations=gang([group(name="h")])), "does not define"),
    (Kind.PODS, pod("bad", annotations=gang([group()], **{"app-id": ""})), "does not define"),
    (Kind.PODS, pod("bad", annotations=gang("")), "does not define"),
    (Kind.PODS, pod("bad", annotations=gang([group(minResource={"cpu": "500m"})])), "larger"),
    (Kind.PODS, pod("bad", resourceClaims=[{"name": "gpu"}]), "resource claims"),
    (Kind.PODS, pod("bad", affinity={"nodeAffinity": PREFERRED}), "preferred"),
    (Kind.NODES, node("n2", status={"allocatable": {"cpu": "lots"}}), "cpu"),
    (Kind.NODES, node("n2", status={"allocatable": {"cpu": "-4"}}), "negative"),
    (Kind.NODES, node("n2", status={"allocatable": None}), "allocatable"),
    (Kind.NODES, node("n2", spec={"taints": "none"}), "taints"),
    (Kind.NODES, node("n2", spec={"unschedulable": "yes"}), "unschedulable"),
    (Kind.NODES, {"metadata": {"uid": "n2"}}, "no name"),
    (Kind.NAMESPACES, namespace(namespace__quota="4 cpu"), "namespace.quota"),
    (Kind.NAMESPACES, namespace(namespace__quota='{"cpu": "0"}'), "above 0"),
    (Kind.NAMESPACES, namespace(namespace__guaranteed='["cpu"]'), "namespace.guaranteed"),
    (Kind.NAMESPACES, namespace(namespace__maxApps="many"), "maxApps"),
    (Kind.NAMESPACES, namespace(namespace__max__cpu="x"), "namespace.max"),
    (Kind.NAMESPACES, namespace(parentqueue=["root"]), "annotations"),
    (Kind.CONFIG_MAPS, settings(data=["queues.yaml"]), "data"),
    (Kind.CONFIG_MAPS, settings(data={"log.level": "DEBUG"}), "log.level"),
    (Kind.CONFIG_MAPS, settings(data={"kubernetes.qps": "-1"}), "kubernetes.qps"),
    (Kind.CONFIG_MAPS, settings(data={"service.placeholderRunAsUser": "root"}), "RunAsUser"),
    (Kind.CONFIG_MAPS, settings(binaryData={"queues.yaml.gz": "%%%"}), "queues.yaml.gz"),
    (Kind.CONFIG_MAPS, settings(binaryData={"queues.yaml.gz": "aGFsbG8="}), "gzip"),
    (Kind.POD_GROUPS, other("pg", spec={"schedulingPolicy": {"gang": {"minCount": "two"}}}), "minCount"),
    (Kind.POD_GROUPS, other("pg", spec={"schedulingPolicy": {"gang": {"minCount": 0}}}), "minCount"),
    (Kind.POD_GROUPS, other("pg", spec={"schedulingPolicy": []}), "schedulingPolicy"),
    (Kind.BUDGETS, other("b", status={"disruptionsAllowed": "none"}), "disruptionsAllowed"),
    (Kind.BUDGETS, other("b", spec={"selector": ["a"]}), "selector"),
    (Kind.CLAIMS, other("data", spec={"resources": {"requests": {"storage": "much"}}}), "quantity"),
    (Kind.CLAIMS, other("data", spec={"accessModes": "ReadWriteOnce"}), "accessModes"),
    (Kind.VOLUMES, other("pv", spec={"nodeAffinity": {"required": []}}), "nodeAffinity"),
    (Kind.STORAGE_CLASSES, other("wait", allowedTopologies=[{"matchLabelExpressions": [{"values": ["z1"]}]}]), "key"),
    (Kind.CSI_DRIVERS, other("csi.example", spec={"storageCapacity": "yes"}), "storageCapacity"),
    (Kind.CSI_NODES, other("n1", spec={"drivers": [{"name": "csi.example", "allocatable": {"count": 2**40}}]}), "count"),
    (Kind.CAPACITIES, other("c", storageClassName="wait", nodeTopology={}, capacity="-1Gi"), "negative"),
    (Kind.PRIORITY_CLASSES, {"metadata": {"name": "high", "annotations": 5}}, "annotations"),
]


@pytest.mark.parametrize(("kind", "body", "word"), WRONG, ids=[f"{number}-{word}" for number, (*_, word) in enumerate(WRONG)])
def test_a_wrong_object_is_told_of_and_harms_nothing(kind: Kind, body: Body, word: str) -> None:
    """Pods before and after it are bound."""
    reading = Reading()
    reading.show(Kind.PODS, pod("before"))
    reading.effects.clear()
    reading.show(kind, body)
    assert any(word in note for note in reading.notes()), reading.notes()
    reading.show(Kind.PODS, pod("after"))
    assert reading.place("team.before-before00")
    assert reading.place("team.after-after000")
    assert not reading.released


@pytest.mark.parametrize("seed", seeds(40))
def test_no_object_ends_anything(seed: int) -> None:
    """250 random ones each: nothing raises, what the daemon is told it can read, and a right pod is bound in the end."""
    rng, reading = random.Random(seed), Reading()
    for _ in range(250):
        kind = rng.choice(list(Kind) + [Kind.PODS] * 6)
        reading.show(kind, mutated(rng, SAMPLES[kind]), rng.choice(("ADDED", "MODIFIED", "MODIFIED", "DELETED", "BOOKMARK")))
    for kind in (Kind.NAMESPACES, Kind.NODES):
        reading.show(kind, SAMPLES[kind])
    reading.handle(Listed(Kind.PODS, []))
    assert not reading.state.book.pods
    reading.show(Kind.PODS, pod("after"))
    assert reading.place("team.after-after000")


def test_10_000_random_objects_are_read_or_skipped() -> None:
    """A reader returns an object, or says that it cannot be read; nothing else ever comes out of it."""
    rng, outcomes = random.Random(0), Counter[str]()
    readers = {kind: Reader(kind) for kind in Kind}
    for _ in range(10_000):
        kind = rng.choice(list(Kind))
        body = mutated(rng, SAMPLES[kind]) if rng.random() < 0.8 else random_json(rng, 4)
        line = json.dumps({"type": rng.choice(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")), "object": body}).encode()
        try:
            found = readers[kind].event(line)
        except ReadError:
            outcomes["no event"] += 1
        else:
            outcomes[type(found if isinstance(found, Status) else found.stimulus).__name__] += 1
    assert outcomes.keys() == {"Changed", "Gone", "Unreadable", "NoneType", "Status", "no event"}


def random_json(rng: random.Random, depth: int) -> Any:
    """Any value, with names of fields that are read among its names."""
    if depth == 0 or rng.random() < 0.2:
        return copy.deepcopy(rng.choice(VALUES))
    if rng.random() < 0.3:
        return [random_json(rng, depth - 1) for _ in range(rng.randrange(3))]
    names = ("metadata", "name", "namespace", "uid", "spec", "status", "labels", "containers", "resourceVersion", "x")
    return {name: random_json(rng, depth - 1) for name in rng.sample(names, rng.randrange(5))}


def test_a_pod_may_have_an_ephemeral_volume() -> None:
    """The volume is read, and its claim is waited for."""
    reading = Reading()
    volume: dict[str, Any] = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    reading.show(Kind.PODS, pod("p", volumes=[volume]))
    assert not any("cannot be read" in note for note in reading.notes())


def test_a_bookmark_has_null_where_other_objects_have_lists() -> None:
    """A bookmark only says up to which version the watch has come."""
    line = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}, "spec": {"containers": null}}}'
    assert Reader(Kind.PODS).event(line) == (None, "7")


def test_a_list_of_nothing_may_be_null() -> None:
    """Go writes an empty list so."""
    page = Reader(Kind.NODES).page(b'{"metadata": {"resourceVersion": "7"}, "items": null}')
    assert page == ([], [], "7", "")


async def test_an_answer_that_cannot_be_read_is_asked_for_again() -> None:
    """A proxy may answer instead of the server, with 200 and a page of its own; the watch begins all the same."""
    told, said = list[Stimulus](), list[str]()
    strange = [Refused(200, "", "", text="<html>please wait</html>")]

    async def answer_strangely(_: Request) -> None:
        if strange:
            raise strange.pop()

    async with FakeServer().running() as server, trio.open_nursery() as nursery:
        server.faults = answer_strangely
        async with open_api(server.url) as api:
            source = Source(Kind.NODES, "/api/v1/nodes")
            nursery.start_soon(Reflector(api, source, told.append, process(warn=said.append), Outages(said.append)).run)
            with trio.fail_after(60):
                while not told:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert told == [Listed(Kind.NODES, [], [])]
    assert "cannot be read" in said[0]


@pytest.mark.parametrize("seed", seeds(20))
def test_one_pass_reads_what_reading_by_parts_reads(seed: int) -> None:
    """Events and pages of random objects, most of which can be read: as if each part were read alone."""
    rng = random.Random(seed)
    for kind in Kind:
        reader = Reader(kind)
        bodies = [rng.choice((SAMPLES[kind], mutated(rng, SAMPLES[kind]))) for _ in range(20)]
        for body in bodies:
            line = json.dumps({"type": rng.choice(("ADDED", "MODIFIED", "DELETED", "BOOKMARK")), "object": body}).encode()
            assert reader.event(line) == reader._event_by_parts(line)
        for size in (0, 1, 3):
            page = json.dumps({"metadata": {"resourceVersion": "7", "continue": "x"}, "items": bodies[:size] or None}).encode()
            assert reader.page(page) == reader._page_by_items(page)
