"""Typed values out of YAML nodes (CF-3 to CF-10).

``wire.queueschema`` says what it expects of a node; what is wrong is noted with code, position and path, and the reader
goes on with "not set", so that one run finds every mistake.
"""

import difflib
import functools
import math
import re

from ykactor.core.quantities import parse_uint64, shown
from ykactor.wire.yamltext import Mapping, Mistakes, Node, Scalar, Sequence

_TRUE = frozenset(("true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"))
_FALSE = frozenset(("false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"))
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SIMPLE_KEY = re.compile(r"[\w:#/@-][\w.:#/@-]*")


def join(path: str, key: str) -> str:
    """``path`` with ``key`` added; odd keys in quotes, so that a path stays on one line."""
    word = key if len(key) <= 100 and _SIMPLE_KEY.fullmatch(key) else shown(key)
    return f"{path}.{word}" if path else word


def find(node: Node, *keys: str) -> Node:
    """Where to point for a mistake at ``keys`` below ``node``: the value if it is a scalar, else its key.

    Cost:    reads every entry on the way; meant for mistakes, not for reading.
    """
    place = node
    for key in keys:
        if not isinstance(node, Mapping):
            break
        for name, value in node.entries():
            if isinstance(name, Scalar) and name.text == key:
                place, node = (value if isinstance(value, Scalar) and not value.is_null else name), value
                break
        else:
            break
    return place


class FieldReader:
    """Reads nodes; notes mistakes in ``mistakes``."""

    def __init__(self, mistakes: Mistakes) -> None:
        self.mistakes = mistakes

    def entries(self, node: Node, path: str) -> dict[str, tuple[Scalar, Node]] | None:
        """Key and value of a mapping's entries by key; None if ``node`` is null or no mapping at all."""
        if isinstance(node, Scalar) and node.is_null:
            return None
        if not isinstance(node, Mapping):
            self.wrong_kind(node, path, "a mapping")
            return None
        entries: dict[str, tuple[Scalar, Node]] = {}
        for key, value in node.entries():
            if not isinstance(key, Scalar):
                self.mistakes.add("P4", key, path, f"found {_kind(key)} as a key, expected text")
            elif key.plain and key.text == "<<":
                self.mistakes.add("P2", key, path, "merge keys (<<) are not supported, write the keys out")
            elif key.text in entries:
                line = entries[key.text][0].line
                self.mistakes.add("P3", key, join(path, key.text), f"the key was already set in line {line}")
            else:
                entries[key.text] = (key, value)
        return entries

    def fields(self, node: Node, path: str, known: tuple[str, ...], later: tuple[str, ...] = ()) -> dict[str, Node]:
        """The values that are set (not null) of a mapping with fixed keys.

        Args:    known: the keys of this mapping; later: those of YuniKorn that this version refuses when they are set.
        """
        fields: dict[str, Node] = {}
        for name, (key, value) in (self.entries(node, path) or {}).items():
            is_set = not (isinstance(value, Scalar) and value.is_null)
            if name in known:
                if is_set:
                    fields[name] = value
            elif name not in later:
                self.mistakes.add("P2", key, join(path, name), f"unknown key{_suggestion(name, known)}")
            elif is_set:
                self.mistakes.add("P2", key, join(path, name), "not supported in this version, remove it")
        return fields

    def items(self, node: Node, path: str) -> list[tuple[str, Mapping]]:
        """The items of a list of mappings, each with its path; what is no mapping, null included, is left out."""
        if not isinstance(node, Sequence):
            self.wrong_kind(node, path, "a list")
            return []
        mappings: list[tuple[str, Mapping]] = []
        for index, item in enumerate(node.nodes):
            if isinstance(item, Mapping):
                mappings.append((f"{path}[{index}]", item))
            else:
                self.wrong_kind(item, f"{path}[{index}]", "a mapping")
        return mappings

    def text(self, node: Node, path: str) -> str | None:
        """The source text of a scalar, "" for null, None if it is no scalar (CF-5)."""
        if isinstance(node, Scalar):
            return "" if node.is_null else node.text
        self.wrong_kind(node, path, "text")
        return None

    def texts(self, node: Node, path: str) -> dict[str, str] | None:
        """A mapping of text to text; None if it is not set (CF-10)."""
        entries = self.entries(node, path)
        if entries is None:
            return None
        read = ((name, self.text(value, join(path, name))) for name, (_, value) in entries.items())
        return {name: text for name, text in read if text is not None}

    def boolean(self, node: Node, path: str) -> bool | None:
        """CF-6; None if it is no boolean."""
        if isinstance(node, Scalar) and node.plain and node.text in _TRUE:
            return True
        if isinstance(node, Scalar) and node.plain and node.text in _FALSE:
            return False
        self.wrong_scalar("P5", node, path, "true or false")
        return None

    def unsigned(self, node: Node, path: str) -> int | None:
        """CF-7; None if it is no integer from 0 to 2**64 - 1."""
        value = parse_uint64(node.text) if isinstance(node, Scalar) and node.plain else None
        if value is None:
            self.wrong_scalar("P6", node, path, "a whole number from 0 to 2**64 - 1, without quotes")
        return value

    def number(self, node: Node, path: str) -> float | None:
        """CF-8; None if it is no finite number."""
        if isinstance(node, Scalar) and node.plain and _FLOAT.fullmatch(node.text):
            value = float(node.text)
            if math.isfinite(value):
                return value
        self.wrong_scalar("P7", node, path, "a finite number, without quotes")
        return None

    def wrong_kind(self, node: Node, path: str, expected: str) -> None:
        self.mistakes.add("P4", node, path, f"found {_kind(node)}, expected {expected}")

    def wrong_scalar(self, code: str, node: Node, path: str, expected: str) -> None:
        if not isinstance(node, Scalar):
            self.wrong_kind(node, path, expected)
            return
        found = "null" if node.is_null else shown(node.text) if node.plain else f"the quoted text {shown(node.text)}"
        self.mistakes.add(code, node, path, f"found {found}, expected {expected}")


def _kind(node: Node) -> str:
    if isinstance(node, Scalar):
        return "null" if node.is_null else shown(node.text)
    return "a mapping" if isinstance(node, Mapping) else "a list"


@functools.lru_cache(maxsize=64)
def _suggestion(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key[:40].lower(), known, n=1)
    return f", did you mean {close[0]}?" if close else f", expected one of {', '.join(known)}"
