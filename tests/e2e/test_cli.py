"""The commands: output, exit codes and mistakes; as ``python -m ykactor ...`` in a process of its own where that matters."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from daemon import COMMAND, LIMIT_S, clean_environment, node, real_daemon, run_command, running_command
from queuetexts import SAMPLES

from ykactor.client import connect
from ykactor.surfaces.cli import demo
from ykactor.surfaces.cli.main import main

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "ykactor" / "sim" / "sample.yaml"
OPENB = ROOT.parent / "shared" / "data" / "openb"

SCENARIO = """
name: small
config: |
  partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a, resources: {max: {vcore: 2}}}]}]}]
messages:
  - {at: 0, type: NodeRequest, nodes: [{nodeID: n1, action: CREATE, schedulableResource: {vcore: "4"}}]}
  - {at: 0, type: ApplicationRequest, new: [{applicationID: app-1, queueName: root.a, ugi: {user: alice}}]}
  - at: 1
    type: AllocationRequest
    allocations:
      - {allocationKey: t1, applicationID: app-1, resourcePerAlloc: {vcore: "1"}}
      - {allocationKey: t2, applicationID: app-1, resourcePerAlloc: {vcore: "1"}}
      - {allocationKey: t3, applicationID: app-1, resourcePerAlloc: {vcore: "1"}}
      - {allocationKey: lost, applicationID: nobody, resourcePerAlloc: {vcore: "1"}}
  - {at: 2, type: AllocationRequest, releases: {allocationsToRelease: [{applicationID: app-1, allocationKey: t1}]}}
  - {at: 2, type: ScheduleRequest, steps: 1}
until: 3
"""


@pytest.fixture
def run_here(capsys, logging_restored):
    """Runs a command in this process; it must end with this exit code. Returns what it wrote on standard output and error."""

    def run(*arguments, expect=0):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)], prog_name="ykactor")
        written = capsys.readouterr()
        assert (ended.value.code, written.err) == (expect, written.err)
        return written.out, written.err

    return run


@pytest.fixture
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


# ---- submit and follow, against a daemon


MANUAL = """
  - {at: 1, type: ScheduleRequest, steps: 2}
  - {at: 1, type: ScheduleRequest, steps: 0}
"""


async def test_submit_and_follow(scenario):
    """``submit`` prints the answers and a summary; ``follow`` in two formats prints what happens meanwhile."""
    # a daemon that schedules by itself may do so when the scenario is over, however long that is
    scenario.write_text(SCENARIO.replace("\n  - {at: 2", MANUAL.rstrip() + "\n  - {at: 2", 1))
    async with real_daemon("--manual") as daemon, trio.open_nursery() as nursery:
        watching = ["--from", "0", "--app", "app-1", "--kind", "APP_ALLOC"]
        text = await nursery.start(followed, daemon.url, *watching)
        lines = await nursery.start(followed, daemon.url, "-o", "json", *watching)
        output, errors = await run_command("submit", scenario, "--url", daemon.url, "--speed", "20", "--with-config")
        assert errors.startswith("small replaces the queue configuration of the daemon by these partitions: default (2 queues); ")
        answers = [line.split(maxsplit=1)[1] for line in output.splitlines()[:-1]]
        for expected in (
            "node n1 accepted",
            "application app-1 accepted in root.a",
            "allocated t1 of app-1 on n1",
            "allocated t2 of app-1 on n1",
            "released t1 of app-1: STOPPED_BY_RM",
            "allocated t3 of app-1 on n1",
        ):
            assert expected in answers
        assert any(line.startswith("rejected lost of nobody: ") for line in answers)
        assert any(line.startswith("refused ScheduleRequest: OUT_OF_RANGE: ") for line in answers)
        summary = "small: 7 requests sent, 1 refused; 3 allocated, 1 released; rejected: 1 ask, 0 applications"
        assert output.splitlines()[-1] == summary
        printed = [await text.receive() for _ in range(3)]
        assert [key for line in printed for key in ("t1", "t2", "t3") if f" {key} " in line] == ["t1", "t2", "t3"]
        events = [json.loads(await lines.receive()) for _ in range(3)]
        assert [event["referenceID"] for event in events] == ["t1", "t2", "t3"]
        nursery.cancel_scope.cancel()


async def followed(url, *options, task_status):
    """Run ``ykactor follow``; its lines come through the channel that this is started with. SIGINT ends it with code 130."""
    lines, received = trio.open_memory_channel(1000)
    async with running_command("follow", url, *options) as process:
        task_status.started(received)
        try:
            rest = b""
            async for chunk in process.stdout:
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    await lines.send(line.decode())
        finally:
            process.send_signal(signal.SIGINT)
            with trio.CancelScope(shield=True):
                assert await process.wait() == 130


async def test_follow_ends_quietly_when_nobody_reads():
    """``follow | head -1`` leaves no traceback, and one line that says what is followed."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm, trio.open_nursery() as nursery:
        command = [*COMMAND, "follow", daemon.url]
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        nursery.start_soon(create_nodes, rm)
        async with process.stderr:
            async with process.stdout:
                assert await process.stdout.receive_some()
            errors = b"".join([chunk async for chunk in process.stderr]).decode()
        assert errors == f"connected to {daemon.url}: all events from now on\n"
        assert await process.wait() == 1
        nursery.cancel_scope.cancel()


