"""The validation rules of the queue file, in the order in which mistakes are reported (CF-74).

``check`` takes normalised partitions and adds mistakes. The rules for placement have a module of their own.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from ykactor.core.config.model import AccessList
from ykactor.core.config.properties import WALLTIME_DEFAULT, WALLTIME_MAX
from ykactor.core.messages.submissions import TYPES_MAX
from ykactor.core.placement.rules import RECOVERY_NAME
from ykactor.core.values.names import GROUP_NAME_RULE, USER_NAME_RULE, is_group_name, is_user_name
from ykactor.core.values.quantities import (
    QuantityError,
    duration_text,
    is_queue_name,
    parse_duration,
    parse_quantity,
    quantity_text,
    shown,
)
from ykactor.core.values.resources import Resource
from ykactor.wire.queuefile import placement_rules
from ykactor.wire.queuefile.fields import Key, Text, find, note
from ykactor.wire.queuefile.schema import NODE_SORT_TYPES, RESOLVERS, LimitText, PartitionText, Quantities, QueueText
from ykactor.wire.queuefile.text import Mistakes

#: More than any file needs, and small enough that a weighted sum of floats cannot overflow.
WEIGHT_MAX = 1e100
#: Properties of a queue or a template: all queues below inherit them.
PROPERTIES_MAX = 64


def check(partitions: list[PartitionText], mistakes: Mistakes) -> None:
    """Add a mistake for every broken rule."""
    first_of_name: dict[str, PartitionText] = {}
    for partition in partitions:
        root = partition.root
        _check_structure(partition, first_of_name, mistakes)
        if root is not None:
            _check_queue(root, mistakes)
            _check_resources(root, {}, mistakes)
            _check_walltimes(root, None, mistakes)
        placement_rules.check(partition, mistakes)
        _check_node_sort(partition, mistakes)
        _check_resolver(partition, mistakes)
        if root is not None:
            _check_max_applications(root, mistakes)
            _check_limits_on_path(root, mistakes)
            _check_types(partition, root, mistakes)


def _check_structure(partition: PartitionText, first_of_name: dict[str, PartitionText], mistakes: Mistakes) -> None:
    """E01 to E03 and E05."""
    first = first_of_name.setdefault(partition.name.lower(), partition)
    if first is not partition:
        place = first.place
        text = f"found a second partition {shown(partition.name)}, the first is {place.path} in line {place.node.line}"
        note(mistakes, "E01", partition, ("name",), text)
    root = partition.root
    if root is None:
        note(mistakes, "E02", partition, ("queues",), "found no queues, expected a list (which may be empty)")
        return
    if root.resources is not None:
        for kind, written in (("guaranteed", root.resources.guaranteed), ("max", root.resources.max)):
            if written is not None:
                text = f"root queue must not have resource limits set, found {kind}"
                note(mistakes, "E03", root.resources, (kind,), text)
        root.resources = None  # reported once, and not compared with the queues below
    if partition.limits and partition.limits != root.limits:
        text = f"found limits that differ from those of {root.place.path}, expected limits in one place, or the same in both"
        note(mistakes, "E05", partition, ("limits",), text)


def _check_queue(queue: QueueText, mistakes: Mistakes) -> None:
    """E06 to E20 of this queue and E21, E22 and CF-28 of its children, then the same for each child."""
    for key, acl in (("adminacl", queue.admin_acl), ("submitacl", queue.submit_acl)):
        if not is_access_list(acl):
            text = f"found {shown(acl)}, expected users, one space, groups (each a comma-separated list, or *)"
            note(mistakes, "E06", queue, (key,), text)
    _check_limits(queue, mistakes)
    _check_properties(queue, mistakes)
    first_of_path: dict[str, QueueText] = {}
    for child in queue.queues:
        if not is_queue_name(child.name):
            text = f"found {shown(child.name)}, expected 1 to 64 letters, digits or _ : # / @ -"
            note(mistakes, "E21", child, ("name",), text)
            continue
        first = first_of_path.setdefault(child.path, child)
        if first is not child:
            text = f"found a second queue {child.path}, the first is in line {find(first.place.node, 'name').line}"
            note(mistakes, "E22", child, ("name",), f"{text} (names are compared without case)")
        if queue.is_root and child.name.lower() == RECOVERY_NAME:
            note(mistakes, "CF-28", child, ("name",), f"the name {RECOVERY_NAME} is reserved for the recovery queue")
    for child in queue.queues:
        _check_queue(child, mistakes)


def _check_properties(queue: QueueText, mistakes: Mistakes) -> None:
    """E49."""
    for owner in (queue, queue.child_template):
        if owner is not None and len(owner.properties) > PROPERTIES_MAX:
            text = f"found {len(owner.properties)} properties, expected at most {PROPERTIES_MAX}"
            note(mistakes, "E49", owner, ("properties",), text)


#: The longest wall time that a queue allows, in ns, and the path of the queue that sets it; None is no limit.
Longest = tuple[int, str] | None


def _check_walltimes(queue: QueueText, inherited: Longest, mistakes: Mistakes) -> None:
    """E50 of this queue, its template and below."""
    longest = _check_walltime(queue, queue.properties, inherited, queue.path, mistakes)
    if queue.child_template is not None:
        _check_walltime(queue.child_template, queue.child_template.properties, longest, queue.path, mistakes)
    for child in queue.queues:
        _check_walltimes(child, longest, mistakes)


def _check_walltime(owner: Text, properties: dict[str, str], inherited: Longest, path: str, mistakes: Mistakes) -> Longest:
    """E50 of what a queue or a template sets itself; returns the longest wall time there."""
    longest = inherited
    for name in (WALLTIME_MAX, WALLTIME_DEFAULT):
        if name not in properties:
            continue
        found = parse_duration(properties[name]) or 0
        lifts = found <= 0 and name == WALLTIME_MAX
        if longest is not None and (lifts or found > longest[0]):
            most = f"expected at most {duration_text(longest[0])}, the {WALLTIME_MAX} of {longest[1]}"
            note(mistakes, "E50", owner, ("properties", name), f"found {shown(properties[name])}, {most}")
        elif found > 0 and name == WALLTIME_MAX:
            longest = found, path
    return longest


def _check_node_sort(partition: PartitionText, mistakes: Mistakes) -> None:
    """E36 and E37."""
    policy = partition.node_sort_policy
    if policy is None:
        return
    if policy.type not in NODE_SORT_TYPES:
        note(mistakes, "E36", policy, ("type",), f"found {shown(policy.type)}, expected fair or binpacking")
    for name, weight in policy.resource_weights.items():
        if not 0 <= weight <= WEIGHT_MAX:
            text = f"found {weight}, expected a weight from 0 to {WEIGHT_MAX:g}"
            note(mistakes, "E37", policy, ("resourceweights", name), text)


def _check_resolver(partition: PartitionText, mistakes: Mistakes) -> None:
    """CF-62."""
    resolver = partition.user_group_resolver
    if resolver is not None and resolver.type not in RESOLVERS:
        text = f"found {shown(resolver.type)}, expected {', '.join(filter(None, RESOLVERS))}, or nothing"
        note(mistakes, "CF-62", resolver, ("type",), text)


def _check_types(partition: PartitionText, root: QueueText, mistakes: Mistakes) -> None:
    """E48."""
    found = {name for written in _quantities(root) for name in written}
    if partition.node_sort_policy is not None:
        found.update(partition.node_sort_policy.resource_weights)
    if len(found) > TYPES_MAX:
        note(mistakes, "E48", partition, ("queues",), f"found {len(found)} resource types, expected at most {TYPES_MAX}")


def _quantities(queue: QueueText) -> Iterator[Quantities]:
    """All quantities of a queue and below."""
    template = queue.child_template
    for resources in (queue.resources, template.resources if template is not None else None):
        if resources is not None:
            yield resources.max or {}
            yield resources.guaranteed or {}
    for limit in queue.limits:
        yield limit.max_resources
    for child in queue.queues:
        yield from _quantities(child)


def _check_max_applications(queue: QueueText, mistakes: Mistakes) -> None:
    """E38 and E39, from the top down. A parent without limit (0) allows any number."""
    limit = queue.max_applications
    for child in queue.queues:
        if limit and child.max_applications == 0:
            text = f"found no limit (0), expected 1 to {limit}, the maxapplications of {queue.path}"
            note(mistakes, "E39", child, ("maxapplications",), text)
        elif limit and child.max_applications > limit:
            text = f"found {child.max_applications}, expected at most {limit}, the maxapplications of {queue.path}"
            note(mistakes, "E38", child, ("maxapplications",), text)
        _check_max_applications(child, mistakes)


# ---- resources: E23 to E27

#: The effective max of a queue: by type the quantity, and the path of the queue that sets it.
Ceiling = dict[str, tuple[int, str]]


def _check_resources(queue: QueueText, inherited: Ceiling, mistakes: Mistakes) -> Resource:
    """E23 to E27 of this queue and below.

    Args:
        inherited: the effective max of the parent.
    Returns: the guarantee that counts for the parent: for each type the queue's own, else the sum over its children.
    """
    # A wrong quantity in the max of a queue with limits has been reported as E19.
    unread = Mistakes(mistakes.source) if queue.limits and not queue.is_root else mistakes
    own_max = _of_queue(queue, "max", unread)
    own_guaranteed = _of_queue(queue, "guaranteed", mistakes)
    ceiling = _check_own(queue, own_max, own_guaranteed, inherited, mistakes)
    _check_template(queue, mistakes)
    total: Resource = {}
    for child in queue.queues:
        for name, quantity in _check_resources(child, ceiling, mistakes).items():
            total[name] = total.get(name, 0) + quantity
    for name, quantity in total.items():
        if name in own_guaranteed and quantity > own_guaranteed[name]:
            text = f"the guarantees of the children together: {_over(name, quantity, own_guaranteed[name])}"
            _note(mistakes, "E26", queue, ("guaranteed", name), f"{text}, the guarantee of {queue.path}")
        if name in ceiling and quantity > ceiling[name][0]:
            text = f"the guarantees of the children together: {_over(name, quantity, ceiling[name][0])}"
            _note(mistakes, "E27", queue, ("max", name), f"{text}, the max of {ceiling[name][1]}")
    return total | own_guaranteed


def _read(mistakes: Mistakes, code: str, text: Text, keys: tuple[Key, ...], written: Quantities | None) -> Resource:
    """The valid quantities; adds a mistake with ``code`` at ``keys`` below ``text`` for each of the others."""
    resource: Resource = {}
    for name, quantity in (written or {}).items():
        try:
            resource[name] = parse_quantity(name, quantity)
        except QuantityError as error:
            note(mistakes, code, text, (*keys, name), str(error))
    return resource


def _over(name: str, found: int, limit: int, whose: str = "") -> str:
    """The quantity that was found, and the largest one that is allowed."""
    return f"found {quantity_text(name, found)} {name}{whose}, expected at most {quantity_text(name, limit)}"


def _check_own(queue: QueueText, own_max: Resource, guaranteed: Resource, inherited: Ceiling, mistakes: Mistakes) -> Ceiling:
    """E24 and E25; returns the effective max."""
    ceiling = dict(inherited)
    for name, quantity in own_max.items():
        if name in guaranteed and guaranteed[name] > quantity:
            text = f"{_over(name, guaranteed[name], quantity)}, the max of the same queue"
            _note(mistakes, "E24", queue, ("guaranteed", name), text)
        if name in inherited and quantity > inherited[name][0]:
            text = f"{_over(name, quantity, inherited[name][0])}, the max of {inherited[name][1]}"
            _note(mistakes, "E25", queue, ("max", name), text)
        else:
            ceiling[name] = (quantity, queue.path)
    return ceiling


def _check_template(queue: QueueText, mistakes: Mistakes) -> None:
    """E23 of the template; the template of a leaf is ignored, and so is an empty one (CF-13)."""
    template = queue.child_template
    if template and template.resources and template.is_set and queue.is_parent:
        _read(mistakes, "E23", template.resources, ("guaranteed",), template.resources.guaranteed)
        _read(mistakes, "E23", template.resources, ("max",), template.resources.max)


def _of_queue(queue: QueueText, kind: str, mistakes: Mistakes) -> Resource:
    """``max`` or ``guaranteed``; a guarantee without a positive quantity is not set (QU-33)."""
    if queue.resources is None:
        return {}
    written = queue.resources.max if kind == "max" else queue.resources.guaranteed
    resource = _read(mistakes, "E23", queue.resources, (kind,), written)
    return resource if kind == "max" or any(resource.values()) else {}


def _note(mistakes: Mistakes, code: str, queue: QueueText, keys: tuple[Key, ...], text: str) -> None:
    """Add a mistake at ``keys`` below the queue's resources, even if it has none."""
    if queue.resources is None:
        note(mistakes, code, queue, ("resources", *keys), text)
    else:
        note(mistakes, code, queue.resources, keys, text)


