"""The rules that travel with the code: every code that is cited has one, and every rule is proved somewhere."""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from ykactor.rules import load, parse

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, TESTS = ROOT / "ykactor", ROOT / "tests"
SUBJECTS = ("AP", "CF", "DU", "E", "EV", "GA", "OP", "P", "PE", "PL", "PR", "QU", "RE", "SC", "SE")

_CITED = re.compile(r"\b([A-Z]{2}-|[EP])(\d+)([a-z]?)\b(?: to (?:[A-Z]{2}-|[EP])(\d+)([a-z]?)\b)?")
#: Codes of queue files have no hyphen, so that other names look like them; they are cited where queue files are read.
_QUEUE_FILES = re.compile(r"ykactor/wire/|tests/unit/test_queue")
_SECTION = re.compile(rf"\b[Ss]ections? \d.*|\d of ({'|'.join(SUBJECTS)})\b|\b({'|'.join(SUBJECTS)})-\d+\.\d")


def sources(*folders: Path) -> Iterator[Path]:
    """All files but those that try out codes: they prove nothing of a rule."""
    for folder in folders:
        yield from (path for path in sorted(folder.rglob("*.py")) if not path.name.startswith("test_rule"))


def cited(*folders: Path) -> dict[str, Path]:
    """Every code that is cited below ``folders``, with a file that does; a range cites all rules in it."""
    found: dict[str, Path] = {}
    for path in sources(*folders):
        has_queue_files = _QUEUE_FILES.search(path.relative_to(ROOT).as_posix())
        for subject, first, suffix, last, last_suffix in _CITED.findall(path.read_text()):
            if subject.rstrip("-") not in SUBJECTS or ("-" not in subject and not has_queue_files):
                continue
            codes = [f"{subject}{first}{suffix}", *([f"{subject}{last}{last_suffix}"] if last else [])]
            between = (rule for rule in load() if last and subject == _subject(rule) and int(first) < _number(rule) < int(last))
            found |= dict.fromkeys([*codes, *between], path)
    return found


def _subject(code: str) -> str:
    return code.rstrip("abcdefghijklmnopqrstuvwxyz").rstrip("0123456789")


def _number(code: str) -> int:
    return int(re.findall(r"\d+", code)[0])


def test_every_code_that_is_cited_has_a_rule() -> None:
    """Whoever meets a code in the code or in a test can look it up."""
    unknown = {code: path for code, path in cited(PACKAGE, TESTS).items() if code not in load()}
    assert unknown == {}


def test_every_rule_is_cited_in_a_test() -> None:
    """A rule that no test names is a claim without proof."""
    assert set(load()) - set(cited(TESTS)) == set()


def test_rules_are_cited_by_code() -> None:
    """The pages have no numbered sections, so nothing refers to one."""
    left = [(path, match[0]) for path in sources(PACKAGE, TESTS) for match in _SECTION.finditer(path.read_text())]
    assert left == []


def test_titles() -> None:
    """A title is a short heading: up to 70 characters, without a dot at its end."""
    assert [rule.code for rule in load().values() if len(rule.title) > 70 or rule.title.endswith(".")] == []


@pytest.mark.parametrize("path", sorted((PACKAGE / "rules").glob("*.md")), ids=lambda path: path.name)
def test_pages(path: Path) -> None:
    """A page has one title, an introduction and sections; each rule stands below a section."""
    title, *rest = path.read_text().splitlines()
    headings = [line.partition(" ")[0] for line in rest if line.startswith("#")]
    introduction = "".join(takewhile(lambda line: not line.startswith("#"), rest))
    assert title.startswith("# ")
    assert introduction
    assert headings[0] == "##"
    assert set(headings) == {"##", "###"}


def test_the_handbook_says_how_to_look_codes_up() -> None:
    """The chapter about commands names the command, and the essay on how it is built names the pages."""
    assert "`rule CODE...`" in (PACKAGE / "handbook" / "commands.md").read_text()
    assert "`rules/`" in (PACKAGE / "README.md").read_text()


# ---- reading a page


def test_a_rule_ends_at_the_next_heading() -> None:
    """Titles of pages and sections, and what stands below them, belong to no rule."""
    page = "# Page\n\nAbout.\n\n## One\n\n### PE-1 A title\n\nA text.\n\n- of lines\n\n## Two\n\n### E36a Another\nText.\n"
    first, second = parse({"page.md": page}).values()
    assert (first.code, first.title, first.text, first.page) == ("PE-1", "A title", "A text.\n\n- of lines", "page.md")
    assert (second.code, second.title, second.text) == ("E36a", "Another", "Text.")


@pytest.mark.parametrize("rule", ["### PE-1\n\nText.", "### PE-1 Title\n", "### A title\n\nText.", "### PE1 Title\n\nText."])
def test_a_rule_needs_code_title_and_text(rule: str) -> None:
    """A heading of a rule that is not well-formed is a mistake of ours, and is said."""
    with pytest.raises(ValueError, match="expected '### CODE Title'"):
        parse({"page.md": rule})


def test_a_code_is_given_once() -> None:
    """Also on two pages."""
    with pytest.raises(ValueError, match=r"b\.md: found a second rule PE-1, the first one is in a\.md"):
        parse({"a.md": "### PE-1 Title\nText.", "b.md": "### PE-1 Other\nText."})
