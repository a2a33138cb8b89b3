"""The README and the handbook: every command in a block ``console`` prints what the page shows, but for times and checksums.

Blocks ``console untested`` need another machine, a cluster, a browser or root; how many there are is counted. A block ``yaml``
whose first line is a comment with a name is a file of that name; those of ``queues`` are there for all pages. Commands with
``&`` at their end run on beside the others.
"""

import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
from daemon import LIMIT_S, RunningDaemon, clean_environment, real_daemon, running_command
from forked import Forked
from localjobs import local_manager

import ykactor

PACKAGE = Path(ykactor.__file__).parent
PAGES = {path.stem: path for path in (PACKAGE / "handbook").glob("*.md")} | {"README": PACKAGE.parent / "README.md"}
TRACE = PACKAGE.parents[1] / "shared" / "data" / "openb"
#: By page: the blocks of commands that no test runs.
UNTESTED = {
    "README": 1,
    "commands": 1,
    "first-hour": 2,
    "jobs": 3,
    "kubernetes": 2,
    "operating": 7,
    "queues": 2,
    "rest": 1,
    "security": 3,
}
KINDS = {"console", "console untested", "yaml", "json", "python", "nginx", "diff", "text"}
#: Commands that only read, and so are called again until they print what is expected: jobs take a moment to begin and to end.
READS = {"asks", "jobs", "logs", "explain", "queues", "nodes", "apps", "preemptions", "story", "audit", "usage"}
TRIES = 50
#: Times, with the number of an event behind it, durations, sizes, checksums and ports.
_VARIES = re.compile(
    r"127\.0\.0\.1:\d+|\b[0-9a-f]{8}\b|\d{4}-\d\d-\d\dT[\d:.]+Z(?: +\d+(?= ))?|^ +\d+\.\d(?= )"
    r"|\b\d+ (?:bytes|records|transactions?)|transaction \d+"
    r"|(?<![\w.])(?:\d+(?:\.\d+)?(?:ms|us|[smhd]))+\b|\b[0-9A-F]{8,}(?:\.\.\.[0-9A-F]*)?"
)
#: In a table of simulated results all numbers.
_NUMBER = re.compile(r"[+-]?\b(?:\d[\w.:%,]*|[0-9A-F]{64})(?: %| [kcG]\w* h| h\b)?")


def blocks_of(page: str) -> list[tuple[str, str]]:
    """The blocks of a page, each with its kind."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", PAGES[page].read_text(), re.DOTALL | re.MULTILINE)


RUN = sorted(page for page in PAGES if any(kind == "console" for kind, _ in blocks_of(page)))


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_block_has_a_kind(page: str) -> None:
    """A prompt stands only in a block of commands, and those that are not run are counted."""
    blocks = blocks_of(page)
    assert {kind for kind, _ in blocks} <= KINDS
    assert [text for kind, text in blocks if text.startswith("$ ") and not kind.startswith("console")] == []
    assert sum(kind == "console untested" for kind, _ in blocks) == UNTESTED.get(page, 0)


def normal(line: str, page: str) -> str:
    """A line without what varies, and without the widths of columns; what tasks waited for may come in another order."""
    if line.startswith("waited "):
        return "waited"
    line = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "vm", line)
    return " ".join((_NUMBER if page == "answers" or "│" in line else _VARIES).sub("#", line).split())


@pytest.mark.parametrize("page", RUN)
async def test_commands_print_what_the_page_shows(page: str, tmp_path: Path) -> None:
    """The lines come in this order; ``...`` stands for others."""
    if page == "answers" and not TRACE.is_dir():
        pytest.skip("needs the openb trace in ../shared/data/openb")
    world = World(page, tmp_path)
    async with world.background:
        for kind, text in blocks_of(page):
            world.write(kind, text)
            for command, lines in transcripts_of(text) if kind == "console" else ():
                await world.check(command, lines)


def transcripts_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block with the lines that they print; a command goes on after a backslash."""
    for each in ("\n" + text.replace("\\\n", "")).split("\n$ ")[1:]:
        command, *lines = each.splitlines()
        yield command.partition("  # ")[0].rstrip(), lines


