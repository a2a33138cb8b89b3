"""Applications: which pods they have, what the first of these says about them, and the quotas of their queues."""

from __future__ import annotations

from ykactor.kubernetes import gangs, outgoing, podgroups, pods
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.gangs import Gang
from ykactor.kubernetes.messages import Dismiss, Ref
from ykactor.kubernetes.records import ApplicationRecord, PodRecord
from ykactor.wire.si import messages as si


def join(book: Book, record: PodRecord) -> None:
    """The application of a pod is what it says first; another one later changes nothing."""
    found = pods.application_of(record.pod)
    for complaint in (found.complaint, pods.queue_of(record.pod).complaint, pods.user_of(record.pod)[1]):
        if complaint:
            record.remarks.append(("WrongAnnotation", complaint))
    wishes = ", ".join(pods.unmet_wishes(record.pod))
    if wishes:
        record.remarks.append(("NotSupported", f"the pod runs without: {wishes}"))
    application = book.applications.get(found.name)
    if application is None:
        application = ApplicationRecord(found.name, record.key, record.ref.namespace, pods.group_of(record.pod))
        book.applications.add(application)
        _define_gang(application, record)
    application.keys[record.key] = None
    record.application = found.name
    reason = outgoing.group_complaint(record, application)
    if reason:
        record.remarks.append(("GangScheduling", f"{reason}: the pod runs without a gang"))


def leave(book: Book, record: PodRecord) -> None:
    """A pod is gone. A gang that has not started belongs to the next pod, as the placeholders of the first one go with it."""
    application = book.application_of(record)
    if application is None or record.key not in application.keys:
        return  # it was of an application of this name that has ended
    del application.keys[record.key]
    podgroups.end(book, application)
    if application.first == record.key and application.placeholders_made and application.gang is not None:
        _dismiss_placeholders(book, application, record, application.gang)
    if not application.keys:
        if not application.is_told:
            book.applications.discard(application)
    elif application.first == record.key and not application.is_started:
        _begin_anew(book, application)


def end(book: Book, application: ApplicationRecord) -> None:
    """The daemon has ended an application: pods that are left, or come later, begin it anew."""
    podgroups.forget(book, application)
    application.keys = {key: None for key in application.keys if _may_run(book.pods[key])}
    if application.keys:
        _begin_anew(book, application)
    else:
        book.applications.discard(application)


def rejected(book: Book, application: ApplicationRecord) -> None:
    """The daemon does not take an application: its pods have failed, and one that comes later begins it anew."""
    podgroups.forget(book, application)
    if not any(_may_run(book.pods[key]) for key in application.keys):
        book.applications.discard(application)


def dissolve(book: Book, application: ApplicationRecord) -> None:
    """A gang cannot have its placeholders: they are not made any more, and its pods run one by one."""
    first, gang, application.gang = book.pods.get(application.first), application.gang, None
    if first is not None and gang is not None:
        _dismiss_placeholders(book, application, first, gang)
    podgroups.remove(book, application)


def _dismiss_placeholders(book: Book, application: ApplicationRecord, first: PodRecord, gang: Gang) -> None:
    there = gangs.placeholders(first.pod, application.name, gang)
    book.effects += [Dismiss(Ref(first.ref.namespace, each.name)) for each in there]


def _may_run(record: PodRecord) -> bool:
    return not pods.has_ended(record.pod) and not (record.is_refused and not record.place)


def _begin_anew(book: Book, application: ApplicationRecord) -> None:
    """The oldest pod that is left says what the application is."""
    left = [book.pods[key] for key in application.keys]
    first = min(left, key=lambda each: (outgoing.is_placeholder(each.pod), each.pod.metadata.creation_timestamp or "", each.key))
    application.first = first.key
    application.is_started = application.placeholders_made = application.lacks_room = False
    _define_gang(application, first)
    book.touch(application.keys)


def _define_gang(application: ApplicationRecord, record: PodRecord) -> None:
    """The first pod says whether the application is a gang; a placeholder repeats what that one has said."""
    annotations = record.pod.metadata.annotations
    application.gang = None
    if application.group is not None:
        return
    if outgoing.is_placeholder(record.pod):
        application.gang = gangs.gang_from(annotations.get(gangs.DEFINITION, ""))
        return
    try:
        application.gang = gangs.gang_of(annotations)
    except gangs.GangError as error:
        record.remarks.append(("GangScheduling", f"{error}: the pod runs without a gang"))


# ---- quotas


def tell_quotas(book: Book, namespace: str) -> None:
    """Quotas of a namespace have changed: tell them for the queues of its applications."""
    tags, queues = book.policies.quotas(namespace).tags, set[str]()
    for application in book.applications.of(namespace):
        if application.is_told and application.queue:
            application.quotas = tags
            queues.add(application.queue)
    book.out.quotas += [si.SetQueueQuotas(queue_name=queue, tags=tags) for queue in sorted(queues)]


def accepted(book: Book, application: ApplicationRecord, queue: str) -> None:
    """An application has its queue. Quotas that have changed since the daemon was told of it are told now."""
    application.queue = queue
    tags = book.policies.quotas(application.namespace).tags
    if application.quotas != tags:
        application.quotas = tags
        book.out.quotas.append(si.SetQueueQuotas(queue_name=queue, tags=tags))
