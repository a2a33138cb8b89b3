"""``ykactor help``: the help of a command, and the topic that many commands share."""

from __future__ import annotations

import click

from ykactor.surfaces.cli.terminal import say_lines
from ykactor.surfaces.cli.urls import connection_records

_CONNECTION = "connection"


@click.command()
@click.argument("words", metavar=f"[COMMAND...|{_CONNECTION}]", nargs=-1)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print the help of a command, or of the options with which commands connect to a daemon."""
    say_lines(_connection(ctx) if words == (_CONNECTION,) else _of_command(ctx.find_root(), words))


def _of_command(ctx: click.Context, words: tuple[str, ...]) -> str:
    """The help of a command; an unknown one ends this command."""
    for word in words:
        group = ctx.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"found {word!r}, but {ctx.command_path} has no commands", ctx)
        name, found, _ = group.resolve_command(ctx, [word])
        assert found is not None, "resolving has ended the command otherwise"
        ctx = found.context_class(found, info_name=name, parent=ctx)
    return ctx.get_help()


def _connection(ctx: click.Context) -> str:
    """The options of all commands that connect to a daemon."""
    formatter = ctx.make_formatter()
    formatter.write_text("Every command that connects to a daemon takes these options, behind its name.")
    formatter.write_paragraph()
    formatter.write_dl(connection_records())
    formatter.write_paragraph()
    formatter.write_text("export YKACTOR_URL=ws://10.0.0.7:9081 saves --url for all commands of a shell.")
    return formatter.getvalue().rstrip("\n")
