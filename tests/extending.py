"""The diffs of ``ykactor/handbook/extending.md``, made of the examples in ``tests/additions``.

Run it to write them into the chapter: ``python tests/extending.py``. The chapter names the example of each diff before it.
"""

from __future__ import annotations

import re
from difflib import unified_diff
from pathlib import Path

from additions import applying

CHAPTER: Path = applying.PACKAGE / "handbook" / "extending.md"
_DIFF = re.compile(r"^```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_EXAMPLE = re.compile(r"`tests/additions/(\w+)\.py`")


def diff_of(kind: str) -> str:
    """The changes of an example with a line around each, without numbers of lines, which other changes move."""
    lines = []
    for name, edits in applying.edits_of(kind).items():
        old = new = (applying.PACKAGE / name).read_text()
        for edit in edits:
            new = edit(new)
        path = f"ykactor/{name}"
        changes = unified_diff(old.splitlines(), new.splitlines(), path, path, n=1, lineterm="")
        lines += ["@@" if line.startswith("@@") else line for line in changes]
    return "\n".join(lines) + "\n"


def diffs_in(text: str) -> dict[str, str]:
    """The diffs of a chapter by the examples that are named before them."""
    return {_EXAMPLE.findall(text[: found.start()])[-1]: found[1] for found in _DIFF.finditer(text)}


def written(text: str) -> str:
    """The chapter with new diffs."""
    return _DIFF.sub(lambda found: f"```diff\n{diff_of(_EXAMPLE.findall(text[: found.start()])[-1])}```", text)


if __name__ == "__main__":
    CHAPTER.write_text(written(CHAPTER.read_text()))
