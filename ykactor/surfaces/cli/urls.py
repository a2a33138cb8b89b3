"""The daemon that a command connects to: its address, and what shows each side who the other one is."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import click
from click.core import ParameterSource
from msgspec import Struct

from ykactor.surfaces.cli import exit_codes, loop
from ykactor.surfaces.cli.options import EXISTING_FILE, Parsed, grouped

if TYPE_CHECKING:  # the client takes 0.2 s to load, which help and completion do without
    from ykactor.client.login import LoginOptions

_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")

DEFAULT_URL = "ws://127.0.0.1:9081"
#: Characters of a token file that are read: a token is much shorter.
_TOKEN_FILE_MAX = 16 * 2**10


def _url(text: str) -> str:
    """An address of a daemon: ``ws://HOST:PORT``, ``wss://HOST:PORT`` or ``unix:PATH``."""
    from ykactor.client.connection import check_url

    check_url(text)
    return text


DAEMON_URL = Parsed("url", _url)


class NotPermitted(click.ClickException):  # as those of click
    """The caller lacks a right."""


class Destination(Struct, frozen=True):
    """A daemon. Its files are read when a command connects.

    Attributes:
        token_file: has the token on one line.
        tls_ca, tls_cert, tls_key: as of ``tls_context``.
        insecure: as of ``LoginOptions``.
    """

    url: str
    token_file: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.tls_key is not None and self.tls_cert is None:
            raise click.UsageError("found --tls-key without --tls-cert, expected both")

    def login(self) -> LoginOptions:
        """The parameters of ``connect`` and ``follow``.

        Raises:
            ClickException: a file is not as it should be, or has no effect. OSError: it cannot be read.
        """
        token = "" if self.token_file is None else _read_token(self.token_file)
        return {"token": token, "tls": self._tls(), "insecure": self.insecure}

    def run(self, main: Callable[[*_Args], Awaitable[_Result]], *args: *_Args) -> _Result:
        """Run ``main``, which asks this daemon, in an event loop.

        Raises:
            ClickException: there is no connection, or the daemon refuses, or ``main`` raises it.
        """
        from ykactor.client import Disconnected, RequestRefused

        try:
            return loop.run(main, *args)
        except* (Disconnected, RequestRefused) as errors:
            raise self.problem(exit_codes.first_of(errors)) from None

    def problem(self, error: BaseException) -> click.ClickException:
        """The error of a command that gets no answer; for a refused proof also which one to give, and where to get it (SE-58)."""
        from ykactor.client import RequestRefused

        if isinstance(error, RequestRefused) and error.code == "NOT_PERMITTED":
            return NotPermitted(str(error))
        is_unknown = isinstance(error, RequestRefused) and error.code == "NOT_AUTHENTICATED"
        return click.ClickException(f"{error}; {self._missing_proof()}" if is_unknown else str(error))

    def _missing_proof(self) -> str:
        make = "ykactor token create IDENTITY --access FILE makes one where the daemon runs"
        if self.token_file is None:
            return f"give a token with --token-file FILE or YKACTOR_TOKEN_FILE: {make}"
        return f"the token in {self.token_file} is unknown, expired or revoked: {make}"

    def _tls(self) -> ssl.SSLContext | None:
        from ykactor.client.addresses import split_addresses

        if not any(address.startswith("wss:") for address in split_addresses(self.url)):
            for option, file in (("--tls-ca", self.tls_ca), ("--tls-cert", self.tls_cert)):
                if file is not None:
                    raise click.UsageError(f"found {option} with {self.url}, expected wss://: without TLS it has no effect")
            return None
        from ykactor.client.login import tls_context

        try:
            context = tls_context(self.tls_ca)
        except ssl.SSLError:
            raise click.ClickException(f"{self.tls_ca}: found no certificate, expected those of authorities in PEM") from None
        if self.tls_cert is not None:
            try:
                context.load_cert_chain(self.tls_cert, self.tls_key)
            except ssl.SSLError:
                files = ", ".join(str(file) for file in (self.tls_cert, self.tls_key) if file is not None)
                raise click.ClickException(f"{files}: found no certificate or not its key, expected both in PEM") from None
        return context


def _read_token(file: Path) -> str:
    """The token. It is in no message."""
    from ykactor.client.login import Login

    try:
        with file.open() as opened:  # also a pipe
            token = opened.read(_TOKEN_FILE_MAX).strip()
        Login(token)
    except ValueError:  # also what is not UTF-8
        token = ""
    if not token:
        raise click.ClickException(f"{file}: found no token, expected one line as ykactor token create prints it")
    return token


class ConnectionOption(click.Option):
    """An option about the daemon. Help has it once, in ``ykactor help connection``, and not for each command."""

    def get_help_record(self, ctx: click.Context) -> None:
        return None

    def record(self, ctx: click.Context) -> tuple[str, str]:
        """The forms of the option, and its help."""
        found = super().get_help_record(ctx)
        assert found is not None, "it is not hidden"
        return found


