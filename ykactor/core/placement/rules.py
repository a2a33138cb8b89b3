"""The result of one placement rule for an application: the path of a queue, no match, or a mistake that ends the search.

Rules were validated with the configuration. ``placement`` evaluates them in order and checks the queue at the path. A rule only
checks whether a queue exists, and whether a parent is a leaf.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import NameFilter, PlacementFilter, PlacementRule
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.quantities import is_queue_name, shown

ROOT_QUEUE = QueuePath("root")
#: The queue of forced applications that no rule places (QU-13); no rule of the configuration leads there (PL-31).
RECOVERY_NAME = "@recovery@"
RECOVERY_QUEUE = QueuePath(f"root.{RECOVERY_NAME}")

#: Longer names match no expression: no real name is that long, and the search could take long.
SEARCHED_MAX = 128


class NoMatch(Struct, frozen=True, gc=False):
    """The rule has no queue for this application; the next one is tried (PL-5)."""

    why: str


class Mistake(Struct, frozen=True, gc=False):
    """The rule leads to an impossible queue for this application; no other rule is tried (PL-5)."""

    why: str


Outcome = QueuePath | NoMatch | Mistake


def evaluate(rule: PlacementRule, registry: Registry, application: AddApplication, who: UserGroups) -> Outcome:
    """The path that ``rule`` leads to: of an existing queue, or with ``create`` also of a missing one.

    Checks in the order of PL-54: value, filter, legality of the name, parent, existence. So an illegal name is a mistake even
    where the parent rule would not have matched.
    """
    value = _value(rule, application, who)
    if not value:
        return NoMatch(_ABSENT[rule.name])
    if not admits(rule.filter, who):
        return NoMatch(f"its filter refuses user {brief(who.user)}")
    name = _queue_name(rule, value)
    if name is None:
        return Mistake(f"illegal queue name {shown(value)} (rule {label(rule)})")
    if not (name.startswith("root.") or (name == ROOT_QUEUE and rule.name == "fixed")):  # PL-26, PL-33, PL-35
        above = _parent_path(rule.parent, registry, application, who)
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


def brief(name: str) -> str:
    """A name as text for a message: unchanged, or quoted and cut if it is very long or not printable."""
    return name if len(name) <= 200 and name.isprintable() else shown(name)


def tag_value(tags: dict[str, str], name: str) -> str:
    """The value of the tag ``name``, whose case does not matter; "" if there is none.

    Of several tags that differ only in case, the exact one is used, else the first in sorted order (PL-34).
    """
    if name in tags:
        return tags[name]
    wanted = name.lower()
    alike = [tag for tag in tags if tag.lower() == wanted]
    return tags[min(alike)] if alike else ""


def admits(rule_filter: PlacementFilter, who: UserGroups) -> bool:
    """Whether the filter lets the rule apply to ``who`` (PL-10 to PL-15)."""
    users, groups = rule_filter.users, rule_filter.groups
    if not (users.listed or groups.listed):
        return rule_filter.allow
    named = _names(users, who.user) or any(_names(groups, group) for group in who.groups)
    return named == rule_filter.allow


def _names(names: NameFilter, name: str) -> bool:
    if names.expression:
        return len(name) <= SEARCHED_MAX and _compiled(names.expression).search(name) is not None
    return name in names.names


@lru_cache(maxsize=256)
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.ASCII)  # as RE2 understands \w and \d


#: Why a rule has no value; ``fixed`` always has one.
_ABSENT = {
    "provided": "the application names no queue",
    "user": "the application has no user",
    "tag": "the application has no such tag",
}


def _value(rule: PlacementRule, application: AddApplication, who: UserGroups) -> str:
    """The value from which the rule derives its queue; "" if the application has none (PL-55)."""
    match rule.name:
        case "provided":
            return application.queue_name
        case "user":
            return who.user
        case "tag":
            return tag_value(application.tags, rule.value)
    return rule.value


def _queue_name(rule: PlacementRule, value: str) -> str | None:
    """The queue name, qualified or not, in lower case; None if ``value`` is not a legal one (PL-27 to PL-29).

    Legality is checked first, because the lower case of some letters beyond ASCII is an ASCII letter.
    """
    if rule.name == "fixed":
        return value  # its dots are hierarchy; checked with the configuration (PL-32)
    if value.startswith("root.") and rule.name != "user":
        return value.lower() if all(map(is_queue_name, value.split("."))) else None
    name = value.replace(".", "_dot_")
    return name.lower() if is_queue_name(name) else None


def _parent_path(rule: PlacementRule | None, registry: Registry, application: AddApplication, who: UserGroups) -> Outcome:
    """The parent queue of an unqualified name: the result of the parent rule, or root without one (PL-21 to PL-25)."""
    if rule is None:
        return ROOT_QUEUE
    path = evaluate(rule, registry, application, who)
    if isinstance(path, NoMatch):
        return NoMatch(f"parent {label(rule)}: {path.why}")
    if isinstance(path, Mistake):
        return path
    if path == ROOT_QUEUE:
        path = QueuePath("root.root")  # unqualified, like every parent without "root." (PL-23)
    if isinstance(registry.queues.get(path), LeafCore):
        return Mistake(f"queue {brief(path)} is a leaf and cannot be a parent (rule {label(rule)})")
    return path
