"""Validates the limits of users and groups: E07 to E20 within one queue, E40 to E47 along a path of queues."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from ykactor.core.values.names import GROUP_NAME_RULE, USER_NAME_RULE, is_group_name, is_user_name
from ykactor.core.values.quantities import shown
from ykactor.core.values.resources import Resource
from ykactor.wire.queuefile import resource_rules
from ykactor.wire.queuefile.places import find, note
from ykactor.wire.queuefile.resource_rules import Ceiling, over
from ykactor.wire.queuefile.schema import LimitText, QueueText
from ykactor.wire.queuefile.text import Mistakes

#: Each user that is not named; or all groups that are not named, together.
STAR = "*"


class _Kind(Struct, frozen=True):
    """The differences between the rules for users and for groups."""

    #: The key: ``users`` or ``groups``.
    key: str
    noun: str
    is_name: Callable[[str], bool]
    name_rule: str
    #: Codes: not a valid name, a name twice, a name after the star.
    illegal: str
    twice: str
    after_star: str
    #: Codes: more resources than the limit of the same name above, or of the star above; the same for applications.
    resources: str
    star_resources: str
    applications: str
    star_applications: str

    def names(self, limit: LimitText) -> list[str]:
        return limit.users if self.key == "users" else limit.groups


_USERS = _Kind("users", "user", is_user_name, USER_NAME_RULE, "E08", "E09", "E10", "E40", "E41", "E44", "E45")
_GROUPS = _Kind("groups", "group", is_group_name, GROUP_NAME_RULE, "E11", "E12", "E13", "E42", "E43", "E46", "E47")
_KINDS = (_USERS, _GROUPS)


# ---- within one queue


def check_queue(queue: QueueText, mistakes: Mistakes) -> None:
    """E07 to E20."""
    own_max: Resource = {}
    if queue.limits and not queue.is_root and queue.resources:
        own_max = resource_rules.read(mistakes, "E19", queue.resources, ("max",), queue.resources.max)
    #: By kind and name: the first limit with this name.
    named: dict[str, dict[str, LimitText]] = {"users": {}, "groups": {}}
    for limit in queue.limits:
        if not limit.users and not limit.groups and not limit.unread & {"users", "groups"}:
            note(mistakes, "E07", limit, ("users",), "found neither users nor groups, expected at least one of them")
        for kind in _KINDS:
            for index, name in enumerate(kind.names(limit)):
                if problem := _name_problem(kind, name, named[kind.key]):
                    note(mistakes, problem[0], limit, (kind.key, index), problem[1])
                named[kind.key].setdefault(name, limit)
        _check_amounts(queue, limit, own_max, mistakes)


def _name_problem(kind: _Kind, name: str, named: dict[str, LimitText]) -> tuple[str, str] | None:
    """Code and message if ``name`` is wrong after the names in ``named``."""
    if name != STAR and not kind.is_name(name):
        return kind.illegal, f'found {shown(name)}, expected "*" or a {kind.noun} name: {kind.name_rule}'
    if name in named:
        line = find(named[name].place.node, kind.key).line
        return kind.twice, f"found the {kind.noun} {name} a second time in this queue, the first is in line {line}"
    if name != STAR and STAR in named:
        text = f'found the {kind.noun} {name} after "*", put "*" last: it stands for every {kind.noun} without a limit before it'
        return kind.after_star, text
    if name == STAR and kind is _GROUPS and not named:
        return "E14", 'found the group "*" without a named group before it, name a group first, or use the user "*" for everybody'
    return None


def _check_amounts(queue: QueueText, limit: LimitText, own_max: Resource, mistakes: Mistakes) -> None:
    """E15 to E18 and E20."""
    resource = resource_rules.read(mistakes, "E15", limit, ("maxresources",), limit.max_resources)
    if len(resource) == len(limit.max_resources) and resource and not any(resource.values()):
        text = "found zeros only, expected at least one quantity above 0"
        note(mistakes, "E16", limit, ("maxresources",), text)
    if not limit.max_applications and not limit.max_resources and "maxapplications" not in limit.unread:
        text = "found a limit without amounts, expected maxresources, or maxapplications above 0"
        note(mistakes, "E17", limit, ("maxresources",), text)
    if 0 < queue.max_applications < limit.max_applications:
        text = f"found {limit.max_applications}, expected at most {queue.max_applications}, the maxapplications of {queue.path}"
        note(mistakes, "E18", limit, ("maxapplications",), text)
    for name, quantity in resource.items():
        if name in own_max and quantity > own_max[name]:
            text = f"{over(name, quantity, own_max[name])}, the max of {queue.path}"
            note(mistakes, "E20", limit, ("maxresources", name), text)


# ---- along a path


class _Allowance(Struct, frozen=True):
    """The most that the limits of the queues above allow one user or group."""

    resources: Ceiling = {}
    #: The number of running applications (0: not limited), and the queue whose limit this is.
    applications: tuple[int, str] = (0, "")


#: Of users or of groups, by name.
_Allowances = dict[str, _Allowance]
_NOTHING_LIMITED = _Allowance()


def check_path(queue: QueueText, mistakes: Mistakes, above: tuple[_Allowances, _Allowances] = ({}, {})) -> None:
    """E40 to E47 of this queue and below: a limit may not allow more than the limits of the queues above.

    Args:
        above: what the queues above allow users and groups.
    """
    if queue.limits:
        users, groups = (_check_against(queue, kind, allowed, mistakes) for kind, allowed in zip(_KINDS, above, strict=True))
        above = users, groups
    for child in queue.queues:
        check_path(child, mistakes, above)


def _check_against(queue: QueueText, kind: _Kind, above: _Allowances, mistakes: Mistakes) -> _Allowances:
    """The rules for each user, or each group; returns what the queues below may allow."""
    below = dict(above)
    for limit in queue.limits:
        # Quantities that cannot be parsed have been reported before (E15).
        resource = resource_rules.read(Mistakes(""), "E15", limit, ("maxresources",), limit.max_resources)
        for name in kind.names(limit):
            for code, keys, text in _objections(kind, name, limit, resource, above):
                note(mistakes, code, limit, keys, text)
            allowed = above.get(name, above.get(STAR, _NOTHING_LIMITED))
            below[name] = _narrowed(allowed, resource, limit.max_applications, queue.path)
    return below


def _objections(
    kind: _Kind, name: str, limit: LimitText, resource: Resource, above: _Allowances
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Code, keys and message for every amount of ``limit`` that is more than the queues above allow ``name``."""
    if name != STAR and name in above:
        allowed, holder = above[name], f"{kind.noun} {name}"
        resources_code, applications_code = kind.resources, kind.applications
    else:
        allowed, holder = above.get(STAR, _NOTHING_LIMITED), f"{kind.noun} {STAR}"
        resources_code, applications_code = kind.star_resources, kind.star_applications
    for type_, quantity in resource.items():
        at_most, path = allowed.resources.get(type_, (quantity, ""))
        if quantity > at_most:
            text = over(type_, quantity, at_most, f" for {kind.noun} {name}")
            yield resources_code, ("maxresources", type_), f"{text}, the limit of {holder} in {path}"
    at_most, path = allowed.applications
    if at_most and not 0 < limit.max_applications <= at_most:
        text = f"found {limit.max_applications or 'no limit (0)'} for {kind.noun} {name}, expected 1 to {at_most}"
        yield applications_code, ("maxapplications",), f"{text}, the limit of {holder} in {path}"


def _narrowed(allowed: _Allowance, resource: Resource, applications: int, path: str) -> _Allowance:
    """What a limit in the queue ``path`` and the queues above allow together: the smaller of each amount."""
    resources = dict(allowed.resources)
    for name, quantity in resource.items():
        if name not in resources or quantity < resources[name][0]:
            resources[name] = quantity, path
    is_smaller = applications > 0 and not 0 < allowed.applications[0] <= applications
    return _Allowance(resources, (applications, path) if is_smaller else allowed.applications)
