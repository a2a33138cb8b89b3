"""The documents that travel with the code: the chapters beside this file, the rules, scenarios and the design."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from importlib import resources

from msgspec import Struct

#: Documents beside the chapters and the rules, by name: their files below the package.
_OTHERS = {"scenarios": "sim/README.md", "design": "README.md"}
#: The name of the list of chapters.
INDEX = "handbook"
#: Longer words are compared by their beginning.
_COMPARED_MAX = 40
_FENCE, _HEADING = "```", re.compile(r"#{1,3} (.+)")


class Document(Struct, frozen=True):
    """A document.

    Attributes:
        name: for people, such as ``jobs`` or ``rules/queues``.
        path: of its file, below the package.
        text: in Markdown.
    """

    name: str
    path: str
    text: str

    @property
    def title(self) -> str:
        """Its first heading."""
        return self.text.partition("\n")[0].lstrip("# ")


class Section(Struct, frozen=True):
    """A heading with the text below it, up to the next heading.

    Attributes:
        line: of the heading, from 1 on.
        text: with the heading, in Markdown.
    """

    document: Document
    title: str
    line: int
    text: str


@cache
def load() -> dict[str, Document]:
    """All documents by name: the chapters in the order of their list, then the others, then the rules."""
    package = resources.files("ykactor")
    index = (package / "handbook" / "README.md").read_text(encoding="utf-8")
    found = {INDEX: "handbook/README.md"}
    found |= {name: f"handbook/{name}.md" for name in re.findall(r"\]\(([\w-]+)\.md\)", index)}
    rules = sorted(file.name for file in (package / "rules").iterdir() if file.name.endswith(".md"))
    found |= _OTHERS | {f"rules/{name.removesuffix('.md')}": f"rules/{name}" for name in rules}
    return {name: Document(name, path, package.joinpath(path).read_text(encoding="utf-8")) for name, path in found.items()}


def sections(document: Document) -> Iterator[Section]:
    """The sections of a document, in order."""
    lines, is_code, begins = document.text.splitlines(), False, [0]
    for number, line in enumerate(lines):
        is_code ^= line.startswith(_FENCE)
        if number and not is_code and _HEADING.match(line):
            begins.append(number)
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        yield Section(document, lines[begin].lstrip("# "), begin + 1, "\n".join(lines[begin:end]).strip())


def find(words: list[str]) -> list[Section]:
    """The sections that have all words, or longer words that begin with them: headings that have them first, then the most."""
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE) for word in words]
    found = []
    for section in (section for document in load().values() for section in sections(document)):
        if all(counts := [len(pattern.findall(section.text)) for pattern in patterns]):
            in_title = all(pattern.search(section.title) for pattern in patterns)
            found.append((not in_title, -sum(counts), section))
    return [section for *_, section in sorted(found, key=lambda each: each[:2])]


def near(word: str, most: int = 3) -> list[str]:
    """The names and words of documents that are like a word."""
    return get_close_matches(word.casefold()[:_COMPARED_MAX], _vocabulary(), n=most)


@cache
def _vocabulary() -> list[str]:
    words = {word for document in load().values() for word in re.findall(r"[a-z][\w-]{2,}", document.text.casefold())}
    return [*load(), *sorted(words - set(load()))]


def target(document: Document, link: str) -> tuple[Document, str] | None:
    """The document that a relative link leads to, with the anchor in it; None for anything else."""
    path, _, anchor = link.partition("#")
    if not path:
        return document, anchor
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(document.path), path))
    found = next((other for other in load().values() if other.path == wanted), None)
    return (found, anchor) if found is not None else None


def anchors(titles: list[str]) -> list[str]:
    """The anchors of headings, as GitHub makes them: a further heading with the same words gets a number."""
    found: dict[str, None] = {}
    for title in titles:
        plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        numbered = (f"{plain}-{number}" if number else plain for number in range(len(found) + 1))
        found[next(anchor for anchor in numbered if anchor not in found)] = None
    return [*found]
