"""Post-mortems: files from which failures can be reproduced, bounded in number."""

import json
import logging

import pytest
from click.testing import CliRunner
from faulting import Bug, watch_partitions
from test_supervision import realm
from world import app, ask, node

from ykactor.sim.replay import reproduce
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.daemon import reports
from ykactor.surfaces.daemon.reports import Incidents
from ykactor.wire.post_mortem import UnreadablePostMortemError


def bad(monkeypatch, word):
    """Partitions that cannot handle submissions with this word."""

    def fail(_, arguments):
        if word in repr(arguments):
            raise Bug("a bad word")

    watch_partitions(monkeypatch, after=fail)


def made_again(directory):
    """The failures that the post-mortems reproduce, in the order of time."""
    return [repr(reproduce(path)) for path in sorted(directory.glob("post-mortem-*.json"))]


def replayed(path):
    """The result of ``ykactor replay`` with this file."""
    return CliRunner().invoke(main, ["replay", str(path)])


async def test_a_post_mortem_makes_the_failure_again(tmp_path, monkeypatch, caplog):
    """A post-mortem repeats the failure from its rows and the cause of the turn; without the bug it raises nothing."""
    with monkeypatch.context() as patch:
        bad(patch, "evil")
        async with realm() as r:
            r.report = Incidents(r.feed, r.journal, tmp_path).report
            await r.send(
                "default", node("n1", vcore=9), app("app-1"), *(ask(f"t{number}", "app-1", vcore=1) for number in range(5))
            )
            await r.send("default", ask("evil", "app-1", vcore=1), ask("good", "app-1", vcore=1))
        assert made_again(tmp_path) == ["Bug('a bad word')"] * 2
        again = replayed(next(tmp_path.glob("post-mortem-*.json")))
        assert (again.exit_code, again.output.splitlines()[-1]) == (0, "faulting.Bug: a bad word")
    assert made_again(tmp_path) == ["None"] * 2
    again = replayed(next(tmp_path.glob("post-mortem-*.json")))
    assert again.exit_code == 1
    assert again.output.endswith("the turn raises nothing here\n")
    (kept,) = (tmp_path / "quarantine").iterdir()
    assert {path.stat().st_mode & 0o77 for path in (tmp_path / "quarantine", kept, *tmp_path.glob("post-mortem-*"))} == {0}
    found = json.loads(kept.read_text())
    assert found["reason"] == "SubmitAllocation evil app-1: Bug: a bad word"
    assert found["cause"]["input"][0][1]["spec"]["allocation_key"] == "evil"
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["partition_restarted", "input_quarantined"]


async def test_a_failure_of_the_first_turn_can_be_made_again(tmp_path, monkeypatch):
    """Then there is no state yet."""
    with monkeypatch.context() as patch:
        bad(patch, "ApplyConfig")
        monkeypatch.setattr("test_supervision.Realm.report", lambda self, each: Incidents(self.feed, None, tmp_path).report(each))
        async with realm(default=[]):
            pass
        assert made_again(tmp_path) == ["Bug('a bad word')"] * 2


async def test_a_damaged_row_is_kept_as_it_is(tmp_path, monkeypatch):
    """The post-mortem is written and can be read; what is wrong with the row is told, because it cannot be run again."""
    bad(monkeypatch, "evil")
    async with realm() as r:
        r.report = Incidents(r.feed, r.journal, tmp_path).report
        await r.send("default", node("n1", vcore=9), app("app-1"))
        await r.rows("default")
        r.store.records[b'["default","node","n1"]'] = b'{"capacity":\xff'
        await r.send("default", ask("evil", "app-1", vcore=1))
    (path,) = tmp_path.glob("post-mortem-*.json")
    rows = {tuple(key): row for key, row in json.loads(path.read_text())["rows"]}
    assert rows["default", "node", "n1"] == '{"capacity":\ufffd'
    again = replayed(path)
    assert again.exit_code == 1
    assert '["default","node","n1"]' in again.output


async def test_there_are_not_too_many_files(tmp_path, monkeypatch):
    """The newest are kept."""
    monkeypatch.setattr(reports, "POST_MORTEMS_MAX", 3)
    monkeypatch.setattr(reports, "QUARANTINED_MAX", 2)
    bad(monkeypatch, "evil")
    async with realm() as r:
        r.report = Incidents(r.feed, r.journal, tmp_path).report
        await r.send("default", app("app-1"), *(ask(f"evil-{number}", "app-1", vcore=1) for number in range(6)))
    assert len(list(tmp_path.glob("post-mortem-*.json"))) == 3
    kept = sorted(json.loads(path.read_text())["reason"].split()[1] for path in (tmp_path / "quarantine").iterdir())
    assert kept == ["evil-4", "evil-5"]


async def test_a_file_that_cannot_be_written_is_no_further_failure(tmp_path, monkeypatch, caplog):
    """The log says so, and has the failure."""
    bad(monkeypatch, "evil")
    async with realm() as r:
        r.report = Incidents(r.feed, r.journal, tmp_path / "missing" / "missing").report
        await r.send("default", app("app-1"))
        (failure,) = await r.send("default", ask("evil", "app-1", vcore=1))
        assert failure.code == "QUARANTINED"
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        "partition_restarted",
        "post_mortem_failed",
        "input_quarantined",
        "post_mortem_failed",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense", "expected a post-mortem"),
        ('{"version": 1}', "expected a post-mortem"),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    """The refusal says what was expected."""
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(UnreadablePostMortemError, match=message):
        reproduce(path)
    assert message in replayed(path).output
