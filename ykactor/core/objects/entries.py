"""The entries of ``AllocationRequest.allocations``: new asks, and updates of tasks that are known (AP-105 to AP-116, AP-145)."""

from __future__ import annotations

from msgspec import structs

from ykactor.core.accounting.resource_types import COMMON_TYPES
from ykactor.core.messages.asks import Ask, created_ns, mistake_in, resized, with_policy_of
from ykactor.core.messages.facts import (
    AllocationRejected,
    AllocationResized,
    AskAdded,
    AskResized,
    EndReported,
    Fact,
    PreemptionPolicyChanged,
)
from ykactor.core.messages.rejections import RejectionCode
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.objects import gang
from ykactor.core.objects.application import Application
from ykactor.core.objects.gang import GROUPS_MAX
from ykactor.core.values.ids import AllocationKey

#: Looking up the member of an enum is slow in Python 3.11.
_NEW, _COMPLETING = ApplicationState.NEW, ApplicationState.COMPLETING


def submit(application: Application, now_ns: int, submitted: Ask, arrival_ns: int, arrival: int) -> list[Fact]:
    """Take an entry of ``AllocationRequest.allocations`` (AP-105 to AP-114)."""
    wrong = mistake_in(submitted)
    if wrong is not None:
        return [AllocationRejected(now_ns, submitted.allocation_key, submitted.application_id, wrong.reason, wrong.code)]
    key = submitted.allocation_key
    if key in application.allocations:
        return _update_allocation(application, now_ns, submitted)
    if key in application.asks:
        return _update_ask(application, now_ns, submitted)
    placeholder = application.gang.placeholder_of(key) if application.gang.replacing else None
    if placeholder is not None:
        return _update_replacement(application, now_ns, placeholder, submitted)
    if submitted.placeholder and application.gang.is_full(submitted.task_group_name):
        reason = f"found {GROUPS_MAX} task groups, no room for one more"
        return [AllocationRejected(now_ns, key, submitted.application_id, reason, RejectionCode.LIMIT)]
    created = created_ns(submitted, arrival_ns) if submitted.tags else arrival_ns
    application.changed.tasks += 1
    if not submitted.resource.keys() <= COMMON_TYPES:
        application.books.types.add(submitted.resource)
    since = created if created < now_ns else now_ns
    ask = structs.replace(submitted, created_ns=created, arrival=arrival, since_ns=since)
    application.changed.task(ask)
    if created < application.submission_ns:
        application.submission_ns = created
        application.touch()
    facts = gang.add(application, now_ns, ask) if submitted.placeholder else []
    if submitted.node_id is not None:  # it already runs there (AP-109)
        facts += application.allocate(now_ns, ask, submitted.node_id, recovered=True)
        if submitted.releasing:  # AP-145
            application.gang.released.add(key)
        return facts
    if application.lifecycle.state in (_NEW, _COMPLETING):  # AP-34
        facts += application.move(now_ns, ApplicationEvent.RUN)
    application.asks[key] = ask
    facts.append(AskAdded(now_ns, ask, application.queue))
    return facts


def _update_ask(application: Application, now_ns: int, update: Ask) -> list[Fact]:
    """Update a pending ask: its size (AP-110) or policy (AP-116), or place it where the resource manager did (AP-112)."""
    facts = _resize_ask(application, now_ns, update)
    before = application.asks[update.allocation_key]
    after = with_policy_of(before, update)
    if after is not before:
        application.asks[update.allocation_key] = after
        application.changed.task(after)
        facts.append(PreemptionPolicyChanged(now_ns, before, after, application.queue, None))
    if update.node_id is not None:
        facts += application.allocate(now_ns, after, update.node_id, recovered=True)
        facts += _note_end(application, now_ns, update)
    return facts


def _update_replacement(application: Application, now_ns: int, placeholder: AllocationKey, update: Ask) -> list[Fact]:
    """Update a real ask that waits for its placeholder to end."""
    if update.node_id is None:
        return gang.update_replacement(application, now_ns, placeholder, update)
    before, _ = application.gang.replacing[placeholder]
    application.account.count_wait(now_ns, before)
    application.books.types.replace(before.resource, update.resource)
    real = with_policy_of(resized(before, update.resource), update)
    facts = gang.withdraw(application, now_ns, placeholder)
    facts += application.allocate(now_ns, real, update.node_id, recovered=True)
    return facts + _note_end(application, now_ns, update)


def _resize_ask(application: Application, now_ns: int, update: Ask) -> list[Fact]:
    before = application.asks[update.allocation_key]
    if update.resource == before.resource:
        return []  # AP-114
    after = resized(before, update.resource)
    application.account.count_wait(now_ns, before)
    application.account.sized_ns[update.allocation_key] = now_ns
    application.asks[update.allocation_key] = after
    application.books.types.replace(before.resource, update.resource)
    application.changed.task(after)
    return [AskResized(now_ns, before, after, application.queue)]


def _update_allocation(application: Application, now_ns: int, update: Ask) -> list[Fact]:
    """Update a running allocation: its size (AP-111) or policy (AP-116), or note that it is ending already (AP-145)."""
    facts = _resize_allocation(application, now_ns, update)
    before, node_id = application.allocations[update.allocation_key]
    after = with_policy_of(before, update)
    if after is not before:
        application.allocations[update.allocation_key] = after, node_id
        application.changed.task(after)
        facts.append(PreemptionPolicyChanged(now_ns, before, after, application.queue, node_id))
    return facts + _note_end(application, now_ns, update)


def _note_end(application: Application, now_ns: int, update: Ask) -> list[Fact]:
    """Note that a known allocation is ending already, if its entry says so (AP-145)."""
    if not update.releasing or update.allocation_key in application.gang.released:
        return []
    ask, node_id = application.allocations[update.allocation_key]
    application.gang.released.add(update.allocation_key)
    application.changed.task(ask)
    return [EndReported(now_ns, ask, application.queue, node_id)]


def _resize_allocation(application: Application, now_ns: int, update: Ask) -> list[Fact]:
    before, node_id = application.allocations[update.allocation_key]
    if update.resource == before.resource:
        return []  # AP-113, AP-114
    after = resized(before, update.resource)
    application.account.count_resize(now_ns, before, after, node_id, application.began_ns[update.allocation_key])
    application.allocations[update.allocation_key] = after, node_id
    application.books.types.replace(before.resource, update.resource)
    application.changed.task(after)
    if before.placeholder:
        application.gang.resize(before.resource, update.resource)
        application.touch()
    return [AllocationResized(now_ns, before, after, application.queue, node_id)]
