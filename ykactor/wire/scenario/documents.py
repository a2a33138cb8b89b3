"""Texts of YAML and JSON as values, with the place of every value.

In YAML only the numbers, booleans and nulls of JSON are read as such: ``010``, ``1:30``, ``yes`` and dates stay text, because
quantities and names are written like this. JSON is read by a fast decoder without places; only when a place is asked for, the
text is composed as YAML, which JSON is, but for rare escapes.
"""

import re

import msgspec
from msgspec import structs

from ykactor.wire.queuefile.fields import TextReader
from ykactor.wire.queuefile.places import Key, Place, find, join
from ykactor.wire.queuefile.text import ConfigError, Mapping, Mistake, Mistakes, Node, Scalar, Sequence, compose
from ykactor.wire.si.codec import ProtocolError, refuse_repeated_keys

_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
#: Longer numbers stay text: Python converts at most 4300 digits.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
#: What a decoder adds to its reason: the byte at which the text is not JSON, or a path without names.
_BYTE = re.compile(r" - at `.*| ?\(byte (\d+)\)")


class Document:
    """A text and its value.

    Attributes:
        tree: as builtins.
    """

    def __init__(self, tree: object, text: str, line: int, root: Node | None = None) -> None:
        """``line`` is the line of the file in which the text begins."""
        self.tree = tree
        self._text = text
        self._line = line
        self._root = root

    def place(self, keys: tuple[Key, ...], *, of_key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value at ``keys``, or of its key; of the nearest one above it if it is missing."""
        if self._root is None:
            self._root = _root(self._text)
        node = find(self._root, *keys)
        if of_key:
            above = _value_at(self._root, keys[:-1])
            entry = above.entry(str(keys[-1])) if isinstance(above, Mapping) else None
            node = entry[0] if entry else node
        return node.line + self._line - 1, node.column


def yaml_document(text: str, mistakes: Mistakes) -> Document:
    """``text`` as YAML; adds a mistake for each repeated key and tag.

    Raises:
        ConfigError if it is not YAML.
    """
    root = compose(text, mistakes) or Scalar(1, 1, "", plain=True)
    return Document(_builtins(root, "", TextReader(mistakes)), text, 1, root)


def json_document(text: str, line: int, mistakes: Mistakes) -> Document | None:
    """``text`` as JSON, which begins in ``line`` of the file; None with a mistake if it is not JSON or repeats a key."""
    try:
        tree: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        place = _place_of_error(str(error), text, line)
        mistakes.found.append(Mistake(mistakes.source, *place, "", f"not JSON: {_BYTE.sub('', str(error))}"))
        return None
    try:
        refuse_repeated_keys(text)
    except ProtocolError as error:
        first = Mistake(mistakes.source, line, 1, error.path, error.message)
        mistakes.found += _repeated_keys(text, line, first) or [first]
        return None
    return Document(tree, text, line)


def _repeated_keys(text: str, line: int, first: Mistake) -> list[Mistake]:
    """A mistake like ``first`` for each repeated key of a JSON text; [] if it cannot be composed as YAML."""
    found = Mistakes("")
    try:
        yaml_document(text, found)
    except ConfigError:
        return []
    return [structs.replace(first, line=each.line + line - 1, column=each.column, path=each.path) for each in found.found]


def _root(text: str) -> Node:
    try:
        root = compose(text, Mistakes(""))
    except ConfigError:
        root = None
    return root or Scalar(1, 1, "", plain=True)


def _value_at(node: Node, keys: tuple[Key, ...]) -> Node:
    """The node at the end of this path, or the last one on the way to it."""
    for key in keys:
        if isinstance(node, Sequence) and isinstance(key, int):
            node = node.nodes[key]
        elif isinstance(node, Mapping) and (entry := node.entry(str(key))):
            node = entry[1]
    return node


def _builtins(node: Node, path: str, reader: TextReader) -> object:
    if isinstance(node, Scalar):
        return _scalar(node)
    if isinstance(node, Sequence):
        return [_builtins(item, join(path, index), reader) for index, item in enumerate(node.nodes)]
    entries = reader.entries(node, Place(node, path))
    return {key: _builtins(value, join(path, key), reader) for key, (_, value) in entries.items()}


def _scalar(node: Scalar) -> object:
    """A value of JSON if it is written like one."""
    if not node.plain:
        return node.text
    if node.is_null:
        return None
    if _INTEGER.fullmatch(node.text):
        return int(node.text)
    if _FLOAT.fullmatch(node.text):
        return float(node.text)
    return _WORDS.get(node.text, node.text)


def _place_of_error(error: str, text: str, line: int) -> tuple[int, int]:
    """Line and column at which a decoder found an error."""
    data, match = text.encode(), _BYTE.search(error)
    before = data[: int(match[1]) if match and match[1] else len(data)].decode(errors="replace")
    return line + before.count("\n"), len(before) - before.rfind("\n")
