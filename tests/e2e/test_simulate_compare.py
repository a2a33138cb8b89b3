"""``ykactor simulate --compare``: two configurations, from the command line to the files."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest
import trio
from daemon import running_command

from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.processes import Work, results
from ykactor.surfaces.cli.terminal import progress_of

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "ykactor" / "sim" / "sample.yaml"
QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [%s]}]}]"
LEAVES = "{name: research}, {name: training}, {name: batch}, {name: notebooks}"


@pytest.fixture
def run_here(capsys, logging_restored):
    """Runs a command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)], prog_name="ykactor")
        written = capsys.readouterr()
        return ended.value.code, written.out, written.err

    return run


@pytest.fixture
def scenario(tmp_path):
    """Two queues that share a node of two cores; tasks of 10 s."""
    path = tmp_path / "day.jsonl"
    node = {"nodeID": "n1", "action": "CREATE", "schedulableResource": {"vcore": "2"}}
    lines = [{"name": "day", "config": QUEUES % "{name: a}, {name: b}", "until": 200}]
    lines.append({"at": 0, "type": "NodeRequest", "nodes": [node]})
    for queue, user in (("a", "ann"), ("b", "bob")):
        new = {"applicationID": f"app-{queue}", "queueName": f"root.{queue}", "ugi": {"user": user, "groups": ["dev"]}}
        lines.append({"at": 0, "type": "ApplicationRequest", "new": [new]})
    for queue in "ab":
        ask = {"applicationID": f"app-{queue}", "resourcePerAlloc": {"vcore": "1"}, "runSeconds": 10}
        asks = [{"allocationKey": f"{queue}{number}", **ask} for number in range(8)]
        lines.append({"at": 1, "type": "AllocationRequest", "allocations": asks})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def base(tmp_path):
    """A queue file in which the tasks of b come first, and a has a guarantee."""
    path = tmp_path / "base.yaml"
    path.write_text(QUEUES % "{name: a, resources: {guaranteed: {vcore: 2}}}, {name: b, properties: {priority.offset: '9'}}")
    return path


def test_two_configurations(run_here, scenario, base, tmp_path):
    """A table with both values, who lost and won most, tables by queue and user, and the applications."""
    code, output, errors = run_here("simulate", scenario, "--compare", base, "--json", tmp_path / "c.json")
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert lines[0] == f"day: {base} (base) and {scenario}: config (other)"
    (place,) = (place for place, line in enumerate(lines) if line.startswith("wait p95"))
    assert lines[place].split()[2:5] == ["70s", "70s", "0"]
    assert lines[place + 1].startswith("  most lost: root.b +40s; QUOTA ")
    assert max(map(len, lines[1:])) <= 80
    assert any(line.startswith("debt root.") for line in lines)
    assert any(line.startswith("By queue") for line in lines)
    assert any("applications wait longer" in line for line in lines)
    document = json.loads((tmp_path / "c.json").read_text())
    assert document["report"]["queues"]["root.a"]["waitSeconds"]["mean"]["change"] == -20
    assert document["report"]["queues"]["root.b"]["waitSeconds"]["mean"]["change"] == 20
    assert [moved["applicationID"] for moved in document["applications"]["losses"]] == ["app-b"]
    assert stat.S_IMODE((tmp_path / "c.json").stat().st_mode) & 0o044 == 0o666 & ~current_umask() & 0o044


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_same_file_twice(run_here, scenario, base):
    """Nothing is different."""
    _, output, _ = run_here("simulate", scenario, "--config", base, "--compare", base, "-o", "json")
    document = json.loads(output)
    assert document["base"] == document["other"] == str(base)

    def changes(found):
        if isinstance(found, dict):
            yield from [found["change"]] if "change" in found else ()
            for value in found.values():
                yield from changes(value)

    assert {change for change in changes(document["report"]) if change is not None} == {0}
    assert document["applications"]["longer"] == document["applications"]["shorter"] == 0


