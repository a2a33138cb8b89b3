"""The options of the commands that run a daemon about its addresses."""

from __future__ import annotations

import grp
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.net.doors import Address, TcpAddress, UnixAddress
from ykactor.wire.sockets import UNIX, unix_path

if TYPE_CHECKING:
    from ykactor.surfaces.files.tls_files import TlsFiles

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


_file = click.Path(exists=True, dir_okay=False, path_type=Path)

_TLS_OPTIONS = (
    click.option(
        "--tls-cert",
        type=_file,
        help="Encrypt all TCP connections (wss://) with this certificate, in PEM, with those between it and its authority. "
        "Read again when it changes.",
    ),
    click.option("--tls-key", type=_file, help="The key of that certificate, in PEM."),
    click.option(
        "--tls-client-ca",
        type=_file,
        help="The authorities of clients, in PEM: a certificate of theirs shows who somebody is, as the access file says.",
    ),
)


def tls_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options about TLS; a command with ``--access`` gets the files that they name, read, as ``tls``."""

    @wraps(command)
    def gathered(
        *arguments: object,
        tls_cert: Path | None,
        tls_key: Path | None,
        tls_client_ca: Path | None,
        access_file: Path | None,
        **others: object,
    ) -> object:
        if (tls_cert is None) != (tls_key is None):
            raise click.UsageError("found one of --tls-cert and --tls-key, expected both")
        if tls_client_ca is not None and (tls_cert is None or access_file is None):
            raise click.UsageError("found --tls-client-ca, expected --tls-cert and --access with it: else it has no effect")
        tls = None if tls_cert is None or tls_key is None else read_tls(tls_cert, tls_key, tls_client_ca)
        return command(*arguments, tls=tls, access_file=access_file, **others)

    decorated: Callable[..., object] = gathered
    for option in reversed(_TLS_OPTIONS):
        decorated = option(decorated)
    return decorated


def read_tls(cert: Path, key: Path, client_ca: Path | None) -> TlsFiles:
    """The files of TLS, or the end of the command."""
    from ykactor.surfaces.files.tls_files import TlsFileError, TlsFiles  # needs libraries that take 0.1 s to load

    try:
        return TlsFiles(cert, key, client_ca)
    except TlsFileError as error:
        raise exit_codes.FileProblem(str(error)) from None
