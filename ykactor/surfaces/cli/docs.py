"""``ykactor docs``: chapters of the handbook, and what it and the rules say about a word."""

from __future__ import annotations

import click

from ykactor import handbook
from ykactor.handbook import Section
from ykactor.surfaces.cli.reading import show

#: Sections about words that are printed whole, and further ones that are named.
SHOWN_MAX, NAMED_MAX = 3, 20


def _names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in handbook.load() if name.startswith(incomplete)]


@click.command()
@click.argument("words", metavar="[CHAPTER|WORD...]", nargs=-1, shell_complete=_names)
def command(words: tuple[str, ...]) -> None:
    """Print CHAPTER of the handbook, or the sections of handbook and rules that have all words.

    Without either it prints the list of chapters. On a terminal the pager in PAGER shows long texts.

    Exits with code 2 if nothing has the words.
    """
    documents, words = handbook.load(), tuple(" ".join(words).split())
    if not words:
        show(documents[handbook.INDEX].text)
    elif len(words) == 1 and words[0].lower() in documents:
        show(documents[words[0].lower()].text)
    elif found := handbook.find(list(words)):
        show(_printed(found))
    else:
        raise click.UsageError(_unknown(words))


def _printed(found: list[Section]) -> str:
    """The first sections with their places, and the places of others."""
    parts = [f"`{_place(section)}`\n\n{section.text}" for section in found[:SHOWN_MAX]]
    others = found[SHOWN_MAX:]
    if others:
        names = [f"- `{_place(section)}` {section.title}" for section in others[:NAMED_MAX]]
        more = [f"- and {len(others) - NAMED_MAX} more"] if len(others) > NAMED_MAX else []
        parts.append("\n".join(["Also in:", "", *names, *more]))
    return "\n\n".join(parts)


def _place(section: Section) -> str:
    return f"{section.document.name}:{section.line}"


def _unknown(words: tuple[str, ...]) -> str:
    near = list(dict.fromkeys(other for word in words if not handbook.find([word]) for other in handbook.near(word)))
    hint = f"; similar: {', '.join(near)}" if near else ""
    return f"no section has {' and '.join(words)}{hint}; ykactor docs lists the chapters"
