"""The exit codes: one table in the handbook, the same for every command."""

import errno
import json
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
from contextlib import closing, contextmanager
from pathlib import Path

import click
import pytest
import trio
from daemon import COMMAND, LIMIT_S, clean_environment, running_command

from ykactor.journal.files import locked
from ykactor.journal.store import Store
from ykactor.journal.transaction import Batch, change_text
from ykactor.surfaces.cli import exit_codes, queue_files, simulate
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.views import top
from ykactor.surfaces.files.daemon_rows import CONFIG

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "ykactor" / "sim" / "sample.yaml"
QUEUE_FILE = ROOT / "config" / "queues.yaml"

#: For each command that reads files, its arguments with a file that is missing.
MISSING = {
    "serve": ["--config", "{missing}"],
    "check-config": ["{missing}"],
    "simulate": ["{missing}"],
    "test": ["{missing}"],
    "config": ["plan", "{missing}"],
    "submit": ["{missing}"],
    "submit-script": ["{missing}"],
    "convert": ["openb", "{missing}", "{missing}"],
    "access": ["check", "{missing}"],
    "token": ["list", "--access", "{missing}"],
    "kubernetes": ["--kubeconfig", "{missing}"],
}
#: For each command that writes files, its arguments with a file or directory that cannot be created.
UNWRITABLE = {
    "serve": ["--http", "none", "--ws", "127.0.0.1:0", "--state-dir", "{unwritable}"],
    "simulate": [str(SAMPLE), "--final", "{unwritable}"],
    "convert": ["openb", "{nodes}", "{tasks}", "-o", "{unwritable}"],
    "journal": ["compact", "{unwritable}"],
    "samples": ["{unwritable}"],
}
#: For each command that reads a state directory, its arguments with one that is missing.
MISSING_STATE = {
    "journal": ["info", "{missing}"],
    "replay": ["{missing}"],
    "record": ["{missing}", "-o", "{missing}.jsonl"],
    "story": ["app-1", "--state-dir", "{missing}"],
    "audit": ["--state-dir", "{missing}"],
    "usage": ["--state-dir", "{missing}"],
    "what-if": [str(SAMPLE), "--on", "{missing}"],
    "take-over": ["--state-dir", "{missing}"],
}
ACTS = {"drain", "undrain", "cancel", "hold", "release", "priority", "move"}
WITHOUT_FILES = {
    "demo",
    "rm",
    "rule",
    "docs",
    "follow",
    "replica",
    "man",
    "local",
    "run",
    "jobs",
    "logs",
    "wait",
    "requeue",
    "explain",
    "help",
    "completion",
} | ACTS
#: They print the state of a daemon, and need nothing else.
STATE = {"queues", "apps", "app", "asks", "priorities", "nodes", "node", "users", "partitions", "stats", "top", "events"}
STATE |= {"config", "health", "preemptions"}


@pytest.fixture
def run_here(capsys, logging_restored):
    """Runs a command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)], prog_name="ykactor")
        written = capsys.readouterr()
        return ended.value.code, written.out, written.err

    return run


def test_the_handbook_has_the_table():
    """The codes of the handbook are those of the module."""
    section = (ROOT / "ykactor" / "handbook" / "commands.md").read_text().partition("## Exit codes\n")[2].partition("\n## ")[0]
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert listed == sorted(value for name, value in vars(exit_codes).items() if name.isupper())


def test_every_command_is_listed_here():
    """A new command has to say which files it reads and writes."""
    files = set(MISSING) | set(UNWRITABLE) | set(MISSING_STATE) | WITHOUT_FILES | STATE
    assert files == {*main.list_commands(click.Context(main))}


def commands_below(group, ctx, path=()):
    """The path of each command, also of groups and of what is below them."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        yield *path, name
        if isinstance(command, click.Group):
            yield from commands_below(command, ctx, (*path, name))


