"""How long the texts of an entry may be (AP-138), so that what is kept and reported of an entry is bounded."""

from collections.abc import Iterator

import msgspec

#: Bytes in UTF-8 of an identifier, a name, a key or a value.
TEXT_MAX = 4096
#: The limits of fields that may be longer, by their paths. A path of queues has up to 128 levels of 64 characters each.
_LONGER = {"queueName": 4 * TEXT_MAX}

_encode = msgspec.msgpack.Encoder().encode


def objection(entry: msgspec.Struct) -> str:
    """The path of a text in ``entry`` that is too long, with what was found and what was expected; "" if there is none.

    Cost: 0.3 us for most entries, whose encoding as a whole is shorter than one text may be.
    """
    if len(_encode(entry)) <= TEXT_MAX:
        return ""
    return next(_too_long(msgspec.to_builtins(entry), ""), "")


def shortened(text: str) -> str:
    """``text``, cut if it is too long. The result is then still too long to be equal to a legal text."""
    return text if _size(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."


def _too_long(tree: object, path: str) -> Iterator[str]:
    if isinstance(tree, str):
        limit = _LONGER.get(path, TEXT_MAX)
        if _size(tree) > limit:
            yield f"{path}: found {_size(tree)} bytes, expected at most {limit}"
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _too_long(item, f"{path}[{index}]")
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if _size(key) > TEXT_MAX:
                yield f"{path}: found a key of {_size(key)} bytes, expected at most {TEXT_MAX}"
            yield from _too_long(value, f"{path}.{key}" if path else key)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
