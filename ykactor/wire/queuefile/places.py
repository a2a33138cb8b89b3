"""Where the mappings of a YAML text stand, and the base of the types that say what is in them.

``wire.yamlfields`` makes such texts out of nodes; rules look at their fields and point at their places.
"""

import re
from typing import ClassVar, Self

from msgspec import Struct

from ykactor.core.values.quantities import shown
from ykactor.wire.queuefile.text import Mapping, Mistakes, Node, Scalar, Sequence

_SIMPLE_KEY = re.compile(r"[\w:#/@-][\w.:#/@-]*")

Key = str | int


class Place(Struct, frozen=True):
    """Where a mapping stands."""

    node: Node
    #: ``partitions[0].queues[0].queues[1]``
    position: str
    #: What a path says besides the position, for example the queue path ``root.b``; "" is nothing.
    label: str = ""

    @property
    def path(self) -> str:
        """``partitions[0].queues[0].queues[1](root.b)``"""
        return f"{self.position}({self.label})" if self.label else self.position


class Text(Struct, dict=True, forbid_unknown_fields=True, rename=lambda name: name.replace("_", "")):
    """A mapping as it is written: its fields are its keys, a null or missing key has its default.

    Place and unread keys are no fields, so that two texts are equal if they say the same.
    """

    #: Whether paths show a label, and then no longer those of the mappings above.
    labelled: ClassVar[bool] = False

    @classmethod
    def label(cls, node: Mapping, above: str, siblings: int) -> str:
        """The label of one of ``siblings`` mappings in a list within a mapping that is labelled ``above``."""
        return ""

    @property
    def place(self) -> Place:
        place: Place = self.__dict__["place"]
        return place

    @property
    def unread(self) -> set[str]:
        """The keys with a mistake in their value: their values are not what was meant."""
        unread: set[str] = self.__dict__["unread"]
        return unread

    def placed(self, place: Place) -> Self:
        """The same text with its place."""
        self.__dict__.update(place=place, unread=set())
        return self


def join(path: str, *keys: Key) -> str:
    """``path`` with ``keys`` added; odd keys in quotes, so that a path stays on one line."""
    for key in keys:
        if isinstance(key, int):
            path = f"{path}[{key}]"
        else:
            word = key if len(key) <= 100 and _SIMPLE_KEY.fullmatch(key) else shown(key)
            path = f"{path}.{word}" if path else word
    return path


def find(node: Node, *keys: Key) -> Node:
    """Where to point for a mistake at ``keys`` below ``node``: the value if it is a scalar, else its key.

    What is not there is pointed at by the last thing on the way that is.
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
    """A mistake at ``keys`` below ``text``; none if the value there could not be read: that is said already."""
    if not keys or keys[0] not in text.unread:
        mistakes.add(code, find(text.place.node, *keys), join(text.place.path, *keys), message)
