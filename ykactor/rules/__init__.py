"""The numbered rules of the scheduler, which code, tests and messages cite by code: the reader of the pages beside this file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

from msgspec import Struct

#: ``PE-25`` of a subject, ``E36a`` and ``P8`` of queue files.
_CODE = re.compile(r"(?:[A-Z]{2}-|[EP])\d+[a-z]?")
_RULE_MARK, _HEADING_MARK = "### ", "#"


class Rule(Struct, frozen=True):
    """One rule: its code, its title, its text in Markdown, and the name of its page."""

    code: str
    title: str
    text: str
    page: str


@cache
def load() -> dict[str, Rule]:
    """All rules by code, page by page, in the order in which they are written."""
    pages = sorted(
        (file for file in resources.files(__name__).iterdir() if file.name.endswith(".md")),
        key=lambda file: file.name,
    )
    return parse({page.name: page.read_text(encoding="utf-8") for page in pages})


def parse(pages: Mapping[str, str]) -> dict[str, Rule]:
    """The rules of ``pages`` (name -> Markdown) by code.

    A rule begins with ``### CODE Title`` and ends at the next heading of any level. What else a page says belongs to no rule.

    Raises:
        ValueError for a rule without a code, a title or a text, and for a code that is given twice.
    """
    rules: dict[str, Rule] = {}
    for page, text in pages.items():
        for heading, lines in _sections(text):
            if not heading.startswith(_RULE_MARK):
                continue
            code, _, title = heading.removeprefix(_RULE_MARK).partition(" ")
            rule = Rule(code, title.strip(), "\n".join(lines).strip(), page)
            if not _CODE.fullmatch(code) or not rule.title or not rule.text:
                raise ValueError(f"{page}: found {heading!r}, expected '### CODE Title' and a text below it")
            if code in rules:
                raise ValueError(f"{page}: found a second rule {code}, the first one is in {rules[code].page}")
            rules[code] = rule
    return rules


def _sections(text: str) -> list[tuple[str, list[str]]]:
    """Each heading with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(_HEADING_MARK):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return found
