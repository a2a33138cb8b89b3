"""``ykactor submit-script``: submits a script with the options in its ``#YKACTOR`` lines."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click
from msgspec import structs

from ykactor.local.scripts import SCRIPT_MAX, interpreter
from ykactor.surfaces.cli.habits import naming_options
from ykactor.surfaces.cli.jobs.asking import directory_option
from ykactor.surfaces.cli.jobs.run import Manner, submit
from ykactor.surfaces.cli.jobs.wanted import Wanted, job_options
from ykactor.surfaces.cli.terminal import say

MARK = "#YKACTOR"
_OF_SLURM = b"#SBATCH"
#: Instead of a file: standard input.
_STANDARD_INPUT = "-"
_FILE = click.Path(exists=True, dir_okay=False)
_SCRIPT = f"{__name__}.script"


class _ScriptCommand(click.Command):
    """Reads the options in the script before those of the command line, so that the latter win."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        words, helps = given.get("words"), self.get_help_option(ctx)
        if isinstance(words, tuple) and not (helps and given.get(helps.name)) and not ctx.resilient_parsing:
            ctx.meta[_SCRIPT] = script = _read(words[0])
            args = [*_options(ctx, words[0], script), *args]
        return super().parse_args(ctx, args)


@click.command(cls=_ScriptCommand, context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="FILE [ARGUMENT]...", nargs=-1, required=True, type=click.UNPROCESSED)
@directory_option
@job_options
@click.option("--wait", "waits", is_flag=True, help="Wait for the end as ykactor run does.  [default: only print the job]")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], directory: Path, wanted: Wanted, waits: bool) -> None:
    """Submit the script FILE, or - for standard input, with the options that its lines #YKACTOR have.

    \b
      #!/bin/bash
      #YKACTOR --queue root.batch --vcore 2
      #YKACTOR --time 1h30m  # options as of ykactor run

    The lines come before the first command. An option before FILE replaces that of the script, or is added if it is repeatable.
    The text is kept with the job: what becomes of FILE later changes nothing. The program that its first line names runs it, in
    this directory and environment if no others are given. The job is named as FILE if it has no --name.
    """
    file_name = "" if words[0] == _STANDARD_INPUT else Path(words[0]).name.encode(errors="replace").decode()
    name = wanted.name or file_name
    manner = Manner(waits, follows=False, is_interactive=False)
    submit(directory, structs.replace(wanted, name=name).job(words, ctx.meta[_SCRIPT]), manner)


def _read(name: str) -> bytes:
    """The text of a script.

    Raises:  OSError. ClickException: it is none, or not there.
    """
    if name == _STANDARD_INPUT:
        name = "standard input"
        script = sys.stdin.buffer.read(SCRIPT_MAX + 1)
    else:
        with open(_FILE.convert(name, None, None), "rb") as file:
            script = file.read(SCRIPT_MAX + 1)
    if len(script) > SCRIPT_MAX:
        raise click.ClickException(f"{name}: found more than {SCRIPT_MAX} bytes, expected a script of at most so many")
    try:
        interpreter(script)
    except ValueError as error:
        raise click.ClickException(f"{name}:1: {error}") from None
    return script


def _options(ctx: click.Context, name: str, script: bytes) -> list[str]:
    """The options in the lines of a script.

    Raises:  ClickException: a line has something else.
    """
    options: list[str] = []
    lines = script.split(b"\n")
    if any(line.startswith(_OF_SLURM) for line in lines) and not any(line.startswith(MARK.encode()) for line in lines):
        raise click.ClickException(
            f"{name}: found lines {_OF_SLURM.decode()}, expected lines {MARK}: ykactor convert sbatch {name} writes them"
        )
    is_head = True
    for number, line in enumerate(os.fsdecode(script).split("\n"), 1):
        is_head = is_head and (not line.strip() or line.lstrip().startswith("#"))
        if not line.startswith(MARK):
            continue
        if is_head:
            options += _options_of_line(ctx, f"{name}:{number}", line.removeprefix(MARK))
        else:
            say(f"{name}:{number}: a line {MARK} behind the first command is not read", err=True)
    return options


@click.command("run", add_help_option=False)
@job_options
def _line(wanted: Wanted) -> None:
    """Has the options that a line may have."""


def _options_of_line(ctx: click.Context, place: str, text: str) -> list[str]:
    """The words of a line, which are options of a job by themselves.

    Raises:  ClickException.
    """
    try:
        words = shlex.split(text, comments=True)
        if text[:1].strip() or not words or "--" in words:
            raise ValueError(f"found {(MARK + text)!r}, expected options of ykactor run, such as {MARK} --vcore 2")
        with naming_options():
            _line.make_context("run", list(words), parent=ctx.parent)
    except click.UsageError as error:
        raise click.ClickException(f"{place}: {error.format_message()}") from None
    except ValueError as error:
        raise click.ClickException(f"{place}: {error}") from None
    return words
