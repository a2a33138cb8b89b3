"""The README and the chapters of ``ykactor/handbook``: what a reader is sent to is there."""

import re
import shlex
from functools import cache
from pathlib import Path

import extending
import pytest
import yaml
from click.testing import CliRunner, Result

from ykactor import handbook
from ykactor.surfaces.cli import docs, reading
from ykactor.surfaces.cli.jobs import run
from ykactor.wire import queuefile

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
    """The anchors of the headings of a page."""
    return set(handbook.anchors(re.findall(r"^#+ (.+)$", prose_of(path), re.MULTILINE)))


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


def test_the_settings_for_wishes_are_right() -> None:
    """Each line of the table is a part of a queue file, with nothing to warn of."""
    table = (HANDBOOK / "queues.md").read_text().partition("| you want |")[2].partition("\n\n")[0]
    found = [setting for row in table.splitlines() for setting in re.findall(r"`(\w+: [^`]+)`", row)]
    assert len(found) >= 10
    for setting in found:
        key, value = next(iter(yaml.safe_load(setting).items()))
        queue = {"name": "a"} | ({} if key == "placementrules" else {key: value})
        root = {"name": "root", "submitacl": "*", "queues": [queue]}
        partition = {"name": "default", "queues": [root]} | ({key: value} if key == "placementrules" else {})
        assert queuefile.load(yaml.safe_dump({"partitions": [partition]})).warnings == (), setting


def test_the_options_for_wishes_are_right() -> None:
    """``ykactor run`` takes each option of the table."""
    table = (HANDBOOK / "jobs.md").read_text().partition("| you want |")[2].partition("\n\n")[0]
    found = [options for row in table.splitlines() for options in re.findall(r"`(--[^`]+)`", row)]
    assert len(found) >= 10
    for options in found:
        assert run.command.make_context("run", [*shlex.split(options), "--", "true"]).params, options


# ---- words

#: Words and phrases that are not used, each with the one that is.
NOT = {
    "door": "listener", "doors": "listeners", "who asks": "caller", "told": "notified, sent", "it is free again": "released",
    "of late": "in the last 50 ms", "moments": "timestamps", "incidents": "crash reports", "witness": "high-water mark",
    "enrolment": "limit tracking", "tidy": "compact", "surroundings": "environment", "acted on": "targets",
    "fares alike": "equivalence class", "goes for whom": "preempts", "leaves the order": "is removed from the order",
    "cutting": "incremental decoding", "faces": "flavours", "whoever": "each caller that",
}  # fmt: skip
WORDS = re.findall(r"^\| ([\w -]+) \| (.+) \|$", (HANDBOOK / "glossary.md").read_text(), re.MULTILINE)[1:]


def words_of(path: Path) -> str:
    """The prose of a page in lower case on one line, without what is code in it."""
    return " ".join(re.sub(r"`[^`]*`", "", prose_of(path)).lower().split())


def test_the_glossary_has_the_words_that_are_used() -> None:
    """More than 60, in order; each is in another chapter or in the code, and has one meaning."""
    names = [word for word, _ in WORDS]
    assert names == sorted(set(names))
    assert len(names) >= 60
    chapters = [words_of(path) for path in HANDBOOK.glob("*.md") if path.name != "glossary.md"]
    code = [path.read_text().lower().replace("_", " ") for path in (HANDBOOK.parent / "core").rglob("*.py")]
    texts = "\n".join([*chapters, *code])
    assert [name for name in names if not re.search(rf"\b{re.escape(name)}", texts)] == []


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(HANDBOOK.glob("*.md"))], ids=lambda path: path.name)
def test_a_thing_has_one_word(path: Path) -> None:
    """Chapters use the words of the glossary, and none of those that it replaces."""
    text = words_of(path)
    assert {word: better for word, better in NOT.items() if re.search(rf"\b{word}\b", text)} == {}


# ---- how to add


