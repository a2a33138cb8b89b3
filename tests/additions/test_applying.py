"""Examples of additions fail by their names: where a place is gone, where one does not work, and without one of its files."""

from pathlib import Path

import pytest
from additions import applying, sort_policy
from additions.applying import after, before, replaced

TEXT = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


def test_places_are_named_by_lines() -> None:
    """Whatever is around them, and how far they are indented."""
    assert before("def two(", "X = 0\n\n\n")(TEXT) == TEXT.replace("def two", "X = 0\n\n\ndef two")
    assert after("return 1", "    # done\n")(TEXT) == TEXT.replace("return 1\n", "return 1\n    # done\n")
    assert replaced("return 2", "return 3")(TEXT) == TEXT.replace("2", "3")


@pytest.mark.parametrize("edit", [before("def", ""), after("class", ""), replaced("return", "")])
def test_a_place_is_found_once(edit: applying.Edit) -> None:
    """A line or a text that is there several times, or not at all, is no place."""
    with pytest.raises(LookupError, match="found"):
        edit(TEXT)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that is written where no place is, and a policy that is only half there."""
    edits = {"core/placement/rules.py": [after("no such line", "")]}
    half = {name: edits for name, edits in sort_policy.EDITS.items() if "leaf_order" not in name}
    found = {"placement_rule": edits, "sort_policy": half, "metric": applying.edits_of("metric")}
    monkeypatch.setattr(applying, "edits_of", found.__getitem__)


@pytest.mark.usefixtures("broken")
def test_a_failure_names_the_example_and_the_file(tmp_path: Path) -> None:
    """The others work, and one that does not work is told with what it found."""
    outcomes = applying.outcomes(["placement_rule", "sort_policy", "metric"], tmp_path)
    where = "the example placement_rule cannot be applied to core/placement/rules.py"
    assert outcomes["placement_rule"].startswith(f"{where}: found 0 lines that begin with 'no such line'")
    assert "the example sort_policy does not work" in outcomes["sort_policy"]
    assert "KeyError: 'lifo'" in outcomes["sort_policy"]
    assert outcomes["metric"] == ""


def test_every_example_is_counted() -> None:
    """An example that is recorded has a number of files that it may touch."""
    from test_architecture import FILES_TOUCHED

    recorded = {path.stem for path in Path(applying.__file__).parent.glob("[a-z]*.py")} - {"applying", "test_applying"}
    assert recorded == set(FILES_TOUCHED)
