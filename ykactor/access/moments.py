"""Moments as people write them, and as Unix times."""

from __future__ import annotations

import re
from calendar import timegm
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from ykactor.core.values.times import S_NS

#: A time with its zone.
Moment = Annotated[datetime, Meta(tz=True)]

#: The forms that ``parse`` takes, for messages.
FORM = "a date such as 2027-01-31 or a time with its zone such as 2027-01-31T12:00:00Z"

_DAYS = re.compile(r"([1-9][0-9]{0,4})d")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse(text: str) -> Moment | None:
    """The moment that ``text`` names, in UTC; a date is its first moment there. None if it is neither."""
    try:
        moment = msgspec.convert(text + "T00:00:00Z" if _DATE.fullmatch(text) else text, Moment)
        return moment.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        return None


def days_ns(text: str) -> int | None:
    """The nanoseconds of a number of days such as 90d; None if it is something else."""
    found = _DAYS.fullmatch(text)
    return int(found[1]) * 24 * 3600 * S_NS if found else None


def at(unix_ns: int) -> Moment:
    """The moment of a Unix time, in whole seconds."""
    return datetime.fromtimestamp(unix_ns // S_NS, UTC)


def unix_ns(moment: Moment) -> int:
    """The Unix time of a moment."""
    return timegm(moment.utctimetuple()) * S_NS + moment.microsecond * 1000


def shown(moment: Moment) -> str:
    """The text that ``parse`` takes, in whole seconds."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
