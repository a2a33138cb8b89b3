"""The commands that print the state, against a daemon with real sockets."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Unpack

import click
import pytest
import trio
import yaml
from click.testing import CliRunner, Result
from daemon import LIMIT_S, application, asks, next_allocated, node, running_command
from test_limited_followers import limit_sessions
from test_slow_configurations import daemon_here, update
from trio.testing import MockClock
from world import limit, queue, tree

from ykactor.actors.clock import system_ns
from ykactor.client import Disconnected, connect, operate
from ykactor.client.login import LoginOptions
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.urls import Destination
from ykactor.surfaces.cli.views import nodes
from ykactor.surfaces.cli.views.listing import FORMATS, Printout
from ykactor.surfaces.cli.views.showing import on_screen, taking, watch
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si

QUEUES = tree(queue("team-a", queue("x"), limits=[limit("alice", vcore=9000)]), queue("secret", queue("hidden")))
#: Each with a name that it prints also for a reader who is limited to ``root.team-a``.
VERBS = {
    ("queues",): "root.team-a.x",
    ("apps",): "app-1",
    ("asks",): "app-1/t2",
    ("priorities",): "app-1/t2",
    ("users",): "alice",
    ("partitions",): "default",
    ("stats",): "default",
    ("app", "app-1"): "app-1",
}
#: Each with a name that it prints only for who sees everything.
WHOLE = {
    ("nodes",): "n1",
    ("node", "n1"): "n1",
    ("app", "secret-1"): "secret-1",
    ("health",): "default: queues and applications",
}


@asynccontextmanager
async def busy_daemon() -> AsyncIterator[str]:
    """The URL of one with two teams on one node; of each an ask waits."""
    async with daemon_here() as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(update(QUEUES))
        await rm.request(node(vcore=4))
        for name, leaf in (("app-1", "root.team-a.x"), ("secret-1", "root.secret.hidden")):
            await rm.request(application(name, leaf))
        await rm.request(asks("secret-t", of="secret-1", vcore=3))
        await rm.request(asks("t1", "t2", of="app-1", vcore=1))
        await rm.request(asks("secret-u", of="secret-1", vcore=2))
        await next_allocated(rm, 2)
        yield url


async def run(url: str, *arguments: str) -> Result:
    """A command in this process, which serves the daemon meanwhile."""
    invoke = CliRunner().invoke
    return await trio.to_thread.run_sync(lambda: invoke(main, [*arguments, "--url", url], prog_name="ykactor"))


async def test_an_empty_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """People are told that a name matches nothing, programs get an empty list; what is not shown is refused."""
    async with busy_daemon() as url:
        for arguments, told in (
            (("apps", "--state", "Failed"), "there are no applications that match"),
            (("nodes", "--state", "Drained"), "there are no nodes that match"),
            (("events", "--since", "2040-01-01"), "there are no events that match and that the daemon shows you"),
            (("preemptions",), "there are no preemptions that match and that the daemon shows you"),
        ):
            assert (await run(url, *arguments)).stderr == f"{told}\n"
            listed = await run(url, *arguments, "-o", "json")
            assert (json.loads(listed.stdout), listed.stderr) == ([], "")
        assert (await run(url, "nodes")).stderr == ""
        limit_sessions(monkeypatch)
        hidden = await run(url, "nodes")
        assert (hidden.exit_code, hidden.stderr) == (1, f"Error: {nodes.NOT_SHOWN}\n")
        limited = await run(url, "apps", "--state", "Failed")
        assert limited.stderr == "there are no applications that match and that the daemon shows you\n"


async def test_nothing_is_pending() -> None:
    """The message says that nothing is pending, and names no options where none was given."""
    async with daemon_here() as (_, url):
        for verb in ("asks", "priorities"):
            assert (await run(url, verb)).stderr == "there are no pending asks\n"
            assert (await run(url, verb, "-o", "json")).stderr == ""


async def test_a_typo_is_not_silent() -> None:
    """A name that is not there is told beside what was found, in every format; a state that does not exist is a mistake."""
    async with busy_daemon() as url:
        for verb, option, name, hint in (
            ("apps", "queue", "root.nope", ""),
            ("apps", "queue", "team-a", " (did you mean root.team-a?)"),
            ("asks", "app", "app-nope", ""),
            ("users", "user", "alcie", " (did you mean alice?)"),
            ("queues", "partition", "gpu", ""),
        ):
            told = f"the daemon has no {option} {name}, or does not show it{hint}; ykactor {option}s lists them\n"
            for output in "table", "name":
                result = await run(url, verb, f"--{option}", name, "-o", output)
                assert (result.exit_code, result.stderr) == (0, told)
        known = await run(url, "apps", "--queue", "ROOT.Team-A", "--partition", "Default", "--user", "nope", "-o", "name")
        assert known.stderr.count("does not show it") == known.stderr.count("no user nope") == 1
        both = await run(url, "apps", "--queue", "root.nope", "--queue", "root.team-a", "-o", "name")
        assert both.stdout == "app-1\n"
        for verb, state, states in ("apps", "Runing", "'running'"), ("nodes", "Held", "'draining', 'drained'"):
            wrong = await run(url, verb, "--state", state)
            assert wrong.exit_code == exit_codes.USAGE
            assert states in wrong.stderr.lower()
        assert (await run(url, "apps", "--state", "held", "-o", "json")).stdout == "[]\n"
        async with operate(url) as operator:
            await operator.request(si.HoldQueue(queue_name="root.team-a"))
        assert (await run(url, "apps", "--state", "held", "-o", "name")).stdout == "app-1\n"
        assert (await run(url, "queues", "--state", "held", "-o", "name")).stdout.split() == ["root.team-a", "root.team-a.x"]
        assert "root.team-a" in (await run(url, "queues", "--state", "active", "-o", "name")).stdout


def test_an_unknown_verb() -> None:
    """The nearest ones are named."""
    result = CliRunner().invoke(main, ["qeues"], prog_name="ykactor")
    assert result.exit_code == exit_codes.USAGE
    assert "No such command 'qeues', expected ykactor queues" in result.stderr


async def test_every_verb_in_every_format() -> None:
    """Names are in all of them; JSON and YAML are the same; nothing is coloured or cut where there is no terminal."""
    async with busy_daemon() as url:
        for verb, name in (VERBS | WHOLE).items():
            printed = {output: await run(url, *verb, "-o", output) for output in FORMATS}
            assert {(result.exit_code, result.stderr) for result in printed.values()} == {(0, "")}, verb
            text = {output: result.stdout for output, result in printed.items()}
            assert all(name.rpartition("/")[2] in of_format for of_format in text.values()), verb
            assert name in text["name"].splitlines()
            assert "\x1b" not in "".join(text.values())
            fresh = ("ageSeconds",)
            assert without(json.loads(text["json"]), fresh) == without(yaml.safe_load(text["yaml"]), fresh)
        assert "wants 0.001, has 0 of 0.004 vcore in the cluster" in (await run(url, "asks")).stdout
        missing = await run(url, "node", "n2")
        assert (missing.exit_code, missing.stdout) == (1, "")
        assert missing.stderr == "Error: the daemon has no node n2, or does not show it; ykactor nodes lists them\n"


def without(document: object, keys: tuple[str, ...]) -> object:
    """The document without what changes from second to second."""
    if isinstance(document, dict):
        return {key: without(value, keys) for key, value in document.items() if key not in keys}
    return [without(value, keys) for value in document] if isinstance(document, list) else document


async def test_a_limited_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-84: no command says anything about what is outside the own queues, and all of them work."""
    async with busy_daemon() as url:
        limit_sessions(monkeypatch)
        for verb, name in VERBS.items():
            for output in FORMATS:
                result = await run(url, *verb, "-o", output)
                assert (result.exit_code, result.stderr) == (0, ""), verb
                assert "secret" not in result.stdout
                assert name.rpartition("/")[2] in result.stdout
        for verb, count in {("partitions", "-o", "wide"): 6, ("stats",): 8}.items():  # fields that are not shown, and no zero
            assert (await run(url, *verb)).stdout.count(" not shown") == count
        for verb in WHOLE:
            result = await run(url, *verb)
            assert "secret" not in result.stdout
            assert "n1" not in result.stdout
        events = await run(url, "events", "-o", "json")
        assert "secret" not in events.stdout
        assert {event["queueName"] for event in json.loads(events.stdout)} == {"root.team-a", "root.team-a.x"}


