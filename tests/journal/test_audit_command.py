"""``ykactor audit``: what is found in a journal, and how it is shown."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from journals import S_NS, opened

from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited, Fact, NodeRemoved
from ykactor.journal.reading import Reader
from ykactor.journal.transaction import Batch
from ykactor.surfaces.cli.main import main
from ykactor.wire.history import encode_facts
from ykactor.wire.si.events import events, mentioned

FACTS: list[Fact] = [
    Audited(1 * S_NS, "ops", "10.0.0.7:5000", "operator", Act.DRAIN, "n1", "schedulable", "draining"),
    NodeRemoved(2 * S_NS, "n1"),
    Audited(4 * S_NS, "", "/etc/queues.yaml", "", Act.CONFIGURE, "queues.yaml", "AA", "BB"),
    Audited(3 * S_NS, "", "10.9.0.1:1", "rm", Act.CONNECT, "/v1/rm", refusal="no proof", times=17),
    Audited(5 * S_NS, "ops", "10.0.0.7:5000", "operator", Act.MOVE, "app\n\x1b[31m", refusal="no"),
    Audited(6 * S_NS, "", "/etc/access.yaml", "", Act.ACCESS, "access.yaml", after="changed: ci"),
]
#: Without the spaces that align the columns.
LINES = [
    "1970-01-01T00:00:01.000Z DRAIN n1 ops from 10.0.0.7:5000 as operator: schedulable -> draining",
    "1970-01-01T00:00:03.000Z CONNECT /v1/rm - from 10.9.0.1:1 as rm: refused: no proof (17 times)",
    "1970-01-01T00:00:04.000Z CONFIGURE queues.yaml - from /etc/queues.yaml: AA -> BB",
    r"1970-01-01T00:00:05.000Z MOVE app\n\x1b[31m ops from 10.0.0.7:5000 as operator: refused: no",
    "1970-01-01T00:00:06.000Z ACCESS access.yaml - from /etc/access.yaml: changed: ci",
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A journal with a transaction for each fact, at its time; refusals that are summed up are told later."""
    store = opened(tmp_path)
    for number, fact in enumerate(FACTS, 1):
        turn = b'{"partition":"default","facts":%b}' % encode_facts([fact])
        names = mentioned(events(fact, "default", number))
        at_ns = max(told.at_ns for told in FACTS[:number])
        store.commit(Batch(number, 1, at_ns=at_ns, events_count=1, turns=[turn], names=names))
    store.close()
    return tmp_path


def audit(directory: Path, *options: str) -> list[str]:
    result = CliRunner().invoke(main, ["audit", "--state-dir", str(directory), *options])
    assert result.exit_code == 0, result.output
    assert result.stderr == ("" if result.stdout else "nothing in the journal matches\n")
    return result.stdout.splitlines()


def columns(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def test_a_line_for_each(directory: Path) -> None:
    """SE-76: in the order in which it happened, and on one line whatever a client has sent."""
    assert columns(audit(directory)) == LINES


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--who", "ops"), [0, 3]),
        (("--act", "move"), [3]),
        (("--since", "1970-01-01T00:00:04Z"), [2, 3, 4]),
        (("--since", "1970-01-01T00:00:03Z", "--who", "ops"), [3]),
        (("--since", "7d"), []),
        (("--since", "10m"), []),
    ],
)
def test_what_is_wanted(directory: Path, options: tuple[str, ...], wanted: list[int]) -> None:
    """SE-76: by time, identity and act."""
    assert columns(audit(directory, *options)) == [LINES[number] for number in wanted]


def test_json(directory: Path) -> None:
    """SE-76: all fields, also those with their default values; the time is named as that of events."""
    found = [msgspec.json.decode(line) for line in audit(directory, "-o", "json")]
    told = sorted((fact for fact in FACTS if isinstance(fact, Audited)), key=lambda fact: fact.at_ns)
    assert found[0]["times"] == 1
    assert [msgspec.convert({"at_ns": fields.pop("timestampNano"), **fields}, Audited) for fields in found] == told


def test_only_the_audit_is_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-76: transactions of which the index does not say that they have a part of it are not looked at."""
    numbers: list[int] = []
    row = Reader.row
    monkeypatch.setattr(Reader, "row", lambda reader, number: (numbers.append(number), row(reader, number))[1])
    audit(directory)
    assert numbers == [1, 3, 4, 5, 6]


def test_the_story_of_a_node(directory: Path) -> None:
    """SE-75: who has drained it is a part of its story."""
    result = CliRunner().invoke(main, ["story", "n1", "--state-dir", str(directory)])
    (drained, _, gone) = result.stdout.splitlines()
    assert "AUDIT_DRAIN" in drained
    assert drained.endswith("because of ops")
    assert gone == "now: the daemon has nothing of n1 any more"
