"""Typed values of the YAML nodes of a file (CF-3 to CF-10), with their places in it.

``TextReader`` makes an instance of a ``Text`` type from a node. The type defines the keys of a mapping and the types of their
values. A wrong value is recorded as a mistake with code, position and path, and counts as not set, so that one run finds every
mistake. The rules of validation read the fields of texts, and ``note`` mistakes at their places.
"""

import difflib
import functools
import math
import re
from typing import Any, ClassVar, Protocol, Self, TypeVar

from msgspec import Struct, inspect

from ykactor.core.config.properties import PROPERTIES
from ykactor.core.values.quantities import parse_uint64, shown
from ykactor.wire.queuefile.text import Mapping, Mistakes, Node, Scalar, Sequence

_SIMPLE_KEY = re.compile(r"[\w:#/@-][\w.:#/@-]*")

Key = str | int


class Place(Struct, frozen=True):
    """The place of a mapping in the file."""

    node: Node
    #: ``partitions[0].queues[0].queues[1]``
    position: str
    #: An addition to the position, for example the queue path ``root.b``; "" for none.
    label: str = ""

    @property
    def path(self) -> str:
        """``partitions[0].queues[0].queues[1](root.b)``"""
        return f"{self.position}({self.label})" if self.label else self.position


class Text(Struct, dict=True, forbid_unknown_fields=True, rename=lambda name: name.replace("_", "")):
    """A mapping as written in the file: its fields are the keys; the field of a null or missing key has its default.

    ``place`` and ``unread`` are not fields: texts with equal content are equal.
    """

    #: True if a path shows the label of this mapping, instead of the labels of mappings above.
    labelled: ClassVar[bool] = False

    @classmethod
    def label(cls, node: Mapping, above: str, siblings: int) -> str:
        """The label of one of ``siblings`` mappings in a list, below a mapping with the label ``above``."""
        return ""

    @classmethod
    def refused(cls, place: Place) -> frozenset[str]:
        """The keys of this type that are a mistake at ``place``, so that messages do not propose them."""
        return frozenset()

    @property
    def place(self) -> Place:
        place: Place = self.__dict__["place"]
        return place

    @property
    def unread(self) -> set[str]:
        """The keys with a mistake in their value: their fields have the default, or a part of the value."""
        unread: set[str] = self.__dict__["unread"]
        return unread

    def placed(self, place: Place) -> Self:
        """Sets the place, with no unread keys; returns the same text."""
        self.__dict__.update(place=place, unread=set())
        return self


def join(path: str, *keys: Key) -> str:
    """``path`` with ``keys`` added; unusual keys are quoted, so that a path is always one line."""
    for key in keys:
        if isinstance(key, int):
            path = f"{path}[{key}]"
        else:
            word = key if len(key) <= 100 and _SIMPLE_KEY.fullmatch(key) else shown(key)
            path = f"{path}.{word}" if path else word
    return path


def find(node: Node, *keys: Key) -> Node:
    """The node whose position a mistake at ``keys`` below ``node`` has: the value if it is a scalar, else its key.

    If there is no value at ``keys``, the last node on the way to it.
    """
    place = node
    for key in keys:
        if isinstance(key, int) and isinstance(node, Sequence):
            place = node = node.nodes[key]
        elif isinstance(key, str) and isinstance(node, Mapping) and (entry := node.entry(key)):
            name, node = entry
            place = node if isinstance(node, Scalar) and not node.is_null else name
        else:
            break
    return place


def note(mistakes: Mistakes, code: str, text: Text, keys: tuple[Key, ...], message: str) -> None:
    """Add a mistake at ``keys`` below ``text``, unless the value there is unread: that is a reported mistake already."""
    if not keys or keys[0] not in text.unread:
        mistakes.add(code, find(text.place.node, *keys), join(text.place.path, *keys), message)


_TRUE = frozenset(("true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"))
_FALSE = frozenset(("false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"))
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")

AnyText = TypeVar("AnyText", bound=Text)