async def test_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text as it was read, byte for byte; completed in JSON and YAML; its checksum as the name. Only for who sees all."""
    async with busy_daemon() as url:
        assert (await run(url, "config")).stdout.rstrip("\n") == QUEUES.rstrip("\n")
        printed = {output: (await run(url, "config", "-o", output)).stdout for output in ("json", "yaml", "name")}
        document = json.loads(printed["json"])
        assert document["Partitions"][0]["Queues"][0]["Name"] == "root"
        assert document["Checksum"] == queuefile.load(QUEUES).checksum == printed["name"].rstrip()
        assert yaml.safe_load(printed["yaml"]) == document
        limit_sessions(monkeypatch)
        refused = await run(url, "config")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr.startswith("Error: NOT_PERMITTED: ")


async def test_health() -> None:
    """SC-131: exit code 0 if all checks succeed; else 1, and what is wrong, as the daemon finds it in its live state."""
    async with daemon_here() as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(node(vcore=4))
        well = await run(url, "health")
        assert (well.exit_code, well.stderr) == (0, "")
        assert "failed" not in well.stdout
        daemon.registry("default").nodes["n1"].allocated["vcore"] = 1
        daemon.health._fresh_until_s = 0
        ill = await run(url, "health")
        assert ill.exit_code == exit_codes.FAILED
        assert "failed" in ill.stdout
        assert "node n1: allocated" in ill.stdout
        found = json.loads((await run(url, "health", "-o", "json")).stdout)
        assert (found["healthy"], {bool(check["problem"]) for check in found["checks"]}) == (False, {True, False})


async def test_the_resource_manager() -> None:
    """The verbs say if the resource manager has a session, and since when; one that is away is nothing wrong with the daemon."""
    verbs = ("health", "stats", "partitions")

    async def told() -> tuple[set[str], Any]:
        texts = [(await run(url, verb)).stdout for verb in verbs]
        documents = [json.loads((await run(url, verb, "-o", "json")).stdout) for verb in verbs]
        found = [row["resourceManager"] for row in (*documents[:2], *documents[2])]
        assert found == [found[0]] * 3
        sentence = re.compile(r"(?:none is registered|rm-1, (?:connected|away) since (?=20))")
        return {"".join(sentence.findall(text)) for text in texts}, found[0]

    async with daemon_here() as (_, url):
        assert await told() == ({"none is registered"}, None)
        async with connect(url, rm_id="rm-1"):
            texts, connected = await told()
            assert (texts, connected["rmID"], connected["connected"]) == ({"rm-1, connected since "}, "rm-1", True)
        texts, away = await told()
        assert (texts, away["rmID"], away["connected"]) == ({"rm-1, away since "}, "rm-1", False)
        assert connected["since"] < away["since"] <= system_ns()
        assert (await run(url, "health")).exit_code == 0


async def test_cycles() -> None:
    """The number of cycles and their durations are in ``stats``."""
    async with busy_daemon() as url:
        (partition,) = json.loads((await run(url, "stats", "-o", "json")).stdout)["partitions"]
        cycles = partition["cycles"]
        assert cycles["count"] > 0
        assert isinstance(cycles["count"], int)
        assert 0 < cycles["meanSeconds"] <= cycles["maxSeconds"]
        assert cycles["lastSeconds"] <= cycles["maxSeconds"]
        table = (await run(url, "stats")).stdout
        assert f"Cycles         {cycles['count']}: last " in table
        assert "Preemption     asks that preempt: 0, tasks being preempted: 0, preempted tasks: 0\n" in table


async def test_events() -> None:
    """All that happened up to now, or those of a kind, queue, application or time, in its order; names are their numbers."""
    async with busy_daemon() as url:
        every = json.loads((await run(url, "events", "-o", "json")).stdout)
        numbers = [int(line) for line in (await run(url, "events", "-o", "name")).stdout.splitlines()]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
        assert every == sorted(every, key=lambda event: event["timestampNano"])
        assert "DETAILS_NONE" not in (await run(url, "events")).stdout
        chosen = ["--kind", "NODE_ALLOC", "--kind", "APP", "--queue", "root.team-a", "--queue", "root.nope", "--app", "app-1"]
        own = await run(url, "events", *chosen, "-o", "json")
        assert {(event["type"], event["queueName"]) for event in json.loads(own.stdout)} == {("APP", "root.team-a.x")}
        assert own.stderr == "the daemon has no queue root.nope, or does not show it; ykactor queues lists them\n"
        refused = await run(url, "events", "--kind", "FOO")
        assert refused.exit_code == 1
        assert refused.stderr.startswith("Error: UNKNOWN_NAME: kinds[0]: found 'FOO', expected a type (")


def test_completion() -> None:
    """The shell completes commands, options, and the values of options."""
    assert completed("ykactor pri") == ["priorities", "priority"]
    assert completed("ykactor apps --st") == ["--state"]
    assert completed("ykactor preemptions --q") == ["--queue"]
    assert completed("ykactor apps -o ") == [*FORMATS]
    assert completed("ykactor apps --sort n") == ["name"]


def completed(line: str) -> list[str]:
    """The completions that bash gets for the last word of a line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_YKACTOR_COMPLETE": "bash_complete"}
    result = CliRunner().invoke(main, [], prog_name="ykactor", env=words)
    assert result.exit_code == 0
    return [answer.removeprefix("plain,") for answer in result.stdout.split()]