def test_the_diffs_of_the_chapter_are_those_of_the_examples() -> None:
    """A test of the architecture applies them to a copy and runs them; lines around them may be others by now."""
    changed = lambda text: [line for line in text.splitlines() if line[:1] in "+-"]  # noqa: E731
    diffs = extending.diffs_in(extending.CHAPTER.read_text())
    assert list(diffs) == ["sort_policy", "placement_rule", "executor", "metric", "queue_property", "verb"]
    for kind, diff in diffs.items():
        assert changed(diff) == changed(extending.diff_of(kind)), "run: PYTHONPATH=tests .venv/bin/python tests/extending.py"


# ---- the documents as a program reads them


def test_anchors_are_those_of_github() -> None:
    """Lower case, hyphens for spaces, no other marks; a heading that comes again gets a number."""
    assert handbook.anchors(["`A` (one)", "A one", "A-b, c_d", "A one"]) == ["a-one", "a-one-1", "a-b-c_d", "a-one-2"]


def test_all_documents_are_loaded() -> None:
    """Every chapter, every page of rules, scenarios and the design."""
    package = HANDBOOK.parent
    files = {*HANDBOOK.glob("*.md"), *(package / "rules").glob("*.md"), package / "README.md", package / "sim" / "README.md"}
    assert {package / document.path for document in handbook.load().values()} == files


@pytest.mark.parametrize("document", handbook.load().values(), ids=lambda document: document.name)
def test_sections_make_up_a_document(document: handbook.Document) -> None:
    """Nothing is left out, a comment in a block of code is no heading, and the line is that of the heading."""
    found = [*handbook.sections(document)]
    assert " ".join(section.text for section in found).split() == document.text.split()
    lines = document.text.splitlines()
    assert all(lines[section.line - 1].lstrip("# ") == section.title for section in found)
    assert all(section.text.count("```") % 2 == 0 for section in found)


def test_words_are_found_at_the_beginning_of_words() -> None:
    """``ask`` is in "asks" and not in "task"; all words have to be in a section; headings come first."""
    assert all(re.search(r"(?i)\bask", section.text) for section in handbook.find(["ask"]))
    first, *_ = handbook.find(["Slurm"])
    assert first.title == "A day with Slurm"
    assert all("gang" in each.text.lower() and "slurm" in each.text.lower() for each in handbook.find(["gang", "slurm"]))


def docs_of(*arguments: str) -> Result:
    return CliRunner().invoke(docs.command, [*arguments])


def test_a_chapter_is_printed_whole() -> None:
    """Elsewhere than on a terminal as it is written; in any case; without a name the list of chapters."""
    assert docs_of("Jobs").output == (HANDBOOK / "jobs.md").read_text()
    assert docs_of().output == docs_of("").output == (HANDBOOK / "README.md").read_text()
    assert docs_of("rules/gang").output.startswith("# ")


def test_sections_about_words_have_their_place() -> None:
    """The first ones whole, further ones by name, and how many more there are."""
    output = docs_of("queue").output
    assert len(re.findall(r"^`[\w/-]+:\d+`$", output, re.MULTILINE)) == docs.SHOWN_MAX
    assert len(re.findall(r"^- `[\w/-]+:\d+` .", output, re.MULTILINE)) == docs.NAMED_MAX
    assert re.search(r"^- and \d+ more$", output, re.MULTILINE)
    assert docs_of("preemption delay").output == docs_of("preemption", "delay").output


def test_unknown_words_are_answered_with_similar_ones() -> None:
    """The three nearest, and exit code 2; a very long word is like none."""
    result = docs_of("preemtion")
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        2,
        "Error: no section has preemtion; similar: preemption, preemptions, preempting; ykactor docs lists the chapters",
    )
    assert docs_of("x" * 100_000).exit_code == 2


def test_a_terminal_gets_long_texts_by_the_pager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short ones are printed; both are formatted."""
    paged, printed = list[str](), list[str]()
    monkeypatch.setattr(reading, "is_terminal", lambda: True)
    monkeypatch.setattr(reading.click, "echo_via_pager", lambda text, color: paged.append(text))
    monkeypatch.setattr(reading, "write", printed.extend)
    reading.show("# Short")
    reading.show((HANDBOOK / "jobs.md").read_text())
    assert ["Short" in text and "#" not in text for text in printed] == [True]
    assert ["A day with Slurm" in text and "##" not in text for text in paged] == [True]