def test_a_process_decides_as_this_one(run_here, base, tmp_path):
    """The sample with its own configuration: as many asks, and the same waits, as its summary has."""
    _, summary, _ = run_here("simulate", SAMPLE, "-o", "json")
    _, output, _ = run_here("simulate", SAMPLE, "--compare", base, "-o", "json")
    waits, queues = json.loads(summary)["waits"], json.loads(output)["report"]["queues"]
    assert waits
    for name, expected in waits.items():
        found = queues[name]
        assert found["asks"]["other"] - found["waiting"]["other"] == expected["count"]
        if not found["waiting"]["other"]:
            assert found["waitSeconds"]["p50"]["other"] == expected["p50Seconds"]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--json", "{tmp}/c.json"], 2, "--json needs --compare BASE.yaml"),
        (["--html", "{tmp}/c.json"], 2, "--html needs --compare BASE.yaml"),
        (["--compare", "{base}", "--html", "{tmp}/c.json", "--json", "{tmp}/c.json"], 2, "expected two files"),
        (["--compare", "{base}", "--json", "{tmp}/c.json", "--html", "{tmp}/none/c"], 2, "none/c: No such file or directory"),
        (["--compare", "{base}", "--json", "-"], 2, "found -, expected a file"),
        (["--jitter", "3"], 2, "--jitter needs --compare BASE.yaml"),
        (["--compare", "{base}", "--jitter", "21"], 2, "found '21', expected a whole number from 1 to 20"),
        (["--compare", "{base}", "--jitter", "0"], 2, "found '0', expected a whole number from 1 to 20"),
        (["--compare", "{base}", "--jitter", "-1"], 2, "found '-1', expected a whole number from 1 to 20"),
        (["--compare", "{base}", "--jitter", "nan"], 2, "found 'nan', expected a whole number from 1 to 20"),
        (["--compare", "{base}", "--jitter", "9223372036854775808"], 2, "expected a whole number from 1 to 20"),
        (["--compare", "{base}", "--jitter", ""], 2, "found '', expected a whole number from 1 to 20"),
        (["--compare", "{base}", "--html", "/dev/full"], 2, "/dev/full: No space left on device"),
        (["--compare", "{tmp}/none.yaml"], 2, "none.yaml' does not exist"),
        (["--compare", "{tmp}/bad.yaml"], 1, "bad.yaml:1:27: partitions[0].colour: "),
        (["--compare", "{tmp}/binary.yaml"], 1, "binary.yaml: not UTF-8 text"),
        (["--compare", "{base}", "--decisions", "{tmp}/d"], 2, "--decisions is of one run"),
        (["--compare", "{base}", "--final", "{tmp}/d"], 2, "--final is of one run"),
        (["--compare", "{base}", "--actors"], 2, "--actors is of one run"),
        (["--compare", "{base}", "--json", "{tmp}/none/c.json"], 2, "none/c.json: No such file or directory"),
        (["--compare", "{base}", "--json", "/dev/full"], 2, "/dev/full: No space left on device"),
        (["--compare", "{base}", "--json", "{tmp}"], 2, "is a directory"),
    ],
)
def test_wrong_input(run_here, scenario, base, tmp_path, options, code, says):
    """One line that says what is wrong, and no file."""
    (tmp_path / "bad.yaml").write_text("partitions: [{queues: [], colour: red}]")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    given = [option.format(tmp=tmp_path, base=base) for option in options]
    found, output, errors = run_here("simulate", scenario, *given)
    assert (found, output) == (code, "")
    assert says in errors
    assert "Traceback" not in errors
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith((".", "c.json"))]


def test_a_file_that_is_there_stays_until_there_is_a_new_one(run_here, scenario, base, tmp_path):
    """Also behind a link, which stays one."""
    target, link = tmp_path / "real.json", tmp_path / "c.json"
    target.write_text("old")
    link.symlink_to(target)
    assert run_here("simulate", scenario, "--compare", tmp_path / "day.jsonl", "--json", link)[0] == 1
    assert target.read_text() == "old"
    assert run_here("simulate", scenario, "--compare", base, "--json", link)[0] == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["name"] == "day"


def test_configurations_in_the_scenario(run_here, scenario, base):
    """Both runs get them, which a warning says."""
    change = {"at": 5, "type": "UpdateConfigurationRequest", "config": QUEUES % "{name: a}, {name: b}"}
    scenario.write_text(scenario.read_text() + json.dumps(change) + "\n")
    code, _, errors = run_here("simulate", scenario, "--compare", base)
    assert (code, errors) == (0, "warning: the scenario puts other configurations into force: both runs get them\n")


