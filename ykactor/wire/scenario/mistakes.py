"""Every mistake of a value that does not match its type, where msgspec reports only the first one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from ykactor.wire.queuefile.fields import Key
from ykactor.wire.si.codec import explain

#: The types by which structs declare lists and mappings.
_LISTS, _MAPPINGS = (list, Sequence), (dict, Mapping)
_MISSING = "found nothing, expected this required field"
#: The words of msgspec, and those of people who write a file.
_WORDS = {
    "array": "a list",
    "object": "a mapping",
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "bool": "true or false",
    "|": "or",
}


class Found(Struct, frozen=True):
    """A mistake: the keys that lead to it, what was found and expected, and whether a key is wrong and not its value."""

    keys: tuple[Key, ...]
    message: str
    is_key: bool = False


def mistakes_in(value: object, kind: Any, keys: tuple[Key, ...] = ()) -> Iterator[Found]:
    """The mistakes of ``value``, which is at ``keys``: those of its parts if there are any, else its own.

    Cost: a conversion for each level; nothing is looked into that is right.
    """
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inner = [found for part in _parts(value, kind, keys) for found in part]
        if inner:
            yield from inner
            return
        mistake = explain(error, value, kind)
        if mistake.path:
            yield Found((*keys, mistake.path), mistake.message)
        else:
            _, is_type, expected = mistake.message.partition(", expected ")
            expected = " ".join(_WORDS.get(word, word.removesuffix(".0")) for word in expected.split(" "))
            yield Found(keys, f"found {shown(value)}, expected {expected}" if is_type else mistake.message)


def shown(value: object) -> str:
    """A value in a message: a short one as JSON."""
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return msgspec.json.encode(value).decode()[:60]


def _parts(value: object, kind: Any, keys: tuple[Key, ...]) -> Iterator[Iterator[Found]]:
    """The mistakes of each part of a list, mapping or struct."""
    kind = _chosen(kind, value)
    if isinstance(value, list) and get_origin(kind) in _LISTS:
        (item,) = get_args(kind)
        yield from (mistakes_in(part, item, (*keys, index)) for index, part in enumerate(value))
    elif isinstance(value, dict) and get_origin(kind) in _MAPPINGS:
        _, item = get_args(kind)
        yield from (mistakes_in(part, item, (*keys, key)) for key, part in value.items())
    elif isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Struct):
        yield _fields(value, kind, keys)


def _fields(value: dict[str, Any], kind: type[Struct], keys: tuple[Key, ...]) -> Iterator[Found]:
    config = kind.__struct_config__
    fields = {field.encode_name: field for field in structs.fields(kind)}
    for key in value:
        if config.forbid_unknown_fields and key not in fields and key != config.tag_field:
            yield Found((*keys, key), "found a field that does not exist here", is_key=True)
    for key, field in fields.items():
        if key in value:
            yield from mistakes_in(value[key], field.type, (*keys, key))
        elif field.required:
            yield Found((*keys, key), _MISSING)


def _chosen(kind: Any, value: object) -> Any:
    """The only member of a union that has parts, or the one for ``value``: a list, a mapping, or the message that it names."""
    members = [] if _has_parts(kind) else [member for member in get_args(kind) if _has_parts(member)]
    return members[0] if len(members) == 1 else next((member for member in members if _is_for(member, value)), kind)


def _is_for(member: Any, value: object) -> bool:
    """True if a member of a union is the type of a list or mapping."""
    origins = _LISTS if isinstance(value, list) else _MAPPINGS if isinstance(value, dict) else ()
    tag = None if get_origin(member) else member.__struct_config__.tag
    return get_origin(member) in origins or (tag is not None and isinstance(value, dict) and value.get("type") == tag)


def _has_parts(kind: Any) -> bool:
    return get_origin(kind) in (*_LISTS, *_MAPPINGS) or (isinstance(kind, type) and issubclass(kind, Struct))
