"""Recordings without names: each name becomes its rank among all names, so whatever is decided by the order of names stays.

Queue paths are renamed part by part, because only the paths of siblings are compared when something is decided. Attributes of
nodes and tags on which nothing depends are left out, and texts for people. Applications name the queue in which they were placed,
because placement rules depend on names. There is no key: nothing says which name a rank was.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from ykactor.core.config.model import PartitionConfig, PlacementRule
from ykactor.core.config.properties import PROPERTIES, mistake
from ykactor.core.messages.asks import CREATED_TAG, FOREIGN_TAG, PREDICATE_TAG, STATIC
from ykactor.core.messages.submissions import AddApplication, Submission
from ykactor.core.objects.gang import APPLICATION_CREATED_TAG
from ykactor.core.placement.rules import RECOVERY_NAME, RECOVERY_QUEUE
from ykactor.core.records.encoding import decode
from ykactor.core.turn.turn import Input, Request
from ykactor.core.values import selector
from ykactor.core.values.ids import ApplicationID, PartitionName, QueuePath
from ykactor.core.values.quantities import GUARANTEED_TAG, MAX_TAG, is_true, parse_quota
from ykactor.core.values.selector import Requirement
from ykactor.wire.scenario.recording import Line, Lives, Rows, TurnLine, line_of, turn_of

#: Names that are those of ykactor, not of its users, in their order.
KEPT = ("", "*", RECOVERY_NAME, "default", "root", "x")
#: How the codes of other names begin: before these, between them, and after them. No user's name is before ``@``.
_PREFIXES = ("", "#", "0", "a", "n", "t", "z")
#: Resource types with a meaning of their own.
TYPES_KEPT = ("memory", "vcore")
_TYPE_PREFIXES = ("a", "n", "w")
#: Kinds of rows of the past, on which no decision depends.
PAST = frozenset({"account", "ended", "rejected", "use"})
#: Fields with a queue path, with words of ykactor, and with texts for people.
_PATHS = frozenset({"path", "queue", "queue_name", "queues"})
_WORDS = frozenset({"gang_scheduling_style", "preemption_policy", "sort_policy", "type", "user_group_resolver"})
_TEXTS = frozenset({"ending", "error", "failure", "message", "reason", "refusal", "signal", "why"})
#: What stands for a text, and for an attribute that no selector compares.
TEXT = "-"
#: Tags that pin an ask to a node, and tags of applications that are true or false.
_NODE_TAGS = frozenset({"kubernetes.io/meta/requiredNode", "yunikorn.apache.org/requiredNode"})
_FLAGS = frozenset({"application.create.force", "application.stateaware.disable"})
_MAX_APPLICATIONS_TAG = "namespace.resourcemaxapps"
#: Placement by the queue that an application names.
_PINNED = (PlacementRule("provided", create=True),)
#: A queue name that is illegal, so it places not even forced applications.
NOWHERE = "root..x"


class Names:
    """All names of a recording, and after ``rank`` what each becomes.

    Attributes:
        codes: by name, and by resource type.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._types: set[str] = set()
        #: What selectors compare, by attribute.
        self._compared: dict[str, set[str]] = {}
        self.codes: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self._is_ranked = False

    def rank(self) -> None:
        """Give each name its rank, and each resource type one between those that keep their names."""
        self._names.update(self._compared, *self._compared.values())
        self.codes = _codes(self._names - {*KEPT}, KEPT, _PREFIXES)
        self.types = _codes(self._types, TYPES_KEPT, _TYPE_PREFIXES)
        self._is_ranked = True

    def name(self, text: str) -> str:
        """The code of a name."""
        if text in KEPT:
            return text
        if not self._is_ranked:
            self._names.add(text)
            return text
        return self.codes[text]

    def path(self, text: str) -> str:
        """The codes of the parts of a path."""
        return ".".join(map(self.name, text.lower().split(".")))

    def type(self, text: str) -> str:
        """The code of a resource type."""
        if text in TYPES_KEPT:
            return text
        self._types.add(text)
        return self.types.get(text, text)

    def requirement(self, found: Requirement) -> Requirement:
        """A condition of a selector."""
        if not self._is_ranked:
            self._compared.setdefault(found.key, set()).update(found.values or ())
            return found
        values = None if found.values is None else tuple(map(self.name, found.values))
        return Requirement(self.name(found.key), values, found.holds)

    def attributes(self, found: Mapping[str, str]) -> dict[str, str]:
        """The attributes of a node that selectors name; a value that none compares only says that it is there."""
        kept = {key: value for key, value in found.items() if key in self._compared}
        return {self.name(key): self.name(value) if value in self._compared[key] else TEXT for key, value in sorted(kept.items())}


def _codes(names: set[str], kept: Sequence[str], prefixes: Sequence[str]) -> dict[str, str]:
    """The codes of names, in the same order, also with those that are kept between them."""
    width = len(str(len(names)))
    return {name: f"{prefixes[bisect(kept, name)]}{rank:0{width}}" for rank, name in enumerate(sorted(names), 1)}


def anonymised(lines: Callable[[], Iterable[Line]], names: Names) -> Iterator[Line]:
    """The lines of a recording without names; ``lines`` is called twice. Memory: the names."""
    renaming = Renaming(names)
    for line in lines():
        renaming.line(line)
    names.rank()
    yield from map(renaming.line, lines())