def test_ranges_of_other_arrivals(run_here, scenario, base, monkeypatch):
    """Twice the same configuration: nothing is distinguishable. Another one: what differs by more than chance is."""
    output = run_here("simulate", scenario, "--config", base, "--compare", base, "--jitter", "3", "-o", "json")[1]
    mean = json.loads(output)["report"]["total"]["waitSeconds"]["mean"]
    assert mean["distinguishable"] is False
    assert mean["baseRange"] == mean["otherRange"]
    assert mean["baseRange"]["least"] < mean["baseRange"]["most"]
    monkeypatch.setenv("COLUMNS", "200")
    output = run_here("simulate", scenario, "--compare", base, "--jitter", "3")[1]
    assert "3 more runs of each with other arrivals: values have ranges" in output
    assert "not distinguishable" in output
    assert output == run_here("simulate", scenario, "--compare", base, "--jitter", "3")[1]


async def test_ctrl_c_leaves_no_file(tmp_path, base):
    """Code 130, without a word, no half file and no process."""
    scenario = tmp_path / "long.jsonl"
    header = {"name": "long", "config": "", "until": 1_000_000}
    node = {"nodeID": "n1", "action": "CREATE", "schedulableResource": {"vcore": 4}}  # too little: a warning before the run
    moments = [{"at": second, "type": "NodeRequest", "nodes": [] if second else [node]} for second in range(50_000)]
    scenario.write_text("".join(json.dumps(line) + "\n" for line in (header, *moments)))
    async with running_command("simulate", scenario, "--compare", base, "--json", tmp_path / "c.json") as process:
        assert (await process.stderr.receive_some()).startswith(b"warning: ")
        await trio.sleep(0.1)  # also right if the processes are not there yet
        process.send_signal(signal.SIGINT)
        assert await process.wait() == exit_codes.INTERRUPTED
        assert await process.stdout.receive_some() == b""
        assert await process.stderr.receive_some() == b""  # its processes have ended, too: they have the same standard error
    assert {path.name for path in tmp_path.iterdir()} == {"long.jsonl", "base.yaml"}


# ---- processes


def test_results_come_in_the_order_of_the_work():
    """Also large ones, and more than there are processors; progress rises to 1."""
    told = []

    def work(number):
        def run(progress):
            progress(0.5)
            return b"%d\n=\n" % number * 100_000

        return Work(f"w{number}", run)

    found = results([work(number) for number in range(6)], told.append)
    assert found == [b"%d\n=\n" % number * 100_000 for number in range(6)]
    assert told[-1] == 1.0
    assert told == sorted(told)


def test_a_process_that_is_killed(capfd):
    """The command says which it was, and ends the others: the kernel may kill one when memory is short."""
    works = [Work("base.yaml", lambda _: os.kill(os.getpid(), signal.SIGKILL)), Work("other", lambda _: signal.pause())]
    with pytest.raises(Exception, match=r"the process of base.yaml ended with signal 9, expected its result"):
        results(works, lambda _: None)


def test_a_process_that_fails(capfd):
    """A mistake of the program is printed by the process, and ends the command."""

    def fail(_):
        raise ZeroDivisionError("no")

    with pytest.raises(Exception, match="ended with exit code 70"):
        results([Work("base.yaml", fail)], lambda _: None)
    assert "ZeroDivisionError: no" in capfd.readouterr().err


def test_an_interrupted_command_ends_its_processes(tmp_path):
    """Ctrl-C, or any error, ends the command with all its processes."""
    file = tmp_path / "pid"

    def interrupted(_):
        raise KeyboardInterrupt

    def work(progress):
        file.write_text(str(os.getpid()))
        progress(0.5)
        signal.pause()

    with pytest.raises(KeyboardInterrupt):
        results([Work("base.yaml", work)], interrupted)
    with pytest.raises(ChildProcessError):
        os.waitpid(int(file.read_text()), os.WNOHANG)


def test_a_bar_is_drawn_by_percents(monkeypatch):
    """The bar is drawn at most a hundred times, however many steps the work has: that takes a millisecond."""
    drawn = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("rich.progress.Progress.update", lambda *_, completed, **__: drawn.append(completed))
    with progress_of("day") as progress:
        for step in range(100_000):
            progress(step / 100_000)
    assert 90 < len(drawn) <= 100
    assert drawn == sorted(drawn)
