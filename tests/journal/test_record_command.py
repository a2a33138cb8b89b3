"""``ykactor record``: what it writes and says, what it refuses, and how damaged recordings are found."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from recorded import Step
from recorded import record as record_history
from world import app, ask, node, release

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.surfaces.cli.main import main
from ykactor.wire import queuefile

S_NS = 10**9
ONE = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A task that runs for 5 s, one that waits for it and does not end, with a restart between them."""
    steps = [
        Step(S_NS, lambda: [node("n1", vcore=4), app("app-1", "root.a")]),
        Step(2 * S_NS, lambda: [ask("t1", "app-1", vcore=3), ask("t2", "app-1", vcore=2)]),
        Step(7 * S_NS, lambda: [release("t1")]),
        Step(9 * S_NS, lambda: [node("n2", vcore=1)]),
    ]
    assert record_history(tmp_path / "state", queuefile.load(ONE), steps, seed=0, budget=CYCLE_BUDGET, ends=1, sudden=0) == 4
    return tmp_path / "state"


def ykactor(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)


def recorded(directory: Path, *options: str) -> Path:
    target = directory.parent / "day.jsonl"
    result = ykactor("record", directory, *options, "-o", target)
    assert result.exit_code == 0, result.output
    return target


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_link_in_its_place_is_not_followed(directory: Path) -> None:
    """A link that somebody else has put where the file is written leads nowhere else."""
    other = directory.parent / "other"
    other.write_text("mine")
    (directory.parent / f".day.jsonl.{os.getpid()}.tmp").symlink_to(other)
    target = recorded(directory)
    assert (target.stat().st_mode & 0o777, target.is_symlink(), other.read_text()) == (0o600, False, "mine")


def test_what_is_recorded(directory: Path) -> None:
    """The ends of tasks are run times; what is not known is counted."""
    target = directory.parent / "day.jsonl"
    result = ykactor("record", directory, "-o", target)
    assert result.stderr.splitlines() == [
        "recorded from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:09.000Z: 2 tasks",
        "no daemon ran for 0.00s at most, before 3 starts: nothing is decided then",
        "not carried over (1): tasks that run at the end, whose end is not known: they run until the end",
    ]
    lines = lines_of(target)
    assert [line.get("type") for line in (lines[1], lines[-1])] == ["Rows", "End"]
    lives = [line["lives"] for line in lines if "lives" in line]
    assert lives == [{"0": {"runSeconds": 5.0}, "1": {"runSeconds": 2.0, "censored": True}}]
    assert "ReleaseAllocations" not in target.read_text()


def test_it_runs_without_the_directory(directory: Path, tmp_path: Path) -> None:
    """The record runs with the configuration as it was, and with another one; tasks and asks of its begin go on."""
    for options in ((), ("--from", "1970-01-01T00:00:04")):
        summary = json.loads(ykactor("simulate", recorded(directory, *options), "-o", "json").stdout)
        assert (summary["pending"], summary["released"], summary["utilisation"]["vcore"]["used"]) == (0, 1, 2)
        assert summary["waits"]["root.a"]["maxSeconds"] == 5
    other = tmp_path / "other.yaml"
    other.write_text(ONE.replace("{name: a}", "{name: a, resources: {max: {vcore: 1m}}}"))
    summary = json.loads(ykactor("simulate", recorded(directory), "--config", other, "-o", "json").stdout)
    assert (summary["placed"], summary["pending"]) == (0, 2)


def test_exact(directory: Path) -> None:
    """Replay runs an exact recording again, also in part, and simulate does not; a changed fact is found."""
    target = recorded(directory, "--exact", "--from", "1970-01-01T00:00:05")
    result = ykactor("replay", target)
    assert result.exit_code == 0
    assert "as recorded: " in result.stdout
    assert ykactor("replay", target, "--partition", "gpu").exit_code == 1
    refused = ykactor("simulate", target)
    assert (refused.exit_code, "for ykactor replay" in refused.stderr) == (1, True)
    target.write_text(target.read_text().replace('"STOPPED_BY_RM","message"', '"TIMEOUT","message"'))
    changed = ykactor("replay", target)
    assert (changed.exit_code, "not every turn is as it was recorded" in changed.stderr) == (1, True)


def test_anonymous(directory: Path) -> None:
    """The same numbers without a name."""
    with_names = json.loads(ykactor("simulate", recorded(directory), "-o", "json").stdout)
    target = recorded(directory, "--anonymise")
    without = json.loads(ykactor("simulate", target, "-o", "json").stdout)
    assert without["utilisation"] == with_names["utilisation"]
    assert list(without["waits"].values()) == list(with_names["waits"].values())
    assert not any(f'"{name}"' in target.read_text() for name in ("app-1", "t1", "n1", "root.a"))


