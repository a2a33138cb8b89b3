"""Positions in a scalar are positions in its file, for every text and every way to write it."""

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import scaled

from ykactor.wire.queuefile.manifests import Origin

#: Pieces with what YAML changes between source and value: breaks, blanks, quotes, escapes.
PIECES = st.sampled_from(
    ["a", "b:", "- ", "'", '"', "\\", "\n", "\n\n", "  ", "\t", "#", "\u00e4", "😀", "\u2028", "\x85", "|", "&x ", "!y "]
)
TEXTS = st.lists(PIECES, max_size=25).map("".join)
STYLES = st.sampled_from(["|", ">", "'", '"'])


@settings(max_examples=scaled(400))
@given(TEXTS, STYLES, st.booleans(), st.integers(10, 100))
def test_every_visible_character_is_found(text: str, style: str, is_ascii: bool, width: int) -> None:
    """CF-88: the position of a visible character in the value leads to this character, or to its escape, in the file."""
    file = yaml.dump({"x": [{"key": text}]}, default_style=style, allow_unicode=not is_ascii, width=width)
    *_, event = (event for event in yaml.parse(file, yaml.SafeLoader) if isinstance(event, yaml.ScalarEvent))
    origin = Origin(file, event.start_mark.line + 1, event.start_mark.column + 1, event.style or "", event.value)
    file_lines, lines = file.splitlines(), event.value.splitlines()
    for number, line in enumerate(lines, 1):
        for column, character in enumerate(line, 1):
            if not character.isspace():
                at_line, at_column = origin(number, column)
                found = file_lines[at_line - 1][at_column - 1 :]
                assert found.startswith((character, "\\"))


@settings(max_examples=scaled(200))
@given(TEXTS, STYLES, st.integers(1, 30), st.integers(1, 30))
def test_any_position(text: str, style: str, line: int, column: int) -> None:
    """CF-88: also white space and the end of the text have a position in the file."""
    file = yaml.dump({"key": text, "z": 1}, default_style=style)
    _, event, *_ = (event for event in yaml.parse(file, yaml.SafeLoader) if isinstance(event, yaml.ScalarEvent))
    origin = Origin(file, event.start_mark.line + 1, event.start_mark.column + 1, event.style or "", event.value)
    at_line, at_column = origin(line, column)
    assert 1 <= at_line <= file.count("\n") + 2
    assert at_column >= 1