class TextReader:
    """Reads nodes and adds mistakes to ``mistakes``. A wrong value is returned as None, or left out of its list or mapping.

    The methods take the place of a mapping and the keys that lead from there to the node; a path is built for mistakes only.
    """

    def __init__(self, mistakes: Mistakes) -> None:
        self.mistakes = mistakes

    def fields(self, kind: type[AnyText], place: Place) -> AnyText:
        """The mapping at ``place``, with every known key whose value is set and valid."""
        text, readers = kind().placed(place), _readers(kind)
        for key, (name, node) in self.entries(place.node, place).items():
            if key not in readers:
                meant, advice = _meant(key, kind, kind.refused(place))
                text.unread.update(meant)
                self.mistakes.add("P2", name, join(place.path, key), f"unknown key, {advice}")
            elif not (isinstance(node, Scalar) and node.is_null):
                found_before = len(self.mistakes.found)
                attribute, read = readers[key]
                value = read(self, node, place, key)
                if value is not None:
                    setattr(text, attribute, value)
                if len(self.mistakes.found) > found_before:
                    text.unread.add(key)
        return text

    def entries(self, node: Node, place: Place, *keys: Key) -> dict[str, tuple[Scalar, Node]]:
        """The entries of a mapping, key node and value node, by key."""
        if not isinstance(node, Mapping):
            self.wrong_kind(node, "a mapping", place, keys)
            return {}
        entries: dict[str, tuple[Scalar, Node]] = {}
        for key, value in node.entries():
            if not isinstance(key, Scalar):
                self.mistakes.add("P4", key, join(place.path, *keys), f"found {_kind(key)} as a key, expected text")
            elif key.plain and key.text == "<<":
                text = "merge keys (<<) are not supported, write the keys out"
                self.mistakes.add("P2", key, join(place.path, *keys), text)
            elif key.text in entries:
                line = entries[key.text][0].line
                self.mistakes.add("P3", key, join(place.path, *keys, key.text), f"the key was already set in line {line}")
            else:
                entries[key.text] = (key, value)
        return entries

    def mapping(self, node: Node, place: Place, *keys: Key, kind: type[AnyText]) -> AnyText | None:
        """A mapping with fixed keys."""
        if isinstance(node, Mapping):
            return self.fields(kind, Place(node, join(place.path, *keys)))
        self.wrong_kind(node, "a mapping", place, keys)
        return None

    def mappings(self, node: Node, place: Place, *keys: Key, kind: type[AnyText]) -> list[AnyText] | None:
        """A list of mappings with fixed keys."""
        position = join(place.position if kind.labelled else place.path, *keys)
        if not isinstance(node, Sequence):
            self.wrong_kind(node, "a list", Place(node, position), ())
            return None
        texts: list[AnyText] = []
        for index, item in enumerate(node.nodes):
            at = join(position, index)
            if isinstance(item, Mapping):
                texts.append(self.fields(kind, Place(item, at, kind.label(item, place.label, len(node.nodes)))))
            else:
                self.wrong_kind(item, "a mapping", Place(item, at), ())
        return texts

    def items(self, node: Node, place: Place, *keys: Key, read: "Read") -> list[Any] | None:
        """A list of scalars."""
        if not isinstance(node, Sequence):
            self.wrong_kind(node, "a list", place, keys)
            return None
        values = (read(self, item, place, *keys, index) for index, item in enumerate(node.nodes))
        return [value for value in values if value is not None]

    def values(self, node: Node, place: Place, *keys: Key, read: "Read") -> dict[str, Any]:
        """A mapping with any keys and scalar values."""
        entries = self.entries(node, place, *keys).items()
        read_entries = ((key, read(self, value, place, *keys, key)) for key, (_, value) in entries)
        return {key: value for key, value in read_entries if value is not None}

    def text(self, node: Node, place: Place, *keys: Key) -> str | None:
        """The source text of a scalar; "" for null (CF-5)."""
        if isinstance(node, Scalar):
            return "" if node.is_null else node.text
        self.wrong_kind(node, "text", place, keys)
        return None

    def boolean(self, node: Node, place: Place, *keys: Key) -> bool | None:
        """CF-6: a YAML 1.1 word for true or false."""
        if isinstance(node, Scalar) and node.plain and node.text in _TRUE:
            return True
        if isinstance(node, Scalar) and node.plain and node.text in _FALSE:
            return False
        self.wrong_scalar("P5", node, "true or false", place, keys)
        return None

    def unsigned(self, node: Node, place: Place, *keys: Key) -> int | None:
        """CF-7: an integer from 0 to 2**64 - 1."""
        value = parse_uint64(node.text) if isinstance(node, Scalar) and node.plain else None
        if value is None:
            self.wrong_scalar("P6", node, "a whole number from 0 to 2**64 - 1, without quotes", place, keys)
        return value

    def number(self, node: Node, place: Place, *keys: Key) -> float | None:
        """CF-8: a finite number."""
        if isinstance(node, Scalar) and node.plain and _FLOAT.fullmatch(node.text):
            value = float(node.text)
            if math.isfinite(value):
                return value
        self.wrong_scalar("P7", node, "a finite number, without quotes", place, keys)
        return None

    def wrong_kind(self, node: Node, expected: str, place: Place, keys: tuple[Key, ...]) -> None:
        self.mistakes.add("P4", node, join(place.path, *keys), f"found {_kind(node)}, expected {expected}")

    def wrong_scalar(self, code: str, node: Node, expected: str, place: Place, keys: tuple[Key, ...]) -> None:
        if not isinstance(node, Scalar):
            self.wrong_kind(node, expected, place, keys)
            return
        found = "null" if node.is_null else shown(node.text) if node.plain else f"the quoted text {shown(node.text)}"
        self.mistakes.add(code, node, join(place.path, *keys), f"found {found}, expected {expected}")


