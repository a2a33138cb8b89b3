"""The messages of the daemon, and what follows from them for the book."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec import structs

from ykactor.client import Refusal
from ykactor.kubernetes import applications, claims, outgoing, podgroups, pods
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.messages import BindEnded, BindOutcome, CreateEnded, DeletePod, Event, FailPod, Ref, Tell
from ykactor.kubernetes.outgoing import Thing
from ykactor.kubernetes.records import ApplicationRecord
from ykactor.wire.si import messages as si

#: States of an application in which its gang has all its room, or is over.
_STARTED = ("Starting", "Running", "Resuming")
_ENDED = ("Completed", "Failed", "Rejected", "Expired")

E = TypeVar("E", si.AcceptedApplication, si.MovedApplication, si.RejectedApplication, si.UpdatedApplication)


def hear(book: Book, message: si.Response | Refusal) -> None:
    """Take a message of the daemon."""
    match message:
        case si.AllocationResponse():
            for allocation in message.new:
                _placed(book, allocation)
            for release in message.released:
                _released(book, release)
            for rejected in message.rejected_allocations:
                _rejected(book, rejected)
        case si.ApplicationResponse():
            _applications(book, message)
        case si.PredicatesRequest(checks=checks):
            book.out.answers += [_checked(book, check) for check in checks]
        case si.SchedulingStateResponse(entries=entries):
            for entry in entries:
                _waits(book, entry)
        case si.Ack(id=""):
            _configured(book, "")
        case Refusal(request=si.UpdateConfigurationRequest() as request, answer=answer) if answer.code == "AWAITS_CONFIRMATION":
            _configures_later(book, request, answer.message)
        case Refusal(request=si.UpdateConfigurationRequest(), answer=answer):
            _configured(book, answer.message)
        case si.Ack(id=request_id) | Refusal(answer=si.ErrorResponse(id=request_id)):
            _forgotten(book, request_id)
        case si.NodeResponse(rejected=rejected):
            for node in rejected:
                _node_rejected(book, node)


def _checked(book: Book, check: si.PredicateCheck) -> si.PredicateAnswer:
    node = book.nodes.get(check.node_id)
    return book.classes.answer(check, None if node is None else node.node)


def complaint_about(message: si.Response | Refusal) -> str:
    """The sentence about a request that was refused as a whole; "" if nothing is wrong, or others are told of it."""
    match message:
        case Refusal(request=si.UpdateConfigurationRequest() | si.SetQueueQuotas()):
            return ""
        case Refusal(request=request, answer=answer):
            return f"the daemon has refused an {type(request).__name__}: {answer.code}: {answer.message}"
    return ""


# ---- pods


def _placed(book: Book, allocation: si.Allocation) -> None:
    """The scheduler has placed an ask, perhaps before it heard where the pod is; or it repeats what it was told, perhaps late."""
    if allocation.allocation_key in book.rooms:
        return
    record = book.pods.get(allocation.allocation_key)
    if record is None or record.told is None:
        book.out.releases.append(_release(allocation.application_id, allocation.allocation_key))
        return
    if allocation.node_id in (record.place, record.unconfirmed):
        record.unconfirmed = ""
        return
    if record.place:
        record.told = structs.replace(record.told, node_id=allocation.node_id)
        book.touch([record.key])
        return
    node = book.nodes.get(allocation.node_id)
    if node is None or node.told is None:
        book.withdraw(record)  # the node has gone meanwhile, and for the daemon the ask with it
        return
    record.told = structs.replace(record.told, node_id=allocation.node_id)
    book.touch([record.key])
    claims.refresh_pod(book, record)
    if record.told.allocation_tags.get(outgoing.CLASS_TAG) != record.class_name:
        book.withdraw(record)  # something that was decided meanwhile has a claim of the pod
    elif book.classes.refusal(record.class_name, node.node):
        record.node = allocation.node_id
        book.hand_back(record)  # or it has taken a port, or is too near
    else:
        book.place(record, allocation.node_id)


def _released(book: Book, release: si.AllocationRelease) -> None:
    """The scheduler ends a pod: its release goes back when the pod is gone. What the adapter has ended itself is repeated."""
    room = book.rooms.get(release.allocation_key)
    if room is not None:
        is_lost = release.termination_type == "STOPPED_BY_RM"  # its node has gone
        podgroups.room_ended(book, book.applications[room], release.allocation_key, is_lost=is_lost)
    if release.termination_type == "STOPPED_BY_RM":
        return
    record = book.pods.get(release.allocation_key)
    if record is None or record.told is None:
        book.out.releases.append(_release(release.application_id, release.allocation_key, release.termination_type))
        return
    if record.unconfirmed:
        return  # it has another place since then, as the daemon was told
    record.termination = release.termination_type
    if not record.place and not outgoing.is_placeholder(record.pod):
        book.withdraw(record)  # it was handed back meanwhile, and waits
        return
    book.effects.append(DeletePod(record.ref, record.pod.metadata.uid))
    if release.termination_type == "PREEMPTED_BY_SCHEDULER":
        book.event(record, "Preempted", "Preempting", book.preemptor(release.message))
    elif release.termination_type == "TIMEOUT":
        book.event(record, "GangScheduling", "Releasing", book.readable(release.message))


def _release(application_id: str, key: str, termination_type: str = "STOPPED_BY_RM") -> si.AllocationRelease:
    return si.AllocationRelease(application_id=application_id, allocation_key=key, termination_type=termination_type)


def _rejected(book: Book, rejected: si.RejectedAllocation) -> None:
    """The daemon does not take a pod. If its application has ended meanwhile, it begins anew."""
    record = book.pods.get(rejected.allocation_key)
    if record is None:
        return
    record.told, record.unconfirmed = None, ""
    application = book.application_of(record)
    if rejected.code == "NO_APPLICATION" and application is not None:
        application.is_told = False
        book.touch([record.key])
    else:
        book.explain(record, "SchedulingSkipped", rejected.reason)
        book.complain(record, "FailedScheduling", rejected.reason)


def _waits(book: Book, entry: si.SchedulingStateEntry) -> None:
    """An ask waits: the pod says why."""
    reason = book.readable(entry.reason)
    if entry.allocation_key in book.rooms:
        application = book.applications[book.rooms[entry.allocation_key]]
        podgroups.waits(book, application, reason)
        _gang_waits(book, application)
        return
    record = book.pods.get(entry.allocation_key)
    if record is None or record.told is None or record.place:
        return
    holder = book.application_of(record)
    if holder is not None and record.told.placeholder:
        _gang_waits(book, holder)
    if book.explain(record, "Unschedulable" if entry.state == "FAILED" else "SchedulingSkipped", reason):
        book.complain(record, "FailedScheduling", reason)


def _gang_waits(book: Book, application: ApplicationRecord) -> None:
    """A placeholder waits: the pods that are held back say so."""
    if not application.lacks_room:
        application.lacks_room = True
        book.touch(application.keys)


# ---- applications and nodes


def _applications(book: Book, message: si.ApplicationResponse) -> None:
    for application, accepted in _told(book, message.accepted):
        applications.accepted(book, application, accepted.queue_name)
    for application, moved in _told(book, message.moved):
        application.queue = moved.queue_name
    for application, rejected in _told(book, message.rejected):
        _fail(book, application, "ApplicationRejected", rejected.reason)
        applications.rejected(book, application)
    for application, updated in _told(book, message.updated):
        _updated(book, application, updated)


def _told(book: Book, entries: Iterable[E]) -> Iterator[tuple[ApplicationRecord, E]]:
    """The applications that entries are about, without those that the daemon was told to forget."""
    for entry in entries:
        application = book.applications.get(entry.application_id)
        if application is not None and application.is_told:
            yield application, entry


def _updated(book: Book, application: ApplicationRecord, updated: si.UpdatedApplication) -> None:
    if updated.state in _STARTED and not application.is_started:
        podgroups.start(book, application)
    if updated.state not in _ENDED:
        return
    if updated.state == "Failed":
        _fail(book, application, "ApplicationFailed", updated.message or "its gang could not start in time")
    applications.end(book, application)


def _fail(book: Book, application: ApplicationRecord, reason: str, message: str) -> None:
    """Pods of the application that wait will never run."""
    for key in application.keys:
        record = book.pods[key]
        record.told = record.told if record.place else None
        if record.place or record.is_refused or pods.has_ended(record.pod):
            continue
        record.is_refused = True
        book.complain(record, reason, message)
        book.effects.append(FailPod(record.ref, record.pod.metadata.uid, reason, message))


def _forgotten(book: Book, request_id: str) -> None:
    """The daemon has confirmed that it has forgotten something: it can be told again."""
    for thing, name in book.leaving.confirm(request_id):
        if thing is Thing.NODE:
            book.dirty_nodes[name] = None
        elif thing is Thing.ASK:
            book.touch([name])
        elif name in book.applications:
            book.touch(book.applications[name].keys)


def _node_rejected(book: Book, rejected: si.RejectedNode) -> None:
    record = book.nodes.get(rejected.node_id)
    if record is not None:
        ref, uid = Ref("", rejected.node_id), record.node.metadata.uid
        book.effects.append(Event("Node", ref, uid, "NodeRejected", "Reporting", rejected.reason))


def _configured(book: Book, refusal: str) -> None:
    """The daemon has put a configuration into force, or refuses it and keeps the one before."""
    book.configuration.end_change()
    if refusal:
        _tell_of_configuration(book, "ConfigurationRefused", refusal)
    _touch_waiting(book)


def _touch_waiting(book: Book) -> None:
    """Compare the pods that have waited for a configuration."""
    waiting, book.waiting = book.waiting, {}
    book.touch(waiting)


def _configures_later(book: Book, request: si.UpdateConfigurationRequest, why: str) -> None:
    """Send the queue file again: the daemon then keeps it until another one is confirmed, for a day at most."""
    if text := book.configuration.begin_again(is_late=request.waits_for_confirmation):
        book.effects.append(Tell(si.UpdateConfigurationRequest(config=text)))
        _tell_of_configuration(book, "ConfigurationWaits", why)
    _touch_waiting(book)


def _tell_of_configuration(book: Book, reason: str, note: str) -> None:
    ref = book.configuration.ref(book.configuration.source())
    book.effects.append(Event("ConfigMap", ref, "", reason, "Configuring", note))


# ---- results of effects


def end_bind(book: Book, ended: BindEnded) -> None:
    """A bind has ended; one of a pod that is gone, or was taken off meanwhile, is late."""
    record = book.pods.get(ended.key)
    if record is None or not record.is_binding:
        return
    record.is_binding = False
    book.touch([record.key])
    match ended.outcome:
        case BindOutcome.DONE | BindOutcome.TAKEN if ended.node in ("", record.node):  # perhaps by an earlier attempt
            record.is_bound = True
            note = f"Successfully assigned {record.ref.namespace}/{record.ref.name} to {record.node}"
            book.event(record, "Scheduled", "Binding", note, is_warning=False)
        case BindOutcome.FAILED:
            if record.told is None:  # its node has gone meanwhile
                book.unplace(record)
            else:
                book.hand_back(record)
            book.complain(record, "FailedScheduling", f"binding failed: {ended.reason}")
        case _:
            record.is_gated = True  # until the watch says what became of it
            book.unplace(record)


def end_create(book: Book, ended: CreateEnded) -> None:
    """A placeholder was created, or cannot be: then its gang waits, or is none any more if that will stay so."""
    application = book.applications.get(ended.application_id)
    if application is None or application.gang is None or not ended.reason or application.is_started:
        return
    first, why = book.pods.get(application.first), f"the placeholder {ended.ref.name} could not be created: {ended.reason}"
    if first is not None:
        book.complain(first, "GangScheduling", why)
    if not ended.is_final:
        _gang_waits(book, application)
        return
    is_hard = application.gang.style == "Hard"
    applications.dissolve(book, application)
    if is_hard:
        _fail(book, application, "ApplicationFailed", why)