async def create_nodes(rm):
    """Events without end."""
    for number in itertools.count():
        await rm.request(node(f"n{number}"))


# ---- simulate


def test_simulate_equals_its_oracle(run_here, tmp_path):
    """Actors and direct loop write the same bytes; the summary goes to standard output and nothing to standard error."""
    written = {}
    for kind, flags in [("loop", []), ("actors", ["--actors"])]:
        decisions, final = tmp_path / f"{kind}.jsonl", tmp_path / f"{kind}.json"
        output, errors = run_here("simulate", SAMPLE, "--decisions", decisions, "--final", final, *flags)
        assert errors == ""
        written[kind] = decisions.read_bytes(), final.read_bytes(), output
    assert written["actors"] == written["loop"]
    decisions, final, output = written["actors"]
    assert {json.loads(line)["decision"] for line in decisions.splitlines()} >= {"node", "application", "allocated"}
    assert json.loads(final).keys() == {"queues", "applications", "nodes"}
    assert "placed" in output.lower()


WAITS = """
name: waits
config: |
  partitions:
    - name: default
      queues:
        - {name: root, submitacl: "*", queues: [{name: a}, {name: b, resources: {guaranteed: {vcore: 2}}}]}
until: 60
messages:
  - {at: 0, type: NodeRequest, nodes: [{nodeID: n1, action: CREATE, schedulableResource: {vcore: "2"}}]}
  - {at: 0, type: ApplicationRequest, new: [{applicationID: a, queueName: root.a, ugi: {user: ann}}]}
  - {at: 0, type: ApplicationRequest, new: [{applicationID: b, queueName: root.b, ugi: {user: bob}}]}
  - at: 0
    type: AllocationRequest
    allocations:
      - {allocationKey: a1, applicationID: a, resourcePerAlloc: {vcore: "2"}, preemptionPolicy: {allowPreemptSelf: true}}
  - at: 1
    type: AllocationRequest
    allocations:
      - {allocationKey: b1, applicationID: b, resourcePerAlloc: {vcore: "2"}, preemptionPolicy: {allowPreemptOther: true}}
"""


@pytest.mark.parametrize(
    ("text", "options", "at"),
    [(WAITS, [], 31.0), (WAITS, ["--actors"], 31.0), (WAITS, ["--no-wakes"], 60.0), (WAITS + "wakes: false\n", [], 60.0)],
)
def test_simulate_with_and_without_wakes(run_here, tmp_path, text, options, at):
    """An ask below its guarantee preempts after 30 s; without wakes, when the scheduler runs the next time (SC-5)."""
    path, decisions = tmp_path / "waits.yaml", tmp_path / "waits.jsonl"
    path.write_text(text)
    run_here("simulate", path, "--decisions", decisions, *options)
    told = [json.loads(line) for line in decisions.read_text().splitlines()]
    assert [line["at"] for line in told if line["decision"] == "released"] == [at]


async def test_simulate_names_what_was_refused(scenario):
    """A message of which nothing took effect is named on standard error, a wrong entry in the summary; the rest goes on."""
    scenario.write_text(SCENARIO.replace("action: CREATE", "action: EXPLODE"))
    output, errors = await run_command("simulate", scenario)
    assert errors.startswith("refused: at 2.0: type: ")
    assert "found 'EXPLODE', expected one of CREATE" in output


