"""All that the adapter knows, and the small steps in which it changes.

``observing`` changes it by what the API server shows, ``hearing`` by what the daemon says. ``reporting`` tells the daemon what is
different from what it was told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import structs

from ykactor.kubernetes import outgoing, pods
from ykactor.kubernetes.classes import Classes, PodClass
from ykactor.kubernetes.configuration import Configuration
from ykactor.kubernetes.constraints import HostPort, constraints_of
from ykactor.kubernetes.index import Index
from ykactor.kubernetes.messages import Effect, Event, Ref, SetCondition
from ykactor.kubernetes.model import Node
from ykactor.kubernetes.outgoing import Leaving, Outgoing, Thing
from ykactor.kubernetes.policies import Policies
from ykactor.kubernetes.records import ApplicationRecord, Applications, GroupRecord, NodeRecord, PodRecord, Why
from ykactor.kubernetes.topology import NO_WISHES, Wishes, wishes_of
from ykactor.kubernetes.volumes import Capacity, Storage
from ykactor.wire.si import messages as si

#: Characters of a condition.
MESSAGE_MAX = 1024
_WORD = re.compile(r"[^\s,;:()'\"]+")


class Book:
    """The knowledge of the cluster and of the daemon.

    Args:
        scheduler_name: the pods with this name are placed by the daemon.

    Attributes:
        pods: by allocation key.
        keys: allocation keys by namespace and name of the pod.
        nodes, applications: by name.
        pod_groups: by namespace and name.
        rooms: placeholders without pods, by key, with their application.
        dirty_pods, dirty_nodes: what has to be compared with what the daemon was told.
        leaving: what the daemon was told to forget, until it has confirmed.
        storage: claims and volumes.
        stale: pods whose claims have to be looked at again.
        provisioning: pods that wait for volumes on a node, with the time since when, in this order.
        out, effects: what is to be told, and what is to be done on the API server.
        now_s: seconds of a clock that does not go back.
    """

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self.pods: dict[str, PodRecord] = {}
        self.keys: dict[Ref, str] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.applications = Applications()
        self.pod_groups: dict[Ref, GroupRecord] = {}
        self.rooms: dict[str, str] = {}
        self.policies = Policies()
        self.classes = Classes()
        self.storage = Storage()
        self.storage.nodes = self.nodes
        self.stale: dict[str, None] = {}
        self.provisioning: dict[str, float] = {}
        self.configuration = Configuration()
        self.complaints = Complaints()
        self.dirty_pods: dict[str, None] = {}
        self.dirty_nodes: dict[str, None] = {}
        #: Pods that wait until a configuration is in force.
        self.waiting: dict[str, None] = {}
        self.leaving = Leaving()
        self.out = Outgoing()
        self.effects: list[Effect] = []
        self.now_s = 0.0
        self._by_node = Index[str, str]()

    def is_ours(self, record: PodRecord) -> bool:
        """True if the daemon places the pod."""
        return record.pod.spec.scheduler_name == self._scheduler_name

    # ---- classes

    def classify(self, record: PodRecord) -> None:
        """Count the pod in the class of its constraints, which may be another one than before."""
        topology = self.classes.topology
        wishes = wishes_of(record.pod, topology.namespaces)
        if not self.is_ours(record):  # its own scheduler has placed it; others keep their distance
            self._use(record, Wishes(far=wishes.far) if record.place else NO_WISHES)
            return
        self._use(record, wishes)
        before, wishes = record.class_name, structs.replace(wishes, unwelcome=topology.unwelcome(record.pod))
        record.class_name = self.classes.add(PodClass(constraints_of(record.pod), wishes, record.volumes.needs))
        if before:
            self.classes.discard(before, self.now_s)

    def declassify(self, record: PodRecord) -> None:
        """The pod has ended or is gone: it has no class, and keeps nobody away."""
        self._use(record, NO_WISHES)
        if record.class_name:
            self.classes.discard(record.class_name, self.now_s)
            record.class_name = ""

    def _use(self, record: PodRecord, wishes: Wishes) -> None:
        """A pod has these wishes from now on."""
        if wishes.terms_of_its_own() == record.wishes.terms_of_its_own():
            return
        new = self.classes.topology.use(wishes)
        self.classes.topology.disuse(record.wishes)
        record.wishes = wishes
        if new:  # pods that wait and are not welcome near others any more are of another class
            namespaces = self.classes.topology.namespaces
            self.reclassify(lambda each: any(term.selects(each.pod, namespaces) for term in new))

    def reclassify(self, concerns: Callable[[PodRecord], bool]) -> None:
        """Compare the pods again that wait and are concerned."""
        for record in self.pods.values():
            if record.class_name and not record.place and concerns(record):
                self.classify(record)
                self.touch([record.key])

    def application_of(self, record: PodRecord) -> ApplicationRecord | None:
        """The application of a pod of ours."""
        return self.applications.get(record.application)

    def touch(self, keys: Iterable[str]) -> None:
        """Compare these pods again."""
        self.dirty_pods.update(dict.fromkeys(keys))

    # ---- places

    def pods_on(self, node: str) -> list[PodRecord]:
        """The pods that run on a node or are to run there."""
        return [self.pods[key] for key in self._by_node.of(node)]

    def settle(self, record: PodRecord) -> None:
        """A pod is known to be on its node, if it has one: its ports are taken there."""
        place = record.place
        if not place:
            return
        self._by_node.add(place, record.key)
        if pods.has_ended(record.pod):
            return
        if record.claims:
            self.stale.update(dict.fromkeys(self.storage.settle(record.key, record.claims, place)))
        if record.ports:
            self.classes.take_ports(place, record.key, record.ports)
            self._answer_about_ports(place, record.ports)
        self.classes.topology.settle(record.key, record.pod, record.wishes, place)

    def unsettle(self, record: PodRecord) -> None:
        """The opposite, before the pod changes its place or is gone."""
        place = record.place
        if not place:
            return
        self._by_node.discard(place, record.key)
        if record.claims:
            self.stale.update(dict.fromkeys(self.storage.settle(record.key, record.claims, "")))
        freed = self.classes.free_ports(place, record.key)
        if freed:
            self._answer_about_ports(place, freed)
        self.classes.topology.unsettle(record.key)

    def put_node(self, name: str, node: Node | None) -> None:
        """A node is new, has changed or is gone (None): its pods are in the domains that its labels name now."""
        self.classes.put_node(name, node, self._by_node.of(name))

    def _answer_about_ports(self, node: str, ports: Sequence[HostPort]) -> None:
        record = self.nodes.get(node)
        if record is not None and record.told is not None:
            self.out.answers += self.classes.about_ports(record.node, ports)

    def take_capacity(self, ref: Ref, capacity: Capacity | None) -> None:
        """Another amount of room for volumes is known, or none any more (None)."""
        told = [record.node for record in self.nodes.values() if record.told is not None]
        self.out.answers += self.classes.about_capacity(ref, capacity, told)

    def place(self, record: PodRecord, node: str) -> None:
        """The scheduler has placed a pod."""
        record.node = node
        record.why = None
        self.provisioning.pop(record.key, None)
        self.settle(record)

    def unplace(self, record: PodRecord) -> None:
        """A pod is not to run where the scheduler had placed it."""
        if not record.pod.spec.node_name:
            self.unsettle(record)
        record.node, record.is_binding, record.is_bound = "", False, False
        if record.claims:
            self.provisioning.pop(record.key, None)
            self.stale[record.key] = None

    # ---- what the daemon was told

    def wanted(self, record: PodRecord, application: ApplicationRecord) -> si.Allocation:
        """A pod of ours as the daemon should know it."""
        allows = self.policies.allows_preemption(record.pod)
        return outgoing.allocation(record, application, record.place, allows_preemption=allows)

    def tell_application(self, application: ApplicationRecord, first: PodRecord, *, is_forced: bool) -> si.AddApplicationRequest:
        """An application as the daemon is told of it now; arguments as of ``outgoing.new_application``."""
        quotas = self.policies.quotas(application.namespace)
        application.is_told, application.quotas = True, quotas.tags
        return outgoing.new_application(application, first, quotas, is_forced=is_forced)

    def release(self, record: PodRecord) -> None:
        """Tell the daemon that it has a pod no longer."""
        if record.told is None:
            return
        self.leaving.add(Thing.ASK, record.key)
        self._release(record, record.termination or "STOPPED_BY_RM")
        record.told, record.termination, record.unconfirmed, record.why = None, "", "", None

    def hand_back(self, record: PodRecord) -> None:
        """A pod could not start on its node: it waits again, for a while without that node (AP-144)."""
        assert record.told is not None, "it was asked for"
        self._release(record, "SCHEDULING_FAILED_ON_RM", record.node)
        self.unplace(record)
        record.told = structs.replace(record.told, node_id="")

    def withdraw(self, record: PodRecord) -> None:
        """A pod cannot run where the scheduler has placed it, and is another ask from now on, or none."""
        self.release(record)
        self.unplace(record)
        self.touch([record.key])

    def _release(self, record: PodRecord, termination: str, node: str = "") -> None:
        assert record.told is not None, "the daemon has it"
        self.out.releases.append(
            si.AllocationRelease(
                application_id=record.told.application_id,
                allocation_key=record.key,
                termination_type=termination,
                node_id=node,
            )
        )

    def forget_changes(self) -> None:
        """Keep no changes: this process does not lead, perhaps for months, and tells everything when it does."""
        self.out, self.leaving = Outgoing(), Leaving()
        self.dirty_pods, self.dirty_nodes, self.waiting, self.stale = {}, {}, {}, {}
        self.classes.topology.take_changed()
        self.classes.forget_idle(self.now_s)

    def forget_told(self) -> None:
        """The daemon knows nothing: everything has to be told again."""
        self.forget_changes()
        self.classes.forget_told()
        self.complaints.forget_told()
        for node in self.nodes.values():
            node.told = None
        for record in self.pods.values():
            record.told, record.termination, record.unconfirmed = None, "", ""
            record.why = None
        for group in self.pod_groups.values():
            group.why = None
        self.rooms.clear()
        for application in self.applications.values():
            application.is_told = False
            application.rooms.clear()
        self.dirty_nodes = dict.fromkeys(self.nodes)
        self.dirty_pods = dict.fromkeys(self.pods)
        self.stale = {key: None for key, record in self.pods.items() if record.claims}
        self.provisioning = {key: since_s for key, since_s in self.provisioning.items() if self.pods[key].node}

    def waits_for_configuration(self, record: PodRecord) -> bool:
        """True while a configuration is on its way: then the pod is compared again."""
        if self.configuration.in_flight:
            self.waiting[record.key] = None
        return bool(self.configuration.in_flight)

    # ---- conditions and Events

    def explain(self, record: PodRecord, reason: str, message: str) -> bool:
        """A pod waits, and says why; returns True if it does not say so already."""
        record.why = Why(reason, message[:MESSAGE_MAX])
        return self.show_why(record)

    def show_why(self, record: PodRecord) -> bool:
        """Write the condition of a pod that does not say so already; returns True if it is written."""
        why = record.why
        if why is None or record.place or why == record.shown:
            return False
        record.written_why = why
        self.effects.append(SetCondition(record.ref, record.pod.metadata.uid, record.version, *why))
        return True

    def unwrite(self, ref: Ref) -> None:
        """A pod or a PodGroup does not say what was to be written: it is written when it is compared the next time."""
        record, group = self.pods.get(self.keys.get(ref, "")), self.pod_groups.get(ref)
        if record is not None:
            record.forget_written()
        if group is not None:
            group.written = None

    def say_nothing(self) -> None:
        """Take all objects for what they say now: what was to be written is not, if it has not been."""
        for record in self.pods.values():
            record.why = None
            record.forget_written()
        for group in self.pod_groups.values():
            group.why = group.written = None
        self.storage.written.clear()

    def event(self, record: PodRecord, reason: str, action: str, note: str, *, is_warning: bool = True) -> None:
        """Write an Event about a pod."""
        self.effects.append(Event("Pod", record.ref, record.pod.metadata.uid, reason, action, note, is_warning))

    def complain(self, record: PodRecord, reason: str, note: str) -> None:
        """Write a warning about a pod that is scheduled."""
        self.event(record, reason, "Scheduling", note)

    def readable(self, sentence: str) -> str:
        """A sentence of the daemon with the names of pods in place of their keys."""
        return _WORD.sub(lambda word: self._named(word[0]), sentence)

    def preemptor(self, sentence: str) -> str:
        """The same of a sentence that ends with the key of an ask that preempts: its application and queue are added."""
        record = self.pods.get(sentence.rpartition(" ")[2])
        application = self.application_of(record) if record is not None else None
        if application is None:
            return self.readable(sentence)
        queue = f" in queue {application.queue}" if application.queue else ""
        return f"{self.readable(sentence)} (application {application.name}{queue})"

    def _named(self, word: str) -> str:
        record = self.pods.get(word)
        return word if record is None else f"{record.ref.namespace}/{record.ref.name}"


class Complaints:
    """Complaints about objects. They are kept, so that a process that takes over tells what came while nobody led."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, Ref], Sequence[Event]] = {}
        self._unreadable: dict[tuple[str, Ref], Event] = {}
        #: Those that are not told yet, in order.
        self._untold: dict[Event, None] = {}

    def note(self, kind: str, ref: Ref, wrong: Iterable[tuple[str, str]] = (), *, uid: str = "", action: str = "Reading") -> None:
        """All that is wrong with an object, a reason and a sentence each; what was known before is not told again."""
        found = [Event(kind, ref, uid, reason, action, note) for reason, note in wrong]
        before = self._of.pop((kind, ref), ())
        for event in before:
            if event not in found:
                self._untold.pop(event, None)
        if found:
            self._of[kind, ref] = found
            self._untold.update((event, None) for event in found if event not in before)

    def note_unreadable(self, event: Event) -> None:
        """An object cannot be read; told for each of its versions."""
        self._unreadable[event.kind, event.ref] = event
        self._untold[event] = None

    def note_readable(self, kind: str, ref: Ref) -> None:
        """An object can be read, or is gone."""
        event = self._unreadable.pop((kind, ref), None)
        if event is not None:
            self._untold.pop(event, None)

    def keep_unreadable(self, kind: str, refs: Collection[Ref]) -> None:
        """Only these objects of a kind cannot be read."""
        for each, ref in list(self._unreadable):
            if each == kind and ref not in refs:
                self.note_readable(kind, ref)

    def forget_told(self) -> None:
        """Tell everything again."""
        self._untold = dict.fromkeys(event for events in (*self._of.values(), self._unreadable.values()) for event in events)

    def take_untold(self) -> list[Event]:
        """The complaints that are to be told now."""
        untold, self._untold = self._untold, {}
        return list(untold)
