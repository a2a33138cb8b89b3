"""The access file is followed: real files, with the real clock and an absolute timeout for each test."""

# ruff: noqa: ASYNC240  # a few bytes in a temporary directory; the order of writes is what these tests are about

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from accessfiles import NOW_NS
from callers import jwt_of, keys
from click.testing import CliRunner
from daemonhere import serving

from ykactor.access import moments, tokens
from ykactor.access.credentials import Credentials, NotAuthenticatedError
from ykactor.access.model import Role
from ykactor.actors.clock import Clock
from ykactor.surfaces.admission.access_control import MISTAKES_LOGGED_MAX, AccessWatcher
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.cli.exit_codes import FAILED, USAGE, FileProblem
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.serve import read_access
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.files.access_file import AccessFile
from ykactor.wire import queuefile

TIMEOUT_S = 180.0
#: Longer than a change takes to be seen and settled (0.2 to 0.5 s).
SETTLED_S = 1.0
CI, OPS = "yk_" + "c" * 43, "yk_" + "o" * 43
TEXT = """\
identities:
  - {name: ci, roles: [reader], proofs: [{jwt: {sub: ci}}]}
  - {name: ops, roles: [reader]}
tokens: TOKENS
jwt: {jwks: keys.json, issuer: https://issuer, audience: ykactor}
"""


def text_of(tokens: object = "tokens.json") -> str:
    return TEXT.replace("TOKENS", str(tokens))