def test_simulate_as_json(run_here, scenario):
    """One document on standard output, with what the text says; a refused message is in it, and on standard error as well."""
    output, errors = run_here("simulate", scenario, "-o", "json")
    document = json.loads(output)
    assert (document["name"], document["placed"], document["pending"], document["released"]) == ("small", 3, 0, 1)
    assert document["waits"]["root.a"]["maxSeconds"] == 1.0
    assert document["rejectedReasons"][0]["examples"] == [{"key": "lost", "owner": "nobody"}]
    assert document["refused"] == ["at 2.0: type: a simulation cannot carry out ScheduleRequest"]
    assert errors == f"refused: {document['refused'][0]}\n"


def test_simulate_with_another_queue_file(run_here, scenario, tmp_path):
    """``--config`` replaces the configuration of the scenario, which here admits two tasks of three."""
    queues = tmp_path / "queues.yaml"
    queues.write_text("partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]")
    first = SCENARIO[: SCENARIO.index("  - {at: 2")]
    scenario.write_text(first + "until: 3\n")
    assert run_here("simulate", scenario)[0].startswith("2 placed, 1 pending")
    assert run_here("simulate", scenario, "--config", queues)[0].startswith("3 placed, 0 pending")


@pytest.mark.parametrize("option", [True, False])
def test_mistakes_of_the_queue_file_of_a_scenario(run_here, scenario, tmp_path, option):
    """They name the file in which they are: the queue file, or the scenario."""
    queues = tmp_path / "queues.yaml"
    queues.write_text("partitions: [{queues: [], colour: red}]")
    if not option:
        scenario.write_text('{name: small, config: "partitions: [{queues: [], colour: red}]", until: 1}')
    _, errors = run_here("simulate", scenario, *(["--config", queues] if option else []), expect=1)
    assert last_line(errors).startswith(f"Error: {queues if option else f'{scenario}: config'}:1:27: partitions[0].colour: ")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress_bar_only_on_a_terminal(is_terminal):
    """Progress is drawn on standard error if that is a terminal, else there is none."""
    master, slave = os.openpty() if is_terminal else os.pipe()
    with open(master, "rb", buffering=0) as reading:
        environment = clean_environment() | {"TERM": "xterm"}
        command = [*COMMAND, "simulate", str(SAMPLE)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=slave, env=environment, timeout=LIMIT_S, check=True)
        if is_terminal:
            assert b"sample" in reading.read(4096)
        os.close(slave)
        if not is_terminal:
            assert reading.read() == b""


# ---- check-config and convert


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_check_config_likes_the_samples(run_here, path):
    """Exit code 0 and one line."""
    output, errors = run_here("check-config", path)
    assert ": ok, 1 partition, " in output
    assert errors == ""


def test_check_config_prints_every_mistake(run_here, tmp_path):
    """Exit code 1; each mistake on a line with file, line and column."""
    path = tmp_path / "bad.yaml"
    path.write_text("partitions:\n  - name: default\n    queues: [{name: root, colour: red, maxapplications: many}]\n")
    output, errors = run_here("check-config", path, expect=1)
    assert output == ""
    places = [line.partition(": ")[0] for line in errors.splitlines() if line.startswith(str(path))]
    assert places == [f"{path}:3:27", f"{path}:3:57"]
    assert errors.splitlines()[-1] == "ykactor rule P2 explains a code"


async def test_rule_prints_a_rule():
    """The pages are part of the package: a code that a message names can be looked up."""
    output, errors = await run_command("rule", "pe-25")
    assert output.startswith("PE-25 A queue at its guarantee may not preempt\n\nThe ask may preempt when ")
    assert errors == ""


@pytest.mark.skipif(not OPENB.is_dir(), reason="needs the openb trace in ../shared/data/openb")
def test_convert_and_simulate(run_here, tmp_path):
    """A piece of the production trace becomes a scenario that ``simulate`` runs."""
    nodes, tasks = (piece(OPENB / name, tmp_path) for name in ("openb_node_list_all_node.csv", "openb_pod_list_default.csv"))
    path = tmp_path / "openb.jsonl"
    run_here("convert", "openb", nodes, tasks, "-o", path)
    output, errors = run_here("simulate", path)
    assert errors == ""
    assert output
    assert run_here("convert", "openb", nodes, tasks)[0].encode() == path.read_bytes()


