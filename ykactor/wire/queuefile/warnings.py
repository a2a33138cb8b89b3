"""Warnings about settings of the queue file that are allowed, but have no effect or not the expected one."""

import difflib
import re
from collections.abc import Callable

from ykactor.core.config.properties import (
    PRIORITY_OFFSET,
    PROPERTIES,
    QUOTA_PREEMPTION_DELAY,
    SORT_POLICIES,
    SORT_POLICY,
    interpret,
    mistake,
)
from ykactor.core.values.names import is_group_name, is_user_name
from ykactor.core.values.quantities import QuantityError, parse_int32, parse_quantity, shown
from ykactor.core.values.words import plural
from ykactor.wire.queuefile.fields import Text, note
from ykactor.wire.queuefile.placement_rules import chain_of
from ykactor.wire.queuefile.rules import is_access_list, parse_access_list
from ykactor.wire.queuefile.schema import PartitionText, Quantities, QueueText, ResourcesText
from ykactor.wire.queuefile.text import Mistakes

_RESOLVER_WARNINGS = {
    "ldap": "groups come from the operating system's name service, which must be joined to the directory",
    "test": "there is no such resolver: each user has one group with the user's name",
}


def collect(partitions: list[PartitionText], warnings: Mistakes) -> None:
    """Add every warning about normalised partitions."""
    for partition in partitions:
        if partition.root is not None:
            _warn_of_queue(partition.root, warnings)
            _warn_of_quotas(partition, list(partition.root.walk()), warnings)
        for rule in partition.placement_rules:
            for link in chain_of(rule):
                if link.filter is not None:
                    _warn_of_names(link.filter, "users", link.filter.users, is_user_name, warnings)
                    _warn_of_names(link.filter, "groups", link.filter.groups, is_group_name, warnings)
        resolver = partition.user_group_resolver
        if resolver is not None and resolver.type in _RESOLVER_WARNINGS:
            note(warnings, "", resolver, ("type",), f"found {resolver.type}: {_RESOLVER_WARNINGS[resolver.type]}")


def _warn_of_quotas(partition: PartitionText, queues: list[QueueText], warnings: Mistakes) -> None:
    """Quota preemption needs both the switch of the partition and the delay of the queue; dynamic queues have none (PE-97)."""
    key = ("properties", QUOTA_PREEMPTION_DELAY)
    delayed = [queue for queue in queues if _has_delay(queue.properties)]
    switch = partition.preemption
    if switch is None or not switch.quota_preemption_enabled:
        for queue in delayed:
            text = "no effect: quotapreemptionenabled is not true in the preemption settings of the partition"
            note(warnings, "", queue, key, text)
    elif not delayed:
        text = f"no effect: no queue has the property {QUOTA_PREEMPTION_DELAY}"
        note(warnings, "", switch, ("quotapreemptionenabled",), text)
    for queue in queues:
        if queue.child_template is not None and _has_delay(queue.child_template.properties):
            text = "no effect: there is no quota preemption in queues that placement creates"
            note(warnings, "", queue.child_template, key, text)


def _has_delay(properties: dict[str, str]) -> bool:
    return interpret(properties).quota_preemption_delay_ns > 0


#: Resource types that are often mistaken for a standard one, which is their value here.
_OTHER_NAMES = {"cpu": "vcore", "cpus": "vcore", "vcores": "vcore", "cores": "vcore", "mem": "memory", "ram": "memory"}


#: No queue is for less memory: who writes less has forgotten the unit.
MEMORY_MIN = 2**20


def _warn_of_resources(resources: ResourcesText | None, warnings: Mistakes) -> None:
    if resources is not None:
        _warn_of_quantities(resources, "max", resources.max or {}, warnings)
        _warn_of_quantities(resources, "guaranteed", resources.guaranteed or {}, warnings)