class Renaming:
    """Renames everything in lines; before the names are ranked it only collects them."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def line(self, line: Line) -> Line:
        """A line with codes."""
        if isinstance(line, Rows):
            name = PartitionName(self._names.name(line.partition_name))
            rows = (self._row(bytes(key), bytes(row)) for key, row in line.rows)
            return structs.replace(line, partition_name=name, rows=[row for row in rows if row is not None])
        if isinstance(line, Lives):
            name = PartitionName(self._names.name(line.partition_name))
            lives = [(self._names.name(owner), self._names.name(key), life) for owner, key, life in line.lives]
            return structs.replace(line, partition_name=name, lives=lives)
        if isinstance(line, TurnLine):
            turn = turn_of(line)
            cause, name = turn.cause, PartitionName(self._names.name(turn.partition))
            if isinstance(cause, Input):
                cause = Input([self._value("", each) for each in cause.submissions])
            elif isinstance(cause, Request):
                cause = Request(self._value("", cause.wanted))
            return line_of(line.at_ns, structs.replace(turn, partition=name, cause=cause))
        return line

    def _row(self, key: bytes, data: bytes) -> tuple[Raw, Raw] | None:
        partition, (kind, *identity), row = decode(key, data)
        if kind in PAST:
            return None
        renamed = [self._identity(str(kind), place, each) for place, each in enumerate(identity)]
        encode = msgspec.json.encode
        return Raw(encode([self._names.name(partition), kind, *renamed])), Raw(encode(self._value("", row)))

    def _identity(self, kind: str, place: int, found: str | int) -> str | int:
        if isinstance(found, int):
            return found
        if kind in ("queue", "quota_clock") or (kind == "taken" and place < 2):
            return self._names.path(found)
        return self._names.type(found) if kind == "taken" else self._names.name(found)

    # ---- values by the names of their fields

    def _value(self, field: str, found: Any) -> Any:
        match found:
            case None | bool() | int() | float() | Enum():
                return found
            case str():
                return self._text(field, found)
            case Struct():
                if isinstance(found, PartitionConfig):
                    found = structs.replace(found, placement_rules=())
                changed = {name: self._value(name, getattr(found, name)) for name in found.__struct_fields__}
                if isinstance(found, PartitionConfig):
                    changed["placement_rules"] = _PINNED
                return type(found)(**changed)
            case dict():
                return self._mapping(field, found)
            case tuple() | list() | frozenset() | set():
                return type(found)(self._value(field, each) for each in found)
        raise AssertionError(f"{field}: {found!r}")

    def _text(self, field: str, found: str) -> str:
        if field in _WORDS:
            return found
        if field in _TEXTS:
            return TEXT if found else ""
        return self._names.path(found) if field in _PATHS else self._names.name(found)

    def _mapping(self, field: str, found: dict[str, Any]) -> dict[str, Any]:
        if field in ("properties", "property_map"):
            return {name: value for name, value in found.items() if name in PROPERTIES and not mistake(name, value)}
        if field == "attributes":
            return self._names.attributes(found)
        if field == "tags":
            return {tag: renamed for tag, value in found.items() if (renamed := self._tag(tag, value)) is not None}
        if field == "timers":
            return found
        if all(isinstance(value, int | float) for value in found.values()):
            return {self._names.type(name): value for name, value in found.items()}
        return {self._names.name(name): self._value(field, value) for name, value in found.items()}

    # ---- tags

    def _tag(self, tag: str, value: str) -> str | None:
        """The value of a tag on which decisions depend; None for any other."""
        if tag == selector.TAG:
            return self._selector(value)
        if tag == PREDICATE_TAG or tag in _NODE_TAGS:
            return self._names.name(value)
        if tag in (CREATED_TAG, APPLICATION_CREATED_TAG) or tag.lower() == _MAX_APPLICATIONS_TAG:
            return value if value.isdecimal() else None
        if tag == FOREIGN_TAG:
            return value if value == STATIC else TEXT
        if tag.lower() in _FLAGS:
            return "true" if is_true(value.lower()) else "false"
        return self._quota(value) if tag.lower() in (MAX_TAG, GUARANTEED_TAG) else None

    def _selector(self, value: str) -> str:
        try:
            found = selector.parse(value)
        except selector.SelectorError:
            return "="  # it is refused, as it was
        return ",".join(selector.text(self._names.requirement(each)) for each in found)

    def _quota(self, value: str) -> str | None:
        """The quotas of a queue, whose types are names too."""
        found = parse_quota(value)
        if found is None:
            return None
        resources = {self._names.type(name): {"value": amount} for name, amount in found.items()}
        return msgspec.json.encode({"resources": resources}).decode()


def pinned(submissions: list[Submission], placed: Mapping[ApplicationID, QueuePath]) -> list[Submission]:
    """The submissions with the queues in which applications were placed; those that were refused name one that is not there."""
    return [
        structs.replace(each, queue_name=_named_queue(placed.get(each.application_id)))
        if isinstance(each, AddApplication)
        else each
        for each in submissions
    ]


def _named_queue(queue: QueuePath | None) -> str:
    if queue is None:
        return NOWHERE
    return "" if queue == RECOVERY_QUEUE else queue  # no rule leads there
