"""``ykactor rule``: prints the rule of a code such as ``PE-25`` in a message, a comment or a test."""

import re
from collections.abc import Iterable

import click

from ykactor.rules import Rule, load
from ykactor.surfaces.cli.reading import show
from ykactor.surfaces.cli.terminal import is_terminal, say, say_lines

#: Similar codes that the error for an unknown code shows.
NEAR_MAX = 3
_NUMBER = re.compile(r"(\d+)")


@click.command()
@click.argument("codes", metavar="[CODE]...", nargs=-1)
@click.option("--list", "is_list", is_flag=True, help="Print codes and titles: of all rules, or of those that begin with CODE.")
def command(codes: tuple[str, ...], is_list: bool) -> None:
    """Print the rules with these codes. A code is, for example, PE-25 or E36a, in upper or lower case; PE stands for all codes
    that begin with it.

    Exits with code 2 if no rule has the code.
    """
    if is_list:
        for rule in _listed(codes):
            say(f"{rule.code}  {rule.title}")
    elif not codes:
        raise click.UsageError("Missing argument 'CODE': one or more codes, or --list.")
    else:
        _print([rule for code in codes for rule in _find(code)])


def _listed(prefixes: tuple[str, ...]) -> list[Rule]:
    """The rules whose codes begin with one of ``prefixes``; all rules without prefixes."""
    wanted = tuple(prefix.upper() for prefix in prefixes)
    found = [rule for rule in _in_order() if not wanted or rule.code.upper().startswith(wanted)]
    if not found:
        shown = " ".join(prefixes)
        raise click.UsageError(f"no rule has a code that begins with {shown}; ykactor rule --list prints all codes")
    return found


def _find(code: str) -> list[Rule]:
    """The rule with the code; all rules of the subject if the code has no number."""
    wanted = code.upper()
    found = [rule for rule in _in_order() if wanted in (rule.code.upper(), _parts(rule.code)[0].rstrip("-"))]
    if not found:
        near = ", ".join(_near(code, load()))
        hint = f"similar codes: {near}; " if near else ""
        raise click.UsageError(f"no rule has the code {code}; {hint}ykactor rule --list prints all codes")
    return found


def _in_order() -> list[Rule]:
    """All rules by subject and number."""
    return sorted(load().values(), key=lambda rule: _parts(rule.code))


def _parts(code: str) -> tuple[str, int, str]:
    """The parts of ``PE-25`` or ``E36a``: subject, number, and the letter behind it."""
    subject, number, letter = _NUMBER.split(code, maxsplit=1)
    return subject, int(number), letter


def _near(code: str, codes: Iterable[str]) -> list[str]:
    """The codes of the same subject with the nearest numbers, in order."""
    number = _NUMBER.search(code)
    if number is None:
        return []
    subject, wanted = code[: number.start()].upper(), int(number[0])
    distances = [(abs(value - wanted), value, name) for name in codes if (value := _number_of(name, subject)) is not None]
    return [name for _, _, name in sorted(sorted(distances)[:NEAR_MAX], key=lambda entry: entry[1:])]


def _number_of(code: str, subject: str) -> int | None:
    number = _NUMBER.search(code)
    return int(number[0]) if number is not None and code[: number.start()] == subject else None


def _print(rules: list[Rule]) -> None:
    """Formatted on a terminal; otherwise the Markdown text as it is."""
    if is_terminal():
        show("\n\n".join(f"## {rule.code} {rule.title}\n\n{rule.text}" for rule in rules))
    else:
        say_lines("\n\n".join(f"{rule.code} {rule.title}\n\n{rule.text}" for rule in rules))
