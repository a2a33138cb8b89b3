"""``core/inspection/finding.py``: the names that are most like one that is not known (AP-153)."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import pytest

from ykactor.core.inspection import finding
from ykactor.core.inspection.finding import nearest

#: The longest name of a request, and one of which each letter is like each other one.
LONG = "a" * 4096


@pytest.mark.parametrize("name", [LONG, LONG[:600], "a" * 63 + "b"])
def test_long_names_are_compared_by_their_ends(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The time of a comparison grows with the product of both lengths; a name of 4 KiB took seconds between two turns."""
    compared: list[int] = []

    def matcher(junk: None, one: str, other: str) -> SequenceMatcher[Any]:
        compared.append(len(one) * len(other))
        return SequenceMatcher(junk, one, other)

    monkeypatch.setattr(finding, "SequenceMatcher", matcher)
    known = [f"{LONG[:190]}{number}" for number in range(50)]
    assert set(nearest(name, known)) <= set(known)
    assert (len(compared), max(compared) <= 64 * 64) == (50, True)


def test_the_begin_and_the_end_of_a_long_name_count() -> None:
    """Names that differ in one of them are less like than those that differ between them."""
    name = f"spark-{'0' * 200}-driver"
    between = name.replace("000000", "000001", 1)
    assert nearest(name, ["x" * 200, f"{name[:150]}{'z' * 60}", between]) == [between, f"{name[:150]}{'z' * 60}"]
    assert nearest("App-1", ["app-1", "app-2", "zzz"]) == ["app-1", "app-2"]