# ---- --watch


def state(sequence: int) -> si.Snapshot:
    return si.Snapshot(sequence=sequence, partitions=[])


def number(snapshot: si.Snapshot) -> Printout:
    """A printout that a command might print."""
    return Printout([snapshot.sequence], [str(snapshot.sequence)], lambda is_wide: [f"event {snapshot.sequence}"])


class Daemon:
    """Has another state each time, and is away the third time; ends the command the fifth time."""

    def __init__(self) -> None:
        self.taken_at: list[float] = []

    async def take(self) -> si.Snapshot:
        self.taken_at.append(trio.current_time())
        if len(self.taken_at) == 5:
            raise KeyboardInterrupt
        if len(self.taken_at) == 3:
            raise Disconnected("nothing listens there")
        return state(len(self.taken_at))


@pytest.mark.parametrize(
    ("output", "printed"),
    [
        ("table", "event 1\n\nevent 2\n\nevent 4\n"),
        ("json", "[\n  1\n]\n\n[\n  2\n]\n\n[\n  4\n]\n"),
        ("yaml", "- 1\n---\n- 2\n---\n- 4\n"),
    ],
)
async def test_watching(autojump_clock: MockClock, capsys: pytest.CaptureFixture[str], output: str, printed: str) -> None:
    """Every 2 s one below the other in a pipe, until Ctrl-C; it goes on after the daemon was away, and says that it was."""
    daemon = Daemon()
    with pytest.raises(KeyboardInterrupt):
        await watch(daemon.take, number, output, is_terminal=False)
    assert capsys.readouterr() == (printed, "trying again every 2 s: nothing listens there\n")
    assert [at - daemon.taken_at[0] for at in daemon.taken_at] == [0, 2, 4, 6, 8]


