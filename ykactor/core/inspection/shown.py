"""The base of all structs of the read model, which followers get."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import UNSET, Struct

from ykactor.core.messages.acts import Hold


class Shown(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An object of a snapshot, with the names of the message; fields that are ``UNSET`` are left out.

    Quantities are base units, times Unix nanoseconds. Fields that were added later may be ``UNSET``: an older daemon does not
    send them.
    """


ShownT = TypeVar("ShownT", bound=Shown)


class Held(Shown, frozen=True, kw_only=True):
    """The hold of an application or a queue itself: its operator and its begin."""

    by: str
    since: int


def held(hold: Hold | None) -> Any:
    """The hold as it is shown; UNSET if there is none."""
    return UNSET if hold is None else Held(by=hold.by, since=hold.since_ns)


def narrowed(kind: type[ShownT], shown: Shown) -> ShownT:
    """The object as a kind that has fewer of its fields."""
    return kind(**{name: getattr(shown, name) for name in kind.__struct_fields__})


def only(shown: ShownT, fields: Iterable[str], **others: Any) -> ShownT:
    """The object with these fields and with other values for ``others``; every further field is left out."""
    return type(shown)(**{name: getattr(shown, name) for name in fields}, **others)
