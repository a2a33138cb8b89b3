"""Validates placement rules: E28 to E35 and E36a."""

from collections.abc import Callable, Iterator
from itertools import takewhile

from ykactor.core.config.model import NameFilter
from ykactor.core.placement.rules import RECOVERY_QUEUE, RULES
from ykactor.core.values import expressions
from ykactor.core.values.names import is_group_name, is_rule_name, is_user_name
from ykactor.core.values.quantities import is_queue_name, shown
from ykactor.wire.queuefile.fields import Key, note
from ykactor.wire.queuefile.schema import FILTER_TYPES, FilterText, PartitionText, QueueText, RuleText
from ykactor.wire.queuefile.text import Mistakes

# ---- filters: literal names, or one regular expression (PL-13 to PL-17)

#: A single entry with one of these characters is an expression.
_SPECIAL = frozenset("^$*+?()[{}|")

IsName = Callable[[str], bool]


def name_filter_objection(entries: list[str], is_name: IsName) -> str:
    """The reason for which the list is refused (E30, E31), or "". A list of several entries is never refused."""
    if len(entries) != 1:
        return ""
    (entry,) = entries
    if not is_expression(entry):
        return "" if is_name(entry) else f"found {shown(entry)}, expected a name or a regular expression"
    wrong = expressions.objection(entry)
    return f"found {shown(entry)}, {wrong}" if wrong else ""


def is_expression(entry: str) -> bool:
    """True if an entry that is alone in its list is an expression; ``a.b`` is a name."""
    return not _SPECIAL.isdisjoint(entry)


def name_filter(entries: list[str], is_name: IsName) -> NameFilter:
    """The filter of a list without ``name_filter_objection``; of several entries only valid names count (PL-14)."""
    if len(entries) == 1 and is_expression(entries[0]):
        return NameFilter(listed=True, expression=entries[0])
    return NameFilter(listed=bool(entries), names=frozenset(filter(is_name, entries)))


#: Levels of nested parent rules. Each adds at least one level of queues, whose depth is bounded too.
DEPTH_MAX = 64


def chain_of(rule: RuleText) -> Iterator[RuleText]:
    """The rule, its parent rule, and so on; the last one determines the queue nearest to root (PL-21)."""
    link: RuleText | None = rule
    while link is not None:
        yield link
        link = link.parent


def kind_of(rule: RuleText) -> str:
    """The name of the rule in lower case; the file may use any case (PL-6)."""
    return rule.name.lower()


def check(partition: PartitionText, mistakes: Mistakes) -> None:
    """E28 to E35 and E36a of every rule."""
    if not partition.placement_rules or partition.root is None:
        return
    queues = {queue.path: queue for queue in partition.root.walk()}
    for rule in partition.placement_rules:
        found_before = len(mistakes.found)
        chain = list(chain_of(rule))
        for link in chain:
            _check_rule(link, mistakes)
        if len(chain) > DEPTH_MAX:
            text = f"found {len(chain) - 1} nested parent rules, expected at most {DEPTH_MAX - 1}"
            note(mistakes, "E36a", rule, ("parent",), text)
        if len(mistakes.found) == found_before:
            _check_static_path(chain, queues, mistakes)


def _check_rule(rule: RuleText, mistakes: Mistakes) -> None:
    """E28 to E31, and the part of E36a that does not depend on the queues."""
    kind = kind_of(rule)
    if not is_rule_name(rule.name):
        note(mistakes, "E28", rule, ("name",), f"found {shown(rule.name)}, expected one of {', '.join(RULES)}")
    elif kind not in RULES:
        reason = "which is built in and cannot be configured" if kind == "recovery" else "which is not a rule"
        note(mistakes, "E36a", rule, ("name",), f"found {shown(rule.name)}, {reason}, expected one of {', '.join(RULES)}")
    if rule.filter is not None:
        _check_filter(rule.filter, mistakes)
    if kind in RULES and RULES[kind].configured and not rule.value:
        note(mistakes, "E36a", rule, ("value",), f"found no value, expected {RULES[kind].configured}")
    elif kind == "fixed":
        _check_fixed(rule, mistakes)