async def test_watching_nobody() -> None:
    """The command ends if there is no daemon at the beginning."""

    async def take() -> si.Snapshot:
        raise Disconnected("nothing listens there")

    with pytest.raises(Disconnected):
        await watch(take, number, "table", is_terminal=False)


async def test_watching_on_a_terminal(autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]) -> None:
    """One in place of the other: no line between them."""
    with pytest.raises(KeyboardInterrupt):
        await watch(Daemon().take, number, "table", is_terminal=True)
    assert capsys.readouterr().out == "event 1\nevent 2\nevent 4\n"


async def test_watching_a_large_state(autojump_clock: MockClock) -> None:
    """A snapshot that takes long is taken less often: nobody who watches costs the daemon more than a tenth of its time."""
    daemon = Daemon()

    async def take() -> si.Snapshot:
        await trio.sleep(3)
        return await daemon.take()

    with pytest.raises(KeyboardInterrupt):
        await watch(take, number, "table", is_terminal=False)
    first, second, third, *_ = daemon.taken_at
    assert (second - first, third - second) == (27 + 3, 27 + 3)


def test_on_a_terminal_the_top_is_shown() -> None:
    """The top that fits is shown, with the headers, and how much is left; a long line takes several rows; colours take none."""
    lines = ["HEADER", click.style("x" * 10, fg="red"), "y" * 11, "z"]
    assert list(on_screen(lines, 10, 10)) == lines
    assert list(on_screen(lines, 10, 5)) == [*lines[:2], "... 2 more lines"]
    assert list(on_screen(["a\nb\nc"], 10, 4)) == ["a", "b", "... 1 more line"]


async def test_a_daemon_that_does_not_answer(autojump_clock: MockClock) -> None:
    """A verb does not wait for ever."""

    async def silent(url: str, **login: Unpack[LoginOptions]) -> si.Snapshot:
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(Disconnected, match="no answer within 60 s"):
        await taking(silent, Destination("ws://127.0.0.1:1"))()


# ---- processes of their own


async def test_a_pipe_that_is_closed() -> None:
    """``ykactor queues | head -1`` ends without a word."""
    async with busy_daemon() as url:
        async with running_command("queues", "--url", url) as process:
            await process.stdout.aclose()
            assert await process.stderr.receive_some() == b""
            assert await process.wait() == exit_codes.FAILED


@pytest.mark.parametrize(("is_interrupted", "code"), [(False, exit_codes.OK), (True, exit_codes.INTERRUPTED)])
async def test_top(is_interrupted: bool, code: int) -> None:
    """The command ``top`` takes over the terminal, shows queues and reasons, and gives it back on q and Ctrl-C."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    settings = termios.tcgetattr(theirs)
    async with busy_daemon() as url:
        async with running_command("top", "--url", url, environment={"TERM": "xterm"}, stdin=theirs, terminal=theirs) as process:
            assert b"root.team-a.x" in await shown_until(ours, b"REASON")
            if is_interrupted:
                process.send_signal(signal.SIGINT)
            else:
                os.write(ours, b"q")
            assert b"Traceback" not in await shown_until(ours, b"\x1b[?1049l")  # the screen that was there before
            assert await process.wait() == code
            assert termios.tcgetattr(theirs) == settings
    os.close(ours)
    os.close(theirs)


async def shown_until(terminal: int, wanted: bytes) -> bytes:
    """The output of a terminal up to some bytes."""
    shown = b""
    with trio.fail_after(LIMIT_S):
        while wanted not in shown:
            await trio.lowlevel.wait_readable(terminal)
            shown += os.read(terminal, 2**16)
    return shown
