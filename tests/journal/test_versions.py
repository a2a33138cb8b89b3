"""Journals of all versions that were ever released open with this program.

``fixtures/version-N.db`` is the database of a journal that the program with version N has written: ``numbered`` 1 to 3. It is
never made anew. A new version adds its own.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from journals import numbered, opened, records_of, states, turns_of

from ykactor.journal import schema
from ykactor.journal.errors import JournalError

FIXTURES = Path(__file__).parent / "fixtures"


def test_every_version_has_its_fixture() -> None:
    """Whoever makes a new version keeps a journal of it."""
    names = {path.name for path in FIXTURES.glob("version-*")}
    assert names == {f"version-{version}.db" for version in range(1, schema.VERSION + 1)}


@pytest.mark.parametrize("version", range(1, schema.VERSION + 1))
def test_an_earlier_version(tmp_path: Path, version: int) -> None:
    """Is brought to the present version with all that it holds, and can be written."""
    fixture = FIXTURES / f"version-{version}.db"
    with closing(sqlite3.connect(f"file:{fixture}?immutable=1", uri=True)) as connection:
        assert connection.execute("PRAGMA user_version").fetchall() == [(version,)]
    shutil.copy(fixture, tmp_path / "journal.db")
    store = opened(tmp_path)
    assert store.number == 3
    assert records_of(tmp_path) == states(3)[3]
    assert turns_of(tmp_path) == [(number, numbered(number).turns) for number in (1, 2, 3)]
    store.commit(numbered(4))
    store.close()
    assert records_of(tmp_path) == states(4)[4]
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchall() == [(schema.VERSION,)]


def test_a_step_to_the_next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is taken once; a journal that is begun afterwards has the same tables."""
    store = opened(tmp_path / "old")
    store.commit(numbered(1))
    store.close()
    monkeypatch.setattr(schema, "VERSIONS", (*schema.VERSIONS, ("CREATE TABLE more(a)", "INSERT INTO more VALUES(1)")))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    for name in ("old", "old", "new"):
        opened(tmp_path / name).close()
        with closing(sqlite3.connect(tmp_path / name / "journal.db")) as connection:
            assert connection.execute("PRAGMA user_version").fetchall() == [(schema.VERSION,)]
            assert connection.execute("SELECT * FROM more").fetchall() == [(1,)]
    assert records_of(tmp_path / "old") == states(1)[1]


def test_a_failed_step_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps from one version to the next are one transaction."""
    store = opened(tmp_path)
    store.commit(numbered(1))
    store.close()
    before = (tmp_path / "journal.db").read_bytes()
    steps = ("ALTER TABLE log ADD COLUMN more", "INSERT INTO missing VALUES(1)")
    with monkeypatch.context() as newer:
        newer.setattr(schema, "VERSIONS", (*schema.VERSIONS, steps))
        newer.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(JournalError, match="no such table: missing"):
            opened(tmp_path)
    assert (tmp_path / "journal.db").read_bytes() == before
    opened(tmp_path).close()