class World:
    """A directory with the files of a page, and what runs there beside its commands."""

    def __init__(self, page: str, directory: Path) -> None:
        self._page = page
        self._directory = directory
        self.background = AsyncExitStack()
        self._environment = clean_environment() | {"COLUMNS": "200", "YKACTOR_LOCAL_DIR": str(directory / "local")}
        self._http = ""
        self._daemon: RunningDaemon
        for file in TRACE.glob("*.csv") if page == "answers" else ():
            (directory / file.name).symlink_to(file)
        (directory / "config").symlink_to(PACKAGE.parent / "config")
        for kind, text in blocks_of("queues"):
            self.write(kind, text)
        (directory / "bin").mkdir()
        (directory / "bin" / "ykactor").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ykactor "$@"\n')
        (directory / "bin" / "ykactor").chmod(0o755)

    def write(self, kind: str, text: str) -> None:
        """Write a block that is a file."""
        if kind == "yaml" and (name := re.match(r"# (\S+\.yaml)\n", text)):
            (self._directory / name[1]).write_text(text)

    async def check(self, command: str, expected: list[str]) -> None:
        """Run a command, and compare what it prints."""
        if command.endswith("&"):
            printed = await self._begin(shlex.split(command.rstrip("& ").partition(" 2>")[0].partition(" >")[0]))
            assert self._missing(expected, printed) == [], f"{command}\n{printed}"
            return
        is_read = expected and command.split()[1:2] and command.split()[1] in READS
        for _ in range(TRIES if is_read else 1):
            printed = await self._run(command.replace("http://127.0.0.1:9080", self._http))
            if not (missing := self._missing(expected, printed)):
                return
            await trio.sleep(0.05)
        pytest.fail(f"{command}\nlacks {missing}\n{printed}")

    def _missing(self, expected: list[str], printed: str) -> list[str]:
        """The expected lines that are not printed in this order."""
        found = (normal(line, self._page) for line in printed.splitlines())
        return [line for line in expected if line != "..." and not any(normal(line, self._page) == each for each in found)]

    async def _begin(self, words: list[str]) -> str:
        """Start a daemon, or what works for it; what a local resource manager prints first."""
        _, verb, *options = words
        if verb == "serve":
            (self._directory / "state").mkdir(exist_ok=True)
            found = [str(self._directory / word) if (self._directory / word).exists() else word for word in options]
            daemon = await self.background.enter_async_context(real_daemon(*found, http="127.0.0.1:0"))
            self._environment["YKACTOR_URL"], self._http, self._daemon = daemon.url, daemon.http, daemon
            return ""
        if verb == "local":
            limits = ("--resource", "vcore=2", "--resource", "memory=24Gi")
            manager = await self.background.enter_async_context(
                local_manager(self._directory / "local", self._environment["YKACTOR_URL"], *options, *limits)
            )
            await manager.has_said("registered")
            return manager.log()
        await self.background.enter_async_context(self._running(verb, options))
        await self._daemon.wait_logged("cycle_finished")
        return ""

    @asynccontextmanager
    async def _running(self, verb: str, options: list[str]) -> AsyncIterator[None]:
        found = [str(self._directory / word) if (self._directory / word).exists() else word for word in options]
        async with running_command(verb, *found, environment=self._environment):
            yield

    async def _run(self, command: str) -> str:
        """Both outputs of a command; one with more than words runs in a shell."""
        file = self._directory / "output"
        is_plain = command.startswith("ykactor ") and not re.search(r"[|<>;&]", re.sub(r"'[^']*'", "", command))
        with trio.fail_after(LIMIT_S), file.open("wb") as output:
            if is_plain:
                words = shlex.split(command)[1:]
                process = await Forked.start(words, self._environment, log=output.fileno(), directory=self._directory)
                await process.wait()
            else:
                path = f"{self._directory / 'bin'}:{self._environment['PATH']}"
                await trio.run_process(
                    ["bash", "-c", command], cwd=self._directory, env=self._environment | {"PATH": path},
                    stdout=output, stderr=output, check=False,
                )  # fmt: skip
        printed = file.read_text()
        assert "Traceback" not in printed, f"{command}\n{printed}"
        return printed