def test_the_help_of_a_command_needs_nothing(run_here, monkeypatch, tmp_path):
    """``--help`` of every command and of all below it is printed where there is no daemon, no file and no cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in commands_below(main, click.Context(main)):
        code, output, errors = run_here(*path, "--help")
        assert (code, errors) == (exit_codes.OK, ""), path
        assert output.startswith(f"Usage: ykactor {' '.join(path)} "), path


def test_a_file_problem_in_a_nursery(run_here, tmp_path):
    """A file that a task of the command cannot open: code 2 and one line that names it, as outside of a nursery."""
    (tmp_path / "lock").mkdir()
    code, _, errors = run_here("local", "--local-dir", tmp_path)
    assert (code, errors.splitlines()[-1]) == (exit_codes.USAGE, f"Error: {tmp_path}/lock: Is a directory")
    assert "Traceback" not in errors


def filled(arguments, tmp_path):
    """The arguments with their places filled in."""
    (tmp_path / "file").write_text("")
    nodes, tasks = tmp_path / "nodes.csv", tmp_path / "tasks.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,32000,1024,0,\n")
    tasks.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time\n")
    places = {"missing": tmp_path / "none", "unwritable": tmp_path / "file" / "out", "nodes": nodes, "tasks": tasks}
    return [argument.format(**places) for argument in arguments]


@pytest.mark.parametrize("command", MISSING)
def test_a_missing_file(run_here, tmp_path, command):
    """Code 2 and one line that names the file, whatever the command."""
    code, output, errors = run_here(command, *filled(MISSING[command], tmp_path))
    assert (code, output) == (exit_codes.USAGE, "")
    assert f"'{tmp_path}/none' does not exist." in errors.splitlines()[-1]


@pytest.mark.parametrize("command", MISSING)
def test_a_file_that_cannot_be_opened(run_here, tmp_path, command):
    """Code 2 and one line that names the file also where only opening it shows that it cannot be read."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "none"))
    code, output, errors = run_here(command, *filled(MISSING[command], tmp_path))
    assert (code, output) == (exit_codes.USAGE, "")
    assert errors == f"Error: {tmp_path}/none: No such device or address\n"


#: The commands that read the content of a file, and the code for one that is empty: some take it as the default.
CONTENTS = {
    ("check-config", "{file}"): exit_codes.OK,
    ("config", "plan", "{file}", "--base", str(QUEUE_FILE)): exit_codes.FAILED,
    ("config", "plan", str(QUEUE_FILE), "--base", "{file}"): exit_codes.FAILED,
    ("config", "apply", "{file}", "--url", "ws://127.0.0.1:1"): exit_codes.FAILED,
    ("simulate", "{file}"): exit_codes.FAILED,
    ("simulate", str(SAMPLE), "--config", "{file}"): exit_codes.OK,
    ("test", "{file}"): exit_codes.FAILED,
    ("submit", "{file}", "--url", "ws://127.0.0.1:1"): exit_codes.FAILED,
    ("convert", "openb", "{file}", "{file}"): exit_codes.FAILED,
    ("convert", "swf", "{file}"): exit_codes.FAILED,
    ("convert", "sacct", "{file}", "--nodes", "1", "--node-processors", "1"): exit_codes.FAILED,
    ("convert", "configmap", "{file}"): exit_codes.OK,
    ("access", "check", "{file}"): exit_codes.OK,
    ("token", "list", "--access", "{file}"): exit_codes.OK,
    ("queues", "--token-file", "{file}", "--url", "ws://127.0.0.1:1"): exit_codes.FAILED,
    ("journal", "info", "{file}"): exit_codes.FAILED,
    ("what-if", str(SAMPLE), "--on", "{file}"): exit_codes.FAILED,
    ("explain", "app-1", "--changes", "--on", "{file}"): exit_codes.FAILED,
    ("replay", "{file}"): exit_codes.FAILED,
}
#: A file of each kind, and the code for it; None is that of ``CONTENTS``.
KINDS = {
    "empty": None,
    "garbage": exit_codes.FAILED,
    "directory": exit_codes.USAGE,
    "missing": exit_codes.USAGE,
    "socket": exit_codes.USAGE,
}
#: They take a state directory as well, in which there is no journal.
OF_DIRECTORIES = {"journal", "what-if", "explain", "replay"}


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_any_kind(run_here, tmp_path, kind):
    """Invalid content is code 1, what cannot be read code 2, whatever the command; an error names the file."""
    file = tmp_path / kind
    match kind:
        case "empty" | "garbage":
            file.write_bytes(b"\xff\x00\x1b[2J\xc3\n" * (100 if kind == "garbage" else 0))
        case "directory":
            file.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(file))
    for arguments, of_empty in CONTENTS.items():
        expected = of_empty if KINDS[kind] is None else KINDS[kind]
        if kind in ("directory", "socket") and arguments[0] in OF_DIRECTORIES:
            expected = exit_codes.FAILED
        code, _, errors = run_here(*(argument.format(file=file) for argument in arguments))
        assert code == expected, (arguments, errors)
        assert "Traceback" not in errors
        assert code == exit_codes.OK or str(file) in errors, (arguments, errors)