def _kind(node: Node) -> str:
    if isinstance(node, Scalar):
        return "null" if node.is_null else shown(node.text)
    return "a mapping" if isinstance(node, Mapping) else "a list"


class Read(Protocol):
    """A method of ``TextReader`` for values of one type."""

    def __call__(self, reader: TextReader, node: Node, place: Place, /, *keys: Key) -> Any: ...


@functools.cache
def _readers(kind: type[Text]) -> dict[str, tuple[str, Read]]:
    """The attribute and the function that reads its value, by key."""
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    return {field.encode_name: (field.name, _reader(field.type)) for field in struct.fields}


@functools.lru_cache(maxsize=64)
def _meant(key: str, kind: type[Text], refused: frozenset[str]) -> tuple[list[str], str]:
    """The allowed key that is most similar to an unknown one, if any, and the advice for the message."""
    allowed = [name for name in _readers(kind) if name not in refused]
    if "properties" in allowed and (name := _property_like(key)):
        return [], f"did you mean {name} in properties?"
    close = difflib.get_close_matches(key[:40].lower(), allowed, n=1)
    return close, f"did you mean {close[0]}?" if close else f"expected one of {', '.join(allowed)}"


def _property_like(key: str) -> str:
    """The property whose name is ``key``, apart from dots, other separators and case; "" if there is none."""
    return _BY_LETTERS.get(_letters(key), "")


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name)).lower()


_BY_LETTERS = {_letters(name): name for name in PROPERTIES}


def _reader(kind: inspect.Type) -> Read:
    """The function that reads values of ``kind``."""
    match _bare(kind):
        case inspect.StrType():
            return TextReader.text
        case inspect.BoolType():
            return TextReader.boolean
        case inspect.IntType():
            return TextReader.unsigned
        case inspect.FloatType():
            return TextReader.number
        case inspect.DictType() as mapping:
            return functools.partial(TextReader.values, read=_reader(mapping.value_type))
        case inspect.ListType() as items if isinstance(item := _bare(items.item_type), inspect.StructType):
            return functools.partial(TextReader.mappings, kind=item.cls)
        case inspect.ListType() as items:
            return functools.partial(TextReader.items, read=_reader(items.item_type))
        case inspect.StructType() as struct:
            return functools.partial(TextReader.mapping, kind=struct.cls)
    raise TypeError(f"there is no reader for {kind}")


def _bare(kind: inspect.Type) -> inspect.Type:
    """The type without descriptions, and without the None of values that are not set."""
    while isinstance(kind, inspect.Metadata | inspect.UnionType):
        kind = kind.type if isinstance(kind, inspect.Metadata) else kind.types[0]
    return kind
