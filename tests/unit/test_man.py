"""The manual page."""

import re
from functools import cache
from pathlib import Path

import click

from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.man import page

HANDBOOK = Path(__file__).parents[2] / "ykactor" / "handbook"


@cache
def lines() -> list[str]:
    """The lines of the page, without its marks."""
    return [line.replace("\\-", "-").replace("\\&", "") for line in page(main)]


def test_every_command_is_described() -> None:
    """Each command has its options, those of subcommands too; the options of connections come once, but ``serve`` has its own."""
    titles = [line for line in lines() if line.startswith(".SS")]
    for name in main.list_commands(click.Context(main)):
        assert any(line.startswith(f'.SS "ykactor {name} ') for line in titles)
    assert '.SS "ykactor token create [OPTIONS] IDENTITY"' in titles
    assert '.SS "ykactor token [OPTIONS] COMMAND [ARGS]..."' not in titles
    assert '.SS "ykactor kubernetes [OPTIONS] [COMMAND] [ARGS]..."' in titles  # it runs without a subcommand too
    assert lines().count(r"\fB--scheduler-name NAME\fR") == 1
    assert lines().count(r"\fB--url URL\fR") == 1
    assert lines().count(r"\fB--insecure\fR") == 2


def test_codes_and_variables_are_those_of_the_handbook() -> None:
    """The tables of its chapters, in short."""
    chapters = {path.name: path.read_text() for path in HANDBOOK.glob("*.md")}
    section = chapters["commands.md"].partition("## Exit codes\n")[2].partition("\n## ")[0]
    codes = re.findall(r"^\| (\d+) \|", section, re.MULTILINE)
    text = lines()
    status = text[text.index(".SH EXIT STATUS") :]
    assert [line for line in codes if rf"\fB{line}\fR" in status] == codes
    environment = text[text.index(".SH ENVIRONMENT") : text.index(".SH EXIT STATUS")]
    names = [re.sub(r"\\f[BR]", "", line) for line in environment if line.startswith(r"\fB")]
    handbook = "".join(chapters.values())
    assert [name for name in names if f"`{name}`" not in handbook and f"`{name}=" not in handbook] == []


def test_no_text_is_taken_for_a_command() -> None:
    """Lines that begin with a full stop are macros of man pages; quotes and backslashes of texts are escaped."""
    macros = {line.split()[0] for line in lines() if line.startswith((".", "'"))}
    assert macros == {".TH", ".SH", ".SS", ".PP", ".TP", ".B"}
    odd = click.Group("odd", commands={"x": click.Command("x", help='.so /etc/passwd\n\n\'a \\fB "b"')})
    assert r"\&.so /etc/passwd" in list(page(odd))
    assert r"\&'a \efB \(dqb\(dq" in list(page(odd))