def _warn_of_quantities(text: Text, key: str, quantities: Quantities, warnings: Mistakes) -> None:
    """CF-84."""
    for name, quantity in quantities.items():
        if meant := _OTHER_NAMES.get(name.lower()):
            message = f"{name} is a resource type of its own, counted in plain units; did you mean {meant}?"
            note(warnings, "", text, (key, name), message)
        elif name == "memory" and 0 < (found := _bytes(quantity)) < MEMORY_MIN:
            digits = re.match(r"\s*0*([0-9]+)", quantity)
            assert digits is not None, "it is a quantity"
            message = f"found {shown(quantity)}, which is {plural(found, 'byte')}; did you mean {digits[1]}Gi?"
            note(warnings, "", text, (key, name), message)


def _bytes(quantity: str) -> int:
    """The bytes of a quantity; 0 for a wrong one, which is a mistake."""
    try:
        return parse_quantity("memory", quantity)
    except QuantityError:
        return 0


def _warn_of_queue(queue: QueueText, warnings: Mistakes) -> None:
    if queue.path == "root.root":
        text = "root is not the only queue at the top, so a root queue is added above and this queue becomes root.root"
        note(warnings, "", queue, ("name",), text)
    _warn_of_resources(queue.resources, warnings)
    for limit in queue.limits:
        _warn_of_quantities(limit, "maxresources", limit.max_resources, warnings)
    _warn_of_properties(queue, queue.properties, is_root=queue.is_root, warnings=warnings)
    for key, acl in (("adminacl", queue.admin_acl), ("submitacl", queue.submit_acl)):
        if acl and is_access_list(acl):
            _warn_of_access(queue, key, acl, warnings)
    template = queue.child_template
    if template is not None and not queue.is_parent:
        text = "a template has no effect on a leaf; write parent: true if queues are to be created below this one"
        note(warnings, "", queue, ("childtemplate",), text)
    elif template is not None:
        _warn_of_resources(template.resources, warnings)
        _warn_of_properties(template, template.properties, is_root=False, warnings=warnings)
    for child in queue.queues:
        _warn_of_queue(child, warnings)


def _warn_of_access(queue: QueueText, key: str, acl: str, warnings: Mistakes) -> None:
    """CF-24."""
    for word in parse_access_list(acl)[1]:
        if not word:
            text = f"found {shown(acl)}, an empty name is ignored; the names after the first space are groups"
        elif word == "*":
            text = f'found {shown(acl)}, "*" is ignored because it is not alone; write "*" without names for everybody'
        else:
            text = f"found {shown(acl)}, {shown(word)} is not a valid name and is ignored"
        note(warnings, "", queue, (key,), text)


def _warn_of_names(text: Text, key: str, entries: list[str], is_name: Callable[[str], bool], warnings: Mistakes) -> None:
    """PL-14."""
    for index, entry in enumerate(entries):
        if len(entries) > 1 and not is_name(entry):
            message = f"found {shown(entry)}, not a valid name, which is ignored; a regular expression must be the only entry"
            note(warnings, "", text, (key, index), message)


#: From this offset on priorities can be clamped, or ordinary work come before system work (PR-15).
OFFSET_WARNING = 1_000_000_000


def _warn_of_properties(text: Text, properties: dict[str, str], *, is_root: bool, warnings: Mistakes) -> None:
    """CF-73: each of the own ``properties`` of a queue or template that has no effect, or not the expected one."""
    for name, value in properties.items():
        if message := _property_warning(name, value, is_root=is_root):
            note(warnings, "", text, ("properties", name), message)


def _property_warning(name: str, value: str, *, is_root: bool) -> str:
    """The message; "" for no warning."""
    if name not in PROPERTIES:
        close = difflib.get_close_matches(name[:60], PROPERTIES, n=1, cutoff=0.8)
        return f"unknown property, did you mean {close[0]}?" if close else ""
    if wrong := mistake(name, value):
        return f"found {shown(value)}, {wrong}"
    if name == SORT_POLICY and value:
        return SORT_POLICIES[value.lower()].remark
    if name == PRIORITY_OFFSET and abs(offset := parse_int32(value) or 0) >= OFFSET_WARNING and not is_root:
        return f"the offset {offset} is so large that priorities can be clamped, or ordinary work come before system work"
    return ""
