"""The parameters of a path and a query, decoded and checked like in Apache YuniKorn, and their types."""

from __future__ import annotations

from typing import Annotated, Literal, cast, get_args
from urllib.parse import unquote_plus

from msgspec import Meta
from starlette.requests import Request

from ykactor.access import moments
from ykactor.actors.clock import system_ns
from ykactor.core.accounting.accounts import ALL_DAYS, DAY_S
from ykactor.core.inspection.accounting import Column
from ykactor.core.inspection.finding import Kind
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.names import is_group_name, is_user_name
from ykactor.core.values.quantities import is_queue_name
from ykactor.core.values.times import S_NS
from ykactor.surfaces.http.readings.applications import LIVE_STATES
from ykactor.surfaces.net.requests import RefusedError

#: The largest number of a query, in 64 bits.
_NUMBER_MAX = 2**64 - 1


def queue_path(request: Request) -> QueuePath:
    """The queue of the path, in lower case."""
    path = _decoded(request.path_params["queue"])
    for part in path.split("."):
        if not is_queue_name(part):
            raise RefusedError(400, f"found the queue {path!r}, expected legal names with dots between them")
    return QueuePath(path.lower())


def user_name(request: Request) -> str:
    """The user of the path."""
    name = _decoded(request.path_params["user"])
    if not is_user_name(name):
        raise RefusedError(400, "Invalid user name")
    return name


def group_name(request: Request) -> str:
    """The group of the path."""
    name = _decoded(request.path_params["group"])
    if not is_group_name(name):
        raise RefusedError(400, "Invalid group name")
    return name


def status(request: Request) -> str:
    """The state that live applications must have, in lower case; "" is any."""
    found = request.query_params.get("status", "").lower()
    if found and found not in LIVE_STATES:
        expected = ", ".join(LIVE_STATES)
        raise RefusedError(400, f"Only following active application statuses are allowed: {expected}, found {found!r}")
    return found


def explain_kind(request: Request) -> Kind:
    """The kind of what is explained."""
    kind = request.path_params["kind"].lower()
    if kind not in get_args(Kind):
        raise RefusedError(400, f"found {kind!r}, expected one of {', '.join(get_args(Kind))}")
    return cast("Kind", kind)


def flag(request: Request, name: str) -> bool:
    """True or false of the query; false without it."""
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false"):
        raise RefusedError(400, f"{name}: found {text[:40]!r}, expected true or false")
    return text == "true"


def columns(request: Request) -> tuple[Column, ...]:
    """The columns by which is summed up: names with commas between them; by default the user."""
    names = request.query_params.get("by", "user").lower().split(",")
    if len(set(names)) < len(names) or not {*names} <= {*Column}:
        raise RefusedError(400, f"by: found {','.join(names)[:80]!r}, expected some of {', '.join(Column)}, each once")
    return tuple(map(Column, names))


def days(request: Request) -> range:
    """The days from that of ``since`` to that of ``until``, counted from 1970, in UTC; by default all."""
    return range(_day(request, "since", ALL_DAYS[0]), _day(request, "until", ALL_DAYS[-1]) + 1)


def _day(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    days_ns, moment = moments.days_ns(text), moments.parse(text)
    if days_ns is not None:
        return (system_ns() - days_ns) // S_NS // DAY_S
    if moment is not None:
        return moments.unix_ns(moment) // S_NS // DAY_S
    if text:
        raise RefusedError(400, f"{name}: found {text[:40]!r}, expected a number of days such as 7d, or {moments.FORM}")
    return default


def number(request: Request, name: str, default: int, least: int = 0) -> int:
    """A whole number of the query."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(_NUMBER_MAX)) or not least <= int(text) <= _NUMBER_MAX:
        raise RefusedError(400, f"{name}: found {text[:40]!r}, expected a whole number from {least} on")
    return int(text)


def _decoded(text: str) -> str:
    """Decoded for the second time, as Apache YuniKorn does with names of queues, users and groups."""
    position = text.find("%")
    while position >= 0:
        if not _is_hex(text[position + 1 : position + 3]):
            raise RefusedError(400, f'invalid URL escape "{text[position : position + 3]}"')
        position = text.find("%", position + 1)
    return unquote_plus(text)


def _is_hex(digits: str) -> bool:
    return len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits)


# ---- the types of the parameters for the OpenAPI document
#
# A value of the document is never refused. More is taken: names in other cases, and names with a slash, which has to be encoded
# twice.

_PART = "[a-zA-Z0-9_:#@-]{1,64}"

#: The path of a queue, and the names of users and groups (CF-20 to CF-22).
QueueName = Annotated[str, Meta(pattern=rf"^{_PART}(\.{_PART})*$")]
UserName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9:#_.@-]*\$?$")]
GroupName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9:_.-]*$")]
#: Of an object whose name may be any text.
AnyName = Annotated[str, Meta(min_length=1)]

#: States of applications.
Status = Literal["new", "accepted", "running", "completing", "failing", "resuming"]
Ended = Literal["active", "completed", "rejected"]
Active = Literal["active"]

#: Of accounts: what they are summed up by, and the first or last day.
_Column = Annotated[str, Meta(extra_json_schema={"enum": [*Column]})]
By = Annotated[list[_Column], Meta(min_length=1, extra_json_schema={"uniqueItems": True})]
Day = Annotated[
    str,
    Meta(
        description="a number of days before today, a date, or a time with its zone",
        extra_json_schema={"anyOf": [{"pattern": "^[1-9][0-9]{0,3}d$"}, {"format": "date"}, {"format": "date-time"}]},
    ),
]

#: Of events.
Start = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
