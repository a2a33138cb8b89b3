"""``ykactor access``: checks an access file, and says what an identity may do."""

from pathlib import Path

import click

from ykactor.access.access import Access
from ykactor.access.limits import FOR_EACH
from ykactor.access.model import CertificateProof, Identity, JwtProof, Proof, Role, UserProof
from ykactor.access.permissions import messages_of
from ykactor.access.tokens import Token
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.check_config import plural
from ykactor.surfaces.cli.queue_files import explained, warn
from ykactor.surfaces.cli.terminal import say, say_lines
from ykactor.surfaces.files import access_file
from ykactor.wire.queuefile.text import ConfigError

#: The door of each role.
DOORS = {Role.RM: "/v1/rm", Role.OPERATOR: "/v1/operator", Role.READER: "/v1/feed"}


@click.group()
def command() -> None:
    """Check an access file, which says who may do what."""


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--as", "name", metavar="NAME", help="Print what the identity NAME may do.")
def check(file: Path, name: str | None) -> None:
    """Check the access FILE, with the files that it names.

    If it is valid: prints its warnings and a summary. Otherwise: prints every mistake, with line, column and the code of the
    broken rule (see ykactor rule), and exits with code 1.
    """
    access = read(file)
    warn(access.warnings)
    if name is None:
        identities = "1 identity" if len(access.identities) == 1 else f"{len(access.identities)} identities"
        say(f"{file}: ok, {identities}, {plural(len(access.tokens.all), 'token')}")
    else:
        identity = find(access, file, name)
        say_lines(_table(identity, [token for token in access.tokens.all if token.identity == name]))


def read(file: Path) -> Access:
    """The access file, or the end of the command with all its mistakes."""
    try:
        return access_file.read(file)
    except ConfigError as error:
        say_lines(explained(error), err=True)
        raise SystemExit(exit_codes.FAILED) from None


def find(access: Access, file: Path, name: str) -> Identity:
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
