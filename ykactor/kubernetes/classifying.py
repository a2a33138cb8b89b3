"""Gives each pod of ours its predicate class."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from ykactor.kubernetes.book import Book
from ykactor.kubernetes.classes import PodClass
from ykactor.kubernetes.constraints import constraints_of
from ykactor.kubernetes.neighbours import Term, wishes_of
from ykactor.kubernetes.records import PodRecord


def classify(book: Book, record: PodRecord) -> None:
    """Count the pod in the class of its constraints, which may be another one than before."""
    before, topology = record.class_name, book.classes.topology
    wishes = wishes_of(record.pod, topology.namespaces)
    if wishes.terms_of_its_own() != record.wishes.terms_of_its_own():
        new = topology.use(wishes)
        topology.disuse(record.wishes)
        record.wishes = wishes
        _reclassify_selected(book, new)
    unwelcome = topology.unwelcome(record.pod)
    constraints, wishes = constraints_of(record.pod), structs.replace(wishes, unwelcome=unwelcome)
    record.class_name = book.classes.add(PodClass(constraints, wishes, record.volumes.needs))
    if before:
        book.classes.discard(before, book.now_s)


def _reclassify_selected(book: Book, terms: Iterable[Term]) -> None:
    """Pods that wait and are not welcome near others any more are of another class."""
    for term in terms:
        for record in book.pods.values():
            if record.class_name and not record.place and term.selects(record.pod, book.classes.topology.namespaces):
                classify(book, record)
                book.touch([record.key])