def piece(path, folder, lines=40):
    """The first lines of a file."""
    with path.open() as whole:
        short = folder / path.name
        short.write_text("".join(line for line, _ in zip(whole, range(lines), strict=False)))
    return short


# ---- demo


@pytest.mark.parametrize(
    ("called", "on_path", "expected"),
    [
        (".venv/bin/ykactor", None, ".venv/bin/ykactor"),  # as ``make run`` does
        ("/opt/venv/bin/ykactor", "/opt/venv/bin/ykactor", "ykactor"),
        ("/src/ykactor/__main__.py", None, "python -m ykactor"),
    ],
)
def test_demo_shows_commands_that_can_be_typed(monkeypatch, called, on_path, expected):
    """The commands begin with what is on the PATH, if ``ykactor`` is not there."""
    monkeypatch.setattr(demo.sys, "argv", [called, "demo"])
    monkeypatch.setattr(demo.shutil, "which", lambda _name: on_path)
    assert demo._program() == expected


def test_make_run_takes_an_address():
    """``make run ADDRESS=HOST:PORT`` is ``demo --ws HOST:PORT``, with a state directory."""
    command = ["make", "--no-print-directory", "--dry-run", "--old-file=.venv/.ready", "run"]
    for argument, expected in [([], ""), (["ADDRESS=127.0.0.1:9099"], " --ws 127.0.0.1:9099")]:
        printed = subprocess.run([*command, *argument], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True)
        assert f"ykactor demo --state-dir state{expected} || " in printed.stdout


@pytest.mark.parametrize(("code", "error"), [(130, b""), (1, b"Error 1")])
def test_ctrl_c_ends_make_run_without_an_error(tmp_path, code, error):
    """The last output is that of the demonstration; other exit codes are still errors of make."""
    program = tmp_path / "bin" / "ykactor"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntrap 'echo summary; exit {code}' INT\necho up\nwhile :; do sleep 0.05; done\n")
    program.chmod(0o755)
    command = ["make", f"VENV={tmp_path}", f"--old-file={tmp_path}/.runs", "run"]
    # A session of its own: Ctrl-C is for all processes of the terminal.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # this may run in a make
    with subprocess.Popen(command, cwd=ROOT, env=plain, **pipes, start_new_session=True) as process:
        assert process.stdout.readline() == b"up\n"
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=LIMIT_S)
    assert output == b"summary\n"
    assert errors.endswith(error + b"\n" if error else b"")
    assert (b"***" in errors) == bool(error)


