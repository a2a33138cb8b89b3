"""The widths of columns on a terminal, and cells on several lines: a row that the terminal itself wraps cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells

#: The characters of a line of a sentence at least.
_LEAST_OF_SENTENCE = 30
#: The width of the widest characters.
_WIDEST = 2
#: Longer words of a cell may be broken.
_WORD_MAX = 24


def within(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths of columns that fit into a room together, the widest ones made smaller, but not below the least ones."""
    found = list(widths)
    while sum(found) > room:
        flexible = [number for number, width in enumerate(found) if width > least[number]]
        if not flexible:
            break
        widest = max(flexible, key=found.__getitem__)
        below = [found[number] for number in flexible if found[number] < found[widest]]
        found[widest] = max(found[widest] - (sum(found) - room), least[widest], min(found[widest] - 1, max(below, default=0)))
    return found


def has_room(sentence: int, room: int) -> bool:
    """True if sentences of up to this length can stand in a column of this width."""
    return room >= min(sentence, _LEAST_OF_SENTENCE)


def broken(text: str, width: int, *, is_header: bool = False) -> Iterator[str]:
    """The lines of a cell: broken behind blanks, commas, slashes and dots, and in a word that is longer than a line.

    A header is broken behind blanks and its hyphen.
    """
    if cell_len(text) <= width:
        yield text
        return
    line, width = "", max(width, _WIDEST)
    for word in (_WORD_OF_HEADER if is_header else _WORD).findall(text):
        if cell_len((line + word).rstrip(" ")) <= width:
            line += word
            continue
        if line:
            yield line.rstrip(" ")
        *full, line = chop_cells(word, width)
        yield from full
    yield line.rstrip(" ")


def longest_word(header: str, texts: Iterable[str]) -> int:
    """The length of the longest part of a column that is not broken, within reason."""
    words = (word.rstrip(" ") for text in texts for word in _WORD.findall(text))
    return max([*map(len, _WORD_OF_HEADER.findall(header)), min(_WORD_MAX, max(map(cell_len, words), default=0))])


#: A part of a text with the characters behind which it may end: a blank, comma or slash, or a dot in a path, but not in a number.
#: An arrow stays with the value before it, and a percent sign with its number.
_WORD = re.compile(r"(?:[^ ,/.]| (?=%)|\.(?=[\d. ]|$))*(?: -> |[ ,/]+|\.|$)")
_WORD_OF_HEADER = re.compile("[^- ]+[- ]?")