def test_outages(tmp_path: Path) -> None:
    """The times between a turn and the next start are in both forms of a recording; runs say how long they were."""
    later = [app("app-1", "root.a"), ask("t1", "app-1", vcore=1)]
    steps = [Step(S_NS, lambda: [node("n1", vcore=4)]), Step(2 * S_NS, lambda: [*later])]
    directory, base = tmp_path / "state", tmp_path / "base.yaml"
    base.write_text(ONE)
    record_history(directory, queuefile.load(ONE), steps, seed=0, budget=CYCLE_BUDGET, ends=1, sudden=0, away_s=[1800])
    says = "no daemon ran for 30m at most, before 1 start: nothing is decided then"
    for options, command in (((), "simulate"), (("--exact",), "replay")):
        target = tmp_path / f"{command}.jsonl"
        assert says in ykactor("record", directory, *options, "-o", target).stderr.splitlines()
        (outage,) = lines_of(target)[0]["recorded"]["outages"]  # type: ignore[index]
        assert (outage["fromNs"], outage["toNs"] - outage["fromNs"]) == (S_NS, 1800 * S_NS + 1000)
    target = tmp_path / "simulate.jsonl"
    assert says in ykactor("simulate", target).stderr.splitlines()
    assert json.loads(ykactor("simulate", target, "-o", "json").stdout)["outages"] == [outage]
    page = tmp_path / "page.html"
    assert says in ykactor("simulate", target, "--compare", base, "--html", page).stdout.splitlines()
    assert says in page.read_text()
    assert json.loads(ykactor("simulate", target, "--compare", base, "-o", "json").stdout)["outages"] == [outage]
    assert "no daemon" not in ykactor("record", directory, "--from", "1970-01-01T00:30:30", "-o", target).stderr


@pytest.mark.parametrize("options", [[], ["--exact"]])
def test_damage_is_named_with_its_line(directory: Path, options: list[str]) -> None:
    """A recording that is cut off, damaged, newer or mixed up: the file, the line and what was expected."""
    target = recorded(directory, *options)
    whole = target.read_text()
    lines = whole.splitlines(keepends=True)
    command = "replay" if options else "simulate"

    def error_of(text: str) -> str:
        target.write_text(text)
        result = ykactor(command, target)
        assert result.exit_code == 1
        return result.stderr

    assert f"{target}:{len(lines) - 1}:1: found the end of the file" in error_of("".join(lines[:-1]))
    assert f"{target}:{len(lines)}:1: not a line of a recording: " in error_of(whole[:-4])
    assert f"{target}:3:1: not a line of a recording: " in error_of(
        "".join([*lines[:2], lines[2].replace("atNs", "at"), *lines[3:]])
    )
    assert "found a line after the last" in error_of(whole + lines[-1])
    assert "of a newer ykactor, expected at most 1" in error_of(whole.replace('"version":1', '"version":2', 1))
    assert "turns, expected" in error_of("".join([*lines[:-2], lines[-1]]))
    if options:
        assert "found no exact recording" in error_of(whole.replace('"exact":true', '"exact":false', 1))
    else:
        assert "expected recorded in the first line" in error_of('{"name":"","config":"","until":1}\n' + "".join(lines[1:]))


@pytest.mark.parametrize(("options", "command"), [((), "replay"), (("--exact",), "simulate"), ((), "submit")])
def test_one_that_is_not_read_has_one_mistake(directory: Path, options: tuple[str, ...], command: str) -> None:
    """The lines of a recording that is newer, or for another command, are not looked at: they mean nothing here."""
    target = recorded(directory, *options)
    head, *lines = target.read_text().splitlines(keepends=True)
    target.write_text(head + "".join(line.replace("atNs", "at") for line in lines))
    result = ykactor(command, target)
    assert (result.exit_code, "recording" in result.stderr) == (1, True)
    assert [line for line in result.stderr.splitlines() if f"{target}:" in line] == [
        line for line in result.stderr.splitlines() if f"{target}:1:" in line
    ]


def test_only_simulate_and_replay_read_recordings(directory: Path) -> None:
    """Other commands say so."""
    target = recorded(directory)
    for command in ("submit", "what-if"):
        result = ykactor(command, target)
        assert result.exit_code == 1
        assert f"{target}:1:" in result.stderr
        assert "found a recording, expected another scenario" in result.stderr
    assert ykactor("simulate", target, "--actors").exit_code == 2


