"""``ykactor replay``: what it prints, where it begins and ends, and what it refuses (DU-15)."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from journals import copied
from recorded import GPU, Step, record
from world import ask, node

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.messages.submissions import UpdateNode
from ykactor.core.partition.rounds import NodeSubmission, Round, Rounds
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.transaction import Batch
from ykactor.surfaces.cli.main import main
from ykactor.wire import queuefile

S_NS = 10**9
TWO = "partitions: [{name: default, queues: [{name: root, queues: [{name: a}]}]}, {name: gpu, queues: [{name: root}]}]"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two partitions, each with a node; the daemon has started three times."""
    steps = [
        Step(S_NS, lambda: [node("n1", vcore=4)]),
        Step(2 * S_NS, lambda: [node("n2", vcore=4)], GPU),
        Step(3 * S_NS, lambda: [ask("t1", "nobody")]),
    ]
    assert record(tmp_path / "state", queuefile.load(TWO), steps, seed=0, budget=CYCLE_BUDGET, ends=1, sudden=0) == 3
    return tmp_path / "state"


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["replay", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_one_line_if_all_is_the_same(directory: Path) -> None:
    """One line has counts and times; also while a daemon writes."""
    store = Store.open(directory, "off", now_ns=0)
    code, out, err = run(directory)
    assert (code, err) == (0, "")
    counts = json.loads(run(directory, "-o", "json")[1])
    assert out == (
        f"{directory}: as recorded: {counts['turns']} turns, {counts['facts']} facts, {counts['transactions']} transactions, "
        "from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:03.000Z\n"
    )
    assert counts["difference"] is None
    store.close()


def test_one_partition(directory: Path) -> None:
    """Both together are all."""
    turns = [json.loads(run(directory, "-o", "json", "--partition", name)[1])["turns"] for name in ("default", "gpu")]
    assert sum(turns) == json.loads(run(directory, "-o", "json")[1])["turns"]
    assert all(turns)
    refusal = f"Error: {directory}/journal.db: no partition none, there is default and gpu\n"
    assert run(directory, "--partition", "none") == (1, "", refusal)


def test_until_a_transaction(directory: Path) -> None:
    """The transaction of ``--until`` is the last one that is run."""
    with Reader.open(directory) as reader:
        first = next(row for row in reader.rows() if row.turns())
    code, out, _ = run(directory, "--until", first.number, "-o", "json")
    assert code == 0
    assert json.loads(out)["transactions"] == 1
    assert json.loads(out)["turns"] == len(first.turns())


def test_the_first_difference(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first difference is shown from both sides, with its turn; the exit code is 1."""
    real = Rounds.of_nodes

    def of_nodes(self: Rounds, now_ns: int, submissions: list[NodeSubmission]) -> Round:
        return (yield from real(self, now_ns, [each for each in submissions if not isinstance(each, UpdateNode)]))

    monkeypatch.setattr(Rounds, "of_nodes", of_nodes)
    code, out, err = run(directory)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines()[1:])
    assert code == 1
    why = "another version of ykactor may have recorded it (ykactor rule DU-15)"
    assert err == f"Error: {directory}: not every turn is as it was recorded; {why}\n"
    assert lines["cause"] == "the request CREATE for node n1"
    assert (lines["differs"], lines["found"], lines["time"]) == ("fact 1", "null", "1970-01-01T00:00:01.000Z")
    assert json.loads(lines["expected"])[0] == "NodeSchedulable"
    found = json.loads(run(directory, "-o", "json")[1])
    assert found["difference"]["expected"] == json.loads(lines["expected"])
    assert lines["turn"] == f"{found['difference']['turn']} of partition default, in transaction {found['transaction']}"


def test_nothing_to_begin_with(tmp_path: Path) -> None:
    """A journal of version 1 has no start that is known, and an empty one has none."""
    shutil.copy(Path(__file__).parent / "fixtures" / "version-1.db", tmp_path / "journal.db")
    assert run(tmp_path)[0] == 1
    Store.open(tmp_path / "new", "off", now_ns=0).close()
    code, out, err = run(tmp_path / "new")
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {tmp_path}/new: found no turn after a base, expected one")


@pytest.mark.parametrize(
    ("turn", "mistake"),
    [
        (b'{"partition":"default","number":%d,"now_ns":0,"cause":{"moon":1},"facts":[]}', "unknown field `moon`"),
        (b'{"partition":"default","number":%d,"now_ns":0,"cause":{"timers_due":true},"facts":[["Moon",{}]]}', "found 'Moon'"),
        (b'{"number":%d}', "missing required field `partition`"),
    ],
    ids=["cause", "fact", "turn"],
)
def test_what_another_version_has_written(directory: Path, tmp_path: Path, turn: bytes, mistake: str) -> None:
    """One line says what was found."""
    target = copied(directory, tmp_path / "copy")
    store = Store.open(target, "off", now_ns=0)
    with Reader.open(target) as reader:
        last = next(row for row in reader.rows_backwards() if b'"default"' in b"".join(row.turns()))
    newest = max(json.loads(each).get("number") or 0 for each in last.turns() if b'"partition":"default"' in each)
    store.commit(Batch(last.first_event + last.events_count, 1, 5 * S_NS, turns=[turn % (newest + 1)]))
    store.close()
    code, out, err = run(target)
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {target}/journal.db: transaction {store.number}: ")
    assert mistake in err
    assert err.count("\n") == 1
