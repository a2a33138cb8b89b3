"""Gives each pod of ours its predicate class, and counts the pods that want none like it near them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from ykactor.kubernetes.book import Book
from ykactor.kubernetes.classes import PodClass
from ykactor.kubernetes.constraints import constraints_of
from ykactor.kubernetes.neighbours import NONE, Term, Wishes, wishes_of
from ykactor.kubernetes.records import PodRecord


def classify(book: Book, record: PodRecord) -> None:
    """Count the pod in the class of its constraints, which may be another one than before."""
    topology = book.classes.topology
    wishes = wishes_of(record.pod, topology.namespaces)
    if not book.is_ours(record):  # its own scheduler has placed it; others keep their distance
        _use(book, record, Wishes(far=wishes.far) if record.place else NONE)
        return
    _use(book, record, wishes)
    before, wishes = record.class_name, structs.replace(wishes, unwelcome=topology.unwelcome(record.pod))
    record.class_name = book.classes.add(PodClass(constraints_of(record.pod), wishes, record.volumes.needs))
    if before:
        book.classes.discard(before, book.now_s)


def declassify(book: Book, record: PodRecord) -> None:
    """The pod has ended or is gone: it has no class, and keeps nobody away."""
    _use(book, record, NONE)
    if record.class_name:
        book.classes.discard(record.class_name, book.now_s)
        record.class_name = ""


def _use(book: Book, record: PodRecord, wishes: Wishes) -> None:
    """A pod has these wishes from now on."""
    if wishes.terms_of_its_own() == record.wishes.terms_of_its_own():
        return
    new = book.classes.topology.use(wishes)
    book.classes.topology.disuse(record.wishes)
    record.wishes = wishes
    _reclassify_selected(book, new)


def _reclassify_selected(book: Book, terms: Iterable[Term]) -> None:
    """Pods that wait and are not welcome near others any more are of another class."""
    for term in terms:
        for record in book.pods.values():
            if record.class_name and not record.place and term.selects(record.pod, book.classes.topology.namespaces):
                classify(book, record)
                book.touch([record.key])