@pytest.mark.parametrize("arguments", [("rule", "--list"), ("simulate", str(SAMPLE)), ("check-config", str(QUEUE_FILE))])
def test_standard_output_on_a_full_disk(arguments):
    """One line that says what could not be written, with code 2."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (exit_codes.USAGE, "Error: standard output: No space left on device\n")


@pytest.mark.parametrize("option", ["--final", "--decisions"])
def test_a_file_on_a_full_disk(run_here, option):
    """Code 2 and the name of the file, also if only the last bytes do not fit."""
    code, _, errors = run_here("simulate", SAMPLE, option, "/dev/full")
    assert (code, errors.splitlines()[-1]) == (exit_codes.USAGE, "Error: /dev/full: No space left on device")


@pytest.mark.parametrize("command", MISSING_STATE)
def test_a_missing_state_directory(run_here, tmp_path, command):
    """Code 2 and one line that names it; an empty one has no journal: code 1."""
    code, output, errors = run_here(command, *filled(MISSING_STATE[command], tmp_path))
    assert (code, output) == (exit_codes.USAGE, "")
    assert f"'{tmp_path}/none' does not exist." in errors.splitlines()[-1]
    (tmp_path / "none").mkdir()
    code, output, errors = run_here(command, *filled(MISSING_STATE[command], tmp_path))
    assert (code, output) == (exit_codes.FAILED, "")
    assert errors == f"Error: {tmp_path}/none: found no journal.db, expected the state directory of a daemon\n"


def test_serve_refuses_a_fifo(run_here, tmp_path):
    """A queue file that is no regular file cannot be read: code 2, and no wait for a writer."""
    fifo = tmp_path / "queues.yaml"
    subprocess.run(["mkfifo", fifo], check=True)
    code, _, errors = run_here("serve", "--config", fifo)
    assert code == exit_codes.USAGE
    assert errors == f"Error: {fifo}: found something that is no regular file, expected a text file\n"


@pytest.mark.parametrize(
    ("rows", "content", "expected"),
    [
        ({}, b"mine", "journal.db: found damage: file is not a database"),
        ({CONFIG: b"{}"}, None, 'the state cannot be read: row ["","config"]: Object missing required field'),
        ({b'["default","quark"]': b"{}"}, None, 'the state cannot be read: row ["default","quark"]'),
    ],
)
def test_serve_refuses_a_state_directory(run_here, tmp_path, rows, content, expected):
    """One that is foreign, damaged, or of a later version: code 2, after which systemd does not try again."""
    with closing(Store.open(tmp_path, "off", now_ns=0)) as store:
        store.commit(Batch(1, 1, changes=[change_text(*row) for row in rows.items()]))
    if content is not None:
        (tmp_path / "journal.db").write_bytes(content)
    code, _, errors = run_here("serve", "--state-dir", tmp_path)
    assert code == exit_codes.USAGE
    assert errors.splitlines()[-1].startswith(f"Error: {tmp_path}")
    assert expected in errors.splitlines()[-1]


@contextmanager
def held_directory(state):
    """Another daemon has it."""
    state.mkdir(mode=0o700)
    with locked(state):
        yield


@contextmanager
def held_database(state):
    """Another program writes to it."""
    Store.open(state, "off", now_ns=0).close()
    with closing(sqlite3.connect(state / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def held_port(_):
    """Another program listens there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield "--ws", f"127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def held_socket(state):
    """The same with a Unix socket."""
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(str(state.with_name("s")))
        taken.listen()
        yield "--ws", f"unix:{state.with_name('s')}"


