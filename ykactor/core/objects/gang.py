"""The task groups of one application: placeholders that reserve resources, and real asks that replace them.

Only data and counts; ``placeholders`` decides what happens and makes the facts.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.states import PLACEHOLDER_TIMEOUT_NS
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.values.ids import AllocationKey, NodeID
from ykactor.core.values.quantities import parse_uint64
from ykactor.core.values.resources import Resource, add_to, pruned, subtract_from
from ykactor.core.values.times import MS_NS, S_NS

#: The Unix time in seconds at which an application was created.
APPLICATION_CREATED_TAG = "yunikorn.apache.org/creationTime"
_INT64_MAX = 2**63 - 1

ON_TIMEOUT = "releasing allocated placeholders on placeholder timeout"
ON_COMPLETE = "releasing placeholders on app complete"


#: Task groups of an application: they are kept as long as it is.
GROUPS_MAX = 1000


class TaskGroup(Struct, forbid_unknown_fields=True):
    """The placeholders that any real ask of the same group may replace (GA-73).

    Attributes:
        count: placeholder asks ever submitted.
        replaced: confirmed replacements.
        timed_out: placeholders that ended in any other way.
        min_resource: of the first placeholder.
    """

    count: int = 0
    replaced: int = 0
    timed_out: int = 0
    min_resource: Resource = {}

    def is_open(self) -> bool:
        """Whether placeholders are left to replace; real asks of the group wait for them (GA-13)."""
        return self.count > self.replaced + self.timed_out


class Gang:
    """The placeholders of one application.

    Attributes:
        total: ``placeholderAsk``; empty for an application that is not a gang.
        groups: by name.
        allocated_ever: placeholders ever allocated, also those replaced since (GA-61).
        released: allocations whose release was started and is not confirmed yet (AP-129).
        replacing: by placeholder, the real ask that replaces it and the node where the ask will run. If that is not the
            placeholder's node, the ask has its place there already. Written by ``replace`` and ``end_replacement``.
        is_over: the gang has timed out; the application is an ordinary one from then on (GA-50).
    """

    __slots__ = (
        "_placeholders",
        "allocated_ever",
        "groups",
        "is_hard",
        "is_over",
        "released",
        "replacing",
        "timeout_ns",
        "total",
    )

    def __init__(self, spec: AddApplication) -> None:
        self.total = pruned(spec.placeholder_ask or {})
        self.is_hard = spec.gang_scheduling_style == "Hard"
        self.timeout_ns = timeout_ns(spec.execution_timeout_ms) or PLACEHOLDER_TIMEOUT_NS
        self.groups: dict[str, TaskGroup] = {}
        self.allocated_ever: Resource = {}
        self.released: set[AllocationKey] = set()
        self.replacing: dict[AllocationKey, tuple[Ask, NodeID]] = {}
        #: By real ask, the placeholder that it waits for.
        self._placeholders: dict[AllocationKey, AllocationKey] = {}
        self.is_over = False

    def add(self, ask: Ask) -> None:
        """A placeholder is new, pending or running."""
        group = self.groups.setdefault(ask.task_group_name, TaskGroup(min_resource=ask.resource))
        group.count += 1

    def is_full(self, name: str) -> bool:
        """True if this group would be one too many."""
        return len(self.groups) >= GROUPS_MAX and name not in self.groups

    def is_open(self, name: str) -> bool:
        """Whether real asks of this group wait for placeholders."""
        group = self.groups.get(name)
        return group is not None and group.is_open()

    def placeholder_allocated(self, resource: Resource) -> None:
        """A placeholder was allocated."""
        add_to(self.allocated_ever, resource)

    def placeholder_handed_back(self, resource: Resource) -> None:
        """A placeholder could not start, and is pending again (AP-144)."""
        subtract_from(self.allocated_ever, resource)

    def resize(self, before: Resource, after: Resource) -> None:
        """A placeholder has another size."""
        subtract_from(self.allocated_ever, before)
        add_to(self.allocated_ever, after)

    def is_complete(self) -> bool:
        """Whether all of ``total`` has been allocated (AP-38)."""
        return bool(self.total) and all(self.allocated_ever.get(name, 0) >= quantity for name, quantity in self.total.items())

    def replace(self, placeholder: AllocationKey, real: Ask, node_id: NodeID) -> None:
        """A real ask waits for this placeholder, and will run on the node."""
        self.replacing[placeholder] = real, node_id
        self._placeholders[real.allocation_key] = placeholder

    def end_replacement(self, placeholder: AllocationKey) -> None:
        """No real ask waits for this placeholder any more."""
        ended = self.replacing.pop(placeholder, None)
        if ended is not None:
            del self._placeholders[ended[0].allocation_key]

    def placeholder_of(self, key: AllocationKey) -> AllocationKey | None:
        """The placeholder that the real ask ``key`` waits for, if any."""
        return self._placeholders.get(key)


def timeout_ns(milliseconds: int) -> int | None:
    """The timeout that an application was submitted with; None is "not given" (AP-60)."""
    nanoseconds = milliseconds * MS_NS
    return nanoseconds if 0 < nanoseconds <= _INT64_MAX else None


def placeholder_deadline_ns(now_ns: int, gang: Gang, tags: dict[str, str]) -> int:
    """When a gang times out whose first placeholder is allocated now; counted from the application's creation (AP-61)."""
    created_s = parse_uint64(tags.get(APPLICATION_CREATED_TAG, ""))
    if created_s is None:
        return now_ns + gang.timeout_ns
    return max(now_ns + MS_NS, created_s * S_NS + gang.timeout_ns)
