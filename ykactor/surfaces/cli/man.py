"""``ykactor man``: prints the manual page, made of the help texts of all commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

import click

import ykactor
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.examples import EXAMPLES
from ykactor.surfaces.cli.terminal import say_lines
from ykactor.surfaces.cli.urls import connection_records

_EXIT_STATUS = {
    exit_codes.OK: "Done; also a daemon that SIGTERM has ended.",
    exit_codes.FAILED: "Failed: invalid content, no connection, a refusal, an unknown name, or output that nobody reads.",
    exit_codes.USAGE: "A wrong command line, or a file that is missing or cannot be read or written.",
    exit_codes.SOFTWARE: "An error in the daemon itself.",
    exit_codes.TEMPORARY: "The daemon cannot start at the moment, and may later.",
    exit_codes.INTERRUPTED: "Ended by Ctrl-C.",
}
_ENVIRONMENT = {
    "YKACTOR_URL": "The address of the daemon, for commands without --url.",
    "YKACTOR_TOKEN_FILE": "A file with a token, for commands without --token-file.",
    "YKACTOR_LOCAL_DIR": "Where jobs of this machine are kept, for commands without --local-dir.",
    "DISABLE_RESERVATION": "If true, serve and simulate make no reservations.",
}


@click.command()
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print the manual page: ykactor man | man -l - shows it.

    To install it: ykactor man > /usr/local/share/man/man1/ykactor.1
    """
    say_lines("\n".join(page(ctx.find_root().command)))


def page(program: click.Command) -> Iterator[str]:
    """The lines of the page, in the language of man pages (roff)."""
    yield f'.TH YKACTOR 1 "" "ykactor {ykactor.__version__}" "User Commands"'
    yield ".SH NAME"
    yield _plain("ykactor - a resource scheduler with hierarchical queues")
    yield ".SH SYNOPSIS"
    yield ".B ykactor"
    yield _plain("COMMAND [OPTIONS] [ARGUMENTS]")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(program)
    yield ".SH COMMANDS"
    yield from _commands(click.Context(program, info_name="ykactor"))
    yield ".SH CONNECTING"
    yield "All commands that connect to a daemon take these options."
    yield from _items(connection_records())
    yield ".SH ENVIRONMENT"
    yield from _items(_ENVIRONMENT.items())
    yield ".SH EXIT STATUS"
    yield from _items((str(code), text) for code, text in _EXIT_STATUS.items())


def _commands(ctx: click.Context) -> Iterator[str]:
    """Each command below a group, and those below it; of a group itself only one that also runs without a subcommand."""
    assert isinstance(ctx.command, click.Group)
    for name in ctx.command.list_commands(ctx):
        command = ctx.command.get_command(ctx, name)
        assert command is not None, "it is listed"
        below = click.Context(command, info_name=name, parent=ctx)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield from _section(command, below)
        if isinstance(command, click.Group):
            yield from _commands(below)


def _section(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """The usage of a command, its help, its options without those of connections, and examples."""
    yield f'.SS "{_plain(ctx.command_path)} {_plain(" ".join(command.collect_usage_pieces(ctx)))}"'
    yield from _paragraphs(command)
    yield from _items(_options(command, ctx))
    for example in EXAMPLES.get(ctx.command_path.partition(" ")[2], ()):
        yield from (".PP", f"\\fB{_plain(example)}\\fR")


def _paragraphs(command: click.Command) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        yield from [".PP"] * (number > 0)
        yield _plain(" ".join(paragraph.split()))


def _options(command: click.Command, ctx: click.Context) -> list[tuple[str, str]]:
    """The forms of each option, and its help."""
    records = [parameter.get_help_record(ctx) for parameter in command.params]
    return [record for record in records if record is not None]


def _items(items: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in items:
        yield from (".TP", f"\\fB{_plain(term)}\\fR", _plain(text))


def _plain(text: str) -> str:
    """The text as roff prints it, whatever it holds."""
    return "\\&" + " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
