"""``ykactor rule``: what a code such as ``PE-25`` means that a message, a comment or a test names."""

import re
import sys
from collections.abc import Iterable

import click
from rich.console import Console
from rich.markdown import Markdown

from ykactor.rules import Rule, load

#: Codes that a mistake names because they are near to the one that was given.
NEAR_MAX = 3
_NUMBER = re.compile(r"\d+")


@click.command()
@click.argument("codes", metavar="[CODE]...", nargs=-1)
@click.option("--list", "is_list", is_flag=True, help="Print codes and titles: of all rules, or of those that begin with CODE.")
def command(codes: tuple[str, ...], is_list: bool) -> None:
    """Print the rules with these codes, such as PE-25 or E36a, in upper or lower case.

    Exits 2 for a code that no rule has.
    """
    if is_list:
        for rule in _listed(codes):
            click.echo(f"{rule.code}  {rule.title}")
    elif not codes:
        raise click.UsageError("Missing argument 'CODE': one or more codes, or --list.")
    else:
        _print([_find(code) for code in codes])


def _listed(prefixes: tuple[str, ...]) -> list[Rule]:
    """The rules whose codes begin with one of ``prefixes``; all of them if there are none."""
    wanted = tuple(prefix.upper() for prefix in prefixes)
    found = [rule for rule in load().values() if not wanted or rule.code.upper().startswith(wanted)]
    if not found:
        shown = " ".join(prefixes)
        raise click.UsageError(f"found {shown}, expected the beginning of a code; ykactor rule --list prints all codes")
    return found


def _find(code: str) -> Rule:
    rules = {name.upper(): rule for name, rule in load().items()}
    found = rules.get(code.upper())
    if found is None:
        near = ", ".join(_near(code, load()))
        hint = f"near are {near}; " if near else ""
        raise click.UsageError(f"no rule has the code {code}; {hint}ykactor rule --list prints all codes")
    return found


def _near(code: str, codes: Iterable[str]) -> list[str]:
    """The codes of the same subject with the nearest numbers, in order."""
    number = _NUMBER.search(code)
    if number is None:
        return []
    subject, wanted = code[: number.start()].upper(), int(number[0])
    distances = [(abs(value - wanted), value, it) for it in codes if (value := _number_of(it, subject)) is not None]
    return [it for _, _, it in sorted(sorted(distances)[:NEAR_MAX], key=lambda entry: entry[1:])]


def _number_of(code: str, subject: str) -> int | None:
    number = _NUMBER.search(code)
    return int(number[0]) if number is not None and code[: number.start()] == subject else None


def _print(rules: list[Rule]) -> None:
    """As formatted Markdown on a terminal, else as it is written."""
    if sys.stdout.isatty():
        Console().print(Markdown("\n\n".join(f"## {rule.code} {rule.title}\n\n{rule.text}" for rule in rules)))
    else:
        click.echo("\n\n".join(f"{rule.code} {rule.title}\n\n{rule.text}" for rule in rules))
