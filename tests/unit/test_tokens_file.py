"""The tokens file on disk: changed as a whole or not at all, by one writer at a time."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ykactor.access import moments, tokens
from ykactor.access.tokens import Tokens, TokensError

MADE = moments.at(0)


def add(path: Path, secret: str = "yk_a") -> Tokens:
    return tokens.change(path, lambda old: old.with_new(secret, "ci", MADE, None))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def test_a_new_file_is_for_its_owner(path: Path) -> None:
    """SE-5: mode 0600, whatever the umask is."""
    before = os.umask(0)
    try:
        add(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [token.identity for token in tokens.read(path).all] == ["ci"]


def test_mode_and_owner_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-5: so that a daemon of another user goes on reading the file."""
    owners: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda file, user, group: owners.append((user, group)))
    add(path)
    path.chmod(0o640)
    add(path, "yk_b")
    assert path.stat().st_mode & 0o777 == 0o640
    assert owners == []
    real = Path.stat

    def of_another(self: Path, **options: bool) -> os.stat_result:
        found = real(self, **options)
        return os.stat_result((*found[:4], 77, 78, *found[6:])) if self == path else found

    monkeypatch.setattr(Path, "stat", of_another)
    add(path, "yk_c")
    assert owners == [(77, 78)]


def test_a_link_stays(path: Path, tmp_path: Path) -> None:
    """SE-5: the file behind it is replaced."""
    (tmp_path / "there").mkdir()
    path.symlink_to(tmp_path / "there" / "real.json")
    add(path)
    assert path.is_symlink()
    assert len(tokens.read(tmp_path / "there" / "real.json").all) == 1


@pytest.mark.parametrize("broken", ["fsync", "fchmod"])
def test_a_failed_change_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """SE-5: the old file is as it was, and nothing is left beside it but the lock."""
    add(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="No space left"):
        add(path, "yk_b")
    assert path.read_bytes() == before
    assert names(path) == ["tokens.json", "tokens.json.lock"]


def test_it_is_on_the_disk_before_it_is_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-5: the content is forced to the disk, then the file renamed, then the directory forced too."""
    steps: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: steps.append(Path(os.readlink(f"/proc/self/fd/{file}")).name[:7]))
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: steps.append("rename") or replace(self, to))
    add(path)
    assert steps == [".tokens", "rename", path.parent.name[:7]]


def test_a_wrong_file_is_not_written_over(path: Path) -> None:
    """SE-5: what cannot be read is left to its owner; the message has its name."""
    path.write_text("[]")
    with pytest.raises(TokensError, match=f"{path}: not a tokens file"):
        add(path)
    assert path.read_text() == "[]"


def test_two_writers(path: Path) -> None:
    """SE-5: each sees what the other has written, so no token is lost."""
    secrets = [f"yk_{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda secret: add(path, secret), secrets))
    kept = tokens.read(path)
    assert {token.sha256 for token in kept.all} == set(map(tokens.digest_of, secrets))
