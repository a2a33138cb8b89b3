"""``ykactor token``: makes, lists and revokes the tokens of an access file."""

import os
import stat
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import click

from ykactor.access import moments, tokens
from ykactor.access.moments import Moment
from ykactor.access.tokens import Token, Tokens, TokensError
from ykactor.actors.clock import system_ns
from ykactor.surfaces.cli import access
from ykactor.surfaces.cli.terminal import say, write
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field, formatted, table
from ykactor.surfaces.cli.views.showing import output_option
from ykactor.surfaces.files.regular import written_private

_access = click.option(
    "--access",
    "file",
    metavar="FILE",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The access file.",
)


def _expiry(ctx: click.Context, param: click.Parameter, text: str | None) -> Moment | None:
    """``90d``, or a moment in the future."""
    now_ns = system_ns()
    if text is None:
        return None
    days_ns = moments.days_ns(text)
    if days_ns is not None:
        return moments.at(now_ns + days_ns)
    moment = moments.parse(text)
    if moment is None:
        raise click.BadParameter(f"found {text!r}, expected a number of days such as 90d, or {moments.FORM}")
    if moments.unix_ns(moment) <= now_ns:
        raise click.BadParameter(f"found {text}, expected a time in the future")
    return moment


def _new_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """A file that another one may replace: no link, no terminal."""
    if path is not None and os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise click.BadParameter(f"found {path}, which is no regular file, expected one or nothing")
    return path


_COLUMNS = [Column(key.upper(), field(key)) for key in ("id", "identity", "state", "created", "expires")]


@click.group()
def command() -> None:
    """Make, list and revoke tokens, by which clients show who they are.

    A daemon that runs with the access file follows what these commands change.
    """


@command.command()
@click.argument("identity")
@_access
@click.option("--expires", metavar="90d|DATE", callback=_expiry, help="From when the token is refused; default: never.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_new_file,
    help="Write the token to FILE, which only you may read, instead of printing it.",
)
def create(identity: str, file: Path, expires: Moment | None, output: Path | None) -> None:
    """Make a token for IDENTITY and print it. It is shown this once: only its SHA-256 is kept."""
    found = access.read(file)
    access.find(found, file, identity)
    secret, now = tokens.make(), moments.at(system_ns())
    with nullcontext() if output is None else written_private(output, f"{secret}\n".encode()):
        changed = _change(file.parent / found.tokens_file, lambda old: old.with_new(secret, identity, now, expires))
    if output is None:
        say(secret)
    say(f"token {changed.all[-1].id} of {identity}, expires {_shown(expires)}", err=True)


@command.command("list")
@_access
@output_option
def list_tokens(file: Path, output: str) -> None:
    """List the tokens, without showing them. ID is what ykactor token revoke takes."""
    now_ns = system_ns()
    rows = [_row(token, now_ns) for token in access.read(file).tokens.all]
    write(formatted(Printout(rows, [row["id"] for row in rows], lambda is_wide: table(_COLUMNS, rows)), output))


def _row(token: Token, now_ns: int) -> Row:
    return {
        "id": token.id,
        "identity": token.identity,
        "state": "valid" if now_ns < token.expires_ns else "expired",
        "created": _shown(token.created),
        "expires": _shown(token.expires),
    }


@command.command()
@click.argument("token_id", metavar="ID")
@_access
def revoke(token_id: str, file: Path) -> None:
    """Make the token ID worthless, at once for a daemon that runs with the access file."""

    def without(old: Tokens) -> Tokens:
        if all(token.id != token_id for token in old.all):
            known = ", ".join(token.id for token in old.all) or "none"
            raise TokensError(f"found no token {token_id}, expected one of: {known}")
        return old.without(token_id)

    _change(file.parent / access.read(file).tokens_file, without)
    say(f"token {token_id} is revoked")


def _change(path: Path, changed: Callable[[Tokens], Tokens]) -> Tokens:
    try:
        return tokens.change(path, changed)
    except TokensError as error:
        raise click.ClickException(str(error)) from None


def _shown(moment: Moment | None) -> str:
    return "never" if moment is None else moments.shown(moment)
