"""Claims and volumes: the consequences for pods and nodes.

A change marks the pods that it may concern, which are looked at before anything is reported.
"""

from __future__ import annotations

from msgspec import structs

from ykactor.kubernetes import nodes, pods
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.capacities import capacity_of
from ykactor.kubernetes.classifying import classify
from ykactor.kubernetes.messages import Dismiss, Kind, Ref
from ykactor.kubernetes.model import Object
from ykactor.kubernetes.records import PodRecord
from ykactor.kubernetes.storagemodel import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from ykactor.kubernetes.volumes import claim_of, class_of, volume_of

#: The kinds that this module is about.
KINDS = frozenset({Kind.STORAGE_CLASSES, Kind.CSI_DRIVERS, Kind.CSI_NODES, Kind.CAPACITIES, Kind.VOLUMES, Kind.CLAIMS})


def take(book: Book, found: Object) -> None:
    """An object is new or has changed.

    Raises:
        QuantityError: a size in it cannot be read.
    """
    storage, name = book.storage, found.metadata.name
    match found:
        case PersistentVolumeClaim():
            claim = claim_of(found)
            if storage.put_claim(claim.ref, claim):
                _mark(book, claim.ref)
        case PersistentVolume():
            volume = volume_of(found)
            if volume != storage.volumes.get(name):
                _mark_users(book, name)
                storage.volumes[name] = volume
                _mark_users(book, name)
        case StorageClass():
            kept = class_of(found)
            if kept != storage.classes.get(name):
                storage.classes[name] = kept
                _mark_all(book, storage_class=name)
        case CSIDriver():
            _track(book, name, is_tracked=found.spec.storage_capacity)
        case CSINode():
            _limit(book, name, found)
        case CSIStorageCapacity():
            book.take_capacity(Ref(found.metadata.namespace, name), capacity_of(found))


def lose(book: Book, kind: Kind, ref: Ref) -> None:
    """An object is gone."""
    storage = book.storage
    match kind:
        case Kind.CLAIMS:
            known = storage.claims.get(ref)
            if known is not None:
                book.effects.append(Dismiss(known.uid))
            storage.put_claim(ref, None)
            _mark(book, ref)
        case Kind.VOLUMES:
            _mark_users(book, ref.name)
            storage.volumes.pop(ref.name, None)
        case Kind.STORAGE_CLASSES:
            storage.classes.pop(ref.name, None)
            _mark_all(book, storage_class=ref.name)
        case Kind.CSI_DRIVERS:
            _track(book, ref.name, is_tracked=False)
        case Kind.CSI_NODES:
            _limit(book, ref.name, None)
        case Kind.CAPACITIES:
            book.take_capacity(ref, None)


def names(book: Book, kind: Kind) -> list[Ref]:
    """The objects of a kind that are known."""
    storage = book.storage
    match kind:
        case Kind.CLAIMS:
            return list(storage.claims)
        case Kind.CSI_NODES:
            return storage.limited_nodes()
        case Kind.CAPACITIES:
            return book.classes.capacities.refs()
        case Kind.VOLUMES:
            return [Ref("", name) for name in storage.volumes]
        case Kind.STORAGE_CLASSES:
            return [Ref("", name) for name in storage.classes]
    return [Ref("", name) for name in storage.tracked]


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


def _track(book: Book, driver: str, *, is_tracked: bool) -> None:
    tracked = book.storage.tracked
    if is_tracked is not (driver in tracked):
        (tracked.add if is_tracked else tracked.discard)(driver)
        _mark_all(book)


def _limit(book: Book, name: str, found: CSINode | None) -> None:
    """A node takes another number of volumes; where a driver is limited at all, all nodes offer some."""
    if book.storage.put_limits(name, found):
        _mark_all(book)
        concerned = list(book.nodes)
    else:
        concerned = [name]
    for each in concerned:
        record = book.nodes.get(each)
        if record is not None:
            offer = nodes.offer_of(record.node, book.storage.offered(each))
            if offer != record.offer:
                record.offer = offer
                book.dirty_nodes[each] = None


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
        classify(book, record)
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
