"""The placement of an application: the placement rules in order, then the recovery queue or ``root.default``.

The input is a submission and the queue tree, the result the path of a leaf, which exists or has to be created. Rules were
validated with the configuration. A rule only checks whether a queue exists, and whether a parent is a leaf; then the queue at its
path is checked. ``admission`` creates what is missing and adds the application; nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from ykactor.core.config.access import UserGroups, may_submit
from ykactor.core.config.model import NameFilter, PlacementFilter, PlacementRule
from ykactor.core.messages.kinds import Rejection, RejectionCode
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.objects.registry import QueueCore, Registry
from ykactor.core.values import expressions
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.quantities import brief, is_queue_name, is_true, shown

ROOT_QUEUE = QueuePath("root")
#: The queue of forced applications that no rule places (QU-13); no rule of the configuration leads there (PL-31).
RECOVERY_NAME = "@recovery@"
RECOVERY_QUEUE = QueuePath(f"root.{RECOVERY_NAME}")
#: The queue of applications for which no rule has one, if this queue exists (PL-42).
DEFAULT_QUEUE = QueuePath("root.default")
#: The maximum depth of queues that placement creates: one submitted name must not fill the memory.
DEPTH_MAX = 64
#: The rules of a partition that configures none (PL-2).
IMPLICIT_RULES = (PlacementRule("provided"),)
NO_MATCH = "application rejected: no placement rule matched"

#: Names of one application that are compared with filters (PL-57). Each costs 0.1 us, with an expression 3 us to 0.5 ms.
TRIED_MAX = 16_384
#: Checking a queue and those above takes as long as so many items.
_LOOK_ITEMS = 3
#: A name in which an expression is searched for takes as long as so many items, and so many names that are looked up as one.
_SEARCHED_ITEMS, _LITERALS = 25, 5
_FORCED_TAG = "application.create.force"
_MISSING = Rejection(RejectionCode.NO_QUEUE, "does not exist")


class NoMatch(Struct, frozen=True, gc=False):
    """The rule has no queue for this application; the next one is tried (PL-5)."""

    why: str


class Mistake(Struct, frozen=True, gc=False):
    """The rule leads to an impossible queue for this application; no other rule is tried (PL-5)."""

    why: str


Outcome = QueuePath | NoMatch | Mistake


class Applicant:
    """An application to be placed, with the number of its names that were compared with filters.

    Args:
        who: its user with its groups.
    """

    __slots__ = ("_tags", "spec", "tried", "who")

    def __init__(self, spec: AddApplication, who: UserGroups) -> None:
        self.spec = spec
        self.who = who
        self.tried = 0
        #: By their names in lower case; None until they are needed.
        self._tags: dict[str, str] | None = None

    def rest(self) -> Steps[None]:
        """The step of comparing access lists with all groups, or searching all tags."""
        yield _LOOK_ITEMS + (len(self.who.groups) + len(self.spec.tags)) // _LITERALS

    def tag(self, name: str) -> str:
        """The value of a tag, like ``tag_value``, but fast for many names."""
        tags = self.spec.tags
        if self._tags is None:
            self._tags = {tag.lower(): tags[tag] for tag in sorted(tags, reverse=True)}
        return tags[name] if name in tags else self._tags.get(name.lower(), "")

    def is_among(self, listed: NameFilter, names: tuple[str, ...]) -> Steps[bool]:
        """True if one of the names is in the list of a filter or matches its expression. Too many names are not compared."""
        self.tried += len(names)
        if self.tried > TRIED_MAX:
            return False
        if not listed.expression:
            yield len(names) // _LITERALS
            return not listed.names.isdisjoint(names)
        for name in names:
            yield _SEARCHED_ITEMS
            if expressions.matches(listed.expression, name):
                return True
        return False


class RuleKind(NamedTuple):
    """A kind of placement rules (PL-55).

    Attributes:
        value: what the queue is derived from; "" if the application has none.
        absent: why it has none.
        configured: what ``value`` has to be in the queue file, in words; "" if the rule needs none.
        parameter: the name of this in the REST API.
        is_path: a value that starts with ``root.`` is a full path (PL-27).
    """

    value: Callable[[PlacementRule, Applicant], str]
    absent: str = ""
    configured: str = ""
    parameter: str = ""
    is_path: bool = True


#: By the names in the queue file.
RULES = {
    "provided": RuleKind(lambda rule, applicant: applicant.spec.queue_name, "the application names no queue"),
    "user": RuleKind(lambda rule, applicant: applicant.who.user, "the application has no user", is_path=False),
    "fixed": RuleKind(lambda rule, applicant: rule.value, "", "the path of a queue", "queue"),
    "tag": RuleKind(
        lambda rule, applicant: applicant.tag(rule.value), "the application has no such tag", "the name of a tag", "tagName"
    ),
}


def evaluate(rule: PlacementRule, registry: Registry, applicant: Applicant) -> Steps[Outcome]:
    """The path that ``rule`` leads to: of an existing queue, or with ``create`` also of a missing one.

    Checks in the order of PL-54: value, filter, legality of the name, parent, existence. So an illegal name is a mistake even
    where the parent rule would not have matched.
    """
    value = RULES[rule.name].value(rule, applicant)
    if not value:
        return NoMatch(RULES[rule.name].absent)
    is_admitted = yield from admits(rule.filter, applicant)
    if applicant.tried > TRIED_MAX:
        return Mistake(f"more than {TRIED_MAX} names to compare with filters (rule {label(rule)})")
    if not is_admitted:
        return NoMatch(f"its filter refuses user {brief(applicant.who.user)}")
    name = _queue_name(rule, value)
    if name is None:
        return Mistake(f"illegal queue name {shown(value)} (rule {label(rule)})")
    if not (name.startswith("root.") or (name == ROOT_QUEUE and rule.name == "fixed")):  # PL-26, PL-33, PL-35
        above = yield from _parent_path(rule.parent, registry, applicant)
        if not isinstance(above, str):
            return above
        name = f"{above}.{name}"
    path = QueuePath(name)
    if path == RECOVERY_QUEUE or path.startswith(RECOVERY_QUEUE + "."):
        return NoMatch(f"queue {RECOVERY_QUEUE} is not for rules to choose")
    if not rule.create and path not in registry.queues:
        return NoMatch(f"queue {brief(path)} does not exist")
    return path


def label(rule: PlacementRule) -> str:
    """The rule as text for a message: its name and its queue or tag."""
    return f"{rule.name} {brief(rule.value)}" if rule.value else rule.name


def tag_value(tags: dict[str, str], name: str) -> str:
    """The value of the tag ``name``, whose case does not matter; "" if there is none.

    Of several tags that differ only in case, the exact one is used, else the first in sorted order (PL-34).
    """
    if name in tags:
        return tags[name]
    wanted = name.lower()
    alike = [tag for tag in tags if tag.lower() == wanted]
    return tags[min(alike)] if alike else ""


def admits(rule_filter: PlacementFilter, applicant: Applicant) -> Steps[bool]:
    """True if the filter lets the rule apply to the user of the application (PL-10 to PL-15)."""
    users, groups = rule_filter.users, rule_filter.groups
    if not (users.listed or groups.listed):
        return rule_filter.allow
    who = applicant.who
    is_named = (yield from applicant.is_among(users, (who.user,))) or (yield from applicant.is_among(groups, who.groups))
    return is_named == rule_filter.allow


def _queue_name(rule: PlacementRule, value: str) -> str | None:
    """The queue name, qualified or not, in lower case; None if ``value`` is not a legal one (PL-27 to PL-29).

    Legality is checked first, because the lower case of some letters beyond ASCII is an ASCII letter.
    """
    if rule.name == "fixed":
        return value  # its dots are hierarchy; checked with the configuration (PL-32)
    if value.startswith("root.") and RULES[rule.name].is_path:
        return value.lower() if all(map(is_queue_name, value.split("."))) else None
    name = value.replace(".", "_dot_")
    return name.lower() if is_queue_name(name) else None


def _parent_path(rule: PlacementRule | None, registry: Registry, applicant: Applicant) -> Steps[Outcome]:
    """The parent queue of an unqualified name: the result of the parent rule, or root without one (PL-21 to PL-25)."""
    if rule is None:
        return ROOT_QUEUE
    path = yield from evaluate(rule, registry, applicant)
    if isinstance(path, NoMatch):
        return NoMatch(f"parent {label(rule)}: {path.why}")
    if isinstance(path, Mistake):
        return path
    if path == ROOT_QUEUE:
        path = QueuePath("root.root")  # unqualified, like every parent without "root." (PL-23)
    if isinstance(registry.queues.get(path), LeafCore):
        return Mistake(f"queue {brief(path)} is a leaf and cannot be a parent (rule {label(rule)})")
    return path


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