@contextmanager
def full_disk(state):
    """Keep all files from growing while the state directory is open."""
    Store.open(state, "off", now_ns=0).close()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def no_descriptor(_):
    """The machine has none left when the queue file is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_files, "read_regular", raising(errno.ENFILE))
        yield "--config", str(SAMPLE)


def raising(number):
    def refuse(*_):
        raise OSError(number, os.strerror(number), "some file")

    return refuse


#: What a daemon may lack at its start and find later.
LACKING = [held_directory, held_database, held_port, held_socket, full_disk, no_descriptor]


@pytest.mark.parametrize("lacking", LACKING, ids=[lacking.__name__ for lacking in LACKING])
def test_what_may_come_is_worth_another_start(run_here, tmp_path, lacking):
    """Code 75, after which systemd starts the daemon again, and one line that says what is lacking."""
    state = tmp_path / "state"
    with lacking(state) as options:
        options = options or ("--ws", "127.0.0.1:0")
        code, _, errors = run_here("serve", "--http", "none", "--state-dir", state, *options)
    assert code == exit_codes.TEMPORARY, errors
    assert errors.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in errors


def test_serve_takes_one_file(run_here):
    """A second ``--config`` is a usage error that says what to do, instead of replacing the first."""
    code, _, errors = run_here("serve", "--config", SAMPLE, "--config", SAMPLE)
    assert code == exit_codes.USAGE
    assert "found 2 files, expected one; several ConfigMaps may be documents of one file" in errors


@pytest.mark.parametrize("command", UNWRITABLE)
def test_an_unwritable_file(run_here, tmp_path, command):
    """Code 2 and one line that names the file."""
    code, output, errors = run_here(command, *filled(UNWRITABLE[command], tmp_path))
    assert (code, output) == (exit_codes.USAGE, "")
    assert f"{tmp_path}/file/out" in errors.splitlines()[-1]
    assert "Traceback" not in errors


@pytest.mark.parametrize(("library", "command"), [("trio", "serve"), ("click", "rule"), ("yaml", "check-config")])
def test_a_library_that_is_missing(library, command):
    """A broken environment is one line that says what to do, whichever command needs the library."""
    run = f"import sys; sys.modules[{library!r}] = None; sys.argv = ['ykactor', {command!r}]; import ykactor.__main__ as main"
    done = subprocess.run(
        [COMMAND[0], "-c", f"{run}; main.main()"], capture_output=True, text=True, check=False, env=clean_environment()
    )
    assert (done.returncode, done.stdout) == (exit_codes.FAILED, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: the library {library} cannot be used (")
    assert line.endswith("; install ykactor again with pip; in a checkout 'make clean' removes the broken environment")


def test_names_are_completed_without_the_event_loop():
    """A shell that completes ``ykactor can`` loads neither trio nor the client, which take 0.2 s."""
    words = {"_YKACTOR_COMPLETE": "bash_complete", "COMP_WORDS": "ykactor can", "COMP_CWORD": "1"}
    run = "import sys; sys.modules['trio'] = sys.modules['ykactor.client'] = None; sys.argv = ['ykactor']"
    done = subprocess.run(
        [COMMAND[0], "-c", f"{run}; import ykactor.__main__ as main; main.main()"],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment() | words,
    )
    assert (done.stdout, done.stderr) == ("plain,cancel\n", "")


def test_an_access_file_is_checked_without_the_client(tmp_path):
    """``ykactor access check`` asks no daemon, and loads neither trio nor the client."""
    file = tmp_path / "access.yaml"
    file.write_text("identities: []\n")
    run = "import sys; sys.modules['trio'] = sys.modules['ykactor.client'] = None"
    run += f"; sys.argv = ['ykactor', 'access', 'check', {str(file)!r}]; import ykactor.__main__ as main; main.main()"
    done = subprocess.run([COMMAND[0], "-c", run], capture_output=True, text=True, check=False, env=clean_environment())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{file}: ok")


@pytest.mark.parametrize("command", sorted(STATE))
def test_the_state_of_no_daemon(run_here, monkeypatch, command):
    """Code 1 and one line that says what to start, whatever the command and its format."""
    monkeypatch.setattr(top, "has_terminal", lambda: True)
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"ws://127.0.0.1:{reserved.getsockname()[1]}"
        arguments = ["x"] if command in ("app", "node") else []
        code, output, errors = run_here(command, *arguments, "--url", url, *(["-o", "json"] if command != "top" else []))
    assert (code, output) == (exit_codes.FAILED, "")
    assert errors == f"Error: {url}: nothing listens there, start a daemon with ykactor serve --ws {url.removeprefix('ws://')}\n"


def test_top_needs_a_terminal(run_here):
    """The command refuses to run in a pipe, and says what to use instead."""
    code, output, errors = run_here("top")
    assert (code, output) == (exit_codes.USAGE, "")
    assert errors == "Error: found no terminal, expected one: use ykactor queues --watch without one\n"


# ---- Ctrl-C and pipes


def test_ctrl_c_in_a_command(run_here, monkeypatch):
    """A command that does not handle SIGINT ends without a word, with code 130."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "_run", interrupted)
    assert run_here("simulate", SAMPLE) == (exit_codes.INTERRUPTED, "", "")


