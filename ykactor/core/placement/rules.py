"""The result of one placement rule for an application: the path of a queue, no match, or a mistake that ends the search.

Rules were validated with the configuration. ``placement`` evaluates them in order and checks the queue at the path. A rule only
checks whether a queue exists, and whether a parent is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import NameFilter, PlacementFilter, PlacementRule
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.values import expressions
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.quantities import brief, is_queue_name, shown

ROOT_QUEUE = QueuePath("root")
#: The queue of forced applications that no rule places (QU-13); no rule of the configuration leads there (PL-31).
RECOVERY_NAME = "@recovery@"
RECOVERY_QUEUE = QueuePath(f"root.{RECOVERY_NAME}")

#: Names of one application that are compared with filters (PL-57). Each costs 0.1 us, with an expression 3 us to 0.5 ms.
TRIED_MAX = 16_384
#: Checking a queue and those above takes as long as so many items.
_LOOK_ITEMS = 3
#: A name in which an expression is searched for takes as long as so many items, and so many names that are looked up as one.
_SEARCHED_ITEMS, _LITERALS = 25, 5


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
