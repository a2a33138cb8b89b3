"""Examples of what is added to the product most often: one module for each kind, with ``EDITS`` and a function ``works``.

``EDITS`` says what the example writes in which file of ``ykactor/``; the number of these files is what such an addition costs,
but for docs, tests and what ``pagetypes`` writes. Places in files are named by the beginnings of lines, so that other changes do
not matter. ``works`` proves that the example does what it says, in a process that imports the changed files instead of those of
the product (``__main__``). All examples are applied together, and have to fit together.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = TESTS.parent / "ykactor"
#: Makes the new text of a file of the old one. Raises ``LookupError`` if its place is not there.
Edit = Callable[[str], str]
Edits = Mapping[str, Sequence[Edit]]


def before(line: str, text: str) -> Edit:
    """``text`` in front of the only line that begins with ``line``, apart from its indentation."""

    def edit(old: str) -> str:
        lines = old.splitlines(keepends=True)
        at = _index(lines, line)
        return "".join([*lines[:at], text.lstrip("\n"), *lines[at:]])

    return edit


def after(line: str, text: str) -> Edit:
    """The same behind this line."""

    def edit(old: str) -> str:
        lines = old.splitlines(keepends=True)
        at = _index(lines, line) + 1
        return "".join([*lines[:at], text.lstrip("\n"), *lines[at:]])

    return edit


def replaced(old_text: str, new_text: str) -> Edit:
    """``new_text`` instead of the only ``old_text``."""

    def edit(old: str) -> str:
        if old.count(old_text) != 1:
            raise LookupError(f"found {old_text!r} {old.count(old_text)} times, expected once")
        return old.replace(old_text, new_text)

    return edit


def _index(lines: list[str], start: str) -> int:
    found = [index for index, line in enumerate(lines) if line.lstrip().startswith(start)]
    if len(found) != 1:
        raise LookupError(f"found {len(found)} lines that begin with {start!r}, expected one")
    return found[0]


def edits_of(kind: str) -> Edits:
    """The edits of the example of this kind."""
    edits: Edits = importlib.import_module(f"additions.{kind}").EDITS
    return edits


def apply(kinds: Sequence[str], into: Path) -> dict[str, str]:
    """Write the changed files below ``into``, with all examples. Returns why one cannot be applied, by its kind."""
    failures = {}
    for kind in kinds:
        try:
            changed = _changed(edits_of(kind), into)
        except LookupError as error:
            failures[kind] = f"the example {kind} cannot be applied to {error}"
            continue
        for file, text in changed.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return failures


def _changed(edits: Edits, into: Path) -> dict[Path, str]:
    """The files that an example writes, over what is there of other examples, else over the product."""
    changed = {}
    for name, of_file in edits.items():
        file = into / "ykactor" / name
        source = next((source for source in (file, PACKAGE / name) if source.exists()), None)
        text = "" if source is None else source.read_text()
        for edit in of_file:
            try:
                text = edit(text)
            except LookupError as error:
                raise LookupError(f"{name}: {error}") from None
        changed[file] = text
    return changed


def outcomes(kinds: Sequence[str], into: Path) -> dict[str, str]:
    """Apply all examples and let each show that it works. Returns by kind what is wrong, "" if nothing is."""
    failures = apply(kinds, into)
    ready = [kind for kind in kinds if kind not in failures]
    command = [sys.executable, "-m", "additions", str(into), *ready]
    # Files that are not changed come from the checkout too: an installed package may have compiled ones, which use each other.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent)))}
    run = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=180)
    told = json.loads(run.stdout) if run.returncode == 0 else dict.fromkeys(ready, run.stderr)
    return told | failures
