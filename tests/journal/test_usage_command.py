"""``ykactor usage``: what is found in a journal, and how it is shown."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from recorded import Step, record
from world import S_NS, app, ask, node, queue, release, tree

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.surfaces.cli import usage
from ykactor.surfaces.cli.main import main
from ykactor.wire import queuefile

DAY_S = 24 * 3600
GIB = 2**30


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A daemon that has started several times; alice has run a task over midnight, bob's still runs, carol's has never run."""
    begin_ns = (DAY_S - 3600) * S_NS
    asks = [
        app("app-1", "root.a", user="alice", groups=("dev",)),
        app("app-2", "root.b", user="bob", groups=("dev", "ops")),
        app("app\n3", "root.b", user="carol"),
        ask("k1", "app-1", vcore=1500, memory=GIB),
        ask("k2", "app-2", vcore=500),
        ask("k3", "app\n3", vcore=9000),
    ]
    steps = [
        Step(begin_ns, lambda: [node("n1", vcore=2000, memory=8 * GIB)]),
        Step(begin_ns, lambda: asks),
        Step(begin_ns + 7200 * S_NS, lambda: [release("k1", "app-1")]),
        Step(begin_ns + 7200 * S_NS, list),
    ]
    config = queuefile.load(tree(queue("a"), queue("b")))
    starts = record(tmp_path, config, steps, seed=3, budget=CYCLE_BUDGET, ends=0.7, sudden=0)
    assert starts > 1
    monkeypatch.setattr(usage, "system_ns", lambda: begin_ns + 3 * 3600 * S_NS)
    return tmp_path


def shown(directory: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["usage", "--state-dir", str(directory), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def table(directory: Path, *options: str) -> list[str]:
    """The cells of each row below the header."""
    rows = [line.split("│")[1:-1] for line in shown(directory, *options).splitlines() if "│" in line]
    return [" ".join(cell.strip() for cell in row) for row in rows]


def test_a_table(directory: Path) -> None:
    """AP-141: in hours, a row for each user and type, and the total; what runs and waits counts up to now."""
    assert table(directory) == [
        "alice memory 2.00 0.00 0.00 GiB h",
        "alice vcore 3.00 0.00 0.00 core h",
        "bob vcore 1.50 0.00 0.00 core h",
        "carol vcore 0.00 27.00 0.00 core h",
        "total memory 2.00 0.00 0.00 GiB h",
        "total vcore 4.50 27.00 0.00 core h",
    ]


def test_names_stay_on_one_line(directory: Path) -> None:
    """Whatever a client has sent."""
    assert table(directory, "--by", "application")[0] == r"app\n3 vcore 0.00 27.00 0.00 core h"


def test_csv(directory: Path) -> None:
    """AP-141: in seconds of base units, and a line for each UTC day."""
    rows = list(csv.reader(shown(directory, "--by", "day, queue,group", "-o", "csv").splitlines()))
    assert rows == [
        ["day", "queue", "group", "resource", "allocated", "waited", "lost"],
        ["1970-01-01", "root.a", "dev", "memory", str(3600 * GIB), "0", "0"],
        ["1970-01-01", "root.a", "dev", "vcore", str(3600 * 1500), "0", "0"],
        ["1970-01-01", "root.b", "carol", "vcore", "0", str(3600 * 9000), "0"],
        ["1970-01-01", "root.b", "dev", "vcore", str(3600 * 500), "0", "0"],
        ["1970-01-02", "root.a", "dev", "memory", str(3600 * GIB), "0", "0"],
        ["1970-01-02", "root.a", "dev", "vcore", str(3600 * 1500), "0", "0"],
        ["1970-01-02", "root.b", "carol", "vcore", "0", str(7200 * 9000), "0"],
        ["1970-01-02", "root.b", "dev", "vcore", str(7200 * 500), "0", "0"],
    ]


def test_up_to_a_day(directory: Path) -> None:
    """AP-141: the day of ``--until`` counts as a whole; an empty name takes its place in the line of the total."""
    assert table(directory, "--by", "group,user", "--until", "1970-01-01T00:30:00")[-2:] == [
        "total  memory 1.00 0.00 0.00 GiB h",
        "total  vcore 2.00 9.00 0.00 core h",
    ]


def test_json_since_a_day(directory: Path) -> None:
    """AP-141: the day of ``--since`` counts as a whole."""
    found = json.loads(shown(directory, "--by", "application", "--since", "1970-01-02T00:30:00", "-o", "json"))
    assert found == [
        {"application": "app\n3", "allocated": {}, "waited": {"vcore": 7200 * 9000}, "lost": {}},
        {"application": "app-1", "allocated": {"memory": 3600 * GIB, "vcore": 3600 * 1500}, "waited": {}, "lost": {}},
        {"application": "app-2", "allocated": {"vcore": 7200 * 500}, "waited": {}, "lost": {}},
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "user,colour"), "found 'user,colour', expected some of day, queue, user, group, application"),
        (("--by", "user,user"), "found 'user,user', expected some of"),
        (("--since", "soon"), "found 'soon', expected a time in UTC"),
        (("--since", "2026-02-01", "--until", "2026-01-31"), "found --until before --since"),
        (("--partition", "gpu"), "--partition: found 'gpu', expected one of default"),
    ],
)
def test_a_wrong_command_line(directory: Path, options: tuple[str, ...], message: str) -> None:
    """A wrong command line is refused as a usage error, with what was found and expected."""
    result = CliRunner().invoke(main, ["usage", "--state-dir", str(directory), *options])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_no_journal(tmp_path: Path) -> None:
    """One line that says what is missing."""
    result = CliRunner().invoke(main, ["usage", "--state-dir", str(tmp_path)])
    assert (result.exit_code, result.stderr.splitlines()) == (
        1,
        [f"Error: {tmp_path}: found no journal.db, expected the state directory of a daemon"],
    )
