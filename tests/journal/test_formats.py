"""Journal formats: later versions read each version; earlier ones refuse it wherever it has anything they do not know.

``fixtures/state-N*.db`` are journals of daemons of version N, with something of everything; ``fixtures/shapes-N.json`` has the
names of all that version N keeps (``shapes.py``). They are never made anew once the version is released.
"""

import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from shapes import FIXTURES, kept, path_of, shapes

from ykactor.journal import schema
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.journal.transaction import LogRow, packed_turns, record_crc
from ykactor.surfaces.cli.replay import replayed
from ykactor.surfaces.files.recovery import Recovered
from ykactor.surfaces.files.state_dir import StateSettings, open_state_dir

STATES = sorted(path.name for path in FIXTURES.glob("state-*.db"))
NEWEST = STATES[-1]
#: Structs whose names are not in the journal, by their names in a version.
RENAMED = {2: {"FileRow": "ChangeRow", "Ask": "AskRow", "AllocationSpec": "Ask"}}


def version_of(name: str) -> int:
    return int(name.split("-")[1].removesuffix(".db"))


def recovered(directory: Path) -> Recovered:
    with open_state_dir(StateSettings(directory, "off", 2**30, 10**18), reserves=True) as state:
        assert state.recovered is not None
        return state.recovered


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A state of the newest version."""
    return state_of(NEWEST, tmp_path)


def state_of(name: str, directory: Path) -> Path:
    shutil.copy(FIXTURES / name, directory / "journal.db")
    return directory


@pytest.mark.parametrize("name", STATES)
def test_a_later_version_goes_on(tmp_path: Path, name: str) -> None:
    """A later version reads all rows of an earlier one, and its decisions, even if it would not make them again."""
    found = recovered(state_of(name, tmp_path))
    registries = {str(name): restored.core.registry for name, restored in found.partitions.items()}
    assert {name: len(registry.nodes) for name, registry in registries.items()} == {"default": 3, "second": 1}
    assert {name: len(registry.applications) for name, registry in registries.items()} == {"default": 3, "second": 1}
    assert found.registration is not None
    assert found.registration.rm_id == "rm-1"
    assert len(found.events) == found.last_event > 100
    with Reader.open(tmp_path) as reader:
        assert replayed(reader).turns


@pytest.mark.parametrize("name", STATES)
def test_an_earlier_version_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The journal names the least version that understands it: an earlier one would drop rows that it does not know."""
    version = version_of(name)
    monkeypatch.setattr(schema, "VERSION", version - 1)
    monkeypatch.setattr(schema, "VERSIONS", schema.VERSIONS[: version - 1])
    refusal = rf"found version {version} of the journal, expected at most {version - 1}; start the newer program"
    with pytest.raises(JournalError, match=refusal):
        recovered(state_of(name, tmp_path))


def test_each_version_has_its_fixtures() -> None:
    """Whoever makes a new version keeps a journal of it, and the names of what it keeps."""
    assert {version_of(name) for name in STATES} == set(range(2, schema.VERSION + 1))


def test_what_is_kept_makes_a_version() -> None:
    """A row, a fact or a field that is new is unknown to the programs before: they have to refuse the journal."""
    recorded = msgspec.json.decode(path_of(schema.VERSION).read_bytes())
    assert shapes() == recorded, "add a version to journal.schema.VERSIONS, or see shapes.py while it is not released"


def test_what_was_kept_is_still_known() -> None:
    """A name that an earlier version has written is not an unknown one today."""
    now = shapes()
    for version in range(2, schema.VERSION):
        earlier = msgspec.json.decode(path_of(version).read_bytes(), type=dict[str, list[str]])
        names = RENAMED.get(version, {})
        gone = {name: sorted(set(fields) - set(now.get(names.get(name, name), ()))) for name, fields in earlier.items()}
        assert {name: fields for name, fields in gone.items() if fields} == {}


@pytest.mark.parametrize("name", kept())
def test_an_unknown_field_is_refused(name: str) -> None:
    """Each struct that a journal has, at whatever depth, forbids unknown fields."""
    assert kept()[name].__struct_config__.forbid_unknown_fields


def with_more(text: bytes, place: str) -> bytes:
    """A JSON object with one more field."""
    row: dict[str, Any] = msgspec.json.decode(text)
    target = row
    for step in filter(None, place.split(".")):
        target = target[step]
    target["later"] = 1
    return msgspec.json.encode(row)


@pytest.mark.parametrize(
    ("key", "place"),
    [
        (b'["","config"]', ""),
        (b'["","registration"]', ""),
        (b'["default","node","n1"]', ""),
        (b'["default","application","gang"]', "gang"),
        (b'["default","configuration"]', "preemption"),
    ],
)
def test_an_unknown_field_of_a_row(directory: Path, key: bytes, place: str) -> None:
    """The start is refused, and says where."""
    change(directory, key, lambda data: (key, with_more(data, place)))
    with pytest.raises(JournalError) as refused:
        recovered(directory)
    assert f"row {key.decode()}: " in str(refused.value)
    assert "unknown field `later`" in str(refused.value)
    assert str(refused.value).endswith("expected what this version or an earlier one wrote")


@pytest.mark.parametrize(
    ("key", "later"), [(b'["","registration"]', b'["","later"]'), (b'["default","node","n1"]', b'["default","later","n1"]')]
)
def test_an_unknown_kind_of_row(directory: Path, key: bytes, later: bytes) -> None:
    """A row that nobody reads would be lost."""
    change(directory, key, lambda data: (later, data))
    with pytest.raises(JournalError, match=r"row \[.*\]: found the kind later, expected one that this version knows"):
        recovered(directory)


@pytest.mark.parametrize(
    "text", [b'["Later",{"at_ns":1}]', b'["NodeSchedulable",{"at_ns":1,"node_id":"n1","schedulable":true,"later":1}]']
)
def test_an_unknown_fact(directory: Path, text: bytes) -> None:
    """The event of an unknown fact would be missing, or say less."""
    with closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as connection:
        row = LogRow.of(connection.execute("SELECT * FROM log WHERE events_count > 0 ORDER BY number DESC LIMIT 1").fetchone())
        turns = [b'{"partition":"default","facts":[%b]}' % text]
        changed = msgspec.structs.replace(row, packed_turns=packed_turns(turns))
        connection.execute("DELETE FROM log WHERE number = ?", (row.number,))
        connection.execute(f"INSERT INTO log VALUES({','.join('?' * 11)})", changed.columns())
    with pytest.raises(JournalError, match=rf"the state cannot be read: transaction {row.number}: fact 0.*(Later|later)"):
        recovered(directory)


def change(directory: Path, key: bytes, made: Any) -> None:
    """Another key and text for a record, with its CRC."""
    with closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as connection:
        connection.text_factory = bytes
        ((data,),) = connection.execute("SELECT data FROM record WHERE key = CAST(? AS TEXT)", (key,))
        new, text = made(data)
        connection.execute("DELETE FROM record WHERE key = CAST(? AS TEXT)", (key,))
        put = "INSERT INTO record VALUES(CAST(? AS TEXT), CAST(? AS TEXT), ?)"
        connection.execute(put, (new, text, record_crc(new, text)))
    assert zlib.crc32(text, zlib.crc32(new)) == record_crc(new, text)
