"""What the commands that run a daemon take about where it listens."""

from __future__ import annotations

import grp
from typing import Any

import click

from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.server.doors import Address, DoorError, RefusedDoorError, TcpAddress, UnixAddress
from ykactor.wire.addresses import UNIX, unix_path

DEFAULT_ADDRESS = "127.0.0.1:9081"
DEFAULT_HTTP = "127.0.0.1:9080"
#: As an address: it is not served anywhere.
NOWHERE = "none"


class AddressParam(click.ParamType[Address]):
    """``HOST:PORT``, an IPv6 host in brackets, port 0 is any free port; or ``unix:PATH``."""

    name = "host:port"

    def convert(self, value: str | Address, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if not isinstance(value, str):
            return value
        if value.startswith(UNIX):
            try:
                return UnixAddress(unix_path(value))
            except ValueError as error:
                self.fail(str(error), param, ctx)
        host, colon, port = value.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            self.fail(f"found {value!r}, expected HOST:PORT such as {DEFAULT_ADDRESS}, or unix:PATH", param, ctx)
        return TcpAddress(host.strip("[]"), int(port))


class OptionalAddressParam(AddressParam):
    """The same, or ``none``."""

    def convert(self, value: str | Address, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == NOWHERE else super().convert(value, param, ctx)


class SocketMode(click.ParamType[int]):
    """The mode of a file in octal digits."""

    name = "mode"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            mode = int(value, 8)
        except ValueError:
            mode = -1
        if not 0 <= mode <= 0o777:
            self.fail(f"found {value!r}, expected octal digits up to 0777 such as 0660", param, ctx)
        return mode


class SocketGroup(click.ParamType[int]):
    """The name of a group; its number."""

    name = "group"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return grp.getgrnam(value).gr_gid
        except KeyError:
            self.fail(f"found {value!r}, expected the name of a group of this machine", param, ctx)


def problem(error: DoorError) -> click.ClickException:
    """The daemon cannot listen."""
    return exit_codes.Refused(str(error)) if isinstance(error, RefusedDoorError) else click.ClickException(str(error))