# ---- limits: E07 to E20 within one queue, E40 to E47 along a path

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


def _check_limits(queue: QueueText, mistakes: Mistakes) -> None:
    """E07 to E20."""
    own_max: Resource = {}
    if queue.limits and not queue.is_root and queue.resources:
        own_max = _read(mistakes, "E19", queue.resources, ("max",), queue.resources.max)
    #: The first limit with a name, by kind.
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
    resource = _read(mistakes, "E15", limit, ("maxresources",), limit.max_resources)
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
            text = f"{_over(name, quantity, own_max[name])}, the max of {queue.path}"
            note(mistakes, "E20", limit, ("maxresources", name), text)


class _Allowance(Struct, frozen=True):
    """The most that the limits of the queues above allow one user or group."""

    resources: Ceiling = {}
    #: The number of running applications (0: not limited), and the queue whose limit this is.
    applications: tuple[int, str] = (0, "")


#: The allowances of users or of groups, by name.
_Allowances = dict[str, _Allowance]
_NOTHING_LIMITED = _Allowance()


def _check_limits_on_path(queue: QueueText, mistakes: Mistakes, above: tuple[_Allowances, _Allowances] = ({}, {})) -> None:
    """E40 to E47 of this queue and below: a limit may not allow more than the limits of the queues above.

    Args:
        above: what the queues above allow users and groups.
    """
    if queue.limits:
        users, groups = (_check_against(queue, kind, allowed, mistakes) for kind, allowed in zip(_KINDS, above, strict=True))
        above = users, groups
    for child in queue.queues:
        _check_limits_on_path(child, mistakes, above)


