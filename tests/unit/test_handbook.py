"""The README and the chapters of ``ykactor/handbook``: what a reader is sent to is there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HANDBOOK = ROOT / "ykactor" / "handbook"
PAGES = sorted(
    path for pattern in ("*.md", ".github/*.md", "bench/*.md", "systemd/*.md", "ykactor/**/*.md") for path in ROOT.glob(pattern)
)
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def prose_of(path: Path) -> str:
    """The text of a page without its blocks of code."""
    return _FENCE.sub("", path.read_text())


@cache
def anchors_of(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page; a second heading with the same words gets a number."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose_of(path), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = next(number for number in range(len(found) + 1) if f"{slug}-{number}".removesuffix("-0") not in found)
        found.add(f"{slug}-{number}".removesuffix("-0"))
    return found


def broken_links(path: Path) -> list[str]:
    """The links to files that do not exist, or to headings that their page does not have."""
    broken = []
    for link in _LINK.findall(prose_of(path)):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    """Files are there, and headings in them."""
    assert broken_links(path) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """A missing file, a missing heading, and neither of them in a block of code; the second heading of a name has a number."""
    (tmp_path / "b.md").write_text("# `B` (one)\n\n## B one\n")
    page = tmp_path / "a.md"
    page.write_text("# A\n\n[1](c.md) [2](b.md#b) [3](b.md#b-one-1) [4](#a) [5](#b)\n\n```\n[6](c.md)\n```\n")
    assert broken_links(page) == ["c.md", "b.md#b", "#b"]


def test_the_index_names_every_chapter() -> None:
    """Each chapter has one row, and a sentence."""
    rows = re.findall(r"^\| \[.+\]\(([\w-]+\.md)\) \| .+ \|$", (HANDBOOK / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted({path.name for path in HANDBOOK.glob("*.md")} - {"README.md"})


def test_the_readme_is_short() -> None:
    """A newcomer reads it whole; what is longer belongs into a chapter."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 170
