"""Objects as an API server might send them, right and wrong ones, and a state that reads them."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from ykactor.kubernetes.api import ReadError
from ykactor.kubernetes.messages import Bind, Effect, Event, Heard, Kind, Listed, Stimulus, Tell, Unreadable
from ykactor.kubernetes.model import Status
from ykactor.kubernetes.reflector import Reader
from ykactor.kubernetes.state import State
from ykactor.wire.si import acts, requests
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

Body = dict[str, Any]
_PREFIX = "yunikorn.apache.org/"


class Reading:
    """A state with one node, told what readers find in lines of watches.

    Attributes:
        effects: what it wanted done, but what it tells the daemon.
        skipped: sentences about objects whose name cannot be read.
        told: entries of allocations that the daemon was told, by key.
    """

    def __init__(self) -> None:
        self.state = State("ykactor")
        self.effects: list[Effect] = []
        self.skipped: list[str] = []
        self.told: dict[str, si.Allocation] = {}
        self.released: set[str] = set()
        self._readers = {kind: Reader(kind) for kind in Kind}
        self._now_s = 0.0
        self.handle(*(Listed(kind, []) for kind in Kind), Heard(si.RegisterResourceManagerResponse()))
        for kind in (Kind.NAMESPACES, Kind.NODES):
            self.show(kind, SAMPLES[kind])

    def show(self, kind: Kind, body: Body, change: str = "MODIFIED") -> None:
        """A watch shows an object."""
        line = json.dumps({"type": change, "object": body}).encode()
        try:
            news = self._readers[kind].event(line)
        except ReadError as error:
            self.skipped.append(str(error))
            return
        if isinstance(news, Status) or news.stimulus is None:
            return
        if isinstance(news.stimulus, Unreadable) and not news.stimulus.ref.name:
            self.skipped.append(news.stimulus.reason)
        else:
            self.handle(news.stimulus)

    def handle(self, *stimuli: Stimulus) -> None:
        """Handle stimuli, and check that the daemon could read every request that results."""
        self._now_s += 1.0
        for effect in self.state.handle(stimuli, self._now_s):
            if not isinstance(effect, Tell):
                self.effects.append(effect)
                continue
            request = JSON.decode_request(JSON.encode(effect.request))
            if isinstance(request, si.SetQueueQuotas):
                acts.quotas(request)
            elif isinstance(request, si.UpdateConfigurationRequest):
                self.handle(Heard(si.Ack(id="")))
            else:
                assert isinstance(request, si.NodeRequest | si.ApplicationRequest | si.AllocationRequest | si.PredicatesResponse)
                requests.submissions(request)
            if request.id:  # it tells the daemon to forget something, which it confirms
                self.handle(Heard(si.Ack(id=request.id)))
            if isinstance(request, si.AllocationRequest):
                self.told |= {each.allocation_key: each for each in request.allocations}
                self.released |= {each.allocation_key for each in request.releases.allocations_to_release}

    def place(self, key: str) -> bool:
        """The daemon places an ask on the node; returns True if it is bound there."""
        allocation = si.Allocation(allocation_key=key, application_id="app", node_id="n1")
        self.handle(Heard(si.AllocationResponse(new=[allocation])))
        return any(isinstance(each, Bind) and each.key == key for each in self.effects)

    def notes(self) -> list[str]:
        """The notes that people can read about all that is wrong."""
        return [f"{each.reason} {each.ref.name}: {each.note}" for each in self.effects if isinstance(each, Event)] + self.skipped


def pod(name: str, **spec: Any) -> Body:
    """A pod; ``labels`` and ``annotations`` are those of its metadata."""
    meta = {"name": name, "namespace": "team", "uid": f"{name:0<8}-uid", "creationTimestamp": "2030-01-01T00:00:00Z"}
    meta |= {part: spec.pop(part) for part in ("labels", "annotations") if part in spec}
    status = {"phase": "Pending", **spec.pop("status", {})}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}]
    return {"metadata": meta, "spec": {"schedulerName": "ykactor", "containers": containers, **spec}, "status": status}


def asking(requests: Any, **more: Any) -> list[Body]:
    return [{"name": "c", "resources": {"requests": requests}, **more}]


def gang(groups: Any, parameters: str = "", **more: str) -> Body:
    """The annotations of a gang."""
    text = groups if isinstance(groups, str) else json.dumps(groups)
    found = {"task-groups": text, "schedulingPolicyParameters": parameters, "task-group-name": "g", "app-id": "gang", **more}
    return {f"{_PREFIX}{name}": value for name, value in found.items()}


def group(**more: Any) -> Body:
    return {"name": "g", "minMember": 2, "minResource": {"cpu": "1", "memory": "64Mi"}, **more}


def node(name: str, **parts: Any) -> Body:
    offered = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name, "uid": name}, "status": {"allocatable": offered}, **parts}


def namespace(**annotations: Any) -> Body:
    """``__`` in the name of an annotation is ``.``."""
    given = {f"{_PREFIX}{name.replace('__', '.')}": value for name, value in annotations.items()}
    return {"metadata": {"name": "team", "annotations": given}}


def settings(**parts: Any) -> Body:
    return {"metadata": {"name": "yunikorn-configs", "namespace": "ykactor"}, **parts}


def other(name: str, **parts: Any) -> Body:
    return {"metadata": {"name": name, "namespace": "team"}, **parts}


_NEAR = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["a"]}]
_TERMS = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]
_SIZE = {"requests": {"storage": "1Gi"}}
_IN_ZONE = [{"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}]
#: An object of each kind with most that is read.
SAMPLES: dict[Kind, Body] = {
    Kind.NAMESPACES: namespace(namespace__quota='{"cpu": "8"}', namespace__maxApps="50", parentqueue="root.up"),
    Kind.CONFIG_MAPS: settings(data={"queues.yaml": "partitions: []", "kubernetes.qps": "50"}, binaryData={"x": "eA=="}),
    Kind.PRIORITY_CLASSES: {"metadata": {"name": "high", "annotations": {f"{_PREFIX}allow-preemption": "false"}}, "value": 5},
    Kind.BUDGETS: other("b", spec={"selector": {"matchLabels": {"a": "b"}}}, status={"disruptionsAllowed": 0}),
    Kind.POD_GROUPS: other("pg", spec={"schedulingPolicy": {"gang": {"minCount": 2}}}, status={"conditions": []}),
    Kind.NODES: {
        **node("n1", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}], "unschedulable": False}),
        "metadata": {"name": "n1", "uid": "n1", "labels": {"zone": "z1", "node.kubernetes.io/instance-type": "m4"}},
    },
    Kind.STORAGE_CLASSES: {
        "metadata": {"name": "wait"},
        "provisioner": "csi.example",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": _IN_ZONE,
    },
    Kind.CSI_DRIVERS: {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}},
    Kind.CSI_NODES: {
        "metadata": {"name": "n1"},
        "spec": {"drivers": [{"name": "csi.example", "allocatable": {"count": 20}}]},
    },
    Kind.CAPACITIES: other("c", storageClassName="wait", nodeTopology={"matchLabels": {"zone": "z1"}}, capacity="10Gi"),
    Kind.VOLUMES: {
        "metadata": {"name": "pv"},
        "spec": {
            "claimRef": {"namespace": "team", "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": _TERMS}},
            "csi": {"driver": "csi.example"},
        },
    },
    Kind.CLAIMS: other("data", spec={"storageClassName": "wait", "accessModes": ["ReadWriteOnce"], "resources": _SIZE}),
    Kind.PODS: pod(
        "rich",
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "e", "ephemeral": {}}],
        labels={"a": "b", "applicationId": "app"},
        annotations=gang([group()], **{"user.info": '{"user": "u", "groups": ["g"]}', "queue": "root.q"}),
        containers=asking({"cpu": "100m"}, ports=[{"hostPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"}]),
        initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"memory": "1.5Gi"}}}],
        priority=7,
        priorityClassName="high",
        overhead={"cpu": "10m"},
        nodeSelector={"zone": "z1"},
        tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": _TERMS}},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _NEAR},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _NEAR},
        },
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}],
        schedulingGroup={"podGroupName": "pg"},
        status={"conditions": [{"type": "PodScheduled", "status": "False"}], "containerStatuses": [{"name": "c"}]},
    ),
}

VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 2**31, 2**63, 2**70, 10**30, "", "x", "-1", "12x", "1e30", "NaN", "\0", "\x7f\u20ac", "a" * 5000),
    *([], {}, [None], [[]], {"": None}, {"name": 5}, "99999999999999999999", "true", "{}", "[]", '{"user": 5}', "1Ei", "0"),
)


def mutated(rng: random.Random, body: Body) -> Body:
    """The same with some places changed."""
    found = copy.deepcopy(body)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _mutate(rng, found)
    return found


def _mutate(rng: random.Random, found: Body) -> None:
    """Set, drop, repeat or move something at a random place."""
    part: Any = found
    while True:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        if not keys:
            return
        key = rng.choice(keys)
        deeper = part[key]
        if isinstance(deeper, dict | list) and deeper and rng.random() < 0.85:
            part = deeper
            continue
        match rng.randrange(6):
            case 0:
                del part[key]
            case 1 if isinstance(part, list):
                part += copy.deepcopy(part)
            case 2 if isinstance(part, dict):
                part[str(rng.choice(VALUES))] = copy.deepcopy(deeper)
            case _:
                part[key] = copy.deepcopy(rng.choice(VALUES))
        return
