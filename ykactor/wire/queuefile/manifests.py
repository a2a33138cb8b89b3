"""Finds the queue file in what people have: the file itself, a Kubernetes manifest with a ConfigMap, or Helm values (CF-85).

The form is recognised by content. ``open_queues`` returns the YAML document of the queue file. Its nodes have the positions of
the text that people edit.
"""

import base64
import binascii
import difflib
import gzip
import re
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import NamedTuple

from ykactor.core.values.words import some
from ykactor.wire.queuefile.fields import Place, TextReader, join
from ykactor.wire.queuefile.text import (
    ConfigError,
    Document,
    Mapping,
    Mistakes,
    Node,
    Scalar,
    Sequence,
    as_written,
    compose,
    compose_all,
    only_root,
)

#: The configuration without a queue file: a queue for each namespace, to which everybody may submit (CF-1).
DEFAULT_TEXT = """\
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: "*"
"""

QUEUES, COMPRESSED = "queues.yaml", "queues.yaml.gz"
#: The setting with the name of the queue file without its ending; it is ``queues`` by default.
_GROUP_KEY = "service.policyGroup"
#: The map of a ConfigMap whose values are base64.
BINARY_KEY = "binaryData"
HELM_KEY = "yunikornDefaults"
#: The ConfigMaps that YuniKorn reads; the settings of a later one replace those of an earlier one (CF-86).
_RANKS = {"yunikorn-defaults": 0, "yunikorn-configs": 2}
_OTHER_RANK = 1
#: The same as for files: some kilobytes of gzip can stand for gigabytes.
UNCOMPRESSED_MAX = 16 * 2**20
#: Ignored settings that a warning names.
_NAMED_MAX = 20


class Queues(NamedTuple):
    """A queue file, as it was found."""

    text: str
    #: The YAML document; None if there is none.
    document: Node | None
    mistakes: Mistakes
    warnings: Mistakes


class _Settings(NamedTuple):
    """A map of settings of YuniKorn: ``data`` or ``binaryData`` of a ConfigMap, or ``yunikornDefaults``."""

    place: Place
    rank: int
    #: True if its values are base64, and its queue file is gzip data.
    is_binary: bool = False
    #: True if it belongs to YuniKorn, as far as name and keys show.
    is_yunikorns: bool = True

    def key(self, group: str) -> str:
        """The key whose value is the queue file."""
        return f"{group}.yaml.gz" if self.is_binary else f"{group}.yaml"

    def named(self) -> list[tuple[Scalar, Node]]:
        """Name and value of each entry."""
        assert isinstance(self.place.node, Mapping)
        return [(name, value) for name, value in self.place.node.entries() if isinstance(name, Scalar)]


def open_queues(text: str, source: str) -> Queues:
    """The queue file that ``text`` is or contains.

    Raises:
        ConfigError: it is not YAML, or a manifest without a queue file.
    """
    mistakes, warnings = Mistakes(source), Mistakes(source)
    documents = compose_all(text, mistakes)
    wrappers = [] if _is_queue_file(documents) else [document for document in documents if _is_wrapper(document.root)]
    if not wrappers and (names := _foreign_keys(documents)):
        shown = ", ".join(join("", name) for name in names[:3])
        mistakes.add("P9", documents[0], "", f"found no queue file but the keys {shown}, {_expected('queues.yaml')}")
        raise ConfigError(mistakes.found)
    if not wrappers:
        return Queues(text, only_root(documents, mistakes), mistakes, warnings)
    mistakes.found.clear()  # tags, which other manifests may have
    settings = [settings for wrapper in wrappers for settings in _settings_in(wrapper.root)]
    return _Unwrapping(text, mistakes, warnings).queues(settings, wrappers[0])


def _is_queue_file(documents: list[Document]) -> bool:
    root = documents[0].root if documents else None
    return isinstance(root, Mapping) and root.entry("partitions") is not None


def _foreign_keys(documents: list[Document]) -> list[str]:
    """The keys at the top if none is one of a queue file, or nearly so: one mistake says more than one for each key."""
    root = documents[0].root if len(documents) == 1 else None
    if not isinstance(root, Mapping):
        return []
    names = [name.text[:40] for name, _ in root.entries() if isinstance(name, Scalar)]
    known = ("partitions", "checksum")
    return [] if any(difflib.get_close_matches(name, known, n=1, cutoff=0.7) for name in names) else names