def test_windows_beyond_the_history(directory: Path) -> None:
    """The message names the time that is kept; a later end is cut, and the message says so."""
    kept = "what is kept goes from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:09.000Z"
    target = directory.parent / "x.jsonl"
    late = ykactor("record", directory, "--from", "1970-01-02", "-o", target)
    assert (late.exit_code, kept in late.stderr) == (1, True)
    turned = ykactor("record", directory, "--from", "1970-01-01T00:00:05", "--to", "1970-01-01T00:00:04", "-o", target)
    assert (turned.exit_code, "expected a time after --from" in turned.stderr) == (1, True)
    for wrong in ("-1", "nan", str(2**63), "yesterday", ""):
        result = ykactor("record", directory, "--from", wrong, "-o", target)
        assert (result.exit_code, "expected a time in UTC" in result.stderr) == (2, True), wrong
    assert not target.exists()
    result = ykactor("record", directory, "--to", "1970-01-02", "-o", target)
    assert (result.exit_code, f"--to is after the history, {kept}" in result.stderr) == (0, True)


def test_no_half_file_stays(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording is private, and one that fails leaves the file of before; a full disk is an error with the name of the file."""
    target = recorded(directory)
    before = target.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o600

    def full(*_: object) -> bytes:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("ykactor.surfaces.cli.record.encode_line", full)
    result = ykactor("record", directory, "-o", target)
    assert (result.exit_code, f"{target}: No space left on device" in result.stderr) == (2, True)
    assert target.read_bytes() == before
    assert sorted(path.name for path in directory.parent.iterdir()) == ["day.jsonl", "state"]
    monkeypatch.undo()
    full_disk = ykactor("record", directory, "-o", "/dev/full")
    assert (full_disk.exit_code, "/dev/full: No space left on device" in full_disk.stderr) == (2, True)
    nowhere = ykactor("record", directory, "-o", directory / "none" / "x.jsonl")
    assert nowhere.exit_code == 2


def test_nothing_to_record(tmp_path: Path) -> None:
    """A directory without a journal, or options that contradict each other."""
    assert ykactor("record", tmp_path, "-o", "-").exit_code == 1
    assert ykactor("record", tmp_path / "none", "-o", "-").exit_code == 2
    assert ykactor("record", tmp_path, "--exact", "--after-preemption", "drop", "-o", "-").exit_code == 2
    assert ykactor("record", tmp_path, "--exact", "--anonymise", "-o", "-").exit_code == 2


def test_two_configurations_of_a_recording(directory: Path, tmp_path: Path) -> None:
    """``simulate --compare``: what ran and waited at the begin counts from then on, and arrivals may be others."""
    base, other = tmp_path / "base.yaml", tmp_path / "other.yaml"
    base.write_text(ONE)
    other.write_text(ONE.replace("{name: a}", "{name: a, resources: {max: {vcore: 1m}}}"))
    found = {}
    for options in ((), ("--from", "1970-01-01T00:00:04"), ("--from", "1970-01-01T00:00:04", "--jitter", "2")):
        given = options[:2]
        result = ykactor("simulate", recorded(directory, *given), "--compare", base, "--config", base, *options[2:], "-o", "json")
        assert (result.exit_code, result.stderr) == (0, "")
        found[options] = json.loads(result.stdout)["report"]
    for report in found.values():
        assert report["total"]["waitSeconds"]["max"]["base"] == report["total"]["waitSeconds"]["max"]["other"] == 5
        assert report["total"]["waitedFor"]["max"] == {"QUOTA": report["total"]["waitSeconds"]["max"]}
    whole, later, jittered = found.values()
    assert (whole["total"]["asks"]["base"], later["total"]["asks"]["base"]) == (2, 1)
    assert later["queues"]["root"]["debt"]["vcore"]["base"] > 0
    assert jittered["total"]["asks"]["baseRange"] == {"least": 1, "most": 1}
    result = ykactor("simulate", recorded(directory), "--config", other, "--compare", base, "-o", "json")
    report = json.loads(result.stdout)["report"]
    assert (report["total"]["waiting"]["base"], report["total"]["waiting"]["other"]) == (0, 2)


def test_a_damaged_state_is_said_once(directory: Path, tmp_path: Path) -> None:
    """Code 1 and a sentence, before anything runs."""
    target, base = recorded(directory), tmp_path / "base.yaml"
    base.write_text(ONE)
    target.write_text(target.read_text().replace('"rows":[[', '"rows":[[["nothing"],{}],[', 1))
    result = ykactor("simulate", target, "--compare", base)
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1
