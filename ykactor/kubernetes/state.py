"""The state of the adapter: what the API server and the daemon have said, and what follows for both.

``State.handle`` is the only way in. It has no I/O and no clock. Whatever has happened, it compares what the daemon should know of
each pod and node with what it was told, and tells the difference: so there is one way for first reports, changes, repetitions and
everything that was missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ykactor.kubernetes import daemon, gangs, nodes, pods, translation
from ykactor.kubernetes.classes import Classes
from ykactor.kubernetes.configuration import Configuration
from ykactor.kubernetes.constraints import HostPort, constraints_of
from ykactor.kubernetes.messages import (
    BindEnded,
    BindOutcome,
    Changed,
    CreateEnded,
    CreatePlaceholder,
    Effect,
    Event,
    Gone,
    Heard,
    Kind,
    Listed,
    Ref,
    Stimulus,
    Tell,
    Unreadable,
)
from ykactor.kubernetes.model import ConfigMap, Node, Object, Pod
from ykactor.kubernetes.outgoing import Outgoing
from ykactor.kubernetes.policies import Policies
from ykactor.kubernetes.quantities import QuantityError
from ykactor.kubernetes.records import ApplicationRecord, NodeRecord, PodRecord
from ykactor.wire.si import messages as si

#: Kinds that are listed before anything is told.
_OBJECTS = {
    Kind.NAMESPACES: "Namespace",
    Kind.CONFIG_MAPS: "ConfigMap",
    Kind.PRIORITY_CLASSES: "PriorityClass",
    Kind.BUDGETS: "PodDisruptionBudget",
    Kind.POD_GROUPS: "PodGroup",
    Kind.NODES: "Node",
    Kind.PODS: "Pod",
}
_NEEDED = frozenset({Kind.NAMESPACES, Kind.PRIORITY_CLASSES, Kind.BUDGETS, Kind.NODES, Kind.PODS})


class State:
    """What the adapter knows.

    Args:
        scheduler_name: the pods with this name are placed by the daemon.

    Attributes:
        pods: by allocation key.
        nodes, applications: by name.
    """

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.applications: dict[str, ApplicationRecord] = {}
        self.policies = Policies()
        self.classes = Classes()
        self.out = Outgoing()
        self.effects: list[Effect] = []
        self._keys: dict[Ref, str] = {}
        self._application_names: dict[str, str] = {}
        self._by_node: dict[str, dict[str, None]] = {}
        self._listed: set[Kind] = set()
        self._is_registered = False
        self.configuration = Configuration()
        #: Pods that wait until a configuration is in force.
        self._waiting: dict[str, None] = {}
        self._dirty_pods: dict[str, None] = {}
        self._dirty_nodes: dict[str, None] = {}
        self._now_s = 0.0

    # ---- what happens

    def handle(self, stimuli: Iterable[Stimulus], now_s: float) -> list[Effect]:
        """Take what has happened, in order, and return what is to be done, in order.

        Args:
            now_s: seconds of any clock that does not go back.
        """
        self._now_s = now_s
        for stimulus in stimuli:
            self._take(stimulus)
        if self._is_registered and self._listed >= _NEEDED:
            self._tell()
        effects, self.effects = self.effects, []
        return effects

    def _take(self, stimulus: Stimulus) -> None:
        match stimulus:
            case Listed():
                self._list(stimulus)
            case Changed(kind, found):
                self._change(kind, found)
            case Gone(kind, ref, uid):
                self._lose(kind, ref, uid)
            case Unreadable(kind, ref, uid, reason):
                note = f"it cannot be read and is skipped: {reason}"
                self.effects.append(Event(_OBJECTS[kind], ref, uid, "Unreadable", "Reading", note))
            case Heard(message):
                daemon.hear(self, message)
            case BindEnded():
                self._end_bind(stimulus)
            case CreateEnded(application_id, ref, reason):
                self._end_create(application_id, ref, reason)

    def _list(self, listed: Listed) -> None:
        """Take a complete list: what is not in it is gone."""
        kind = listed.kind
        for found in listed.objects:
            self._change(kind, found)
        there = {Ref(each.metadata.namespace, each.metadata.name) for each in listed.objects}.union(listed.unreadable)
        if kind is Kind.PODS:
            known: Iterable[Ref] = list(self._keys)
        elif kind is Kind.NODES:
            known = [Ref("", name) for name in self.nodes]
        elif kind is Kind.CONFIG_MAPS:
            known = [ref for ref in self.configuration.refs() if ref]
        else:
            known = list(self.policies.names(kind))
        for ref in known:
            if ref not in there:
                self._lose(kind, ref, "")
        self._listed.add(kind)

    def _change(self, kind: Kind, found: Object) -> None:
        if isinstance(found, Pod):
            self._change_pod(found)
        elif isinstance(found, Node):
            self._change_node(found)
        elif isinstance(found, ConfigMap):
            self._configure(found.metadata.name, found)
        elif self.policies.take(kind, found):
            self._policies_changed(kind, found.metadata.namespace, found.metadata.name)

    def _lose(self, kind: Kind, ref: Ref, uid: str) -> None:
        if kind is Kind.PODS:
            key = self._keys.get(ref)
            if key is not None and uid in ("", self.pods[key].pod.metadata.uid):
                self._lose_pod(self.pods[key])
        elif kind is Kind.NODES:
            if ref.name in self.nodes:
                self._lose_node(self.nodes[ref.name])
        elif kind is Kind.CONFIG_MAPS:
            self._configure(ref.name, None)
        elif self.policies.forget(kind, ref):
            self._policies_changed(kind, ref.namespace, ref.name)

    def _policies_changed(self, kind: Kind, namespace: str, name: str) -> None:
        """Look again at the pods that may be concerned, and at the quotas of queues."""
        if kind is Kind.NAMESPACES:
            for complaint in self.policies.quotas(name).complaints:
                self.effects.append(Event("Namespace", Ref("", name), "", "WrongAnnotation", "Reading", complaint))
            daemon.set_quotas(self, name)
            return
        for key, record in self.pods.items():
            if kind is Kind.PRIORITY_CLASSES or record.ref.namespace == namespace:
                self._dirty_pods[key] = None

    def _configure(self, name: str, found: ConfigMap | None) -> None:
        """A ConfigMap has changed or is gone: send the configuration that follows, if it is another one."""
        for complaint in self.configuration.take(name, found):
            self.effects.append(Event("ConfigMap", self.configuration.ref(name), "", "WrongSetting", "Reading", complaint))
        if self._is_registered and self.configuration.begin_change():
            self.effects.append(Tell(si.UpdateConfigurationRequest(config=self.configuration.text())))

    def configured(self, refusal: str) -> None:
        """The daemon has put a configuration into force, or refuses it and keeps the one before."""
        self.configuration.end_change()
        if refusal:
            ref = self.configuration.ref(self.configuration.source())
            self.effects.append(Event("ConfigMap", ref, "", "ConfigurationRefused", "Configuring", refusal))
        waiting, self._waiting = self._waiting, {}
        self.touch(waiting)

    # ---- pods

    def _change_pod(self, pod: Pod) -> None:
        ref = Ref(pod.metadata.namespace, pod.metadata.name)
        key = self._keys.get(ref)
        if key is not None and self.pods[key].pod.metadata.uid != pod.metadata.uid:
            self._lose_pod(self.pods[key])
            key = None
        if key is None:
            record = PodRecord(pod)
            self._keys[ref] = record.key
            self.pods[record.key] = record
        else:
            record = self.pods[key]
            self._note_place(record, "")
            record.update(pod)
        self._classify(record)
        self._note_place(record, record.place)
        self._dirty_pods[record.key] = None

    def _classify(self, record: PodRecord) -> None:
        """Give a pod of ours its class and its application."""
        if not self.is_ours(record) or pods.has_ended(record.pod):
            return
        before = record.class_name
        record.class_name = self.classes.add(constraints_of(record.pod))
        if before:
            self.classes.discard(before, self._now_s)
        if record.key not in self._application_names:
            self._join(record)

    def _join(self, record: PodRecord) -> None:
        """The application of a pod is what it first says; another one later changes nothing."""
        found = pods.application_of(record.pod)
        for complaint in (found.complaint, pods.queue_of(record.pod).complaint, record.complaint, pods.user_of(record.pod)[1]):
            if complaint:
                self.complain(record, "WrongAnnotation", complaint)
        application = self.applications.get(found.name)
        if application is None:
            application = self.applications[found.name] = ApplicationRecord(found.name, record)
            self._define_gang(application, record)
        application.keys[record.key] = None
        self._application_names[record.key] = found.name

    def _define_gang(self, application: ApplicationRecord, record: PodRecord) -> None:
        """The first pod says whether the application is a gang; a placeholder repeats what that one has said."""
        annotations = record.pod.metadata.annotations
        if translation.is_placeholder(record.pod):
            application.gang = gangs.gang_from(annotations.get(gangs.DEFINITION, ""))
            return
        try:
            application.gang = gangs.gang_of(annotations)
        except gangs.GangError as error:
            self.complain(record, "GangScheduling", f"{error}: the pod runs without a gang")

    def _lose_pod(self, record: PodRecord) -> None:
        """A pod is gone; its release is told in the end, as its record is still there then."""
        self._note_place(record, "")
        if record.class_name:
            self.classes.discard(record.class_name, self._now_s)
        self.release(record)
        del self.pods[record.key]
        self._dirty_pods.pop(record.key, None)
        if self._keys.get(record.ref) == record.key:
            del self._keys[record.ref]
        name = self._application_names.pop(record.key, None)
        if name is not None:
            application = self.applications[name]
            del application.keys[record.key]
            if not application.keys and not application.is_told:
                del self.applications[name]

    def _note_place(self, record: PodRecord, place: str) -> None:
        """Note where a pod is, before and after it changes: its node has it, and its ports are taken there."""
        if place:
            self._by_node.setdefault(place, {})[record.key] = None
            if record.ports and not pods.has_ended(record.pod):
                self.classes.take_ports(place, record.key, record.ports)
                self._tell_ports(place, record.ports)
            return
        before = record.place
        if not before:
            return
        there = self._by_node.get(before, {})
        there.pop(record.key, None)
        if not there:
            self._by_node.pop(before, None)
        freed = self.classes.free_ports(before, record.key)
        if freed:
            self._tell_ports(before, freed)

    def _tell_ports(self, node: str, ports: Sequence[HostPort]) -> None:
        record = self.nodes.get(node)
        if record is not None and record.told is not None:
            self.out.answers += self.classes.about_ports(record.node, ports)

    # ---- nodes

    def _change_node(self, node: Node) -> None:
        name = node.metadata.name
        try:
            offer = nodes.offer_of(node)
        except QuantityError as error:
            self.effects.append(Event("Node", Ref("", name), node.metadata.uid, "WrongQuantity", "Reading", str(error)))
            offer = None
        record = self.nodes.get(name)
        if record is None:
            record = self.nodes[name] = NodeRecord(node, offer)
        elif record.node.metadata.uid != node.metadata.uid:
            self._lose_node(record)
            record = self.nodes[name] = NodeRecord(node, offer)
        elif offer is None or (record.offer, nodes.taints_of(record.node)) == (offer, nodes.taints_of(node)):
            record.node = node  # a heartbeat
            return
        else:
            record.node, record.offer = node, offer
        self._dirty_nodes[name] = None

    def _lose_node(self, record: NodeRecord) -> None:
        """A node is gone, and for the daemon what ran there too."""
        name = record.node.metadata.name
        del self.nodes[name]
        self._dirty_nodes.pop(name, None)
        if record.told is not None:
            self.out.nodes.append(nodes.removed(name))
        for key in list(self._by_node.get(name, ())):
            pod = self.pods[key]
            pod.told, pod.termination = None, ""
            self.unplace(pod)
            self._dirty_pods[key] = None

    # ---- results of effects

    def _end_bind(self, ended: BindEnded) -> None:
        record = self.pods.get(ended.key)
        if record is None or not record.is_binding:
            return
        record.is_binding = False
        match ended.outcome:
            case BindOutcome.DONE:
                record.is_bound = True
                note = f"Successfully assigned {record.ref.namespace}/{record.ref.name} to {record.node}"
                self.event(record, "Scheduled", "Binding", note, is_warning=False)
            case BindOutcome.TAKEN if ended.node == record.node:
                record.is_bound = True  # by an earlier attempt
            case BindOutcome.FAILED:
                self.hand_back(record)
                self.complain(record, "FailedScheduling", f"binding failed: {ended.reason}")
            case BindOutcome.GATED:
                record.is_gated = True
                self.unplace(record)
            case BindOutcome.TAKEN | BindOutcome.GONE:
                record.is_gated = True  # until the watch says what became of it
                self.unplace(record)
        self._dirty_pods[record.key] = None

    def _end_create(self, application_id: str, ref: Ref, reason: str) -> None:
        application = self.applications.get(application_id)
        first = self.pods.get(application.first) if application is not None else None
        if reason and first is not None:
            self.complain(first, "GangScheduling", f"the placeholder {ref.name} could not be created: {reason}")

    # ---- what daemon and gangs use

    def is_ours(self, record: PodRecord) -> bool:
        """True if the daemon places the pod."""
        return record.pod.spec.scheduler_name == self._scheduler_name

    def application_of(self, record: PodRecord) -> ApplicationRecord | None:
        """The application of a pod of ours."""
        name = self._application_names.get(record.key)
        return None if name is None else self.applications[name]

    def touch(self, keys: Iterable[str]) -> None:
        """Look at these pods again."""
        self._dirty_pods.update(dict.fromkeys(keys))

    def place(self, record: PodRecord, node: str) -> None:
        """The scheduler has placed a pod."""
        record.node = node
        self._note_place(record, node)

    def unplace(self, record: PodRecord) -> None:
        """A pod is not to run where the scheduler had placed it."""
        if record.node and not record.pod.spec.node_name:
            self._note_place(record, "")
        record.node, record.is_binding, record.is_bound = "", False, False

    def release(self, record: PodRecord) -> None:
        """Tell the daemon that it has a pod no longer."""
        if record.told is None:
            return
        application_id = record.told.application_id
        termination = record.termination or "STOPPED_BY_RM"
        self.out.releases.append(
            si.AllocationRelease(application_id=application_id, allocation_key=record.key, termination_type=termination)
        )
        record.told, record.termination = None, ""

    def hand_back(self, record: PodRecord) -> None:
        """A pod could not start on its node: it waits again, for a while without that node (AP-144)."""
        assert record.told is not None, "it was placed"
        self.out.releases.append(
            si.AllocationRelease(
                application_id=record.told.application_id,
                allocation_key=record.key,
                termination_type="SCHEDULING_FAILED_ON_RM",
                node_id=record.node,
            )
        )
        self.unplace(record)
        application = self.application_of(record)
        assert application is not None, "it was asked for"
        record.told = self._wanted_of_ours(record, application)

    def event(self, record: PodRecord, reason: str, action: str, note: str, *, is_warning: bool) -> None:
        """Write an Event about a pod."""
        self.effects.append(Event("Pod", record.ref, record.pod.metadata.uid, reason, action, note, is_warning))

    def complain(self, record: PodRecord, reason: str, note: str) -> None:
        """Write a warning about a pod."""
        self.event(record, reason, "Scheduling", note, is_warning=True)

    def forget_ended(self, application: ApplicationRecord) -> None:
        """The application has ended for the daemon: what is left of it, or comes later, begins it anew."""
        if application.keys:
            self.touch(application.keys)
        else:
            del self.applications[application.name]

    def stop(self) -> None:
        """This process does not lead any more: it forgets what it has begun, and tells nothing."""
        self._is_registered = False
        for record in self.pods.values():
            self.unplace(record)

    def begin_anew(self) -> None:
        """The daemon knows nothing (any more): everything is told again."""
        self._is_registered = True
        self.out = Outgoing()
        self.classes.forget_told()
        for node in self.nodes.values():
            node.told = None
        for record in self.pods.values():
            record.told, record.termination = None, ""
        for application in self.applications.values():
            application.is_told, application.state = False, ""
        self._dirty_nodes = dict.fromkeys(self.nodes)
        self._dirty_pods = dict.fromkeys(self.pods)

    # ---- what the daemon is told

    def _tell(self) -> None:
        """Tell the daemon what is not as it knows it."""
        self._tell_nodes()
        self.out.forgotten += self.classes.forget_idle(self._now_s)
        told = {name: record.node for name, record in self.nodes.items() if record.told is not None}
        self.out.answers += self.classes.about_new_classes(told)
        dirty, self._dirty_pods = self._dirty_pods, {}
        records = [self.pods[key] for key in dirty if key in self.pods]
        records.sort(key=lambda record: (not record.place, pods.created_s(record.pod), record.key))
        for record in records:
            self._tell_pod(record)
        for record in records:
            daemon.begin_bind(self, record)
        out, self.out = self.out, Outgoing()
        self.effects[:0] = out.requests()

    def _tell_nodes(self) -> None:
        dirty, self._dirty_nodes = self._dirty_nodes, {}
        for name in dirty:
            record = self.nodes.get(name)
            if record is None or record.offer is None:
                continue
            before, record.told = record.told, record.offer
            if before is None:
                self.out.nodes.append(nodes.created(name, record.offer))
                if record.offer.is_open:
                    self.out.openings.append(nodes.opening(name, is_open=True))
                self._dirty_pods.update(self._by_node.get(name, {}))
            else:
                self.out.nodes += nodes.changes(name, before, record.offer)
            self.out.answers += self.classes.about_node(record.node, len(self.nodes))

    def _tell_pod(self, record: PodRecord) -> None:
        wanted = self._wanted(record)
        told = record.told
        if wanted is None:
            self.release(record)
        elif told is None or told.application_id != wanted.application_id:
            self.release(record)
            self._say(record, wanted)
        elif told.node_id and told.node_id != wanted.node_id:
            self.release(record)  # it runs elsewhere
            self._say(record, wanted)
        elif not wanted.node_id and told.allocation_tags != wanted.allocation_tags:
            self.release(record)  # other constraints
            self._say(record, wanted)
        elif translation.is_news(told, wanted):
            self._say(record, wanted)

    def _say(self, record: PodRecord, wanted: si.Allocation) -> None:
        self.out.allocations.append(wanted)
        record.told = wanted

    def _wanted(self, record: PodRecord) -> si.Allocation | None:
        """What the daemon should know of a pod; None for nothing."""
        if pods.has_ended(record.pod) or record.complaint:
            return None
        if record.place and (record.place not in self.nodes or self.nodes[record.place].told is None):
            return None
        if not self.is_ours(record):
            return translation.foreign(record) if record.place else None
        application = self.application_of(record)
        if application is None or record.is_refused:
            return None
        if not record.place and self._is_held_back(record, application):
            return None
        if not application.is_told and not self._tell_application(record, application):
            return None
        return self._wanted_of_ours(record, application)

    def _wanted_of_ours(self, record: PodRecord, application: ApplicationRecord) -> si.Allocation:
        allows = self.policies.allows_preemption(record.pod)
        return translation.allocation(record, application, record.place, allows_preemption=allows)

    def _is_held_back(self, record: PodRecord, application: ApplicationRecord) -> bool:
        """True if a waiting pod is not asked for yet."""
        pod = record.pod
        if pod.metadata.deletion_timestamp or pod.spec.scheduling_gates or record.is_gated or not record.size:
            return True
        if application.gang is None or application.is_started or translation.is_placeholder(pod):
            return False
        self._make_placeholders(application)
        return True

    def _tell_application(self, record: PodRecord, application: ApplicationRecord) -> bool:
        """Tell the daemon of an application before its first pod; False while a configuration is on its way."""
        if self.configuration.in_flight:
            self._waiting[record.key] = None
            return False
        first = self.pods.get(application.first, record)
        application.is_told, application.state = True, ""
        is_forced = any(self.pods[key].place for key in application.keys)
        application.is_started |= is_forced and not self._has_placeholders(application)
        quotas = self.policies.quotas(application.namespace)
        self.out.applications.append(translation.new_application(application, first, quotas, is_forced=is_forced))
        return True

    # ---- gangs

    def _has_placeholders(self, application: ApplicationRecord) -> bool:
        return any(translation.is_placeholder(self.pods[key].pod) for key in application.keys)

    def _make_placeholders(self, application: ApplicationRecord) -> None:
        """Create the placeholders that are missing, once; none for a gang of which a real pod has its place already."""
        first, gang = self.pods.get(application.first), application.gang
        if application.placeholders_made or first is None or gang is None:
            return
        application.placeholders_made = True
        for group in gang.groups:
            there = sum(self._holds_room_of(self.pods[key], group.name) for key in application.keys)
            for number in range(there, group.min_member):
                queue = pods.queue_of(first.pod).name
                nonce = f"{first.pod.metadata.uid[:8]}-{number}"
                body = gangs.placeholder_pod(first.pod, application.name, queue, gang, group, nonce, self.configuration.settings)
                ref = Ref(first.ref.namespace, body["metadata"]["name"])
                self.effects.append(CreatePlaceholder(application.name, ref, body))

    def _holds_room_of(self, record: PodRecord, group: str) -> bool:
        return translation.is_placeholder(record.pod) and record.pod.metadata.annotations.get(gangs.GROUP_NAME) == group