def _check_filter(text: FilterText, mistakes: Mistakes) -> None:
    """E29 to E31."""
    if text.type.lower() not in FILTER_TYPES:
        note(mistakes, "E29", text, ("type",), f"found {shown(text.type)}, expected allow or deny")
    if problem := name_filter_objection(text.users, is_user_name):
        note(mistakes, "E30", text, ("users", 0), problem)
    if problem := name_filter_objection(text.groups, is_group_name):
        note(mistakes, "E31", text, ("groups", 0), problem)


def _check_fixed(rule: RuleText, mistakes: Mistakes) -> None:
    """E32, and E36a for the value: it may have several levels (PL-26), and if it starts with root no parent rule (PL-32)."""
    illegal = [part for part in rule.value.split(".") if not is_queue_name(part)]
    if illegal:
        text = f"found {shown(rule.value)}, expected queue names joined by dots; {shown(illegal[0])} is not a queue name"
        note(mistakes, "E36a", rule, ("value",), text)
    elif rule.value.lower() == RECOVERY_QUEUE or rule.value.lower().startswith(RECOVERY_QUEUE + "."):
        text = f"found {shown(rule.value)}, the recovery queue, which a rule may not choose (PL-31)"
        note(mistakes, "E36a", rule, ("value",), text)
    elif _is_qualified(rule.value) and rule.parent is not None:
        *_, innermost = chain_of(rule.parent)
        code = "E32" if kind_of(innermost) == "fixed" else "E36a"
        text = f"found {shown(rule.value)} and a parent rule, expected one of them: a value that starts with root is a full path"
        note(mistakes, code, rule, ("value",), text)


def _is_qualified(value: str) -> bool:
    """PL-33: whether the value is a full path, which starts with root."""
    return value.lower() == "root" or value.lower().startswith("root.")


def _check_static_path(chain: list[RuleText], queues: dict[str, QueueText], mistakes: Mistakes) -> None:
    """E33 to E35: the path of the ``fixed`` rules nearest to root must match the configured queues."""
    fixed = list(takewhile(lambda rule: kind_of(rule) == "fixed", reversed(chain)))
    if not fixed:
        return
    path, is_whole = _static_path(fixed, chain), len(fixed) == len(chain)
    where: tuple[RuleText, tuple[Key, ...]] = (fixed[-1], ("value",))
    queue = queues.get(path)
    if queue is not None and is_whole and queue.is_parent:
        note(mistakes, "E33", *where, f"found {path}, which is a parent, expected a leaf")
    elif queue is not None and not is_whole and not queue.is_parent:
        text = f"found {path}, which is a leaf, expected a parent: the outer rule names a queue below it"
        note(mistakes, "E33", *where, text)
    elif queue is None:
        ancestor = _nearest(path, queues)
        if not ancestor.is_parent:
            note(mistakes, "E35", *where, f"found {path} below {ancestor.path}, which is a leaf and cannot have queues below it")
        elif not chain[0].create:
            text = f"found {path}, which does not exist, expected a queue of the file, or create: true in the outermost rule"
            note(mistakes, "E34", *where, text)


def _static_path(fixed: list[RuleText], chain: list[RuleText]) -> str:
    """The path of ``fixed``, whose first rule is the nearest to root. The path of a parent rule is always below root (PL-23)."""
    path = ""
    for rule in fixed:
        value = rule.value.lower()
        path = value if _is_qualified(value) else f"{path or 'root'}.{value}"
        if rule is not chain[0] and path == "root":
            path = "root.root"
    return path


def _nearest(path: str, queues: dict[str, QueueText]) -> QueueText:
    """The deepest configured queue above the missing ``path``. Searched from root: a value may have thousands of levels."""
    nearest = "root"
    while True:
        below = path.find(".", len(nearest) + 1)
        if below < 0 or path[:below] not in queues:
            return queues[nearest]
        nearest = path[:below]