def _check_against(queue: QueueText, kind: _Kind, above: _Allowances, mistakes: Mistakes) -> _Allowances:
    """The rules for each user, or each group; returns what the queues below may allow."""
    below = dict(above)
    for limit in queue.limits:
        # Quantities that cannot be parsed have been reported before (E15).
        resource = _read(Mistakes(""), "E15", limit, ("maxresources",), limit.max_resources)
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
            text = _over(type_, quantity, at_most, f" for {kind.noun} {name}")
            yield resources_code, ("maxresources", type_), f"{text}, the limit of {holder} in {path}"
    at_most, path = allowed.applications
    if at_most and not 0 < limit.max_applications <= at_most:
        text = f"found {limit.max_applications or 'no limit (0)'} for {kind.noun} {name}, expected 1 to {at_most}"
        yield applications_code, ("maxapplications",), f"{text}, the limit of {holder} in {path}"


def _narrowed(allowed: _Allowance, resource: Resource, applications: int, path: str) -> _Allowance:
    """The smaller of each amount that a limit in the queue ``path`` and the limits above allow."""
    resources = dict(allowed.resources)
    for name, quantity in resource.items():
        if name not in resources or quantity < resources[name][0]:
            resources[name] = quantity, path
    is_smaller = applications > 0 and not 0 < allowed.applications[0] <= applications
    return _Allowance(resources, (applications, path) if is_smaller else allowed.applications)


# ---- access lists: ``*``, or users, one space, groups (QU-106)


def is_access_list(text: str) -> bool:
    """E06: at most two fields, both if each single space separates fields, and if any white space does."""
    return len(text.split(" ")) <= 2 and len(text.split()) <= 2


def parse_access_list(text: str) -> tuple[AccessList, list[str]]:
    """The users and groups in ``text``, for which ``is_access_list`` must be true, and the words that are ignored.

    ``*`` means everybody only if it is alone in its field: in a longer list it is not a valid name. A word that is
    no valid name is no error, but there is a warning (CF-24).
    """
    users, _, groups = text.partition(" ")
    if users == "*" or groups == "*":
        return AccessList(everybody=True), []
    dropped: list[str] = []
    named = AccessList(False, _names(users, is_user_name, dropped), _names(groups, is_group_name, dropped))
    return named, dropped


def _names(field: str, is_name: Callable[[str], bool], dropped: list[str]) -> frozenset[str]:
    """The valid names of a comma-separated list; the other words are added to ``dropped``."""
    words = field.split(",") if field else []
    dropped += (word for word in words if not is_name(word))
    return frozenset(filter(is_name, words))