def let_in(*secrets: str) -> Callable[[tokens.Tokens], tokens.Tokens]:
    """The tokens of a file: exactly these, in the order of the identities."""

    def changed(_old: tokens.Tokens) -> tokens.Tokens:
        kept = tokens.Tokens()
        for secret in secrets:
            kept = kept.with_new(secret, "ci" if secret == CI else "ops", moments.at(0), None)
        return kept

    return changed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An access file with its tokens and keys beside it."""
    file = tmp_path / "access.yaml"
    file.write_text(text_of())
    (tmp_path / "keys.json").write_bytes(keys())
    tokens.change(tmp_path / "tokens.json", let_in(CI, OPS))
    return file


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[AccessWatcher]:
    watcher, stop = AccessWatcher(AccessFile(path), Clock(NOW_NS)), trio.Event()
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(watcher.run, stop)
            nursery.start_soon(watcher.control.run)
            yield watcher
            stop.set()
            nursery.cancel_scope.cancel()


def admit(watcher: AccessWatcher, bearer: str) -> Caller:
    return watcher.control.admit(Role.READER, Credentials(bearer=bearer), "here")


def is_let_in(watcher: AccessWatcher, bearer: str) -> bool:
    try:
        return bool(admit(watcher, bearer))
    except NotAuthenticatedError:
        return False


async def logged(caplog: pytest.LogCaptureFixture, event: str, count: int = 1) -> list[str]:
    """The reasons of this event, when it was logged so often."""
    while caplog.messages.count(event) < count:  # noqa: ASYNC110  # the log cannot set an event
        await trio.sleep(0.02)
    return [record.__dict__["keys"].get("reason", "") for record in caplog.records if record.getMessage() == event]


def replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


async def test_a_revoked_token(path: Path) -> None:
    """SE-67, SE-68: as ``ykactor token revoke`` writes it; only who has shown it is sent away."""
    async with following(path) as watcher:
        gone, stays = admit(watcher, CI), admit(watcher, OPS)
        tokens.change(path.with_name("tokens.json"), let_in(OPS))
        await gone.ended.wait()
        assert not is_let_in(watcher, CI)
        assert not stays.revoked
        tokens.change(path.with_name("tokens.json"), let_in(CI, OPS))
        while not is_let_in(watcher, CI):  # noqa: ASYNC110  # a file cannot set an event
            await trio.sleep(0.02)
        assert gone.revoked, "a connection that was ended is not taken up again"


@pytest.mark.parametrize("write", [Path.write_text, replace])
async def test_a_changed_access_file(path: Path, write: Callable[[Path, str], object], caplog: pytest.LogCaptureFixture) -> None:
    """SE-67: written in place, or renamed into place, each time; the log says what it has."""
    caplog.set_level(logging.INFO)
    async with following(path) as watcher:
        for count in (2, 3):
            caller = admit(watcher, CI)
            write(path, text_of().replace("name: ci, roles: [reader]", "name: ci, roles: [metrics]"))
            await caller.ended.wait()
            write(path, text_of() + f"# {count}\n")
            await logged(caplog, "access_applied", 2 * count - 1)
            assert is_let_in(watcher, CI)
    record = next(record for record in caplog.records if record.getMessage() == "access_applied")
    assert (record.__dict__["keys"]["identities"], record.__dict__["keys"]["tokens"]) == (2, 2)


async def test_withdrawn_keys(path: Path) -> None:
    """SE-67: a JWT proves nothing any more when its key is not in the JWKS; another one with the same name does."""
    async with following(path) as watcher:
        caller, other = admit(watcher, jwt_of("ci")), admit(watcher, OPS)
        replace(path.with_name("keys.json"), keys("P-256").decode())
        await caller.ended.wait()
        assert not other.revoked


async def test_kubernetes_link_swap(tmp_path: Path, path: Path) -> None:
    """SE-67: of a ConfigMap or a Secret all files change at once, by a link beside them."""
    mount = tmp_path / "mount"
    mount.mkdir()
    for version, secrets in (("..v1", (CI,)), ("..v2", (OPS,)), ("..v3", (CI,))):
        (mount / version).mkdir()
        for name in ("access.yaml", "keys.json"):
            (mount / version / name).write_bytes(path.with_name(name).read_bytes())
        tokens.change(mount / version / "tokens.json", let_in(*secrets))
    (mount / "..data").symlink_to("..v1")
    for name in ("access.yaml", "keys.json", "tokens.json"):
        (mount / name).symlink_to(f"..data/{name}")
    async with following(mount / "access.yaml") as watcher:
        for version, before, after in (("..v2", CI, OPS), ("..v3", OPS, CI)):
            caller = admit(watcher, before)
            (mount / "..data_tmp").symlink_to(version)
            (mount / "..data_tmp").rename(mount / "..data")
            await caller.ended.wait()
            assert is_let_in(watcher, after)


async def test_files_elsewhere(tmp_path: Path, path: Path) -> None:
    """SE-67: a tokens file in another directory is followed too, also one that a later access file names, or behind a link."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        tokens.change(tmp_path / name / "t.json", let_in(CI))
    (tmp_path / "link.json").symlink_to("two/t.json")
    path.write_text(text_of(tmp_path / "one" / "t.json"))
    async with following(path) as watcher:
        caller = admit(watcher, CI)
        tokens.change(tmp_path / "one" / "t.json", let_in(OPS))
        await caller.ended.wait()
        caller = admit(watcher, OPS)
        replace(path, text_of("link.json"))
        await caller.ended.wait()
        caller = admit(watcher, CI)
        await trio.sleep(SETTLED_S)  # else the change could be found by what reads because of the one before
        tokens.change(tmp_path / "link.json", let_in(OPS))
        await caller.ended.wait()