def _expected(key: str) -> str:
    config_map = f"a ConfigMap with {key} in data or {key}.gz in {BINARY_KEY}"
    return f"expected partitions at the top, {config_map}, or Helm values with it in {HELM_KEY}"


def _is_wrapper(root: Node | None) -> bool:
    return isinstance(root, Mapping) and (root.entry("kind") is not None or any(_helm_values(root)))


def _helm_values(root: Mapping) -> Iterator[tuple[str, Node]]:
    """``yunikornDefaults`` with its path: at the top, or in the values of a chart that contains YuniKorn's."""
    inner = [(name.text, values) for name, values in root.entries() if isinstance(name, Scalar) and isinstance(values, Mapping)]
    for path, values in [("", root), *((join("", name), values) for name, values in inner)]:
        if entry := values.entry(HELM_KEY):
            yield join(path, HELM_KEY), entry[1]


def _settings_in(root: Node | None) -> Iterator[_Settings]:
    """Every map of settings in a document, also in a list of manifests."""
    if not isinstance(root, Mapping):
        return
    kind = _text_of(root, "kind")
    if kind == "ConfigMap":
        yield from _settings_of(root)
    elif kind == "List" and (items := root.entry("items")) and isinstance(items[1], Sequence):
        for item in items[1].nodes:
            yield from _settings_in(item)
    elif not kind:
        yield from (_Settings(Place(node, path), 0) for path, node in _helm_values(root) if isinstance(node, Mapping))


def _settings_of(config_map: Mapping) -> Iterator[_Settings]:
    metadata = config_map.entry("metadata")
    name = _text_of(metadata[1], "name") if metadata and isinstance(metadata[1], Mapping) else ""
    entries = [(path, config_map.entry(path)) for path in ("data", BINARY_KEY)]
    found = [(path, entry[1]) for path, entry in entries if entry and isinstance(entry[1], Mapping)]
    is_yunikorns = name in _RANKS or any(node.entry(key) for _, node in found for key in (QUEUES, COMPRESSED, _GROUP_KEY))
    for path, node in found:
        yield _Settings(Place(node, path), _RANKS.get(name, _OTHER_RANK), path == BINARY_KEY, is_yunikorns)


def _text_of(node: Mapping, key: str) -> str:
    """The text of a scalar; "" if there is none."""
    entry = node.entry(key)
    return entry[1].text if entry and isinstance(entry[1], Scalar) else ""


class _Entry(NamedTuple):
    """An entry of a map of settings."""

    settings: _Settings
    name: Scalar
    value: Node

    @property
    def path(self) -> str:
        return join(self.settings.place.path, self.name.text)


class _Unwrapping:
    """Takes the queue file out of the maps of settings of one file."""

    def __init__(self, file: str, mistakes: Mistakes, warnings: Mistakes) -> None:
        self.file = file
        self.mistakes = mistakes
        self.warnings = warnings

    def queues(self, found: list[_Settings], wrapper: Document) -> Queues:
        reader = TextReader(self.mistakes)
        maps = sorted((one for one in found if one.is_yunikorns), key=lambda one: one.rank)
        entries = [_Entry(one, *entry) for one in maps for entry in reader.entries(one.place.node, one.place).values()]
        group = _group(entries)
        files = [entry for entry in entries if entry.name.text == entry.settings.key(group)]
        if not files:
            raise self.missing(found, wrapper, f"{group}.yaml")
        *replaced, used = files
        for entry in replaced:
            text = f"no effect: the {used.name.text} in line {used.name.line} replaces it"
            self.warnings.add("", entry.name, entry.path, text)
        self.warn_of_ignored([entry for entry in entries if entry.name.text not in (entry.settings.key(group), _GROUP_KEY)])
        return self.read(used)

    def missing(self, found: list[_Settings], wrapper: Document, key: str) -> ConfigError:
        expected = _expected(key)
        entries = [_Entry(one, *entry) for one in found for entry in one.named()]
        close = difflib.get_close_matches(key, [entry.name.text[:40] for entry in entries], n=1, cutoff=0.8)
        for entry in entries:
            if entry.name.text in close:
                return self.refused(entry.name, entry.path, f"found no queue file, but this key, {expected}")
        return self.refused(wrapper, "", f"found no queue file, {expected}")

    def warn_of_ignored(self, ignored: list[_Entry]) -> None:
        if ignored:
            names = [join("", entry.name.text) for entry in ignored]
            text = f"only the queue file is used, ignored: {some(names, _NAMED_MAX)}"
            self.warnings.add("", ignored[0].name, ignored[0].settings.place.path, text)

    def read(self, used: _Entry) -> Queues:
        """The queue file in an entry; of a compressed one the positions are those after decompression (CF-87)."""
        value, origin = used.value, as_written
        if not isinstance(value, Scalar):
            TextReader(self.mistakes).wrong_kind(value, "text; write | after the key", used.settings.place, (used.name.text,))
            raise ConfigError(self.mistakes.found)
        text = "" if value.is_null else value.text
        if used.settings.is_binary:
            try:
                text = _uncompressed(text)
            except ValueError as error:
                raise self.refused(value, used.path, str(error)) from None
            self.mistakes.source = self.warnings.source = f"{self.mistakes.source}({used.name.text}, uncompressed)"
        elif text:
            origin = Origin(self.file, value.line, value.column, value.style, text)
        if not text:
            self.warnings.add("", value, used.path, "the queue file is empty, so the built-in configuration is used")
            text = DEFAULT_TEXT
        return Queues(text, compose(text, self.mistakes, origin), self.mistakes, self.warnings)

    def refused(self, node: Node | Document, path: str, message: str) -> ConfigError:
        self.mistakes.add("P9", node, path, message)
        return ConfigError(self.mistakes.found)


