"""Limit tracking: the limits that an application counts against, from its first ask until it leaves (QU-64 to QU-78)."""

from __future__ import annotations

from ykactor.core.config.access import Principal, PrincipalKind
from ykactor.core.messages.facts import ChargedTo, Fact, GroupLinkChanged, LimitChanged, UsageChanged
from ykactor.core.messages.kinds import Change
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import GroupChoice, choose_group, keep_group, still_holds
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.resources import Resource, saturated


def enrol(state: SchedulerState, at_ns: int, application: PendingApplication) -> list[Fact]:
    """Count the application against its limits, from its first ask or allocation on (QU-70). Returns the facts about it."""
    if not (application.asks or application.allocated):
        return []
    leaf, limits_up = application.leaf, application.leaf.limits_up()
    if not limits_up:
        application.track(())
        return []
    application.choose(choose_group(limits_up, application.who))
    facts = _link_changed(at_ns, application, application.group, Change.SET)
    facts += usage_changed(at_ns, ChargedTo("", application.charged_to.group), leaf, Change.ADD, application.allocated)
    facts += _first_sights(state, at_ns, application)
    _hold_trackers(state, application)
    return facts


def leave(state: SchedulerState, at_ns: int, application: PendingApplication) -> list[Fact]:
    """Stop counting the application against limits."""
    facts = _link_changed(at_ns, application, application.group, Change.REMOVE)
    if application.counted_as_running:
        application.uncount()
    state.trackers.untrack(application.trackers)
    return facts


def move(state: SchedulerState, at_ns: int, application: PendingApplication, old: QueueUsage) -> list[Fact]:
    """Count an application that has moved from the leaf ``old`` against the limits of the new path."""
    leaf = application.leaf
    facts = usage_changed(at_ns, application.charged_to, old, Change.REMOVE, application.allocated)
    if application.enrolled:
        state.trackers.untrack(application.trackers)
        application.untrack()
        facts += _change_group(at_ns, application, keep_group(leaf.limits_up(), application.who, application.group))
        facts += _first_sights(state, at_ns, application)
        _hold_trackers(state, application)
    return facts + usage_changed(at_ns, application.charged_to, leaf, Change.ADD, application.allocated)


def renew(state: SchedulerState, at_ns: int, application: PendingApplication) -> list[Fact]:
    """Count what runs against changed limits; the group stays while its queue limits it (QU-76, QU-77)."""
    facts: list[Fact] = []
    if application.enrolled:
        if application.group is not None and not still_holds(application.leaf.limits_up(), application.group):
            facts += _choose_anew(at_ns, application)
        _hold_trackers(state, application)
    return facts


def wake(state: SchedulerState, at_ns: int, application: PendingApplication) -> list[Fact]:
    """Choose the group, like a new one, for an application that had nothing left and has an ask or allocation again (QU-70)."""
    facts = _choose_anew(at_ns, application)
    if facts:
        state.trackers.untrack(application.trackers)
        application.untrack()
        _hold_trackers(state, application)
    return facts


def _choose_anew(at_ns: int, application: PendingApplication) -> list[Fact]:
    """Choose the group again; what runs counts against the new one (QU-77). No facts if it is the same group."""
    before, leaf = application.charged_to.group, application.leaf
    facts = _change_group(at_ns, application, choose_group(leaf.limits_up(), application.who))
    after = application.charged_to.group
    if after != before:
        facts += usage_changed(at_ns, ChargedTo("", before), leaf, Change.REMOVE, application.allocated)
        facts += usage_changed(at_ns, ChargedTo("", after), leaf, Change.ADD, application.allocated)
    return facts


def usage_changed(at_ns: int, charged_to: ChargedTo, leaf: QueueUsage, change: Change, resource: Resource) -> list[Fact]:
    """The fact that a user and its group use more or less; none where no user or group is charged."""
    if resource and (charged_to.user or charged_to.group):
        return [UsageChanged(at_ns, charged_to, leaf.path, change, saturated(resource))]
    return []


def _change_group(at_ns: int, application: PendingApplication, group: GroupChoice | None) -> list[Fact]:
    """Count the application against this group from now on, which may be the same as before."""
    before = application.group
    if group == before:
        return []
    application.choose(group)
    if (before and before.group) == (group and group.group):
        return []
    return _link_changed(at_ns, application, before, Change.REMOVE) + _link_changed(at_ns, application, group, Change.SET)


def _link_changed(at_ns: int, application: PendingApplication, group: GroupChoice | None, change: Change) -> list[Fact]:
    if group is None:
        return []
    return [GroupLinkChanged(at_ns, application.application_id, application.leaf.path, group.group, change)]


def _first_sights(state: SchedulerState, at_ns: int, application: PendingApplication) -> list[Fact]:
    user = application.who.user
    paths = state.trackers.first_sights(application.leaf.limits_up(), user)
    return [LimitChanged(at_ns, path, Principal(PrincipalKind.USER, user), Change.SET) for path in paths]


def _hold_trackers(state: SchedulerState, application: PendingApplication) -> None:
    application.track(state.trackers.track(application.leaf.limits_up(), application.who, application.group))
