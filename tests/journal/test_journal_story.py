"""``ykactor story --state-dir``: the events about one object in a journal, found by the index, with what has caused them."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from recorded import Step, record
from world import app, ask, node, release

from ykactor.actors import clock
from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.messages.acts import MoveApplication, TerminateApplication
from ykactor.core.values.ids import ApplicationID
from ykactor.journal.reading import Reader
from ykactor.journal.transaction import LogRow
from ykactor.surfaces.cli.main import main
from ykactor.wire import queuefile

S_NS = 10**9
TEXT = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}, {name: b}]}]}]"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day in the life of two applications; the daemon has been started anew after each step."""
    app_1, app_2 = ApplicationID("app-1"), ApplicationID("app-2")
    steps = [
        Step(S_NS, lambda: [node("n1", vcore=4000), app("app-1"), app("app-2")]),
        Step(2 * S_NS, lambda: [ask("t1", "app-1", vcore=1000), ask("t2", "app-2", vcore=1000), ask("t3", "app-2", vcore=9000)]),
        Step(3 * S_NS, lambda: MoveApplication(app_1, "root.b")),
        Step(4 * S_NS, lambda: [release("t1", "app-1")]),
        Step(5 * S_NS, lambda: TerminateApplication(app_2)),
        Step(100 * S_NS, list),
    ]
    target = tmp_path_factory.mktemp("state")
    record(target, queuefile.load(TEXT), steps, seed=0, budget=CYCLE_BUDGET, ends=1, sudden=0)
    return target


def story(directory: Path, key: str, *options: str, expect: int = 0) -> list[str]:
    result = CliRunner().invoke(main, ["story", key, "--state-dir", str(directory), *options])
    assert result.exit_code == expect, result.output
    return [click.unstyle(line) for line in (result.stdout if expect == 0 else result.stderr).splitlines()]


def causes(lines: list[str]) -> list[tuple[str, str]]:
    """Second, detail and cause of each event."""
    events = [line for line in lines if line[:3] != "now"]
    return [(f"{line[17:19]} {line.split()[4]}", line.rpartition("  ")[2].removeprefix("because of ")) for line in events]


def test_each_event_has_its_cause(directory: Path) -> None:
    """The entry of the input that is about the same, the cycle, the timer, or the administrator."""
    assert causes(story(directory, "t1")) == [
        ("02 APP_REQUEST", "the request for ask t1 of app-1"),
        ("02 NODE_ALLOC", "in the scheduling cycle of turn 8"),
        ("02 APP_ALLOC", "in the scheduling cycle of turn 8"),
        ("04 ALLOC_CANCEL", "the request to release t1 of app-1 (STOPPED_BY_RM)"),
        ("04 NODE_ALLOC", "the request to release t1 of app-1 (STOPPED_BY_RM)"),
        ("04 REQUEST_CANCEL", "the request to release t1 of app-1 (STOPPED_BY_RM)"),
    ]
    about_app = causes(story(directory, "app-1"))
    assert ("01 APP_NEW", "the request for application app-1") in about_app
    assert ("03 QUEUE_APP", "the resource manager, to move application app-1 to root.b") in about_app
    assert about_app[-1] == ("34 QUEUE_APP", "a timer")
    assert ("05 APP_FAILING", "the resource manager, to end application app-2") in causes(story(directory, "app-2"))
    assert causes(story(directory, "n1"))[0] == ("01 NODE_SCHEDULABLE", "the request CREATE for node n1")
    assert causes(story(directory, "root.a"))[0] == ("00 -", "a configuration")


def test_the_present_state_follows(directory: Path) -> None:
    """The present state is the state after the newest transaction."""
    assert "now: node n1, schedulable, uses vcore 1, capacity vcore 4" in story(directory, "n1")
    assert story(directory, "root.a")[-1] == "now: queue root.a Active, uses vcore 1, headroom vcore 3"
    assert story(directory, "t1")[-1] == "now: the daemon has nothing of t1 any more"


def test_since(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events from a time on, in the forms that are printed and written, or how long ago."""
    monkeypatch.setattr(clock, "system_ns", lambda: (3600 + 4) * 10**9)
    everything = story(directory, "app-1")
    assert story(directory, "app-1", "--since", "1970-01-01") == everything
    later = [line for line in everything if line[:3] == "now" or line >= "1970-01-01T00:00:04"]
    for since in ("1970-01-01T00:00:04", "1970-01-01T00:00:03.001Z", "1h", "60m", "3600s"):
        assert story(directory, "app-1", "--since", since) == later
    assert len(later) < len(everything)
    assert story(directory, "app-1", "--since", "1d") == everything
    assert "found 'yesterday', expected a time in UTC such as " in story(directory, "app-1", "--since", "yesterday", expect=2)[-1]


def test_unknown(directory: Path) -> None:
    """A name without events and objects is unknown."""
    (line,) = story(directory, "nobody", expect=1)
    assert line.startswith(f"Error: the journal in {directory} knows no application, ask, node, queue, user or group nobody")
    (line,) = story(directory.parent, "app-1", expect=1)
    assert "found no journal.db" in line


def test_only_what_is_about_it_is_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index names the transactions."""
    read: list[int] = []
    real = Reader.row

    def row(self: Reader, number: int) -> LogRow | None:
        read.append(number)
        return real(self, number)

    monkeypatch.setattr(Reader, "row", row)
    story(directory, "t1")
    with Reader.open(directory) as reader:
        assert 0 < len(read) < reader.numbers()[1] / 2
