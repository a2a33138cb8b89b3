"""The types of the page, ``surfaces/page/messages.d.ts``: what the daemon sends a follower, from the structs of the feed.

Run it to write the file: ``python tests/pagetypes.py``. Scripts name its types in their comments, for editors and for
``test_page_types``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import UNSET
from msgspec import inspect as kinds
from msgspec.structs import fields

from ykactor.surfaces.http.page import DIRECTORY
from ykactor.wire.si import messages as si

PATH: Path = DIRECTORY / "messages.d.ts"
_HEAD = """\
// What the daemon sends a follower of its feed. Made by tests/pagetypes.py from the structs of ykactor.wire.si.messages and
// ykactor.core.inspection; a test compares it with them. Quantities are base units, times Unix nanoseconds.
"""
_SCALARS = {
    kinds.IntType: "number",
    kinds.FloatType: "number",
    kinds.StrType: "string",
    kinds.BoolType: "boolean",
    kinds.NoneType: "null",
    kinds.AnyType: "unknown",
}


def declarations() -> str:
    """The text of the file: an interface for each struct that a message of the feed has, in the order in which they are named."""
    messages = kinds.type_info(si.FeedMessage)
    return "\n".join([_HEAD, *map(_interface, sent().values()), f"export type FeedMessage = {_text(messages)};", ""])


def sent() -> dict[type, kinds.StructType]:
    """The structs that a message of the feed has."""
    structs: dict[type, kinds.StructType] = {}
    _collect(kinds.type_info(si.FeedMessage), structs)
    return structs


def _collect(found: kinds.Type, structs: dict[type, kinds.StructType]) -> None:
    """Add the structs of a type, each before those that it has."""
    for each in _parts(found):
        if isinstance(each, kinds.StructType):
            if each.cls not in structs:
                structs[each.cls] = each
                for field in each.fields:
                    _collect(field.type, structs)
        else:
            _collect(each, structs)


def _parts(found: kinds.Type) -> Iterator[kinds.Type]:
    match found:
        case kinds.StructType():
            yield found
        case kinds.UnionType(types=types):
            yield from types
        case kinds.DictType(value_type=value):
            yield value
        case kinds.ListType(item_type=item) | kinds.VarTupleType(item_type=item):
            yield item
        case kinds.TupleType(item_types=items):
            yield from items


def _interface(struct: kinds.StructType) -> str:
    lines = [f"export interface {struct.cls.__name__} {{"]
    if struct.tag is not None:
        lines.append(f'    {struct.tag_field}: "{struct.tag}";')
    unset = {field.name for field in fields(struct.cls) if field.default is UNSET}
    for field in struct.fields:
        may_be_absent = field.name in unset or (not field.required and struct.cls.__struct_config__.omit_defaults)
        lines.append(f"    {field.encode_name}{'?' if may_be_absent else ''}: {_text(field.type)};")
    return "\n".join([*lines, "}", ""])


def _text(found: kinds.Type) -> str:
    match found:
        case kinds.StructType(cls=cls):
            return cls.__name__
        case kinds.UnionType(types=types):
            return " | ".join(dict.fromkeys(map(_text, types)))
        case kinds.DictType(value_type=value):
            return f"Record<string, {_text(value)}>"
        case kinds.ListType(item_type=item) | kinds.VarTupleType(item_type=item):
            inner = _text(item)
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case kinds.TupleType(item_types=items):
            return f"[{', '.join(map(_text, items))}]"
        case kinds.LiteralType(values=values):
            return " | ".join(f'"{value}"' for value in values)
        case kinds.EnumType(cls=cls):
            return " | ".join(f'"{member.value}"' for member in cls)
        case _:
            return _SCALARS[type(found)]


if __name__ == "__main__":
    PATH.write_text(declarations())
