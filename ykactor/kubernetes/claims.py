"""Claims and volumes: the consequences for pods and nodes.

A change marks the pods that it may concern, which are looked at before anything is reported. Pods that are placed wait for their
volumes: these are made for their node, or the pod is handed back.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from ykactor.kubernetes import nodes, pods
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.messages import Dismiss, Nominate, Ref, SelectNode
from ykactor.kubernetes.model import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from ykactor.kubernetes.records import PodRecord
from ykactor.kubernetes.volumes import affinity_refusal, capacity_of, claim_of, class_of, volume_of

T = TypeVar("T")


# ---- objects that are new, have changed or are gone (None)


def put_claim(book: Book, ref: Ref, found: PersistentVolumeClaim | None) -> None:
    """Raises QuantityError if its size cannot be read."""
    known, claim = book.storage.claims.get(ref), None if found is None else claim_of(found)
    book.complaints.note("PersistentVolumeClaim", ref)
    if known is not None and claim is None:
        book.effects.append(Dismiss(known.uid))
    if book.storage.put_claim(ref, claim):
        _mark(book, ref)


def put_volume(book: Book, ref: Ref, found: PersistentVolume | None) -> None:
    """A volume decides about the pods of its claim, and of the claim that it had before."""
    volume, volumes = None if found is None else volume_of(found), book.storage.volumes
    if volume != volumes.get(ref.name):
        _mark_users(book, ref.name)
        _keep(volumes, ref.name, volume)
        _mark_users(book, ref.name)


def put_class(book: Book, ref: Ref, found: StorageClass | None) -> None:
    """A storage class decides about the pods with claims of it."""
    kept, classes = None if found is None else class_of(found), book.storage.classes
    if kept != classes.get(ref.name):
        _keep(classes, ref.name, kept)
        _mark_all(book, storage_class=ref.name)


def put_driver(book: Book, ref: Ref, found: CSIDriver | None) -> None:
    """A driver may say how much room it has."""
    tracked = book.storage.tracked
    is_tracked = found is not None and found.spec.storage_capacity
    if is_tracked is not (ref.name in tracked):
        (tracked.add if is_tracked else tracked.discard)(ref.name)
        _mark_all(book)


def put_limits(book: Book, ref: Ref, found: CSINode | None) -> None:
    """A node takes another number of volumes; where a driver is limited at all, all nodes offer some."""
    if book.storage.put_limits(ref.name, found):
        _mark_all(book)
        concerned = list(book.nodes)
    else:
        concerned = [ref.name]
    for each in concerned:
        record = book.nodes.get(each)
        if record is not None:
            offer = nodes.offer_of(record.node, book.storage.offered(each))
            if offer != record.offer:
                record.offer = offer
                book.dirty_nodes[each] = None


def put_capacity(book: Book, ref: Ref, found: CSIStorageCapacity | None) -> None:
    """Raises QuantityError if its size cannot be read."""
    capacity = None if found is None else capacity_of(found)
    book.complaints.note("CSIStorageCapacity", ref)
    book.take_capacity(ref, capacity)


def _keep(known: dict[str, T], name: str, found: T | None) -> None:
    """Keep what is found under this name, or nothing any more (None)."""
    if found is None:
        known.pop(name, None)
    else:
        known[name] = found


def lose_node(book: Book, name: str) -> None:
    """A node is gone: no volume is made for it."""
    for ref in list(book.storage.used_claims()):
        if book.storage.selected(ref) == name:
            _mark(book, ref)


# ---- which pods are concerned


def _mark(book: Book, ref: Ref) -> None:
    book.stale.update(dict.fromkeys(book.storage.pods_of(ref)))


def _mark_users(book: Book, volume: str) -> None:
    """Mark the pods of the claim that a volume belongs to."""
    found = book.storage.volumes.get(volume)
    if found is not None and found.claim is not None:
        _mark(book, found.claim)


def _mark_all(book: Book, *, storage_class: str = "") -> None:
    """Mark the pods with claims: of one storage class, or all."""
    for ref in book.storage.used_claims():
        claim = book.storage.claims.get(ref)
        if not storage_class or (claim is not None and claim.storage_class == storage_class):
            _mark(book, ref)


# ---- what is said of pods


def refresh(book: Book) -> None:
    """Look at the pods again whose claims may mean something else now."""
    while book.stale:
        stale, book.stale = book.stale, {}
        for key in stale:
            if key in book.pods:
                refresh_pod(book, book.pods[key])


def refresh_pod(book: Book, record: PodRecord) -> None:
    """Find out what the claims of a pod mean for it."""
    book.stale.pop(record.key, None)
    if not record.claims or pods.has_ended(record.pod):
        return
    before = record.volumes, record.class_name
    read(book, record)
    if book.is_ours(record) and not record.place:
        book.classify(record)
    if (record.volumes, record.class_name) != before:
        book.touch([record.key])


def read(book: Book, record: PodRecord) -> None:
    """Set what the claims of a pod mean; if it waits for a node that they name, it does so for a limited time."""
    found = book.storage.of_pod(record.key, record.pod)
    if record.place and found.hindrance:  # what is attached stays so
        before, now = record.volumes.amounts, found.amounts
        found = structs.replace(found, amounts={name: max(before.get(name, 0), now.get(name, 0)) for name in {**before, **now}})
    record.set_volumes(found)
    if record.volumes.needs.promised and book.is_ours(record) and not record.place:
        book.provisioning.setdefault(record.key, book.now_s)
    elif not record.place:
        book.provisioning.pop(record.key, None)


# ---- pods that wait for their volumes


def review(book: Book) -> None:
    """Take pods back whose claims do not go with their nodes any more, or have waited too long."""
    refresh(book)
    _expire(book)
    while True:
        refresh(book)
        for key in list(book.dirty_pods):
            if key in book.pods:
                _review_pod(book, book.pods[key])
        if not book.stale:
            return


def _review_pod(book: Book, record: PodRecord) -> None:
    if not _waits(record):
        return
    node, volumes = book.nodes.get(record.node), record.volumes
    selected = {book.storage.selected(ref) for ref in volumes.unbound}
    is_begun = record.key in book.provisioning
    is_in_place = node is not None and not volumes.needs.used and not affinity_refusal(volumes.needs, node.node)
    if volumes.complaint or not is_in_place or (is_begun and selected - {"", record.node}):
        book.withdraw(record)
    elif is_begun and "" in selected:
        _give_up(book, record, "its volumes could not be made there")


def _waits(record: PodRecord) -> bool:
    """True for a pod with claims that is placed, and whose bind has not begun."""
    is_placed = bool(record.node) and not record.pod.spec.node_name
    return is_placed and bool(record.claims) and not (record.is_binding or record.is_bound)


def _give_up(book: Book, record: PodRecord, why: str) -> None:
    book.complain(record, "FailedScheduling", f"node {record.node}: {why}")
    if record.told is None:
        book.unplace(record)
    else:
        book.hand_back(record)
    book.touch([record.key])


def _expire(book: Book) -> None:
    """Volumes that have not been made in time are not wanted there any more."""
    timeout_s = book.configuration.bind_timeout_s
    for key, since_s in list(book.provisioning.items()):
        if book.now_s - since_s < timeout_s:
            return  # they are in the order of their beginning
        del book.provisioning[key]
        record = book.pods[key]
        if record.pod.spec.node_name:
            continue  # somebody else has bound it
        for ref in record.volumes.unbound:
            if not book.storage.place_of(ref, but=key):
                _select(book, ref, "")
        if _waits(record) and not _is_provisioned(record):
            _give_up(book, record, f"its volumes were not made in {timeout_s:.0f} s")


def _is_provisioned(record: PodRecord) -> bool:
    return not (record.volumes.unbound or record.volumes.unseen)


def _select(book: Book, ref: Ref, node: str) -> None:
    if book.storage.selected(ref) == node:
        return
    book.storage.written[ref] = node
    book.effects.append(SelectNode(ref, book.storage.claims[ref].uid, node))
    book.stale.update(dict.fromkeys(book.storage.pods_of(ref)))


def begin(book: Book, record: PodRecord) -> bool:
    """Have the volumes of a placed pod made; returns True if all its claims have theirs, and it can be bound."""
    if _is_provisioned(record):
        book.provisioning.pop(record.key, None)
        return True
    for ref in record.volumes.unbound:
        _select(book, ref, record.node)
    if record.key not in book.provisioning:
        book.provisioning[record.key] = book.now_s
        names = ", ".join(ref.name for ref in record.volumes.unbound)
        note = f"waits on node {record.node} for the volumes of its claims: {names}" if names else record.volumes.unseen
        book.event(record, "WaitingForVolumes", "Binding", note, is_warning=False)
    return False


def nominate(book: Book, record: PodRecord) -> None:
    """Say on a pod that is not bound yet for which node its volumes are made."""
    if record.place and not (record.node and record.key in book.provisioning):
        return
    if record.nominated != record.node:
        record.written_node = record.node
        book.effects.append(Nominate(record.ref, record.pod.metadata.uid, record.node))


def end_select(book: Book, failed: SelectNode, reason: str) -> None:
    """The annotation of a claim could not be written: pods that wait for it are placed elsewhere."""
    storage, ref = book.storage, failed.claim
    if storage.written.get(ref) != failed.node:
        return
    del storage.written[ref]
    for key in list(storage.pods_of(ref)):
        record = book.pods[key]
        book.stale[key] = None
        if failed.node and record.node == failed.node and _waits(record):
            _give_up(book, record, f"claim {ref.name} could not be annotated: {reason}")