def _group(entries: list[_Entry]) -> str:
    """The name of the queue file without its ending (CF-85)."""
    values = [entry.value for entry in entries if entry.name.text == _GROUP_KEY]
    return values[-1].text if values and isinstance(values[-1], Scalar) else "queues"


def _uncompressed(encoded: str) -> str:
    """Raises ValueError with a message for the user."""
    try:
        data = base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("found text that is not base64, expected gzip data in base64") from None
    try:
        content = gzip.GzipFile(fileobj=BytesIO(data)).read(UNCOMPRESSED_MAX + 1)
    except (OSError, EOFError, zlib.error):
        raise ValueError("found data that are not gzip, or damaged, expected gzip data in base64") from None
    if len(content) > UNCOMPRESSED_MAX:
        raise ValueError(f"found more than {UNCOMPRESSED_MAX} bytes after decompression, expected at most that")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"found no UTF-8 text after decompression: {error.reason} at byte {error.start}") from None


_LINE_END = re.compile("\r\n?")
#: A block scalar whose text begins with these has to say how far it is indented.
_UNCLEAR_INDENTATION = (" ", "\t", "\n")


def config_map(queues: str, name: str, namespace: str) -> str:
    """The manifest, with the text ``queues`` in a block scalar; its line ends become line feeds, and it loses a byte order mark.

    Args:
        name, namespace: as Kubernetes allows them, so that they need no escapes in quotes.
    """
    head = f'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "{name}"\n  namespace: "{namespace}"\ndata:\n'
    return f"{head}  {QUEUES}: {_block(_LINE_END.sub(chr(10), queues.removeprefix(chr(0xFEFF))))}"


def _block(text: str) -> str:
    """A block scalar, as the value of a key that is indented by 2."""
    indicator = "2" if text.startswith(_UNCLEAR_INDENTATION) else ""
    chomping = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")
    return f"|{indicator}{chomping}\n" + "".join(f"    {line}\n" if line else "\n" for line in lines)


# ---- where the text of a scalar stands in the file around it
#
# White space apart, the visible characters of a scalar are those of its source, in the same order, whatever its style: so the
# n-th of the one is the n-th of the other. Escapes in double quotes count as the character that they stand for.

#: The characters that YAML may change between source and value: blanks and line breaks.
_WHITE = " \t\r\n\x85\u2028\u2029"
_VISIBLE = rf"[^{_WHITE}]"
_WHITE_ESCAPE = rf"\\(?:[ntrNLP{_WHITE}]|x(?:09|0a|0d|20|85)|u(?:0009|000a|000d|0020|0085|2028|2029))"
_ESCAPE = r"\\(?:x..|u....|U........|.)"

_CHARACTERS = re.compile(f"({_VISIBLE})")
#: The pattern of each style of scalar: each match with a group is a visible character.
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
