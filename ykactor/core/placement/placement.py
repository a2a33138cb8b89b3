"""The placement of an application: the placement rules in order, then the recovery queue or ``root.default``.

The input is a submission and the queue tree, the result the path of a leaf, which exists or has to be created. ``admission``
creates what is missing and adds the application; nothing here changes anything.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.config.access import UserGroups, may_submit
from ykactor.core.config.model import PlacementRule
from ykactor.core.messages.rejections import Rejection, RejectionCode
from ykactor.core.messages.states import QueueState
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.parent import ParentCore
from ykactor.core.objects.registry import QueueCore, Registry
from ykactor.core.placement.rules import (
    RECOVERY_NAME,
    RECOVERY_QUEUE,
    ROOT_QUEUE,
    Applicant,
    Mistake,
    evaluate,
    label,
    tag_value,
)
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.quantities import brief, is_true

NO_MATCH = "application rejected: no placement rule matched"
#: The queue of applications for which no rule has one, if this queue exists (PL-42).
DEFAULT_QUEUE = QueuePath("root.default")
#: The maximum depth of queues that placement creates: one submitted name must not fill the memory.
DEPTH_MAX = 64
#: The rules of a partition that configures none (PL-2).
IMPLICIT_RULES = (PlacementRule("provided"),)

_FORCED_TAG = "application.create.force"
_MISSING = Rejection(RejectionCode.NO_QUEUE, "does not exist")


class Placed(Struct, frozen=True, gc=False):
    """The queue of an application.

    Attributes:
        path: the path of a leaf below root.
        creates: True if the leaf must be created, with every missing level below its nearest existing ancestor, which is an
            active parent.
    """

    path: QueuePath
    creates: bool


def is_forced(tags: dict[str, str]) -> bool:
    """True if the application already runs somewhere, and so must not be refused because no queue was found (PL-41)."""
    return is_true(tag_value(tags, _FORCED_TAG))


def place(registry: Registry, applicant: Applicant) -> Steps[Placed | Rejection]:
    """The queue of a new application, or the reason why there is none.

    The first rule whose queue is usable decides (PL-1); a mistake ends the search, also for forced applications (PL-5).

    Returns: the place; else a rejection whose reason begins with ``application rejected: `` and, if every rule was tried, goes on
             with the reason why each of them did not decide (PL-40). Its code is ``ACL`` if one of them led to a queue to which
             the user may not submit, else ``NO_QUEUE`` (AP-139).
    Cost: some microseconds if the first rule decides; reasons are built only for rules that do not.
    Source:  PL-1 to PL-5, PL-37 to PL-42.
    """
    who, tried = applicant.who, list[tuple[str, Rejection]]()
    for rule in registry.config.placement_rules or IMPLICIT_RULES:
        outcome = yield from evaluate(rule, registry, applicant)
        if isinstance(outcome, Mistake):
            return Rejection(RejectionCode.NO_QUEUE, f"application rejected: {outcome.why}")
        if isinstance(outcome, str):
            obstacle = _obstacle(registry, outcome, who)
            if obstacle is None:
                return Placed(outcome, outcome not in registry.queues)
        else:
            obstacle = Rejection(RejectionCode.NO_QUEUE, outcome.why)
        tried.append((label(rule), obstacle))
        yield from applicant.rest()
    if is_forced(applicant.spec.tags):
        return Placed(RECOVERY_QUEUE, RECOVERY_QUEUE not in registry.queues)  # unchecked (PL-37)
    obstacle = _obstacle(registry, DEFAULT_QUEUE, who) if DEFAULT_QUEUE in registry.queues else _MISSING
    if obstacle is None:
        return Placed(DEFAULT_QUEUE, creates=False)
    return _no_match([*tried, (DEFAULT_QUEUE, obstacle)])


def _no_match(tried: list[tuple[str, Rejection]]) -> Rejection:
    """A sentence: the rules that were tried, and why they did not decide."""
    is_access = any(obstacle.code is RejectionCode.ACL for _, obstacle in tried)
    reasons = "; ".join(f"{what}: {obstacle.reason}" for what, obstacle in tried)
    return Rejection(RejectionCode.ACL if is_access else RejectionCode.NO_QUEUE, f"{NO_MATCH} ({reasons})")


def _obstacle(registry: Registry, path: QueuePath, who: UserGroups) -> Rejection | None:
    """The reason why ``who`` may not submit to the queue at ``path``, or to one created there; None if it may.

    A missing queue is checked at its nearest existing ancestor (PL-38, PL-39, QU-11).
    """
    nearest = path if path in registry.queues else _nearest(registry, path)
    lineage = registry.lineage(nearest)
    why = _not_there(registry, path, nearest)
    if not why and not may_submit([each.config for each in lineage], who):
        return Rejection(RejectionCode.ACL, f"user {brief(who.user)} may not submit to {brief(nearest)}")
    why = why or closure(lineage)
    return Rejection(RejectionCode.NO_QUEUE, why) if why else None


def _not_there(registry: Registry, path: QueuePath, nearest: QueuePath) -> str:
    """The reason why there can be no leaf at ``path``, or ""; ``nearest`` is the queue there, or its nearest ancestor."""
    is_leaf = isinstance(registry.queues[nearest], LeafCore)
    if nearest == path:
        return "" if is_leaf else f"queue {brief(path)} is a parent"
    if is_leaf:
        return f"queue {brief(nearest)} is a leaf, it cannot have queue {brief(path)} below it"
    if path.count(".") > DEPTH_MAX:
        return f"queue {brief(path)} would be more than {DEPTH_MAX} levels below root"
    if RECOVERY_NAME in path.removeprefix(nearest).split("."):
        return f"queue {brief(path)} may not be created, the name {RECOVERY_NAME} is reserved"  # QU-10
    return ""


def closure(lineage: list[QueueCore]) -> str:
    """The reason why the first of these queues, given with its ancestors, takes no applications now, or ""."""
    for each in lineage:
        if isinstance(each, ParentCore) and not each.config.is_parent:  # CF-60
            return f"queue {brief(each.path)} becomes a leaf once it has no children"
        if each.state is not QueueState.ACTIVE:
            return f"queue {brief(each.path)} is {each.state.lower()}"
    return ""


def _nearest(registry: Registry, path: QueuePath) -> QueuePath:
    """The deepest existing queue above the missing ``path``. Searched from root: a submitted path may be very deep."""
    nearest = ROOT_QUEUE
    while True:
        below = path.find(".", len(nearest) + 1)
        longer = QueuePath(path[:below])
        if below < 0 or longer not in registry.queues:
            return nearest
        nearest = longer
