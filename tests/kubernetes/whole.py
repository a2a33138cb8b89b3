"""The state with the real core and a fake store, without tasks: everything may be late, lost, repeated, or restarted.

What is on its way is in queues that a random generator delivers in parts: events of watches, messages of the daemon, and effects.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import msgspec
from fakehttp import Body, Refused
from fakestore import Store
from volumecontroller import (
    VolumeController,
    claim_names,
    install_classes,
    limit_volumes,
    new_claim,
    place_of,
    reason_against,
    volumes_on,
)
from world import S_NS

from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import Reset, SetPredicateService, WantSchedulingStates
from ykactor.kubernetes import model
from ykactor.kubernetes.constraints import constraints_of, refusal, required_node
from ykactor.kubernetes.messages import (
    TYPES,
    Bind,
    BindEnded,
    BindOutcome,
    Changed,
    CreateEnded,
    CreatePlaceholder,
    DeletePod,
    Effect,
    FailPod,
    Gone,
    Heard,
    Kind,
    Listed,
    Nominate,
    NotWritten,
    Ref,
    SelectNode,
    SetCondition,
    SetGroupCondition,
    Stimulus,
    Tell,
)
from ykactor.kubernetes.outgoing import is_placeholder
from ykactor.kubernetes.pods import has_ended, requests_of
from ykactor.kubernetes.state import State
from ykactor.kubernetes.volumes import SELECTED_NODE
from ykactor.sim.direct import DirectPartition
from ykactor.wire import queuefile
from ykactor.wire.si import acts, requests
from ykactor.wire.si import messages as si
from ykactor.wire.si.responses import responses

#: A queue whose asks preempt pods of others.
TREE = """
partitions:
- name: default
  placementrules: [{name: provided}, {name: tag, value: namespace, create: true}]
  queues:
  - name: root
    submitacl: "*"
    queues: [{name: urgent, resources: {guaranteed: {vcore: 6}}, properties: {preemption.delay: 1s}}]
