"""``Text``, the base of the types of ``schema.py`` for the mappings of a queue file, and the place of a mapping in the file.

``fields`` reads texts from nodes; the validation rules read the fields of texts and report mistakes at their places.
"""

import re
from typing import ClassVar, Self

from msgspec import Struct

from ykactor.core.values.quantities import shown
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
