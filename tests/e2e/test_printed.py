"""Commands print no control characters: names, reasons and messages are chosen by others."""

import ast
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import click
import pytest
import trio
from click.testing import CliRunner
from daemon import application, asks, next_allocated, node, real_daemon, running_command

from ykactor.client import connect
from ykactor.surfaces.cli import events, terminal
from ykactor.surfaces.cli.main import main
from ykactor.wire.si import messages as si

#: Sets the title, turns the order of letters around, begins a sequence in one byte, goes to the begin of the line, and deletes.
EVIL = "\x1b]2;owned\x07\u202e\x9b2J\r\x7f"
CONFIG = f"""# {EVIL.replace(chr(27), "").replace(chr(7), "").replace(chr(0x9B), "").replace(chr(127), "").replace(chr(13), "")}
partitions: [{{name: default, queues: [{{name: root, submitacl: "*", queues: [{{name: a}}, {{name: b}}]}}]}}]
"""
APP, TASK, NODE, RM = f"app{EVIL}", f"task{EVIL}", f"node{EVIL}", f"rm{EVIL}"


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All commands, each with those above it."""
    if not isinstance(command, click.Group):
        yield path
        return
    if command.invoke_without_command and path:
        yield path
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


COMMANDS = sorted(leaves(main))


class World:
    """A daemon in which all names are evil, and files that are.

    Attributes:
        url: of the daemon.
        arguments: of each command, so that it prints what others have chosen, as far as it ever does.
    """

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        evil = directory / f"evil{EVIL}"
        scenario = directory / "scenario.json"
        ask = {"allocationKey": TASK, "applicationID": "none", "resourcePerAlloc": {"vcore": "1"}}
        evil_node = {"nodeID": NODE, "action": "CREATE", "schedulableResource": {"vcore": "4"}}
        messages = [
            {"at": 0, "type": "NodeRequest", "nodes": [evil_node]},
            {"at": 0, "type": "AllocationRequest", "allocations": [ask]},
        ]
        scenario.write_text(json.dumps({"name": f"s{EVIL}", "config": "", "until": 1, "messages": messages}))
        cases = directory / "cases.json"
        cases.write_text(json.dumps({"cases": [{"name": f"c{EVIL}", "expect": [{"placed": [f"t{EVIL}"]}]}]}))
        access = directory / "access.yaml"
        access.write_text(
            f"identities: [{{name: ops, roles: [reader], proofs: [{{certificate: {json.dumps(f'CN:{EVIL}')}}}]}}]\n"
        )
        queues = directory / "queues.yaml"
        queues.write_text(f"partitions: [{{{json.dumps(EVIL)}: 1}}]\n")
        convertible = directory / "convertible.yaml"
        convertible.write_text(CONFIG)
        kubeconfig = directory / f"config{EVIL}"
        kubeconfig.write_text(f"current-context: {json.dumps(EVIL)}\n")
        state = directory / "state"
        here: tuple[str | Path, ...] = ("--url", url)
        local: tuple[str | Path, ...] = ("--local-dir", evil)
        self.arguments: Mapping[str, tuple[str | Path, ...]] = {
            "serve": ("--config", queues, "--http", "none"),
            "demo": ("--ws", f"unix:{evil}/s"),
            "check-config": (queues,),
            "rule": (f"PE-{EVIL}",),
            "simulate": (scenario,),
            "test": (cases,),
            "rm release": (f"other{EVIL}", *here),
            "queues": here,
            "apps": here,
            "app": (APP, *here),
            "asks": here,
            "priorities": here,
            "explain": (f"{APP}/more{EVIL}", *here),
            "nodes": here,
            "node": (NODE, *here),
            "users": here,
            "partitions": here,
            "config": here,
            "config plan": (convertible, "--on", state),
            "config apply": (queues, *here),
            "config confirm": here,
            "config rollback": here,
            "health": here,
            "stats": here,
            "top": here,
            "events": here,
            "preemptions": here,
            "local": (*here, "--local-dir", directory / "local"),
            "local install": (),
            "docs": (f"none{EVIL}",),
            "requeue": (*local, f"job{EVIL}"),
            "run": (*local, "--", "true"),
            "submit-script": (*local, evil),
            "jobs": local,
            "logs": (*local, "job-1"),
            "wait": (*local, "job-1"),
            "drain": (*here, f"none{EVIL}", NODE),
            "undrain": (*here, NODE),
            "cancel": (*here, f"none{EVIL}"),
            "hold": (*here, APP),
            "release": (*here, APP),
            "priority": (*here, "5", APP),
            "move": (*here, APP, "root.b"),
            "follow": (*here, "--kind", f"APP{EVIL}"),
            "story": (APP, *here),
            "convert configmap": (convertible,),
            "convert openb": (evil, evil),
            "convert swf": (evil,),
            "convert sacct": (evil, "--nodes", "1", "--node-processors", "1"),
            "convert sbatch": (convertible,),
            "journal info": (state,),
            "journal verify": (state,),
            "journal export": (state,),
            "journal compact": (state,),
            "journal backup": (state, directory / f"backup{EVIL}"),
            "journal restore": (kubeconfig, directory / "restored"),
            "replay": (state,),
            "record": (state,),
            "replica": ("--url", f"ws://127.0.0.1:1/{EVIL}"),
            "take-over": ("--state-dir", directory / f"none{EVIL}"),
            "what-if": (scenario, "--on", state),
            "audit": ("--state-dir", state),
            "usage": here,
            "access check": (access, "--as", "ops"),
            "token create": (f"ops{EVIL}", "--access", access),
            "token list": ("--access", access),
            "token revoke": (f"id{EVIL}", "--access", access),
            "samples": (evil,),
            "help": (f"{EVIL}",),
            "completion": ("bash",),
            "man": (),
            "kubernetes": ("--kubeconfig", kubeconfig),
            "kubernetes check": (f"{EVIL}",),
            "kubernetes lease": (f"{EVIL}",),
            "submit": (scenario, *here, "--rm-id", RM),  # the last: it takes the place of the other one
        }


#: Of these the output has what others have chosen, so that the test would see it.
SHOW = {
    "apps",
    "app",
    "asks",
    "audit",
    "cancel",
    "drain",
    "events",
    "explain",
    "follow",
    "hold",
    "local",
    "move",
    "node",
    "nodes",
    "priority",
    "release",
    "rm release",
    "simulate",
    "story",
    "submit",
    "test",
    "undrain",
}
#: These wait for signals, so each has a process of its own.
PROCESSES = {"demo", "local", "replica", "run", "submit"}
#: Formats of ``-o`` that are not asked for otherwise.
FORMATS = ("json", "yaml", "csv", "text", "name", "wide")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    (tmp_path / "config.yaml").write_text(CONFIG)
    async with real_daemon("--state-dir", tmp_path / "state", "--config", tmp_path / "config.yaml") as daemon:
        async with connect(daemon.url, rm_id=RM) as rm:
            await rm.request(node(NODE))
            await rm.request(application(APP, "root.a"))
            await rm.request(asks(TASK, f"more{EVIL}", of=APP, vcore=3000))
            await next_allocated(rm)
            yield World(daemon.url, tmp_path)


def unprintable(text: str) -> set[str]:
    return {char for char in text if not char.isprintable() and char != "\n"}


async def printed(world: World, command: str, *options: str) -> str:
    """The output of a command, on both streams. Colours are those of the command: they are left out if there is no terminal."""
    arguments = [*command.split(), *options, *map(str, world.arguments[command])]
    if command not in PROCESSES:
        result = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, arguments))
        assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
        return result.stdout + result.stderr
    text = b""
    async with running_command(*arguments) as process:
        for stream in process.stderr, process.stdout:
            async for chunk in stream:
                text += chunk
                if command == "local" and b"owned" in text:  # it does not end
                    process.kill()
    return text.decode()


@pytest.mark.usefixtures("logging_restored")
async def test_all_commands(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command, in every format, also those that will be added: each needs an entry in ``World``."""
    assert {" ".join(path) for path in COMMANDS} == {*world.arguments}, "each command needs an entry in World.arguments"
    showing = set()
    for command in world.arguments:
        if command in (
            "config",
            "convert configmap",
            "convert sbatch",
            "journal export",
        ):  # for programs they print what is there as it is
            monkeypatch.setattr(terminal, "is_terminal", lambda: True)
        for options in ((), *(("-o", form) for form in formats_of(command))):
            text = await printed(world, command, *options)
            assert not unprintable(text), (command, options, text)
            if "owned" in text:
                showing.add(command)
        monkeypatch.undo()
    assert showing >= SHOW


def formats_of(name: str) -> list[str]:
    command: click.Command = main
    for part in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), part)
        assert found is not None
        command = found
    options = [param for param in command.params if "--output" in param.opts and isinstance(param.type, click.Choice)]
    return [form for option in options for form in option.type.choices]  # type: ignore[attr-defined]


def test_followed_messages() -> None:
    """Each kind of message, as text and as JSON, which says the same."""
    event = si.EventRecord(1, "APP", APP, "ADD", "APP_NEW", 0, message=EVIL, partition="default")
    for message in (event, si.JournalStatus(writable=False, reason=EVIL), si.Lagged(from_=1, to=2)):
        assert not unprintable(click.unstyle(events.as_text(message)))
        text = terminal.on_one_line(message)
        assert not unprintable(text)
    assert json.loads(terminal.on_one_line(event))["objectID"] == APP


def test_there_is_one_way_to_print() -> None:
    """Only ``terminal`` prints; what others print goes through it."""
    package = Path(terminal.__file__).parents[2]
    for path in (package / "surfaces").rglob("*.py"):
        if path == Path(terminal.__file__):
            continue
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                assert ast.unparse(call.func) not in ("click.echo", "click.secho", "print"), f"{path}:{call.lineno}"