def test_make_says_which_python_it_needs(tmp_path):
    """Before it makes an environment; in one line."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nshift\nexec {sys.executable} -c "import sys; sys.version_info = (3, 9); exec(sys.argv[1])" "$@"\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        ["make", f"VENV={tmp_path}/venv", f"PYTHON={python}", "run"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "MAKEFLAGS"},  # of the make that runs the tests
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "ykactor needs Python 3.11 or newer, found 3.9: add PYTHON=python3.11"
    assert not (tmp_path / "venv").exists()


# ---- mistakes: one clear line, never a traceback

#: What follows the URL when nothing listens there.
START = "nothing listens there, start a daemon with ykactor serve --ws 127.0.0.1:1"
#: What follows the reason why the daemon cannot listen on an address.
CHOOSE = "choose another address with --ws HOST:PORT"


def last_line(errors):
    assert "Traceback" not in errors
    *usage, line = errors.splitlines()
    assert usage == [] or usage[0].startswith("Usage: ")
    assert line.startswith("Error: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["serve", "--config", "{tmp}/none.yaml"], 2, "none.yaml' does not exist"),
        (["serve", "--config", "{tmp}/broken.yaml"], 1, "broken.yaml:2:1: not YAML"),
        (["serve", "--config", "{tmp}/binary.yaml"], 1, "binary.yaml: not UTF-8 text"),
        (["serve", "--ws", "nonsense"], 2, "found 'nonsense', expected HOST:PORT such as 127.0.0.1:9081"),
        (["serve", "--ws", "127.0.0.1:65536"], 2, "expected HOST:PORT"),
        (["serve", "--ws", "192.0.2.1:9081"], 75, "192.0.2.1:9081: Cannot assign requested address: " + CHOOSE),
        (["serve", "--http", "none", "--ws", "127.0.0.1:{taken}"], 75, "127.0.0.1:{taken}: Address already in use: " + CHOOSE),
        (
            ["serve", "--ws", "127.0.0.1:0", "--state-dir", "{tmp}/broken.yaml/state"],
            2,
            "broken.yaml/state: cannot be made (Not a directory)",
        ),
        (["serve", "--log-level", "loud"], 2, "'loud' is not one of"),
        (["demo", "--ws", "127.0.0.1:{taken}"], 75, "127.0.0.1:{taken}: Address already in use: " + CHOOSE),
        (["follow", "ws://127.0.0.1:1"], 1, "ws://127.0.0.1:1: " + START),
        (["follow", "http://127.0.0.1:1"], 2, "found 'http://127.0.0.1:1', expected ws://HOST:PORT"),
        (
            ["story", "n1", "--url", "127.0.0.1:9081"],
            2,
            "found '127.0.0.1:9081', expected ws://HOST:PORT, wss:",
        ),
        (["follow", "--url", "ws://127.0.0.1:99999"], 2, "found 'ws://127.0.0.1:99999', expected ws://HOST:PORT"),
        (["follow", "--from", "yesterday"], 2, "found 'yesterday', expected now, snapshot or the number of an event"),
        (["submit", "{tmp}/none.yaml"], 2, "none.yaml' does not exist"),
        (["submit", "{tmp}/small.yaml", "--url", "ws://127.0.0.1:1"], 1, "ws://127.0.0.1:1: " + START),
        (["story", "t1", "--url", "ws://127.0.0.1:1"], 1, "ws://127.0.0.1:1: " + START),
        (["submit", "{tmp}/small.yaml", "--speed", "0"], 2, "found '0', expected a number above 0"),
        (["simulate", "{tmp}/none.yaml"], 2, "none.yaml' does not exist"),
        (["simulate", "{tmp}/empty.yaml"], 1, "empty.yaml:1:1: found nothing, expected a mapping"),
        (["simulate", "{tmp}/small.yaml", "--decisions", "{tmp}/none/out"], 2, "none/out': No such file or directory"),
        (["convert", "openb", "{tmp}/none.csv", "{tmp}/none.csv"], 2, "none.csv' does not exist"),
        (["convert", "openb", "{tmp}/small.yaml", "{tmp}/small.yaml"], 1, "small.yaml"),
        (["rule", "nonsense"], 2, "no rule has the code nonsense"),
        (["schedule"], 2, "No such command 'schedule'"),
    ],
)
@pytest.mark.usefixtures("scenario")
def test_mistakes_are_one_clear_line(run_here, monkeypatch, tmp_path, taken_port, arguments, code, expected):
    """A wrong argument or file gives one line with what was found and expected, and no traceback."""
    monkeypatch.setattr("ykactor.client.follower.FIRST_CONNECT_S", 0)  # a daemon that does not come up is given up at once
    (tmp_path / "broken.yaml").write_text("partitions: [{\n")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "empty.yaml").write_text("")
    places = {"tmp": tmp_path, "taken": taken_port}
    output, errors = run_here(*(argument.format(**places) for argument in arguments), expect=code)
    assert output == ""
    assert expected.format(**places) in last_line(errors)


@pytest.mark.parametrize(("arguments", "code"), [(["serve", "--config", "{tmp}/broken.yaml"], 1), (["schedule"], 2)])
async def test_mistakes_of_a_process(tmp_path, arguments, code):
    """A process of its own fails with an error line and the code, too, where nothing of this process can help."""
    (tmp_path / "broken.yaml").write_text("partitions: [{\n")
    output, errors = await run_command(*(argument.format(tmp=tmp_path) for argument in arguments), expect=code)
    assert output == ""
    last_line(errors)


async def test_wrong_subscription_is_one_clear_line():
    """``follow --from`` with a number that is not known yet, and filters that match nothing."""
    async with real_daemon() as daemon:
        _, errors = await run_command("follow", daemon.url, "--from", "999999", expect=1)
        assert "RESYNC_REQUIRED" in last_line(errors)
        _, errors = await run_command("follow", daemon.url, "--queue", "web", expect=1)
        assert "queues[0]: found 'web', expected root or a queue below it" in last_line(errors)
        _, errors = await run_command("follow", daemon.url, "--kind", "APP_ALOC", expect=1)
        assert "kinds[0]: found 'APP_ALOC', expected a type (AUDIT, APP, NODE," in last_line(errors)
