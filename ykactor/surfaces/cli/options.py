"""Options that several commands have, the types of their values, and the environment variable that is one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from ykactor.core.values.times import S_NS

if TYPE_CHECKING:  # this and the clock need libraries that take 0.1 s to load, which help and completion do without
    from ykactor.surfaces.net.doors import Address, TcpAddress

T = TypeVar("T")
_Command = Callable[..., object]

EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
EXISTING_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


class Parsed(click.ParamType[T]):
    """A type whose values a function makes of texts; its ``ValueError`` says what was found and what was expected."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def grouped(name: str, kind: type[Struct], *options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """The command gets the options that are named as the fields of a struct as this struct, with ``options`` among them."""

    def decorated(command: _Command) -> _Command:
        @wraps(command)
        def gathered(*arguments: object, **values: Any) -> object:
            found = kind(**{field: values.pop(field) for field in kind.__struct_fields__ if field in values})
            return command(*arguments, **{name: found}, **values)

        for option in reversed(options):
            gathered = option(gathered)
        return gathered

    return decorated


def text_or_json(explanation: str) -> Callable[[T], T]:
    """The option for the form of what a command prints."""
    choice = click.Choice(["text", "json"])
    return click.option("-o", "--output", type=choice, default="text", show_default=True, help=explanation)  # type: ignore[return-value]


# ---- numbers, each within a range; a wrong one is answered with what was expected


class WholeNumber(click.IntRange):
    """A whole number within a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"found {str(value)!r}, expected a whole number {_within(self)}", param, ctx)


class Number(click.FloatRange):
    """A finite number within a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = float(super().convert(value, param, ctx))
        except click.BadParameter:
            found = math.nan
        if not math.isfinite(found):
            self.fail(f"found {str(value)!r}, expected a number {_within(self)}", param, ctx)
        return found


def _within(bounds: click.IntRange | click.FloatRange) -> str:
    if bounds.max is not None:
        return f"from {bounds.min} to {bounds.max}"
    return f"{'above' if bounds.min_open else 'of at least'} {bounds.min}"


#: The priority of an ask.
PRIORITY = WholeNumber(-(2**31), 2**31 - 1)


def log_level_option(explanation: str | None = None) -> Callable[[T], T]:
    """The option for the lines that are written to the log."""
    levels = click.Choice(["debug", "info", "warning", "error"])
    return click.option("--log-level", type=levels, default="info", show_default=True, help=explanation)  # type: ignore[return-value]


# ---- moments in the past

#: The forms of a time, in UTC: a day, a second, or as events and tokens are printed.
TIMES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ")
#: A time span before now: ``10m``.
_AGO = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNITS_NS = {"s": S_NS, "m": 60 * S_NS, "h": 3600 * S_NS, "d": 86_400 * S_NS}


def _unix_ns(text: str) -> int:
    """The Unix time in ns of a time, or of how long ago."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        from ykactor.actors.clock import system_ns

        return max(0, system_ns() - int(ago[1]) * _UNITS_NS[ago[2]])
    for form in TIMES:
        with suppress(ValueError):
            return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000) * 10**6
    raise ValueError(f"found {text!r}, expected a time in UTC such as 2026-07-31 or 2026-07-31T09:30:00, or 10m, 2h or 7d ago")


PAST = Parsed("time", _unix_ns)


def since_option(what: str, default: int | None = 0) -> Callable[[T], T]:
    """The option that leaves out what is older than a time."""
    explanation = f"Only {what}from this time on: in UTC, as 2026-07-31 or 2026-07-31T09:30:00, or 10m, 2h or 7d ago."
    return click.option("--since", "since_ns", type=PAST, default=default, metavar="TIME", help=explanation)  # type: ignore[return-value]


# ---- addresses of a daemon

DEFAULT_ADDRESS = "127.0.0.1:9081"
DEFAULT_HTTP = "127.0.0.1:9080"
#: As an address: it is not served anywhere.
NOWHERE = "none"


def _tcp_address(text: str, others: str = "") -> TcpAddress:
    """The address ``HOST:PORT``, an IPv6 host in brackets, port 0 is any free port; ``others`` ends the error with more forms."""
    from ykactor.surfaces.net.doors import TcpAddress
    from ykactor.wire.sockets import UNIX

    host, _, port = text.rpartition(":")
    if text.startswith(UNIX) or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"found {text!r}, expected HOST:PORT such as {DEFAULT_ADDRESS}{others}")
    return TcpAddress(host.strip("[]"), int(port))


def _address(text: str, others: str = "") -> Address:
    """The same, or ``unix:PATH``."""
    from ykactor.surfaces.net.doors import UnixAddress
    from ykactor.wire.sockets import UNIX, unix_path

    return UnixAddress(unix_path(text)) if text.startswith(UNIX) else _tcp_address(text, f", or unix:PATH{others}")


TCP_ADDRESS = Parsed("host:port", _tcp_address)
ADDRESS = Parsed("host:port", _address)
ADDRESS_OR_NONE = Parsed("host:port", lambda text: None if text == NOWHERE else _address(text, f", or {NOWHERE}"))

# ---- the environment, which is read by commands only, and passed on as settings

#: If this variable is "true", in any case, an ask reserves a node only if it requires that node (SC-50).
DISABLE_RESERVATION = "DISABLE_RESERVATION"


def reserves_nodes(environment: Mapping[str, str]) -> bool:
    """True if asks reserve nodes."""
    return environment.get(DISABLE_RESERVATION, "").lower() != "true"