async def test_a_wrong_file_changes_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SE-67: the log has every mistake, of the files that it names too; then a good one holds again."""
    async with following(path) as watcher:
        caller = admit(watcher, CI)
        path.with_name("tokens.json").write_text("{}")
        (first,) = await logged(caplog, "access_refused")
        assert "access.yaml:4" in first
        assert "tokens.json: not a tokens file" in watcher.problem
        assert "tokens.json: not a tokens file" in first
        caplog.clear()
        replace(path, text_of().replace("roles: [reader]", "roles: [king]"))
        reasons = await logged(caplog, "access_refused", 3)
        assert ["'king'" in reason for reason in reasons].count(True) == 2
        caplog.clear()
        path.unlink()
        assert "No such file" in (await logged(caplog, "access_refused"))[0]
        assert not caller.revoked
        assert is_let_in(watcher, CI)
        tokens.change(path.with_name("tokens.json").with_name("t2.json"), let_in(OPS))
        path.write_text(text_of("t2.json"))
        await caller.ended.wait()


@pytest.mark.parametrize("name", ["access.yaml", "tokens.json", "keys.json", "."])
async def test_a_file_that_others_may_write(path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """SE-36: each file, and their directory, is refused while others may write it, then it holds again."""
    wrong = path.parent / name
    mode = wrong.stat().st_mode & 0o777
    async with following(path) as watcher:
        caller = admit(watcher, CI)
        wrong.chmod(mode | 0o002)
        tokens.change(path.with_name("tokens.json"), let_in(OPS))
        reason = (await logged(caplog, "access_refused"))[0]
        assert f"{wrong}: found the mode {mode | 2:04o}" in reason
        assert not caller.revoked
        wrong.chmod(mode)
        await caller.ended.wait()


@pytest.mark.usefixtures("logging_restored")
@pytest.mark.parametrize("name", ["access.yaml", "tokens.json", "keys.json", "."])
def test_a_file_that_others_may_write_at_the_start(path: Path, name: str) -> None:
    """SE-36, SE-66: the daemon does not start, and ``ykactor access check`` says why."""
    wrong = path.parent / name
    mode = wrong.stat().st_mode & 0o777 | 0o020
    wrong.chmod(mode)
    for arguments, codes in ((["serve", "--access", str(path)], {USAGE}), (["access", "check", str(path)], {FAILED, USAGE})):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code in codes
        assert f"{wrong}: found the mode {mode:04o}" in result.stderr


async def test_many_mistakes(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SE-67: so many that they would fill the log are counted."""
    async with following(path):
        path.write_text("\n".join(["identities:", *(f"  - {{name: a{number}, roles: [x]}}" for number in range(300))]))
        reasons = await logged(caplog, "access_refused", MISTAKES_LOGGED_MAX + 1)
    assert reasons[-1] == f"and {300 - MISTAKES_LOGGED_MAX} more"


async def test_reload(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SE-67: on SIGHUP it is read although it did not change, and the daemon is told again that it is wrong."""
    caplog.set_level(logging.INFO)
    async with following(path) as watcher:
        caller = admit(watcher, CI)
        watcher.reload()
        await logged(caplog, "access_applied", 2)
        assert not caller.revoked
        path.write_text("identities: 1")
        await logged(caplog, "access_refused")
        watcher.reload()
        await logged(caplog, "access_refused", 2)


async def test_the_daemon_follows_it(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SE-67: from its start to its end, and on SIGHUP also without a queue file."""
    caplog.set_level(logging.INFO)
    clock = Clock(NOW_NS)
    watcher = AccessWatcher(AccessFile(path), clock)
    daemon = Daemon(queuefile.load(""), Settings(access_path=path), clock, access=watcher)
    async with serving(daemon):
        caller = admit(watcher, CI)
        daemon.reload()
        await logged(caplog, "access_applied", 2)
        tokens.change(path.with_name("tokens.json"), let_in(OPS))
        await caller.ended.wait()
    assert "reload_ignored" not in caplog.messages


def test_a_wrong_file_at_the_start(path: Path) -> None:
    """SE-66: all mistakes, and the exit code for a file that is wrong."""
    path.write_text(text_of().replace("roles: [reader]", "roles: [king]"))
    with pytest.raises(FileProblem) as error:
        read_access(path)
    assert error.value.exit_code == USAGE
    assert error.value.message.count("'king'") == 2
    assert read_access(None) is None


def test_a_missing_file_at_the_start(tmp_path: Path) -> None:
    """SE-66: ``exit_codes.unified`` gives it the same exit code."""
    with pytest.raises(FileNotFoundError):
        read_access(tmp_path / "none.yaml")
