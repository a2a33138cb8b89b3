"""The ledger: the amounts that each queue uses and has pending. It has one writer, the scheduler.

Usage is changed along a whole path at once. If each queue kept its own usage and passed changes upwards, an ancestor would lag
behind and a walk could exceed its ``max``. ``charge`` is the only way to raise usage after a check (``headroom``).
"""

from __future__ import annotations

from typing import Self

from ykactor.core.config.model import QueueConfig
from ykactor.core.quota.limits import QueueLimits
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import Resource, subtract_from

#: The denominator of a type that has neither a guarantee nor a max.
_UNCOUNTED = -1.0


class QueueUsage:
    """The amounts of one queue; those of a parent are the sums of its children (QU-47).

    Attributes:
        path_up: this queue and its ancestors, root last.
        max: base units; None is no limit; of root the size of the cluster (QU-30).
        max_applications: 0 is no limit.
        limits: of users and groups; None when there are none.
        allocated, pending: base units.
        running: the applications that hold a running slot here (QU-53, QU-55).
        accepted: applications that hold one although they are still Accepted (QU-54).
        preempting: the part of ``allocated`` that is being preempted.
        claims: the amounts of pending asks that have preempted others; a node is reserved for each ask (PE-19).
        fair_max: the part of ``max`` that shares are measured against, in this queue and below (QU-105).
        denominators: the denominators of shares, for the types that were used here since these changed: queues and types are
            not multiplied.
        share: the fair share (PR-70): the largest used part of a guarantee, or of the fair max where none is given.
    """

    __slots__ = (
        "accepted",
        "allocated",
        "claims",
        "config",
        "denominators",
        "fair_max",
        "limits",
        "max",
        "max_applications",
        "parent",
        "path",
        "path_up",
        "pending",
        "preempting",
        "running",
        "share",
    )

    def __init__(self, config: QueueConfig, parent: Self | None) -> None:
        self.path: QueuePath = config.path
        self.parent = parent
        self.path_up: tuple[Self, ...] = (self, *(parent.path_up if parent else ()))
        self.allocated: Resource = {}
        self.pending: Resource = {}
        self.preempting: Resource = {}
        self.claims: Resource = {}
        self.running: dict[ApplicationID, None] = {}
        self.accepted: dict[ApplicationID, None] = {}
        self.share = 0.0
        self.fair_max: Resource = {}
        self.denominators: dict[str, float] = {}
        self.set_limits(config)

    def set_limits(self, config: QueueConfig) -> None:
        """Apply new settings; usage stays."""
        self.config = config
        self.max = config.max
        self.max_applications = config.max_applications
        self.limits = QueueLimits(config.path, config.limits) if config.limits else None

    def slots_used(self) -> int:
        """The number of applications that hold a running slot (QU-53 to QU-55)."""
        return len(self.running) + len(self.accepted)

    def lacks_slot(self, application_id: ApplicationID) -> bool:
        """True if one more running application would be too many (QU-52)."""
        if not self.max_applications or application_id in self.running or application_id in self.accepted:
            return False
        return self.slots_used() + 1 > self.max_applications

    def limits_up(self) -> list[QueueLimits]:
        """The limits of this queue and of its ancestors that have limits."""
        return [queue.limits for queue in self.path_up if queue.limits is not None]

    def set_denominators(self, *, has_cluster: bool) -> None:
        """Forget the denominators of shares, which have changed here or above; without nodes only root's max counts."""
        self.fair_max = self.max or {} if self.parent is None or has_cluster else {}
        self.denominators.clear()
        self.update_share()

    def denominator(self, name: str) -> float:
        """The denominator of the share of a type, remembered for later; negative if the type does not count."""
        bounds = (self.config.guaranteed or {}, *(queue.fair_max for queue in self.path_up))
        found = self.denominators[name] = next((float(bound[name]) for bound in bounds if name in bound), _UNCOUNTED)
        return found

    def update_share(self) -> None:
        """Recompute the share: usage went down, or the denominators changed."""
        denominators, share = self.denominators, 0.0
        for name, used in self.allocated.items():
            denominator = denominators.get(name)
            if denominator is None:
                denominator = self.denominator(name)
            if denominator >= 0:
                share = max(share, used / denominator if denominator else float(used > 0))
        self.share = share

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"


class Ledger:
    """Changes the amounts of queues, along whole paths only."""

    def __init__(self) -> None:
        #: Increased whenever an amount in use changes.
        self.changes = 0

    def change_pending(self, leaf: QueueUsage, change: Resource) -> None:
        """Asks of ``leaf`` were added or removed: add the signed amounts along the path. Sums are exact at any size (QU-1)."""
        for queue in leaf.path_up:
            pending = queue.pending
            for name, quantity in change.items():
                value = pending.get(name, 0) + quantity
                if value:
                    pending[name] = value
                else:
                    pending.pop(name, None)

    def charge(self, leaf: QueueUsage, resource: Resource, *, was_pending: bool = True) -> None:
        """Add usage along the path, and remove it from the pending amounts. O(depth).

        ``headroom.shortage`` must be None before. What was not pending is charged whether it fits or not: recovered allocations
        (QU-41).
        """
        for queue in leaf.path_up:
            allocated, pending, denominators = queue.allocated, queue.pending, queue.denominators
            for name, quantity in resource.items():
                if not quantity:
                    continue
                used = allocated[name] = allocated.get(name, 0) + quantity
                if was_pending:
                    left = pending.get(name, 0) - quantity
                    if left:
                        pending[name] = left
                    else:
                        pending.pop(name, None)
                denominator = denominators.get(name)
                if denominator is None:
                    denominator = queue.denominator(name)
                if denominator >= 0:  # usage only grows here: the share is the old one or that of this type
                    ratio = used / denominator if denominator else float(used != 0)
                    if ratio > queue.share:
                        queue.share = ratio
        self.changes += 1

    def free(self, leaf: QueueUsage, resource: Resource) -> None:
        """Remove usage that has ended (QU-42)."""
        self.changes += 1
        for queue in leaf.path_up:
            subtract_from(queue.allocated, resource)
            queue.update_share()

    def move(self, leaf: QueueUsage, to_leaf: QueueUsage, allocated: Resource) -> None:
        """Move usage to another leaf."""
        self.free(leaf, allocated)
        self.charge(to_leaf, allocated, was_pending=False)

    # ---- running slots

    def take_slot(self, leaf: QueueUsage, application_id: ApplicationID) -> None:
        """Count the application as running on every level, even above a limit that was lowered (QU-55)."""
        for queue in leaf.path_up:
            queue.running[application_id] = None
            queue.accepted.pop(application_id, None)

    def hold_slot(self, leaf: QueueUsage, application_id: ApplicationID) -> None:
        """Reserve a running slot for an Accepted application (QU-54)."""
        for queue in leaf.path_up:
            queue.accepted[application_id] = None

    def give_slot_back(self, leaf: QueueUsage, application_id: ApplicationID) -> None:
        """Stop counting the application as running, and reserve no slot for it."""
        for queue in leaf.path_up:
            queue.running.pop(application_id, None)
            queue.accepted.pop(application_id, None)