_connection_option = partial(click.option, cls=ConnectionOption)
#: The options about the daemon, the same for all commands that connect to one.
daemon_options = grouped(
    "daemon",
    Destination,
    _connection_option(
        "--url",
        type=DAEMON_URL,
        envvar="YKACTOR_URL",
        show_envvar=True,
        default=DEFAULT_URL,
        show_default=True,
        help="The address of the daemon: ws://HOST:PORT, wss://HOST:PORT or unix:PATH; several, with commas between them, if "
        "another daemon may take over.",
    ),
    _connection_option(
        "--token-file",
        type=EXISTING_FILE,
        envvar="YKACTOR_TOKEN_FILE",
        show_envvar=True,
        help="A file with the token that shows who you are; no option takes it, because all users can see arguments.",
    ),
    _connection_option(
        "--tls-ca",
        type=EXISTING_FILE,
        envvar="YKACTOR_TLS_CA",
        show_envvar=True,
        help="With wss: the authorities to trust, in PEM, instead of those of the system.",
    ),
    _connection_option(
        "--tls-cert",
        type=EXISTING_FILE,
        envvar="YKACTOR_TLS_CERT",
        show_envvar=True,
        help="With wss: the certificate that shows who you are, in PEM.",
    ),
    _connection_option(
        "--tls-key",
        type=EXISTING_FILE,
        envvar="YKACTOR_TLS_KEY",
        show_envvar=True,
        help="The key of that certificate, in PEM, if it is in a file of its own.",
    ),
    _connection_option(
        "--insecure",
        is_flag=True,
        help="Send the token also over ws:// to another machine, where whoever is on the way can read it.",
    ),
)


def connection_records() -> list[tuple[str, str]]:
    """The forms of each of ``daemon_options``, and its help."""
    connecting = click.command()(daemon_options(lambda: None))
    ctx = click.Context(connecting)
    return [option.record(ctx) for option in connecting.params if isinstance(option, ConnectionOption)]


def options_given() -> list[str]:
    """The options about the daemon that the command line has, as words of another one; those of the environment are for all."""
    context, words = click.get_current_context(), []
    for name in Destination.__struct_fields__:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option, value = f"--{name.replace('_', '-')}", context.params[name]
            words += [option] if value is True else [option, str(value)]
    return words


class Followed(Struct, frozen=True):
    """The daemon that a standby follows, as it is named on the command line of ``serve``; no daemon without ``standby_of``."""

    standby_of: str | None = None
    standby_token_file: Path | None = None
    standby_tls_ca: Path | None = None
    standby_tls_cert: Path | None = None
    standby_tls_key: Path | None = None
    standby_insecure: bool = False

    def destination(self) -> Destination | None:
        """The daemon; None if there is none."""
        if self.standby_of is None:
            return None
        if self.standby_tls_key is not None and self.standby_tls_cert is None:
            raise click.UsageError("found --standby-tls-key without --standby-tls-cert, expected both")
        token, ca, cert = self.standby_token_file, self.standby_tls_ca, self.standby_tls_cert
        return Destination(self.standby_of, token, ca, cert, self.standby_tls_key, self.standby_insecure)


#: The options of ``serve`` about the daemon that it follows.
followed_options = grouped(
    "followed",
    Followed,
    click.option(
        "--standby-of",
        type=DAEMON_URL,
        metavar="URL",
        help="Begin as a standby of the daemon there: keep its journal in --state-dir and its partitions in memory, until "
        "'ykactor take-over' makes this process the daemon. Several addresses, with commas between them, if others may take "
        "over. In a directory that has taken over, or has a history that no daemon there goes on with, it is the daemon at once.",
    ),
    click.option(
        "--standby-token-file",
        type=EXISTING_FILE,
        envvar="YKACTOR_TOKEN_FILE",
        show_envvar=True,
        help="A file with the token for that daemon, of the role replica.",
    ),
    click.option(
        "--standby-tls-ca",
        type=EXISTING_FILE,
        envvar="YKACTOR_TLS_CA",
        show_envvar=True,
        help="The authorities to trust there, in PEM.",
    ),
    click.option(
        "--standby-tls-cert",
        type=EXISTING_FILE,
        envvar="YKACTOR_TLS_CERT",
        show_envvar=True,
        help="The certificate that shows that daemon who this is, in PEM.",
    ),
    click.option(
        "--standby-tls-key",
        type=EXISTING_FILE,
        envvar="YKACTOR_TLS_KEY",
        show_envvar=True,
        help="The key of that certificate, in PEM.",
    ),
    click.option("--standby-insecure", is_flag=True, help="Send the token also over ws:// to another machine."),
)
