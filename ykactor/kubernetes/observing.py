"""Takes what the API server shows into the book."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ykactor.kubernetes import applications, claims, nodes, podgroups, pods
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.messages import Dismiss, Event, Kind, Listed, Ref, Unreadable
from ykactor.kubernetes.model import ConfigMap, Node, Object, ObjectMeta, Pod, PodGroup
from ykactor.kubernetes.outgoing import Thing
from ykactor.kubernetes.quantities import QuantityError
from ykactor.kubernetes.records import GroupRecord, NodeRecord, PodRecord

_OBJECTS = {
    Kind.NAMESPACES: "Namespace",
    Kind.CONFIG_MAPS: "ConfigMap",
    Kind.PRIORITY_CLASSES: "PriorityClass",
    Kind.BUDGETS: "PodDisruptionBudget",
    Kind.POD_GROUPS: "PodGroup",
    Kind.NODES: "Node",
    Kind.STORAGE_CLASSES: "StorageClass",
    Kind.CSI_DRIVERS: "CSIDriver",
    Kind.CSI_NODES: "CSINode",
    Kind.CAPACITIES: "CSIStorageCapacity",
    Kind.VOLUMES: "PersistentVolume",
    Kind.CLAIMS: "PersistentVolumeClaim",
    Kind.PODS: "Pod",
}


def take_list(book: Book, listed: Listed) -> None:
    """Take a complete list: what is not in it is gone."""
    book.complaints.keep_unreadable(_OBJECTS[listed.kind], listed.unreadable)
    objects = listed.objects
    if listed.kind is Kind.PODS:  # the oldest pod of an application says what it is, in whatever order the server lists them
        objects = sorted(objects, key=lambda found: found.metadata.creation_timestamp or "")
    for found in objects:
        take(book, listed.kind, found)
    there = {Ref(each.metadata.namespace, each.metadata.name) for each in listed.objects}.union(listed.unreadable)
    for ref in _known(book, listed.kind):
        if ref not in there:
            lose(book, listed.kind, ref, "")


def _known(book: Book, kind: Kind) -> Iterable[Ref]:
    if kind is Kind.PODS:
        return list(book.keys)
    if kind is Kind.NODES:
        return [Ref("", name) for name in book.nodes]
    if kind in claims.KINDS:
        return claims.names(book, kind)
    if kind is Kind.POD_GROUPS:
        return list(book.pod_groups)
    if kind is Kind.CONFIG_MAPS:
        return list(book.configuration.refs())
    return list(book.policies.names(kind))


def take(book: Book, kind: Kind, found: Object) -> None:
    """An object is new or has changed."""
    ref = Ref(found.metadata.namespace, found.metadata.name)
    book.complaints.note_readable(_OBJECTS[kind], ref)
    if isinstance(found, Pod):
        _take_pod(book, found)
    elif isinstance(found, Node):
        _take_node(book, found)
    elif isinstance(found, PodGroup):
        _take_group(book, ref, found)
    elif isinstance(found, ConfigMap):
        _configure(book, ref, found)
    else:
        _put(book, kind, ref, found)


def lose(book: Book, kind: Kind, ref: Ref, uid: str) -> None:
    """An object is gone; ``uid`` is "" if it is not known which one had this name."""
    book.complaints.note_readable(_OBJECTS[kind], ref)
    if kind is Kind.PODS:
        key = book.keys.get(ref)
        if key is not None and uid in ("", book.pods[key].pod.metadata.uid):
            _lose_pod(book, book.pods[key])
    elif kind is Kind.NODES:
        book.complaints.note("Node", ref)
        if ref.name in book.nodes:
            _lose_node(book, book.nodes[ref.name])
    elif kind is Kind.POD_GROUPS:
        book.complaints.note("PodGroup", ref)
        book.pod_groups.pop(ref, None)
        book.effects.append(Dismiss(ref))
        _touch_members(book, ref)
    elif kind is Kind.CONFIG_MAPS:
        _configure(book, ref, None)
    else:
        _put(book, kind, ref, None)


def skip(book: Book, found: Unreadable) -> None:
    """An object cannot be read: it stays as it was known before."""
    note = f"it cannot be read and is skipped: {found.reason}"
    book.complaints.note_unreadable(Event(_OBJECTS[found.kind], found.ref, found.uid, "Unreadable", "Reading", note))


def _put(book: Book, kind: Kind, ref: Ref, found: Object | None) -> None:
    """An object about volumes, or one that says what pods may do, is new, has changed or is gone (None)."""
    meta = ObjectMeta() if found is None else found.metadata
    if kind in claims.KINDS:
        try:
            claims.put(book, kind, ref, found)
        except QuantityError as error:
            book.complaints.note(_OBJECTS[kind], ref, [("WrongQuantity", str(error))], uid=meta.uid)
        else:
            book.complaints.note(_OBJECTS[kind], ref)
        return
    if kind is Kind.NAMESPACES:
        _label_namespace(book, ref.name, None if found is None else meta.labels)
    if book.policies.put(kind, ref, found):
        _policies_changed(book, kind, ref)


# ---- policies and the configuration


def _policies_changed(book: Book, kind: Kind, ref: Ref) -> None:
    """Compare the pods again that may be concerned, and tell the quotas of queues."""
    if kind is Kind.NAMESPACES:
        wrong = book.policies.quotas(ref.name).complaints
        book.complaints.note("Namespace", ref, [("WrongAnnotation", complaint) for complaint in wrong])
        applications.tell_quotas(book, ref.name)
        return
    is_of_all = kind is Kind.PRIORITY_CLASSES
    book.touch(key for key, record in book.pods.items() if is_of_all or record.ref.namespace == ref.namespace)


def _label_namespace(book: Book, name: str, labels: Mapping[str, str] | None) -> None:
    """The labels of a namespace decide which terms select its pods."""
    if not book.classes.topology.put_namespace(name, labels):
        return
    book.reclassify(lambda record: record.ref.namespace == name)


def _configure(book: Book, ref: Ref, found: ConfigMap | None) -> None:
    wrong = book.configuration.take(ref.name, found)
    book.complaints.note("ConfigMap", ref, [("WrongSetting", complaint) for complaint in wrong])


def _take_group(book: Book, ref: Ref, found: PodGroup) -> None:
    """A group without a gang is one whose pods run each by itself."""
    gang = found.spec.scheduling_policy.gang
    seen = next((each.message for each in found.status.conditions if each.type == "PodGroupScheduled"), None)
    before = book.pod_groups.get(ref)
    group = GroupRecord(1 if gang is None else gang.min_count, seen, before.why if before is not None else None)
    book.pod_groups[ref] = group
    podgroups.show_why(book, ref, group)
    wrong = [("NotSupported", f"its pods run without: {wish}") for wish in pods.unmet_wishes_of_group(found)]
    book.complaints.note("PodGroup", ref, wrong, uid=found.metadata.uid, action="Scheduling")
    _touch_members(book, ref)


def _touch_members(book: Book, ref: Ref) -> None:
    """Compare the pods of a PodGroup again."""
    for application in book.applications.of(ref):
        book.touch(application.keys)


# ---- pods


def _take_pod(book: Book, pod: Pod) -> None:
    ref = Ref(pod.metadata.namespace, pod.metadata.name)
    known = book.pods.get(book.keys.get(ref, ""))
    if known is not None and known.pod.metadata.uid != pod.metadata.uid:
        _lose_pod(book, known)
        known = None
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


def _take_node(book: Book, node: Node) -> None:
    name = node.metadata.name
    known, ref = book.nodes.get(name), Ref("", name)
    if known is not None and nodes.is_heartbeat(known.node, node):
        known.node = node
        book.complaints.note("Node", ref)  # what it said in between may have been wrong
        return
    try:
        offer = nodes.offer_of(node, book.storage.offered(name))
    except QuantityError as error:
        book.complaints.note("Node", ref, [("WrongQuantity", str(error))], uid=node.metadata.uid)
        return
    book.complaints.note("Node", ref)
    if known is not None and known.node.metadata.uid != node.metadata.uid:
        _lose_node(book, known)
        known = None
    if known is None:
        book.nodes[name] = NodeRecord(node, offer)
    else:
        known.node, known.offer = node, offer
    book.put_node(name, node)
    book.dirty_nodes[name] = None


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
