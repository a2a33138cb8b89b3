"""``ykactor access`` and ``ykactor token``."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from signing import jwks_text, public_jwk

from ykactor.access import tokens
from ykactor.surfaces.cli import access

TEXT = """\
identities:
  - {name: ci, roles: [rm, reader], rmIDs: [ci, ci-2], users: [bob], queues: [root.a], limits: {sessions: 4}}
  - {name: ops, roles: [operator], configure: true}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "access.yaml"
    path.write_text(TEXT)
    return path


def run(command: object, *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    result = CliRunner().invoke(command, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


def create(file: Path, *arguments: object) -> str:
    code, out, _ = run(access.token, "create", *arguments, "--access", file)
    assert code == 0
    return out.strip()


def test_create(file: Path) -> None:
    """SE-4: the token is all that standard output has, and is nowhere else; what is kept finds it."""
    code, out, err = run(access.token, "create", "ci", "--access", file, "--expires", "2999-01-01")
    assert code == 0
    assert re.fullmatch(r"yk_[A-Za-z0-9_-]{43}\n", out)
    (kept,) = tokens.read(file.with_name("tokens.json")).all
    assert err == f"token {kept.id} of ci, expires 2999-01-01T00:00:00Z\n"
    assert (kept.sha256, kept.identity) == (tokens.digest_of(out.strip()), "ci")
    assert not [path for path in file.parent.iterdir() if out.strip() in path.read_text()]


@pytest.mark.parametrize("before", [None, 0o666])
def test_create_in_a_file(file: Path, before: int | None) -> None:
    """SE-4: the token is in that file only, which nobody but its owner may read, whatever was there."""
    secret = file.with_name("ci.token")
    if before is not None:
        secret.write_text("old")
        secret.chmod(before)
    code, out, err = run(access.token, "create", "ci", "--access", file, "-o", secret)
    (kept,) = tokens.read(file.with_name("tokens.json")).all
    assert (code, out, err) == (0, "", f"token {kept.id} of ci, expires never\n")
    assert kept.sha256 == tokens.digest_of(secret.read_text().removesuffix("\n"))
    assert secret.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in file.parent.iterdir()} == {"access.yaml", "ci.token", "tokens.json", "tokens.json.lock"}


def test_create_in_no_file(file: Path) -> None:
    """SE-4: what would be replaced has to be a file: a link such as /dev/stdout and a directory stay, and there is no token."""
    link = file.with_name("link")
    link.symlink_to(file)
    for target in (link, file.parent):
        code, out, err = run(access.token, "create", "ci", "--access", file, "-o", target)
        assert (code, out) == (2, "")
        assert "which is no regular file" in err
    assert link.is_symlink()
    assert not file.with_name("tokens.json").exists()


def test_create_where_nobody_can_write(file: Path) -> None:
    """SE-4: without a place for it there is no token; and without a token the file stays as it was."""
    missing, secret = file.parent / "missing" / "ci.token", file.with_name("ci.token")
    with pytest.raises(FileNotFoundError):
        CliRunner().invoke(access.token, ["create", "ci", "--access", str(file), "-o", str(missing)], catch_exceptions=False)
    assert not file.with_name("tokens.json").exists()
    secret.write_text("old")
    file.with_name("tokens.json").write_text("{}")
    assert run(access.token, "create", "ci", "--access", file, "-o", secret)[0] == 1
    assert secret.read_text() == "old"


def test_create_where_the_file_says(file: Path) -> None:
    """SE-5: beside the access file, or where its key ``tokens`` says."""
    file.write_text(TEXT + "tokens: other.json\n")
    create(file, "ci")
    assert [path.name for path in file.parent.glob("*.json")] == ["other.json"]


def test_expires_in_days(file: Path) -> None:
    """SE-3: that many days from now."""
    create(file, "ci", "--expires", "90d")
    (kept,) = tokens.read(file.with_name("tokens.json")).all
    assert kept.expires is not None
    assert (kept.expires - kept.created).days == 90


@pytest.mark.parametrize("expires", ["90", "0d", "soon", "2020-01-01", "999999d", "-1d"])
def test_wrong_expiry(file: Path, expires: str) -> None:
    """A wrong command line: code 2, and no token."""
    code, out, err = run(access.token, "create", "ci", "--access", file, "--expires", expires)
    assert (code, out) == (2, "")
    assert "Invalid value for '--expires': found" in err
    assert not file.with_name("tokens.json").exists()


def test_create_for_nobody(file: Path) -> None:
    """SE-47: a token for no identity would let nobody in."""
    code, out, err = run(access.token, "create", "nobody", "--access", file)
    assert (code, out, err) == (1, "", f"Error: {file}: found no identity nobody, expected one of: ci, ops\n")


def test_list(file: Path) -> None:
    """SE-10: id, identity, whether it still counts and times, and neither a token nor a digest."""
    secret = create(file, "ci")
    create(file, "ops", "--expires", "2999-01-01")
    code, out, _ = run(access.token, "list", "--access", file)
    header, first, second = (line.split() for line in out.splitlines())
    assert (code, header) == (0, ["ID", "IDENTITY", "STATE", "CREATED", "EXPIRES"])
    assert [*first[:3], first[4]] == [tokens.digest_of(secret)[:8], "ci", "valid", "never"]
    assert second[1:3] + second[4:] == ["ops", "valid", "2999-01-01T00:00:00Z"]
    assert tokens.digest_of(secret)[:12] not in out
    assert secret not in out


def test_list_says_what_has_expired(file: Path) -> None:
    """SE-3: from the moment that it names. The ids alone are for ``token revoke``."""
    create(file, "ci", "--expires", "2999-01-01")
    path = file.with_name("tokens.json")
    path.write_text(path.read_text().replace("2999", "2001"))
    _, out, _ = run(access.token, "list", "--access", file, "-o", "json")
    (listed,) = json.loads(out)
    assert (listed["state"], listed["expires"]) == ("expired", "2001-01-01T00:00:00Z")
    assert run(access.token, "list", "--access", file, "-o", "name")[1] == f"{listed['id']}\n"


def test_revoke(file: Path) -> None:
    """SE-5: by id; the others stay; an id that is not there is code 1."""
    first, second = create(file, "ci"), create(file, "ci")
    left = tokens.digest_of(second)[:8]
    revoked = tokens.digest_of(first)[:8]
    assert run(access.token, "revoke", revoked, "--access", file) == (0, f"token {revoked} is revoked\n", "")
    kept = tokens.read(file.with_name("tokens.json"))
    assert (kept.find(first), kept.find(second)) == (None, kept.all[0])
    problem = f"Error: found no token {revoked}, expected one of: {left}\n"
    assert run(access.token, "revoke", revoked, "--access", file) == (1, "", problem)


@pytest.mark.parametrize("arguments", [("create", "ci"), ("list",), ("revoke", "abcdefgh")])
def test_a_wrong_access_file(file: Path, arguments: tuple[str, ...]) -> None:
    """SE-40: all commands say every mistake, and change nothing."""
    file.write_text(TEXT + "more: [1")
    code, out, err = run(access.token, *arguments, "--access", file)
    assert (code, out) == (1, "")
    assert err.startswith(f"{file}:")
    assert err.endswith("ykactor rule P1 explains a code\n")


def test_check(file: Path) -> None:
    """SE-40, SE-47: a right file gives its warnings and a line with the numbers."""
    create(file, "ci")
    code, out, err = run(access.command, "check", file)
    assert (code, out) == (0, f"{file}: ok, 2 identities, 1 token\n")
    found = "the identity ops has neither a proof nor a token, so nobody can act as it"
    assert err == f"warning: {found}: ykactor token create makes one\n"


def test_check_of_a_wrong_file(file: Path) -> None:
    """SE-40: every mistake on a line, and code 1."""
    file.write_text(TEXT.replace("[rm, reader]", "[rm, boss]").replace("[operator]", "[]"))
    code, out, err = run(access.command, "check", file)
    assert (code, out) == (1, "")
    assert err.count("(SE-42)") == 2
    assert err.endswith("ykactor rule SE-42 explains a code\n")


def test_check_of_what_is_no_text(file: Path) -> None:
    """SE-40: said as a mistake of the file."""
    file.write_bytes(b"\xff")
    assert run(access.command, "check", file)[::2] == (
        1,
        f"{file}:1:1: not UTF-8 text: invalid start byte at byte 0 (P1)\nykactor rule P1 explains a code\n",
    )


def test_users_of_this_machine(file: Path) -> None:
    """SE-6: names of users are those of the system."""
    file.write_text("identities: [{name: a, roles: [reader], proofs: [{user: root}, {user: no-such-user}]}]")
    code, _, err = run(access.command, "check", file)
    assert code == 1
    assert "found 'no-such-user', expected a user of this machine (SE-45)" in err
    assert len(err.splitlines()) == 2


def test_what_one_may_do(file: Path) -> None:
    """SE-20: a line for each thing, those of its roles only."""
    code, out, _ = run(access.command, "check", file, "--as", "ci")
    assert code == 0
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert lines.pop("/v1/rm").startswith("RegisterResourceManagerRequest, ")
    assert lines.pop("limits").startswith("sessions 4, ")
    assert lines == {
        "identity": "ci",
        "shown by": "nothing",
        "roles": "rm, reader",
        "partitions": "*",
        "registers as": "ci, ci-2",
        "users": "bob",
        "groups": "none",
        "may force": "no",
        "configures": "no",
        "queues": "root.a",
        "/v1/feed": "Subscribe, ReadUsage, Explain",
    }
    _, out, _ = run(access.command, "check", file, "--as", "ops")
    assert "roles         operator, reader\n" in out
    assert "configures    yes\nqueues        *\n/v1/operator  NodeRequest, " in out
    assert "/v1/feed      Subscribe, ReadConfiguration, CheckHealth, ReadUsage, Explain\n" in out
    assert "shown by      nothing\n" in out
    assert run(access.command, "check", file, "--as", "x")[0] == 1


def test_what_shows_an_identity(file: Path) -> None:
    """SE-1: its proofs, and its tokens by id."""
    proofs = '[{user: root}, {certificate: "CN:x"}, {jwt: {sub: a, team: b}}]'
    file.write_text(f"identities: [{{name: a, roles: [reader], proofs: {proofs}}}]\njwt: {{jwks: k, issuer: i, audience: b}}\n")
    file.with_name("k").write_bytes(jwks_text(public_jwk("RSA")))
    secret = create(file, "a")
    _, out, _ = run(access.command, "check", file, "--as", "a")
    ways = f"user root, certificate CN:x, JWT with sub=a team=b, token {tokens.digest_of(secret)[:8]}"
    assert f"\nshown by      {ways}\n" in out