"""
#: Volumes that are not made soon are not waited for.
SETTINGS = {"service.volumeBindTimeout": "30s"}
#: So many volumes may be on each node.
VOLUMES_MAX = {"n1": 1, "n2": 1, "n3": 3}


class Whole:
    """A cluster whose parts run one step at a time.

    Attributes:
        store: the API server.
        now_s: of everybody.
        binds: how often each pod was bound, by uid.
        outcomes: what has happened how often.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = Store()
        self.now_s = 0.0
        self.binds: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.waiting: list[Effect] = []
        self.results: list[Stimulus] = []
        self._messages: list[si.Response] = []
        self._number = 0
        #: Pods of which the answer to a bind was lost.
        self._unanswered: set[str] = set()
        #: What the daemon is ending, by key.
        self._doomed: set[str] = set()
        self.store.create("namespaces", "", {"metadata": {"name": "team"}})
        self.store.create("configmaps", "ykactor", {"metadata": {"name": "yunikorn-configs"}, "data": SETTINGS})
        install_classes(self.store)
        self.volumes = VolumeController(self.store, self.rng)
        self.start_daemon()
        self.start_adapter()

    # ---- the parts

    def start_daemon(self) -> None:
        """A daemon that knows nothing."""
        (config,) = queuefile.load(TREE).partitions
        self._messages.clear()
        self._direct = DirectPartition(
            config, Budget(256, 40_000), self._publish, now_ns=self._now_ns, confirms=False, reserves=False, wakes=True
        )

    def start_adapter(self) -> None:
        """A process that takes over: it lists everything, and what the one before had begun is lost."""
        self.state = State("ykactor")
        self.waiting.clear()
        self.results.clear()
        self._seen = dict.fromkeys(Kind, self.store.version)
        self._handle(*(Listed(kind, self._objects(kind)) for kind in Kind))
        self.register()

    def lead_again(self) -> None:
        """The process stops to lead, and leads again: what it had not sent is lost, and it lists the pods."""
        self.state.stop()
        self.waiting.clear()
        self.results.clear()
        self._messages.clear()
        self._seen[Kind.PODS] = self.store.version
        self._handle(Listed(Kind.PODS, self._objects(Kind.PODS)))
        self.register()

    def register(self) -> None:
        """A fresh registration."""
        self._messages.clear()
        self._direct.intake(self._now_ns, [Reset(), SetPredicateService(True), WantSchedulingStates(True)])
        self._messages.clear()
        self._handle(Heard(si.RegisterResourceManagerResponse()))

    def _objects(self, kind: Kind) -> list[model.Object]:
        return [_decoded(kind, body) for body in self.store.all(kind, "")]

    @property
    def _now_ns(self) -> int:
        return round(self.now_s * S_NS)

    def _publish(self, facts: list[Fact]) -> None:
        for message in responses(facts, "default"):
            self._messages.append(message)
            if isinstance(message, si.AllocationResponse):
                self._doomed.difference_update(entry.allocation_key for entry in message.new)
                ended = [entry.allocation_key for entry in message.released if entry.termination_type != "STOPPED_BY_RM"]
                self._doomed.update(ended)

    def _handle(self, *stimuli: Stimulus) -> None:
        for effect in self.state.handle(stimuli, self.now_s):
            if isinstance(effect, Tell):
                self._tell(effect.request)
            if isinstance(effect, Bind):
                self._check_claims(effect)
            if isinstance(effect, DeletePod):
                self._check_life(effect)
            if isinstance(effect, Bind | DeletePod | CreatePlaceholder | FailPod):
                self.waiting.append(effect)
            elif isinstance(effect, Nominate | SetCondition | SetGroupCondition):
                same = type(effect), effect.ref
                self.waiting = [each for each in self.waiting if (type(each), getattr(each, "ref", None)) != same]
                self.waiting.append(effect)
            elif isinstance(effect, SelectNode):  # one of the same claim that still waits is replaced
                self.waiting = [each for each in self.waiting if not isinstance(each, SelectNode) or each.claim != effect.claim]
                self.waiting.append(effect)
                self._check_selection(effect)

    def _tell(self, request: si.WorkRequest) -> None:
        if isinstance(request, si.SetQueueQuotas):
            self._direct.administer(self._now_ns, acts.quotas(request)[1])
        elif not isinstance(request, si.UpdateConfigurationRequest):
            if isinstance(request, si.AllocationRequest):
                self._doomed.difference_update(entry.allocation_key for entry in request.releases.allocations_to_release)
            for submissions in requests.submissions(request).values():
                self._direct.intake(self._now_ns, submissions)
        if request.id:
            self._messages.append(si.Ack(id=request.id))

    # ---- one step each

    def watch(self, most: int) -> None:
        """One of the watches delivers some events; each kind has its own, which may be behind the others."""
        fresh = [change for change in self.store.log if change.version > self._seen.get(change.resource, change.version)]  # type: ignore[call-overload]
        if not fresh:
            return
        kind = Kind(self.rng.choice(fresh).resource)
        stimuli: list[Stimulus] = []
        for change in [each for each in fresh if each.resource == kind][:most]:
            self._seen[kind] = change.version
            meta = change.object["metadata"]
            if change.type == "DELETED":
                stimuli.append(Gone(kind, Ref(meta.get("namespace", ""), meta["name"]), meta.get("uid", "")))
            else:
                stimuli.append(Changed(kind, _decoded(kind, change.object)))
        self._handle(*stimuli)

    def listen(self, most: int) -> None:
        """The daemon's messages arrive, some of them."""
        heard, self._messages = self._messages[:most], self._messages[most:]
        if heard:
            self._handle(*map(Heard, heard))

    def carry_out(self, *, faulty: bool) -> None:
        """One of the waiting effects is carried out, or fails, or its answer is lost."""
        if not self.waiting:
            return
        effect = self.waiting.pop(self.rng.randrange(len(self.waiting)) if faulty else 0)
        match effect:
            case Bind():
                self._bind(effect, fault=self.rng.random() if faulty else 1.0)
            case SelectNode():
                self._select(effect, fault=self.rng.random() if faulty else 1.0)
            case Nominate(ref, uid, node):
                self._write(effect, {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}})
            case SetCondition(ref, uid, version, reason, message):
                condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
                meta = {"uid": uid, "resourceVersion": version}
                self._write(effect, {"metadata": meta, "status": {"conditions": [condition]}})
            case SetGroupCondition(ref, message):
                condition = {"type": "PodGroupScheduled", "status": str(not message), "message": message}
                self._write(effect, {"status": {"conditions": [condition]}})
            case DeletePod(ref, uid):
                self._try(lambda: self.store.delete("pods", self._pod(ref), {"preconditions": {"uid": uid}}))
            case CreatePlaceholder(name, ref, _) if faulty and self.rng.random() < 0.05:
                self.results.append(CreateEnded(name, ref, "422", is_final=True))
            case CreatePlaceholder(_, ref, body):
                self._try(lambda: self.store.create("pods", ref.namespace, json.loads(json.dumps(body))))
            case FailPod(ref, uid):
                patch = {"metadata": {"uid": uid}, "status": {"phase": "Failed"}}
                self._try(lambda: self.store.patch("pods", self._pod(ref), patch))

    def _write(self, effect: Nominate | SetCondition | SetGroupCondition, patch: Body) -> None:
        """An object says something of itself, or refuses it."""
        resource = "podgroups" if isinstance(effect, SetGroupCondition) else "pods"
        try:
            self.store.patch(resource, self.store.get(resource, *effect.ref), patch)
        except Refused as refused:
            self.results.append(NotWritten(effect, str(refused)))

    def report(self) -> None:
        """The results of effects arrive."""
        results, self.results = self.results, []
        if results:
            self._handle(*results)

    def _select(self, select: SelectNode, *, fault: float) -> None:
        """An annotation is written; or not, or its answer is lost, for too long."""
        patch = {"metadata": {"uid": select.uid, "annotations": {SELECTED_NODE: select.node or None}}}
        claim, resource = select.claim, "persistentvolumeclaims"
        if fault > 0.1:
            self._try(lambda: self.store.patch(resource, self.store.get(resource, *claim), patch, strategic=False))
        if fault < 0.2:
            self.results.append(NotWritten(select, "500"))

    def _bind(self, bind: Bind, *, fault: float) -> None:
        """A bind is refused because the server has too much to do, or has its effect; it is tried again if its answer is lost."""
        if fault < 0.1 and bind.uid in self._unanswered:
            self.waiting.append(bind)
            return
        if fault < 0.1:
            self.results.append(BindEnded(bind.key, BindOutcome.FAILED, reason="429"))
            return
        ended = self._bound(bind)
        if fault < 0.2:
            self._unanswered.add(bind.uid)
            self.waiting.append(bind)
        else:
            self.results.append(ended)

    def _bound(self, bind: Bind) -> BindEnded:
        body = {"metadata": {"name": bind.ref.name, "uid": bind.uid}, "target": {"name": bind.node}}
        try:
            self.store.bind(bind.ref.namespace, bind.ref.name, body)
        except Refused as refused:
            text = refused.body["message"]
            self.outcomes["conflict"] += 1
            if "already assigned" in text:
                return BindEnded(bind.key, BindOutcome.TAKEN, text.split('"')[-2])
            return BindEnded(bind.key, BindOutcome.GATED if "schedulingGates" in text else BindOutcome.GONE)
        self.binds[bind.uid] += 1
        self.outcomes["bound"] += 1
        return BindEnded(bind.key, BindOutcome.DONE)

    def _check_life(self, delete: DeletePod) -> None:
        """A pod is deleted because the daemon has decided that in its present life, or is a placeholder that nobody needs."""
        book = self.state.book
        key = book.keys[delete.ref]
        held = {each for node in self._direct.core.registry.nodes.values() for each in _keys_on(node)}
        self.outcomes["preempted"] += key in self._doomed
        assert key in self._doomed & held or is_placeholder(book.pods[key].pod), key

    def _check_selection(self, select: SelectNode) -> None:
        """The volume of a claim is made where all its pods are that have a place and have not ended."""
        book = self.state.book
        users = [book.pods[key] for key in book.storage.pods_of(select.claim)]
        places = {user.place for user in users if not has_ended(user.pod)} & book.nodes.keys()
        self.outcomes["selected" if select.node else "taken off"] += 1
        assert not select.node or places == {select.node}, (select, places)

    def _check_claims(self, bind: Bind) -> None:
        """A pod is bound when its claims are, and where their volumes are, as far as the adapter has seen."""
        if not self.state.book.pods[bind.key].pod.spec.volumes:
            return
        pods, claims, volumes = (
            {each["metadata"]["name"]: each for each in self.store.all(kind, "", self._seen[kind])}
            for kind in (Kind.PODS, Kind.CLAIMS, Kind.VOLUMES)
        )
        for name in claim_names(pods[bind.ref.name]):
            assert place_of(volumes[claims[name]["spec"]["volumeName"]]) == bind.node
            self.outcomes["with a claim"] += 1

    def _try(self, act: Any) -> None:
        try:
            act()
        except Refused:
            self.outcomes["refused"] += 1

    def _pod(self, ref: Ref) -> Body:
        return self.store.get("pods", ref.namespace, ref.name)

    def kubelets(self) -> None:
        """Run bound pods, end some of them, and remove deleted ones."""
        nodes = {body["metadata"]["name"] for body in self.store.all("nodes", "")}
        for pod in self.store.all("pods", ""):
            node = pod["spec"].get("nodeName")
            if not node:
                continue
            if pod["metadata"].get("deletionTimestamp") or node not in nodes:
                self.store.remove("pods", pod)
            elif pod["status"]["phase"] == "Pending":
                self._phase(pod, "Running")
            elif pod["status"]["phase"] == "Running" and self.rng.random() < 0.05 and not _holds_room(pod):
                self._phase(pod, "Succeeded")

    def _phase(self, pod: Body, phase: str) -> None:
        self.store.patch("pods", pod, {"status": {"phase": phase}})

    def pass_time(self, seconds: float, *, at_once: bool = False) -> None:
        """Time goes by for everybody; ``at_once`` for a daemon that does nothing meanwhile, as if it was suspended."""
        self.now_s += seconds
        if at_once:
            self._direct.wake_at(self._now_ns)
        self._direct.intake(self._now_ns, [])
        self._handle()

    # ---- users

    def name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def create(self, name: str, *, annotations: dict[str, str] | None = None, cpu: str = "1", **spec: Any) -> None:
        meta = {"name": name, "annotations": annotations or {}, "labels": spec.pop("labels", {})}
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}]
        body = {"metadata": meta, "spec": {"schedulerName": "ykactor", "containers": containers, **spec}}
        self.store.create("pods", "team", body)

    def try_claim(self, name: str, *, storage_class: str = "wait", mode: str = "ReadWriteOnce") -> None:
        """Make a claim, if there is none of this name."""
        self._try(lambda: new_claim(self.store, name, storage_class=storage_class, mode=mode))

    def add_node(self, name: str, cpu: str = "4") -> None:
        status = {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}
        labels = {"kubernetes.io/hostname": name}
        self._try(lambda: self.store.create("nodes", "", {"metadata": {"name": name, "labels": labels}, "status": status}))
        self._try(lambda: limit_volumes(self.store, name, VOLUMES_MAX[name]))

    # ---- in the end

    def settle(self) -> None:
        """Let all arrive, nothing fail, and time pass, until nothing happens any more."""
        quiet = 0
        while quiet < 8:  # nodes are left out for up to 10 minutes (AP-144)
            before = self.store.version
            for _ in Kind:
                self.watch(10**6)
            self.listen(10**6)
            while self.waiting or self.results:
                self.carry_out(faulty=False)
                self.report()
            for pod in self.store.all("pods", ""):
                if pod["spec"].get("nodeName") and pod["metadata"].get("deletionTimestamp"):
                    self.store.remove("pods", pod)
            self.volumes.look(faulty=False)
            # first a little longer than volumes are waited for; what the daemon can try, it has tried when it was quiet once
            self.pass_time(100 if quiet else 31, at_once=quiet > 0)
            quiet = quiet + 1 if before == self.store.version and not self._messages else 0

    def pods(self) -> list[model.Pod]:
        return [_decoded(Kind.PODS, body) for body in self.store.all("pods", "")]  # type: ignore[misc]

    def check_quiet(self) -> None:
        """The daemon knows what the API server knows, and what fits runs."""
        alive = [pod for pod in self.pods() if pod.status.phase not in ("Succeeded", "Failed")]
        nodes = {body["metadata"]["name"]: _decoded(Kind.NODES, body) for body in self.store.all("nodes", "")}
        keys = {record.pod.metadata.uid: key for key, record in self.state.book.pods.items()}
        there = {keys[pod.metadata.uid]: pod.spec.node_name for pod in alive if pod.spec.node_name in nodes}
        registry = self._direct.core.registry
        known = {key: name for name, node in registry.nodes.items() for key in _keys_on(node)}
        assert known == there
        assert not [key for key, record in self.state.book.pods.items() if record.unconfirmed]
        self._check_said(alive)
        used = Counter({name: node.allocated.get("vcore", 0) for name, node in registry.nodes.items()})
        for pod in alive:
            if pod.spec.node_name or pod.spec.scheduling_gates or _is_of_gang(pod) or pod.metadata.deletion_timestamp:
                continue
            for name, node in nodes.items():
                assert isinstance(node, model.Node)
                ports = [each for other in alive if other.spec.node_name == name for each in constraints_of(other).ports]
                has_room = used[name] + requests_of(pod)["vcore"] <= 4000 and not node.spec.unschedulable
                may_run = required_node(pod) in ("", name) and not refusal(constraints_of(pod), node, ports)
                may_run = may_run and not self._volumes_refuse(pod, name)
                assert not (has_room and may_run), f"{pod.metadata.name} fits on {name}"

    def _check_said(self, alive: list[model.Pod]) -> None:
        """Pods and groups say of themselves what they are to say."""
        book = self.state.book
        for pod in alive:
            record = book.pods[book.keys[Ref(pod.metadata.namespace, pod.metadata.name)]]
            condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
            if record.why is not None and not record.place:
                assert condition is not None
                assert (condition.reason, condition.message) == record.why
            assert pod.spec.node_name or pod.status.nominated_node_name == record.node, pod.metadata.name
        for application in book.applications.values():
            group = book.pod_groups.get(application.group) if application.group is not None else None
            if group is not None and application.keys:
                assert group.seen == group.why
                assert not application.is_started or group.why == ""

    def _volumes_refuse(self, pod: model.Pod, node: str) -> str:
        body = self.store.get("pods", pod.metadata.namespace, pod.metadata.name)
        return reason_against(self.store, body, self.store.get("nodes", "", node), VOLUMES_MAX[node])

    def check_always(self) -> None:
        """Check that no pod is bound twice, no node too full by us, and no two pods have one port or one claim for one pod."""
        assert max(self.binds.values(), default=0) <= 1
        used, ports = Counter[str](), Counter[tuple[str, Any]]()
        for pod in self.pods():
            if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
                used[pod.spec.node_name] += requests_of(pod)["vcore"]
                ports.update((pod.spec.node_name, port) for port in constraints_of(pod).ports)
        assert max(used.values(), default=0) <= 4000, used
        assert max(ports.values(), default=0) <= 1, ports
        assert all(volumes_on(self.store, name) <= most for name, most in VOLUMES_MAX.items())
        self._check_claims_of_one_pod()

    def _check_claims_of_one_pod(self) -> None:
        alive = [body for body in self.store.all("pods", "team") if body["status"]["phase"] not in ("Succeeded", "Failed")]
        users = Counter(name for body in alive if body["spec"].get("nodeName") for name in claim_names(body))
        for claim in self.store.all("persistentvolumeclaims", "team"):
            assert "ReadWriteOncePod" not in claim["spec"]["accessModes"] or users[claim["metadata"]["name"]] <= 1


def _decoded(kind: Kind, body: Body) -> model.Object:
    return msgspec.convert(body, TYPES[kind])


def _holds_room(pod: Body) -> bool:
    return "yunikorn.apache.org/placeholder" in pod["metadata"].get("annotations", {})


def _is_of_gang(pod: model.Pod) -> bool:
    return (
        "yunikorn.apache.org/task-groups" in pod.metadata.annotations
        or pod.spec.scheduling_group is not None
        or ("yunikorn.apache.org/placeholder" in pod.metadata.annotations)
    )


def _keys_on(node: Any) -> list[str]:
    """The pods on a node as the daemon knows them, without rooms for the members of PodGroups."""
    return [*(key for _, key in node.allocations if not key.endswith("-room")), *node.foreign]
