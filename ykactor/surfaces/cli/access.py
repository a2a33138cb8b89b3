"""``ykactor access`` and ``token``: checks an access file and says what an identity may do; makes, lists and revokes tokens."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from ykactor.access import moments, tokens
from ykactor.access.access import Access
from ykactor.access.limits import FOR_EACH
from ykactor.access.model import CertificateProof, Identity, JwtProof, Proof, Role, UserProof
from ykactor.access.moments import Moment
from ykactor.access.permissions import messages_of
from ykactor.access.tokens import Token, Tokens, TokensError
from ykactor.core.values.words import plural
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.options import EXISTING_FILE
from ykactor.surfaces.cli.queue_files import explained, warn
from ykactor.surfaces.cli.terminal import say, say_lines, write
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field, formatted, output_option, table
from ykactor.surfaces.files import access_file
from ykactor.surfaces.files.regular import written_private
from ykactor.wire.queuefile.text import ConfigError

#: The door of each role.
DOORS = {Role.RM: "/v1/rm", Role.OPERATOR: "/v1/operator", Role.READER: "/v1/feed"}


@click.group()
def command() -> None:
    """Check an access file, which says who may do what."""


@command.command()
@click.argument("file", type=EXISTING_FILE)
@click.option("--as", "name", metavar="NAME", help="Print what the identity NAME may do.")
def check(file: Path, name: str | None) -> None:
    """Check the access FILE, with the files that it names.

    If it is valid: prints its warnings and a summary. Otherwise: prints every mistake, with line, column and the code of the
    broken rule (see ykactor rule), and exits with code 1.
    """
    access = read_access(file)
    warn(access.warnings)
    if name is None:
        identities = "1 identity" if len(access.identities) == 1 else f"{len(access.identities)} identities"
        say(f"{file}: ok, {identities}, {plural(len(access.tokens.all), 'token')}")
    else:
        identity = find_identity(access, file, name)
        say_lines(_table(identity, [token for token in access.tokens.all if token.identity == name]))


def read_access(file: Path) -> Access:
    """The access file, or the end of the command with all its mistakes."""
    try:
        return access_file.read(file)
    except ConfigError as error:
        say_lines(explained(error), err=True)
        raise SystemExit(exit_codes.FAILED) from None


def find_identity(access: Access, file: Path, name: str) -> Identity:
    """The identity with this name, or the end of the command."""
    identity = access.find(name)
    if identity is None:
        known = ", ".join(sorted(identity.name for identity in access.identities)) or "none"
        raise click.ClickException(f"{file}: found no identity {name}, expected one of: {known}")
    return identity


def _table(identity: Identity, tokens: list[Token]) -> str:
    """A line for what shows it, and for each thing that it may do."""
    lines = {
        "identity": identity.name,
        "shown by": ", ".join([*map(_proof, identity.proofs), *(f"token {token.id}" for token in tokens)]) or "nothing",
        "roles": ", ".join(role for role in Role if role in identity.roles),
        "partitions": str(identity.partitions),
    }
    if Role.RM in identity.roles:
        lines["registers as"] = str(identity.rm_ids)
        lines["users"] = str(identity.users)
        lines["groups"] = str(identity.groups)
        lines["may force"] = _yes(identity.may_force)
    if identity.roles & {Role.RM, Role.OPERATOR}:
        lines["configures"] = _yes(identity.configure)
    if Role.REPLICA in identity.roles:
        lines["copies"] = _yes(identity.may_copy())
    if identity.roles & {Role.READER, Role.OPERATOR}:
        lines["queues"] = "*" if identity.queues is None else ", ".join(sorted(identity.queues))
    lines |= {door: ", ".join(messages_of(identity, role)) for role, door in DOORS.items() if role in identity.roles}
    lines["limits"] = ", ".join(f"{key} {getattr(identity.limits, name)}" for key, name in FOR_EACH.items())
    return "\n".join(f"{name:<12}  {value}" for name, value in lines.items())


def _proof(proof: Proof) -> str:
    match proof:
        case UserProof(user=user):
            return f"user {user}"
        case CertificateProof(name=name):
            return f"certificate {name}"
        case JwtProof(claims=claims):
            return f"JWT with {' '.join(f'{claim}={value}' for claim, value in claims)}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _now_ns() -> int:
    from ykactor.actors.clock import system_ns  # with trio, which takes 0.1 s to load, and ``check`` does without

    return system_ns()


_access_option = click.option(
    "--access",
    "file",
    metavar="FILE",
    required=True,
    type=EXISTING_FILE,
    help="The access file.",
)


def _expiry(ctx: click.Context, param: click.Parameter, text: str | None) -> Moment | None:
    """``90d``, or a moment in the future."""
    now_ns = _now_ns()
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
def token() -> None:
    """Make, list and revoke tokens, by which clients show who they are.

    A daemon that runs with the access file follows what these commands change.
    """


@token.command()
@click.argument("identity")
@_access_option
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
    found = read_access(file)
    find_identity(found, file, identity)
    secret, now = tokens.make(), moments.at(_now_ns())
    with nullcontext() if output is None else written_private(output, f"{secret}\n".encode()):
        changed = _change(file.parent / found.tokens_file, lambda old: old.with_new(secret, identity, now, expires))
    if output is None:
        say(secret)
    say(f"token {changed.all[-1].id} of {identity}, expires {_shown(expires)}", err=True)


@token.command("list")
@_access_option
@output_option
def list_tokens(file: Path, output: str) -> None:
    """List the tokens, without showing them. ID is what ykactor token revoke takes."""
    now_ns = _now_ns()
    rows = [_row(token, now_ns) for token in read_access(file).tokens.all]
    write(formatted(Printout(rows, [row["id"] for row in rows], partial(table, _COLUMNS, rows)), output))


def _row(token: Token, now_ns: int) -> Row:
    return {
        "id": token.id,
        "identity": token.identity,
        "state": "valid" if now_ns < token.expires_ns else "expired",
        "created": _shown(token.created),
        "expires": _shown(token.expires),
    }


@token.command()
@click.argument("token_id", metavar="ID")
@_access_option
def revoke(token_id: str, file: Path) -> None:
    """Make the token ID worthless, at once for a daemon that runs with the access file."""

    def without(old: Tokens) -> Tokens:
        if all(token.id != token_id for token in old.all):
            known = ", ".join(token.id for token in old.all) or "none"
            raise TokensError(f"found no token {token_id}, expected one of: {known}")
        return old.without(token_id)

    _change(file.parent / read_access(file).tokens_file, without)
    say(f"token {token_id} is revoked")


def _change(path: Path, changed: Callable[[Tokens], Tokens]) -> Tokens:
    with exit_codes.ending(TokensError):
        return tokens.change(path, changed)


def _shown(moment: Moment | None) -> str:
    return "never" if moment is None else moments.shown(moment)
