"""Takes what the API server shows into the book."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ykactor.kubernetes import applications, claims, nodes, podgroups, pods
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.messages import TYPES, Dismiss, Event, Kind, Listed, Ref, Unreadable
from ykactor.kubernetes.model import (
    ConfigMap,
    Namespace,
    Node,
    Object,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
)
from ykactor.kubernetes.outgoing import Thing
from ykactor.kubernetes.quantities import QuantityError
from ykactor.kubernetes.records import GroupRecord, NodeRecord, PodRecord


def take_list(book: Book, listed: Listed) -> None:
    """Take a complete list: what is not in it is gone."""
    book.complaints.keep_unreadable(_name(listed.kind), listed.unreadable)
    objects = listed.objects
    if listed.kind is Kind.PODS:  # the oldest pod of an application says what it is, in whatever order the server lists them
        objects = sorted(objects, key=lambda found: found.metadata.creation_timestamp or "")
    for found in objects:
        take(book, listed.kind, found)
    there = {Ref(each.metadata.namespace, each.metadata.name) for each in listed.objects}.union(listed.unreadable)
    gone = [ref for ref in _KINDS[listed.kind].known(book) if ref not in there]
    for ref in gone:
        lose(book, listed.kind, ref, "")


def take(book: Book, kind: Kind, found: Object) -> None:
    """An object is new or has changed."""
    ref = Ref(found.metadata.namespace, found.metadata.name)
    book.complaints.note_readable(_name(kind), ref)
    try:
        _KINDS[kind].put(book, ref, found)
    except QuantityError as error:
        book.complaints.note(_name(kind), ref, [("WrongQuantity", str(error))], uid=found.metadata.uid)


def lose(book: Book, kind: Kind, ref: Ref, uid: str) -> None:
    """An object is gone; ``uid`` is "" if it is not known which one had this name."""
    book.complaints.note_readable(_name(kind), ref)
    if kind is Kind.PODS and ref in book.keys and uid not in ("", book.pods[book.keys[ref]].pod.metadata.uid):
        return
    _KINDS[kind].put(book, ref, None)


def skip(book: Book, found: Unreadable) -> None:
    """An object cannot be read: it stays as it was known before."""
    note = f"it cannot be read and is skipped: {found.reason}"
    book.complaints.note_unreadable(Event(_name(found.kind), found.ref, found.uid, "Unreadable", "Reading", note))


def _name(kind: Kind) -> str:
    return TYPES[kind].__name__


# ---- policies and the configuration


def _put_namespace(book: Book, ref: Ref, found: Namespace | None) -> None:
    """The labels of a namespace decide which terms select its pods, its annotations are quotas of queues."""
    if book.classes.topology.put_namespace(ref.name, None if found is None else found.metadata.labels):
        book.reclassify(lambda record: record.ref.namespace == ref.name)
    if book.policies.put_namespace(ref.name, found):
        wrong = book.policies.quotas(ref.name).complaints
        book.complaints.note("Namespace", ref, [("WrongAnnotation", complaint) for complaint in wrong])
        applications.tell_quotas(book, ref.name)


def _put_priority_class(book: Book, ref: Ref, found: PriorityClass | None) -> None:
    if book.policies.put_class(ref.name, found):
        book.touch(book.pods)


def _put_budget(book: Book, ref: Ref, found: PodDisruptionBudget | None) -> None:
    if book.policies.put_budget(ref, found):
        book.touch(key for key, record in book.pods.items() if record.ref.namespace == ref.namespace)


def _configure(book: Book, ref: Ref, found: ConfigMap | None) -> None:
    wrong = book.configuration.take(ref.name, found)
    book.complaints.note("ConfigMap", ref, [("WrongSetting", complaint) for complaint in wrong])


def _put_group(book: Book, ref: Ref, found: PodGroup | None) -> None:
    """A group without a gang is one whose pods run each by itself."""
    if found is None:
        book.complaints.note("PodGroup", ref)
        book.pod_groups.pop(ref, None)
        book.effects.append(Dismiss(ref))
    else:
        gang = found.spec.scheduling_policy.gang
        seen = next((each.message for each in found.status.conditions if each.type == "PodGroupScheduled"), None)
        before = book.pod_groups.get(ref)
        group = GroupRecord(1 if gang is None else gang.min_count, seen, before.why if before is not None else None)
        book.pod_groups[ref] = group
        podgroups.show_why(book, ref, group)
        wrong = [("NotSupported", f"its pods run without: {wish}") for wish in pods.unmet_wishes_of_group(found)]
        book.complaints.note("PodGroup", ref, wrong, uid=found.metadata.uid, action="Scheduling")
    for application in book.applications.of(ref):
        book.touch(application.keys)


# ---- pods


def _put_pod(book: Book, ref: Ref, pod: Pod | None) -> None:
    known = book.pods.get(book.keys.get(ref, ""))
    if known is not None and (pod is None or known.pod.metadata.uid != pod.metadata.uid):
        _lose_pod(book, known)
        known = None
    if pod is not None:
        _take_pod(book, ref, pod, known)


def _take_pod(book: Book, ref: Ref, pod: Pod, known: PodRecord | None) -> None:
    """A pod is new, or has changed since it was ``known``."""
    if known is None:
        record = PodRecord(pod)
        book.keys[ref] = record.key
        book.pods[record.key] = record
        book.storage.use(record.key, record.claims)
    else:
        record = known
        book.unsettle(record)
        record.update(pod)
    if record.claims:
        claims.read(book, record)
    if pods.has_ended(pod):
        book.declassify(record)
    else:
        book.classify(record)
        if book.is_ours(record) and not record.application:
            applications.join(book, record)
    book.settle(record)
    book.show_why(record)
    _note_complaints(book, record)
    book.touch([record.key])


def _note_complaints(book: Book, record: PodRecord) -> None:
    """Complaints about a pod of ours help while it waits; one about what a pod takes that runs concerns everybody."""
    remarks = list[tuple[str, str]]()
    if record.pod.spec.node_name:
        remarks = [("WrongQuantity", f"it runs and is not counted: {record.complaint}")] if record.complaint else []
    elif record.application:
        remarks = [*record.remarks, *([("FailedScheduling", record.complaint)] if record.complaint else [])]
    if pods.has_ended(record.pod):
        remarks = []
    book.complaints.note("Pod", record.ref, remarks, uid=record.pod.metadata.uid, action="Scheduling")


def _lose_pod(book: Book, record: PodRecord) -> None:
    book.unsettle(record)
    book.declassify(record)
    book.storage.disuse(record.key, record.claims)
    book.provisioning.pop(record.key, None)
    book.release(record)
    book.complaints.note("Pod", record.ref)
    del book.pods[record.key]
    if book.keys.get(record.ref) == record.key:
        del book.keys[record.ref]
    applications.leave(book, record)
    if book.is_ours(record):
        book.effects.append(Dismiss(record.pod.metadata.uid))


# ---- nodes


def _put_node(book: Book, ref: Ref, node: Node | None) -> None:
    """Raises QuantityError if what it offers cannot be read."""
    known = book.nodes.get(ref.name)
    if known is not None and node is not None and nodes.is_heartbeat(known.node, node):
        known.node = node
        book.complaints.note("Node", ref)  # what it said in between may have been wrong
        return
    offer = None if node is None else nodes.offer_of(node, book.storage.offered(ref.name))
    book.complaints.note("Node", ref)
    if known is not None and (node is None or known.node.metadata.uid != node.metadata.uid):
        _lose_node(book, known)
        known = None
    if node is None or offer is None:
        return
    if known is None:
        book.nodes[ref.name] = NodeRecord(node, offer)
    else:
        known.node, known.offer = node, offer
    book.put_node(ref.name, node)
    book.dirty_nodes[ref.name] = None


def _lose_node(book: Book, record: NodeRecord) -> None:
    """A node is gone, and for the daemon what ran there too."""
    name = record.node.metadata.name
    del book.nodes[name]
    book.put_node(name, None)
    if record.told is not None:
        book.out.nodes.append(nodes.removed(name))
        book.leaving.add(Thing.NODE, name)
    claims.lose_node(book, name)
    for pod in book.pods_on(name):
        if pod.told is not None:
            book.leaving.add(Thing.ASK, pod.key)
        pod.told, pod.termination, pod.unconfirmed = None, "", ""
        if not (pod.is_binding or pod.is_bound):  # else it is there, or may be, also when the node comes back
            book.unplace(pod)
        book.touch([pod.key])


# ---- the kinds


class _Objects(NamedTuple):
    """Objects of one kind: ``put`` takes one that is new, has changed or is gone (None), ``known`` gives those that are known."""

    put: Callable[[Book, Ref, Any], None]
    known: Callable[[Book], Iterable[Ref]]


def _named(names: Iterable[str]) -> list[Ref]:
    return [Ref("", name) for name in names]


_KINDS = {
    Kind.NAMESPACES: _Objects(_put_namespace, lambda book: _named(book.policies.namespaces)),
    Kind.CONFIG_MAPS: _Objects(_configure, lambda book: book.configuration.refs()),
    Kind.PRIORITY_CLASSES: _Objects(_put_priority_class, lambda book: _named(book.policies.protected)),
    Kind.BUDGETS: _Objects(_put_budget, lambda book: book.policies.budgets()),
    Kind.POD_GROUPS: _Objects(_put_group, lambda book: book.pod_groups),
    Kind.NODES: _Objects(_put_node, lambda book: _named(book.nodes)),
    Kind.STORAGE_CLASSES: _Objects(claims.put_class, lambda book: _named(book.storage.classes)),
    Kind.CSI_DRIVERS: _Objects(claims.put_driver, lambda book: _named(book.storage.tracked)),
    Kind.CSI_NODES: _Objects(claims.put_limits, lambda book: book.storage.nodes_with_drivers()),
    Kind.CAPACITIES: _Objects(claims.put_capacity, lambda book: book.classes.capacities.refs()),
    Kind.VOLUMES: _Objects(claims.put_volume, lambda book: _named(book.storage.volumes)),
    Kind.CLAIMS: _Objects(claims.put_claim, lambda book: book.storage.claims),
    Kind.PODS: _Objects(_put_pod, lambda book: book.keys),
}
