"""``ykactor completion``: prints what a shell needs to complete commands, options, and the names that a daemon has."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ykactor.surfaces.cli.terminal import say_lines

_SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "ykactor"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion of commands, options, queues, applications, nodes, users and jobs for SHELL: bash, zsh or fish.

    In the start file of the shell: eval "$(ykactor completion bash)", the same with zsh, and ykactor completion fish | source.
    Names come from the daemon, and from the local resource manager, that YKACTOR_URL and YKACTOR_LOCAL_DIR name, within a second.
    """
    made = get_completion_class(shell)
    assert made is not None, "click has all of them"
    say_lines(made(ctx.find_root().command, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source().rstrip("\n"))
