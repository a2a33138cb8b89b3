"""PodGroups of Kubernetes: gangs whose room is held by asks without pods.

When enough members wait, the daemon is told of an application with a placeholder for each of them. The daemon ends placeholders
when members take their places, and that is confirmed at once, because nothing runs there. The group is an application of its own.
"""

from __future__ import annotations

from msgspec import structs

from ykactor.kubernetes import pods
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.messages import Ref, SetGroupCondition
from ykactor.kubernetes.outgoing import Entry, Thing
from ykactor.kubernetes.quantities import QUANTITY_MAX
from ykactor.kubernetes.records import ApplicationRecord, GroupRecord, PodRecord
from ykactor.wire.si import messages as si

#: The daemon has to end the wait of a gang some time; a PodGroup waits for ever.
TIMEOUT_MS = 100 * 365 * 86_400_000


def review(book: Book) -> None:
    """Look at each PodGroup once of which pods are compared, however many these are."""
    names = {book.pods[key].application: None for key in book.dirty_pods if key in book.pods}
    for name in names:
        application = book.applications.get(name)
        if application is None or application.group is None:
            continue
        if application.is_started:
            _say(book, application.group, "")
        else:
            _review(book, application, application.group)


def _review(book: Book, application: ApplicationRecord, ref: Ref) -> None:
    """Begin a gang of which enough members wait, or say why not; one that runs in part is an ordinary application."""
    if any(book.pods[key].place for key in application.keys):
        start(book, application)
        return
    group = book.pod_groups.get(ref)
    application.hindrance = f"its PodGroup {ref.name} does not exist" if group is None else ""
    if group is None or application.is_told or Entry(Thing.APPLICATION, application.name) in book.leaving:
        return
    members = _members(book, application)
    if len(members) < group.min_count:
        application.hindrance = f"{len(members)} of {group.min_count} pods are there"
        _say(book, ref, application.hindrance)
    elif not book.waits_for_configuration(members[0]):
        _begin(book, application, members[: group.min_count])


def _begin(book: Book, application: ApplicationRecord, members: list[PodRecord]) -> None:
    """Tell the daemon of the application, with a placeholder for each of the members that the group needs."""
    total: dict[str, int] = {}
    for member in members:
        for name, amount in member.size.items():
            total[name] = min(total.get(name, 0) + amount, QUANTITY_MAX)
    first = book.pods[application.first] if application.first in book.pods else members[0]
    new = book.tell_application(application, first, is_forced=False)
    book.out.applications.append(
        structs.replace(new, placeholder_ask=total, execution_timeout_milli_seconds=TIMEOUT_MS, gang_scheduling_style="Soft")
    )
    for member in members:
        _hold_room(book, application, member)


def start(book: Book, application: ApplicationRecord) -> None:
    """All members have room, or some run already: the others are asked for one by one, and the group waits no longer."""
    application.is_started = True
    book.touch(application.keys)
    if application.group is not None:
        _say(book, application.group, "")


def _hold_room(book: Book, application: ApplicationRecord, member: PodRecord) -> None:
    """Ask for room of the size of a member, where it may run."""
    key = f"{member.key}-room"
    asked = book.wanted(member, application)
    book.out.allocations.append(structs.replace(asked, allocation_key=key, placeholder=True, originator=False))
    book.rooms[key] = application.name
    application.rooms[key] = member.key


def room_ended(book: Book, application: ApplicationRecord, key: str, *, is_lost: bool) -> None:
    """A placeholder has ended because a member takes its place; or its node is lost, and it needs room elsewhere."""
    member = application.rooms.pop(key)
    del book.rooms[key]
    if is_lost and not application.is_started:
        _hold_room(book, application, book.pods[member])


def end(book: Book, application: ApplicationRecord) -> None:
    """A member is gone before the gang has started: begin anew when enough are there."""
    if not application.rooms or application.is_started:
        return
    remove(book, application)


def remove(book: Book, application: ApplicationRecord) -> None:
    """Tell the daemon to forget an application, which begins anew when that is confirmed."""
    if application.is_told:
        book.out.removals.append(si.RemoveApplicationRequest(application_id=application.name))
        book.leaving.add(Thing.APPLICATION, application.name)
    forget(book, application)
    for key in application.keys:
        book.pods[key].told, book.pods[key].unconfirmed = None, ""
    book.touch(application.keys)


def forget(book: Book, application: ApplicationRecord) -> None:
    """Forget the placeholders of an application, which the daemon does not know any more."""
    for key in application.rooms:
        del book.rooms[key]
    application.rooms.clear()
    application.is_told = False


def _members(book: Book, application: ApplicationRecord) -> list[PodRecord]:
    """The members that could run, in the order of their creation."""
    found = [book.pods[key] for key in application.keys]
    ready = [each for each in found if not (each.pod.metadata.deletion_timestamp or each.pod.spec.scheduling_gates)]
    ready = [each for each in ready if not (pods.has_ended(each.pod) or each.complaint or each.is_refused)]
    ready = [each for each in ready if each.place or not each.volumes.hindrance]
    return sorted(ready, key=lambda each: (pods.created_s(each.pod), each.key))


def _say(book: Book, ref: Ref, message: str) -> None:
    group = book.pod_groups.get(ref)
    if group is not None:
        group.why = message
        show_why(book, ref, group)


def show_why(book: Book, ref: Ref, group: GroupRecord) -> None:
    """Write the condition of a group that does not say so already."""
    if group.why is not None and group.why != group.shown:
        group.written = group.why
        book.effects.append(SetGroupCondition(ref, group.why))


def waits(book: Book, application: ApplicationRecord, reason: str) -> None:
    """A placeholder of the group waits: say so on the group."""
    if application.group is not None:
        _say(book, application.group, reason)
