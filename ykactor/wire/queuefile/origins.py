"""Where the text of a YAML scalar stands in the file around it, for queue files that stand in a manifest.

White space apart, the visible characters of a scalar are those of its source, in the same order, whatever its style: so the
n-th of the one is the n-th of the other. Escapes in double quotes count as the character that they stand for.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice

#: What YAML may change between source and value: blanks and line breaks.
_WHITE = " \t\r\n\x85\u2028\u2029"
_VISIBLE = rf"[^{_WHITE}]"
_WHITE_ESCAPE = rf"\\(?:[ntrNLP{_WHITE}]|x(?:09|0a|0d|20|85)|u(?:0009|000a|000d|0020|0085|2028|2029))"
_ESCAPE = r"\\(?:x..|u....|U........|.)"

_CHARACTERS = re.compile(f"({_VISIBLE})")
#: By the style of the scalar: each match with a group is a visible character.
_SOURCES = {
    '"': re.compile(f"(?i:{_WHITE_ESCAPE})|({_ESCAPE}|{_VISIBLE})"),
    "'": re.compile(f"(''|{_VISIBLE})"),
}
#: Anchor and tag, which come before the scalar.
_PREFIX = re.compile(rf"(?:[&!][^{_WHITE}]*[{_WHITE}]+)*")
#: The line of ``|`` or ``>``, which may end with a comment.
_BLOCK_HEADER = re.compile(r"[^\r\n\x85\u2028\u2029]*")
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


class Origin:
    """Maps positions in the value of a scalar to positions in its file.

    Args:
        file: the text of the file; line, column: where the scalar begins there.
        style: as in ``yaml.ScalarEvent``; value: the text of the scalar.
    """

    def __init__(self, file: str, line: int, column: int, style: str, value: str) -> None:
        self._file_lines = _line_starts(file)
        self._lines = _line_starts(value)
        self._end = len(value)
        self._start = _first(file, self._file_lines[line - 1] + column - 1, style)
        self._visible = _offsets(_CHARACTERS, value, 0, self._end)
        self._sources = _offsets(_SOURCES.get(style, _CHARACTERS), file, self._start, len(self._visible))

    def __call__(self, line: int, column: int) -> tuple[int, int]:
        """Line and column in the file, all from 1."""
        index = min(self._lines[min(line, len(self._lines)) - 1] + column - 1, self._end)
        source = self._source(index, line)
        number = bisect_right(self._file_lines, source)
        return number, source - self._file_lines[number - 1] + 1

    def _source(self, index: int, line: int) -> int:
        """The offset in the file: measured from the next visible character if it is in this line, else from the last one."""
        before = bisect_left(self._visible, index)
        last_end = self._sources[before - 1] + 1 if before else self._start
        if before < len(self._sources) and bisect_right(self._lines, self._visible[before]) == line:
            return max(last_end, self._sources[before] - (self._visible[before] - index))
        return last_end + index - self._visible[before - 1] - 1 if before else self._start


def _first(file: str, start: int, style: str) -> int:
    """The offset of the first character of the content."""
    prefix = _PREFIX.match(file, start)
    assert prefix is not None, "may be empty"
    if style in ("|", ">"):
        header = _BLOCK_HEADER.match(file, prefix.end())
        assert header is not None, "may be empty"
        return header.end()
    return prefix.end() + (1 if style in ("'", '"') else 0)


def _offsets(pattern: re.Pattern[str], text: str, start: int, count: int) -> "array[int]":
    """The offsets of the first ``count`` visible characters from ``start`` on."""
    found = (match.start() for match in pattern.finditer(text, start) if match[1])
    return array("I", islice(found, count))


def _line_starts(text: str) -> "array[int]":
    return array("I", [0, *(match.end() for match in _BREAK.finditer(text))])
