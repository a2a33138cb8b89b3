"""``ykactor/handbook/answers.md``: every command in it prints what the page shows, but for numbers."""

import re
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
from daemon import ended_command, real_daemon, running_command

import ykactor

PAGE = Path(ykactor.__file__).parent / "handbook" / "answers.md"
TRACE = Path(__file__).parents[2].parent / "shared" / "data" / "openb"
BLOCKS = re.findall(r"```(yaml|sh|console)\n(.*?)```", PAGE.read_text(), re.DOTALL)
#: Amounts, times and checksums, with their units.
_NUMBER = re.compile(r"[+-]?\b(?:\d[\w.:%,]*|[0-9A-F]{64})(?: %| [kcG]\w* h| h\b)?")
#: Options whose value is a file that the command writes.
_WRITES = ("-o", "--html")


def normal(line: str) -> str:
    """A line without numbers, and without the widths of columns; what tasks waited for may come in another order."""
    if line.startswith("waited "):
        return "waited"
    return " ".join(_NUMBER.sub("#", line).split())


@pytest.mark.skipif(not TRACE.is_dir(), reason="needs the openb trace in ../shared/data/openb")
async def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    """The lines come in this order; ``...`` stands for others."""
    for file in TRACE.glob("*.csv"):
        (tmp_path / file.name).symlink_to(file)
    for text in (text for kind, text in BLOCKS if kind == "yaml"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    async with AsyncExitStack() as stack:
        environment: dict[str, str] = {}
        for kind, text in BLOCKS:
            if kind == "sh":
                environment["YKACTOR_URL"] = await stack.enter_async_context(begun(tmp_path, text))
            for command, lines in transcripts_of(text) if kind == "console" else ():
                printed = await ended(tmp_path, command, environment)
                missing = left_out(lines, printed.splitlines())
                assert missing == [], f"{command}\n{printed}"


def transcripts_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block with the lines that they print."""
    for each in text.split("$ ")[1:]:
        command, *lines = each.splitlines()
        yield command, lines


def left_out(expected: list[str], printed: list[str]) -> list[str]:
    """The expected lines that are not printed in this order."""
    found = iter(map(normal, printed))
    return [line for line in expected if line != "..." and not any(normal(line) == each for each in found)]


async def ended(directory: Path, command: str, environment: dict[str, str]) -> str:
    """The output of a command; those of others run in a shell."""
    if not command.startswith("ykactor "):
        done = await trio.run_process(["bash", "-c", command], cwd=directory, capture_stdout=True, stderr=subprocess.STDOUT)
        return done.stdout.decode()
    arguments = in_directory(directory, command)
    code, output, errors = await ended_command(*arguments, environment={**environment, "COLUMNS": "200"})
    assert code == 0, errors + output
    return (errors + output).replace(f"{directory}/", "")


def in_directory(directory: Path, command: str) -> list[str]:
    """The arguments of a command, with the files that it reads and writes in a directory."""
    words = shlex.split(command)[1:]
    options = ["", *words]
    is_file = [(directory / word).exists() or before in _WRITES for before, word in zip(options, words, strict=False)]
    return [str(directory / word) if it_is else word for it_is, word in zip(is_file, words, strict=True)]


@asynccontextmanager
async def begun(directory: Path, text: str) -> AsyncIterator[str]:
    """The commands that run in terminals of their own, a daemon and a resource manager; the URL of the daemon."""
    serve, submit = text.splitlines()
    (directory / "state").mkdir()
    _, *options = in_directory(directory, serve)
    async with real_daemon(*options) as daemon:
        where = {"YKACTOR_URL": daemon.url}
        async with running_command(*in_directory(directory, submit), environment=where):
            await daemon.wait_logged("cycle_finished")
            yield daemon.url
