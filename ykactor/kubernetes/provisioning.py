"""Pods that are placed and wait for their volumes: these are made for their node, or the pod is handed back."""

from __future__ import annotations

from ykactor.kubernetes import claims
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.messages import Nominate, Ref, SelectNode
from ykactor.kubernetes.records import PodRecord
from ykactor.kubernetes.volumes import affinity_refusal


def review(book: Book) -> None:
    """Take pods back whose claims do not go with their nodes any more, or have waited too long."""
    claims.refresh(book)
    _expire(book)
    while True:
        claims.refresh(book)
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
