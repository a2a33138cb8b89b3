"""Tells the daemon what is different from what it was told, and binds what it has placed.

There is one way for first reports, changes, repetitions and all that was missed: what the daemon should know of each pod and node
is compared with what it was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ykactor.kubernetes import claims, gangs, nodes, outgoing, podgroups, pods
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.messages import Bind, CreatePlaceholder, DeletePod, Ref, Tell
from ykactor.kubernetes.model import Node
from ykactor.kubernetes.outgoing import Entry, Outgoing, Thing
from ykactor.kubernetes.records import ApplicationRecord, NodeRecord, PodRecord
from ykactor.wire.si import messages as si


def report(book: Book) -> None:
    """Add what is to be told, in the order in which the daemon needs it, before all other effects."""
    if book.configuration.begin_change():
        book.effects.append(Tell(si.UpdateConfigurationRequest(config=book.configuration.text(), waits_for_confirmation=False)))
    _report_nodes(book)
    claims.review(book)
    podgroups.review(book)
    book.out.forgotten += book.classes.forget_idle(book.now_s)
    if book.classes.has_new:
        _report_answers(book)
    dirty, book.dirty_pods = book.dirty_pods, {}
    records = [book.pods[key] for key in dirty if key in book.pods]
    records.sort(key=lambda record: (not record.place, pods.created_s(record.pod), record.key))
    orphans = _orphans(book, records)
    for record in records:
        if record.place or record not in orphans:
            _report_pod(book, record)
    for record in records:
        _begin_bind(book, record)
        if record.claims and book.is_ours(record) and not pods.has_ended(record.pod):
            claims.nominate(book, record)
    book.effects += [DeletePod(each.ref, each.pod.metadata.uid) for each in orphans if not each.pod.metadata.deletion_timestamp]
    out, book.out = book.out, Outgoing()
    book.effects[:0] = out.requests(book.leaving.seal())
    book.effects += book.complaints.take_untold()


def _report_nodes(book: Book) -> None:
    dirty, book.dirty_nodes = book.dirty_nodes, {}
    for name in dirty:
        record = book.nodes.get(name)
        if record is None or Entry(Thing.NODE, name) in book.leaving:
            continue  # one that is leaving is compared again when that is confirmed
        before, record.told = record.told, record.offer
        if before is None:
            book.out.nodes.append(nodes.created(name, record.offer))
            book.out.capacities.append(nodes.filled(name, record.offer))
            if record.offer.is_open:
                book.out.openings.append(nodes.opening(name, is_open=True))
            book.touch(pod.key for pod in book.pods_on(name))
        else:
            book.out.nodes += nodes.changes(name, before, record.offer)
            if book.classes.is_sparse(len(book.nodes)):  # what a class may not use any more is not told
                book.out.forgotten.append(si.PredicateScope(node_id=name))
        book.out.answers += book.classes.about_node(record.node, len(book.nodes))


def _report_answers(book: Book) -> None:
    """Tell about classes that are new, and about those for which pods have come or gone."""
    told = _Told(book.nodes)
    book.out.answers += book.classes.about_new_classes(told)
    book.out.answers += book.classes.about_terms(told)


class _Told(Mapping[str, Node]):
    """The nodes that the daemon knows."""

    def __init__(self, records: Mapping[str, NodeRecord]) -> None:
        self._records = records

    def __getitem__(self, name: str) -> Node:
        record = self._records[name]
        if record.told is None:
            raise KeyError(name)
        return record.node

    def __iter__(self) -> Iterator[str]:
        return (name for name, record in self._records.items() if record.told is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


# ---- pods


def _report_pod(book: Book, record: PodRecord) -> None:
    wanted, told = _wanted(book, record), record.told
    if wanted is None:
        book.release(record)
        _explain(book, record)
        return
    if told is not None and _is_another(told, wanted):
        book.release(record)
        told = None
        if not wanted.node_id:
            return  # it is asked for again when the release is confirmed
    if told is None or outgoing.is_news(told, wanted):
        book.out.allocations.append(wanted)
        if wanted.application_id and (told is None or not told.node_id):
            record.unconfirmed = wanted.node_id
        record.told = wanted


def _is_another(told: si.Allocation, wanted: si.Allocation) -> bool:
    """True if the daemon has to take it for another one: it runs elsewhere, or waits with other constraints (AP-113, AP-116)."""
    if told.node_id:
        return told.node_id != wanted.node_id
    return not wanted.node_id and told.allocation_tags != wanted.allocation_tags


def _wanted(book: Book, record: PodRecord) -> si.Allocation | None:
    """The entry that the daemon should have of a pod; None for nothing."""
    if pods.has_ended(record.pod):
        return None
    if record.complaint or (not record.place and record.volumes.hindrance):
        return None
    node = book.nodes.get(record.place)
    if record.place and (node is None or node.told is None):
        return None  # it is told when its node is
    if not book.is_ours(record):
        return outgoing.foreign(record) if record.place else None
    application = book.application_of(record)
    if application is None or record.is_refused:
        return None
    if Entry(Thing.APPLICATION, application.name) in book.leaving:
        return None
    if not record.place and _is_held_back(book, record, application):
        return None
    if not application.is_told and not _report_application(book, record, application):
        return None
    return book.wanted(record, application)


def _is_held_back(book: Book, record: PodRecord, application: ApplicationRecord) -> bool:
    """True if a waiting pod is not asked for yet."""
    if _is_left_alone(record):
        return True
    if Entry(Thing.ASK, record.key) in book.leaving:
        return True
    if application.is_started or outgoing.is_placeholder(record.pod):
        return False
    if application.gang is None:
        return application.group is not None
    _make_placeholders(book, application)
    return True


def _is_left_alone(record: PodRecord) -> bool:
    """True for a waiting pod that others do not let run: it is being deleted, or has gates."""
    return bool(record.pod.metadata.deletion_timestamp or record.pod.spec.scheduling_gates or record.is_gated)


def _explain(book: Book, record: PodRecord) -> None:
    """A pod of ours that is not asked for says why, if its users may not know that."""
    application = book.application_of(record)
    if application is None or record.place or pods.has_ended(record.pod) or record.is_refused or _is_left_alone(record):
        return
    hindrance = record.volumes.hindrance
    why = record.complaint or hindrance or _why_held_back(record, application)
    if not why or not book.explain(record, "SchedulingSkipped", why) or record.complaint:
        return
    if hindrance:
        book.complain(record, "FailedScheduling", hindrance)
    else:
        book.event(record, "GangScheduling", "Waiting", why, is_warning=False)


def _why_held_back(record: PodRecord, application: ApplicationRecord) -> str:
    """The reason why a gang has not started; "" if it may start at any moment."""
    if application.is_started or outgoing.is_placeholder(record.pod):
        return ""
    if application.hindrance or not application.lacks_room:
        return application.hindrance
    group = application.group
    return f"waits until all members of its {f'gang {application.name}' if group is None else f'PodGroup {group.name}'} have room"


def _report_application(book: Book, record: PodRecord, application: ApplicationRecord) -> bool:
    """Tell the daemon of an application before its first pod; False while a configuration is on its way."""
    if book.waits_for_configuration(record):
        return False
    first = book.pods.get(application.first, record)
    running = [each for each in map(book.pods.__getitem__, application.keys) if each.place and not pods.has_ended(each.pod)]
    if running and not application.is_started and not _holds_room(book, application):
        podgroups.start(book, application)
    book.out.applications.append(book.tell_application(application, first, is_forced=bool(running)))
    return True


def _begin_bind(book: Book, record: PodRecord) -> None:
    """Bind a pod where the scheduler has placed it."""
    if not record.node or record.told is None or record.pod.spec.node_name or record.is_binding or record.is_bound:
        return
    if record.claims and not claims.begin(book, record):
        return
    record.is_binding = True
    book.effects.append(Bind(record.key, record.ref, record.pod.metadata.uid, record.node))


# ---- gangs


def _holds_room(book: Book, application: ApplicationRecord) -> bool:
    """True if the application has placeholders."""
    return any(outgoing.is_placeholder(book.pods[key].pod) for key in application.keys)


def _orphans(book: Book, records: list[PodRecord]) -> dict[PodRecord, None]:
    """The placeholders whose applications have no other pods, which went while no process led, or are no gangs any more."""
    holders = [record for record in records if outgoing.is_placeholder(record.pod)]
    named = {record.application: book.applications.get(record.application) for record in holders}
    left = {name for name, application in named.items() if application is not None and _needs_no_room(book, application)}
    return {record: None for record in holders if record.application in left}


def _needs_no_room(book: Book, application: ApplicationRecord) -> bool:
    """True if it is no gang any more, or only placeholders are there."""
    if application.placeholders_made and application.gang is None:
        return True
    return all(outgoing.is_placeholder(book.pods[key].pod) for key in application.keys)


def _make_placeholders(book: Book, application: ApplicationRecord) -> None:
    """Create the placeholders that are missing, once. A gang of which a pod runs has started before, and gets none again."""
    first, gang = book.pods.get(application.first), application.gang
    if application.placeholders_made or first is None or gang is None:
        return
    application.placeholders_made = True
    if any(book.pods[key].place and not outgoing.is_placeholder(book.pods[key].pod) for key in application.keys):
        return
    for placeholder in gangs.placeholders(first.pod, application.name, gang):
        ref = Ref(first.ref.namespace, placeholder.name)
        if ref not in book.keys:
            body = gangs.placeholder_pod(first.pod, placeholder, book.configuration.settings)
            book.effects.append(CreatePlaceholder(application.name, ref, body))