@pytest.mark.parametrize("flags", [[], ["--actors"]], ids=["loop", "actors"])
async def test_ctrl_c_while_simulating(tmp_path, flags):
    """A long simulation ends without a word on Ctrl-C, with code 130 and without a summary."""
    scenario = tmp_path / "long.jsonl"
    header = {"name": "long", "config": "", "until": 1_000_000}
    node = {"nodeID": "n1", "action": "CREATE", "schedulableResource": {"vcore": 4}}  # too little: a warning before the run
    moments = [{"at": second, "type": "NodeRequest", "nodes": [] if second else [node]} for second in range(50_000)]
    scenario.write_text("".join(json.dumps(line) + "\n" for line in (header, *moments)))
    async with running_command("simulate", scenario, *flags) as process:
        assert (await process.stderr.receive_some()).startswith(b"warning: ")
        await trio.sleep(0.1)  # also right if the run is not under way yet
        process.send_signal(signal.SIGINT)
        assert await process.wait() == exit_codes.INTERRUPTED
        assert await process.stdout.receive_some() == b""
        assert await process.stderr.receive_some() == b""


async def test_sigterm_ends_a_demonstration():
    """The demonstration ends orderly and quietly; after Ctrl-C the code is 130 (``test_demo.py``)."""
    async with running_command("demo", "--http", "none", "--ws", "127.0.0.1:0") as process:
        await process.stdout.receive_some()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == exit_codes.OK
        assert await process.stderr.receive_some() == b""


async def test_demo_ends_quietly_when_nobody_reads():
    """``ykactor demo | head -1`` leaves no traceback and no process."""
    async with running_command("demo", "--http", "none", "--ws", "127.0.0.1:0") as process:
        await process.stdout.receive_some()
        await process.stdout.aclose()
        assert await process.wait() == exit_codes.FAILED
        assert await process.stderr.receive_some() == b""


def test_output_of_a_command_that_nobody_reads():
    """A command that writes all at once fails without an error message, too."""
    with subprocess.Popen([*COMMAND, "rule", "--list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(LIMIT_S) == exit_codes.FAILED
