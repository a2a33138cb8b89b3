"""Texts in Markdown for people: formatted on a terminal, with the pager if they are long; elsewhere as they are."""

from __future__ import annotations

import shutil

import click
from rich.console import Console
from rich.markdown import Markdown

from ykactor.surfaces.cli.terminal import STANDARD_OUTPUT, is_terminal, naming, say_lines, write

#: Longer lines are hard to read; commands and tables need as much.
_WIDTH_MAX = 140


def show(text: str) -> None:
    """Print a text in Markdown that is our own."""
    if not is_terminal():
        say_lines(text.rstrip("\n"))
        return
    columns, lines = shutil.get_terminal_size()
    console = Console(width=min(columns, _WIDTH_MAX), force_terminal=True)
    with console.capture() as captured:
        console.print(Markdown(text, hyperlinks=False))
    if (shown := captured.get()).count("\n") < lines:
        write(shown.splitlines())
        return
    with naming(STANDARD_OUTPUT):
        click.echo_via_pager(shown, color=True)
