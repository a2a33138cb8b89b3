"""The help of commands: groups, examples, and the options of connections once."""

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from ykactor.surfaces.cli.examples import EXAMPLES
from ykactor.surfaces.cli.jobs import script
from ykactor.surfaces.cli.main import GROUPS, main
from ykactor.surfaces.cli.summaries import SUMMARIES


def leaves(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """The words of each command that runs, and the command."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=ctx)
        words = below.command_path.partition(" ")[2]
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield words, command
        if isinstance(command, click.Group):
            yield from leaves(command, below)


LEAVES = dict(leaves(main, click.Context(main, info_name="ykactor")))


def printed(*arguments: str, expect: int = 0) -> str:
    done = CliRunner().invoke(main, arguments, prog_name="ykactor")
    assert done.exit_code == expect, done.output
    return done.output


def test_each_command_has_two_examples() -> None:
    """All commands, and no other words."""
    assert set(EXAMPLES) == set(LEAVES)
    assert [words for words, examples in EXAMPLES.items() if len(set(examples)) != 2] == []


@pytest.mark.parametrize("words", EXAMPLES)
def test_each_example_can_be_typed(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example is a command line without mistakes, whatever files are there."""
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
    monkeypatch.setattr(script, "_read", lambda name: b"#!/bin/sh\n")
    for example in EXAMPLES[words]:
        line = next(part for part in example.split(" | ") if f"ykactor {words}" in part)
        more = ["NAME"] if line.startswith("xargs ") else []
        arguments = [*shlex.split(line.partition(" > ")[0].partition("ykactor ")[2]), *more]
        given = arguments[len(words.split()) :]
        command = LEAVES[words]
        ctx = command.make_context(words, [*given], resilient_parsing=isinstance(command, click.Group))
        assert ctx.args == []


def test_help_is_in_groups() -> None:
    """The first thing that is shown is what most people want to do; every command is in one group."""
    text = printed("--help")
    places = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert printed("help") == text


def test_the_line_of_a_command_is_a_whole_sentence() -> None:
    """Nothing is cut in 80 columns, and each line that is written for the list belongs to a command."""
    assert [line for line in printed("--help").splitlines()[1:] if line.endswith("...") or len(line) > 80] == []
    assert set(SUMMARIES) <= set(main.list_commands(click.Context(main)))


def test_connection_options_are_described_once() -> None:
    """Options of connections are in their own topic, to which the help of commands that have them refers."""
    topic = printed("help", "connection")
    options = ("--url URL", "--token-file", "--tls-ca", "--tls-cert", "--tls-key", "--insecure")
    assert [option for option in options if option not in topic] == []
    for words in "queues", "config plan", "cancel":
        text = printed("help", *words.split())
        assert [option for option in options if option in text] == []
        assert "ykactor help connection" in text
        assert EXAMPLES[words][1] in text
        assert text == printed(*words.split(), "--help")
    assert "help connection" not in printed("help", "rule")
    assert "found 'x', but ykactor run has no commands" in printed("help", "run", "x", expect=2)
    assert "No such command 'squeue', expected ykactor jobs" in printed("help", "squeue", expect=2)
    assert "No such command 'x'" in printed("help", "config", "x", expect=2)
