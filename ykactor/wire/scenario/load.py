"""Reads a scenario file, or reports every mistake with its place.

``.json`` is JSON, ``.jsonl`` is JSON Lines for long traces (a header line, then one message on each line), any other file is
YAML. In YAML only the numbers, booleans and nulls of JSON are read as such: ``010``, ``1:30``, ``yes`` and dates stay text,
because quantities and names are written like this. JSON is read by a fast decoder without places; only when a place is asked for,
the text is composed as YAML, which JSON is, but for rare escapes.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from ykactor.wire.queuefile.fields import Key, Place, TextReader, find, join
from ykactor.wire.queuefile.text import ConfigError, Mapping, Mistake, Mistakes, Node, Scalar, Sequence, compose, summary
from ykactor.wire.scenario.mistakes import Found, mistakes_in, shown
from ykactor.wire.scenario.model import Header, Moment, RecordedHeader, RunTime, Scenario, ScenarioRequest, TimedRequest
from ykactor.wire.scenario.recording import (
    VERSION,
    End,
    Line,
    Recorded,
    TurnLine,
    UnreadableLineError,
    decode_line,
    seconds,
    turn_of,
)
from ykactor.wire.si.codec import refuse_repeated_keys
from ykactor.wire.si.protocol_error import ProtocolError

_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
#: Longer numbers stay text: Python converts at most 4300 digits.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
#: The end of a decoder's reason: the byte at which the text is not JSON, or a path without names.
_BYTE = re.compile(r" - at `.*| ?\(byte (\d+)\)")


class Document:
    """A text and its value.

    Attributes:
        tree: as builtins; of a line that only recordings have, the line.
        line: the line of the file in which the text begins.
    """

    def __init__(self, tree: object, text: str, line: int, root: Node | None = None) -> None:
        self.tree = tree
        self.line = line
        self._text = text
        self._root = root

    def place(self, keys: tuple[Key, ...], *, of_key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value at ``keys``, or of its key; of the nearest one above it if it is missing."""
        if self._root is None:
            self._root = _root(self._text)
        node = find(self._root, *keys)
        if of_key:
            above = _value_at(self._root, keys[:-1])
            entry = above.entry(str(keys[-1])) if isinstance(above, Mapping) else None
            node = entry[0] if entry else node
        return node.line + self.line - 1, node.column


def yaml_document(text: str, mistakes: Mistakes) -> Document:
    """``text`` as YAML; adds a mistake for each repeated key and tag.

    Raises:
        ConfigError if it is not YAML.
    """
    root = compose(text, mistakes) or Scalar(1, 1, "", plain=True)
    return Document(_builtins(root, "", TextReader(mistakes)), text, 1, root)


def json_document(text: str, line: int, mistakes: Mistakes) -> Document | None:
    """``text`` as JSON, which begins in ``line`` of the file; None with a mistake if it is not JSON or repeats a key."""
    try:
        tree: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        place = _place_of_error(str(error), text, line)
        mistakes.found.append(Mistake(mistakes.source, *place, "", f"not JSON: {_BYTE.sub('', str(error))}"))
        return None
    try:
        refuse_repeated_keys(text)
    except ProtocolError as error:
        first = Mistake(mistakes.source, line, 1, error.path, error.message)
        mistakes.found += _repeated_keys(text, line, first) or [first]
        return None
    return Document(tree, text, line)


def _repeated_keys(text: str, line: int, first: Mistake) -> list[Mistake]:
    """A mistake like ``first`` for each repeated key of a JSON text; [] if it cannot be composed as YAML."""
    found = Mistakes("")
    try:
        yaml_document(text, found)
    except ConfigError:
        return []
    return [structs.replace(first, line=each.line + line - 1, column=each.column, path=each.path) for each in found.found]


def _root(text: str) -> Node:
    try:
        root = compose(text, Mistakes(""))
    except ConfigError:
        root = None
    return root or Scalar(1, 1, "", plain=True)


def _value_at(node: Node, keys: tuple[Key, ...]) -> Node:
    """The node at the end of this path, or the last one on the way to it."""
    for key in keys:
        if isinstance(node, Sequence) and isinstance(key, int):
            node = node.nodes[key]
        elif isinstance(node, Mapping) and (entry := node.entry(str(key))):
            node = entry[1]
    return node


def _builtins(node: Node, path: str, reader: TextReader) -> object:
    if isinstance(node, Scalar):
        return _scalar(node)
    if isinstance(node, Sequence):
        return [_builtins(item, join(path, index), reader) for index, item in enumerate(node.nodes)]
    entries = reader.entries(node, Place(node, path))
    return {key: _builtins(value, join(path, key), reader) for key, (_, value) in entries.items()}


def _scalar(node: Scalar) -> object:
    """A value of JSON if it is written like one."""
    if not node.plain:
        return node.text
    if node.is_null:
        return None
    if _INTEGER.fullmatch(node.text):
        return int(node.text)
    if _FLOAT.fullmatch(node.text):
        return float(node.text)
    return _WORDS.get(node.text, node.text)


def _place_of_error(error: str, text: str, line: int) -> tuple[int, int]:
    """Line and column at which a decoder found an error."""
    data, match = text.encode(), _BYTE.search(error)
    before = data[: int(match[1]) if match and match[1] else len(data)].decode(errors="replace")
    return line + before.count("\n"), len(before) - before.rfind("\n")


class ScenarioError(Exception):
    """A scenario file is wrong; its text has the first mistakes, one on each line, and the number of the others.

    Attributes:
        mistakes: all of them, by position.
    """

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(summary(mistakes))
        self.mistakes = mistakes


def ignore(_: TimedRequest) -> None:
    """Look at no message."""


def load(
    path: str | Path,
    config_file: Path | None = None,
    *,
    recordings: bool = False,
    look: Callable[[TimedRequest], object] = ignore,
) -> Scenario:
    """Read a scenario.

    Args:
        config_file: the queue file to use instead of the scenario's ``config``.
        recordings: whether it may be a recording; messages of JSON Lines are then read again with each iteration.
        look: called with each message without a mistake.
    Raises:
        ScenarioError with all mistakes; OSError when the file or the queue file cannot be read.
    """
    reader = _Reader(str(path), recordings=recordings)
    try:
        found = _parts(Path(path), reader.mistakes)
        header = reader.header(next(found, Part({}, Document({}, "", 1))))
        messages: Iterable[TimedRequest] = _messages(Path(path), reader, _seen(reader.messages(found), look), streams=recordings)
    except ConfigError as error:  # not YAML
        reader.mistakes.found = error.mistakes
    if reader.mistakes.found:
        mistakes = sorted(reader.mistakes.found, key=lambda mistake: (mistake.line, mistake.column))
        raise ScenarioError([structs.replace(mistake, code="") for mistake in mistakes])  # the codes are those of queue files
    if config_file is None and is_file_name(header.config):
        config_file = Path(path).parent / header.config.strip()
        config = named_text(config_file, path)
    else:
        config = header.config if config_file is None else _config_text(config_file)
    return Scenario(
        header.name,
        config,
        header.until,
        header.confirm_releases,
        messages,
        str(config_file or ""),
        header.wants_scheduling_states,
        header.wakes,
        header.recorded if isinstance(header, RecordedHeader) else None,
    )


def exact_lines(path: Path) -> Iterator[tuple[int, Line]]:
    """The lines of an exact recording after its header, each with its number, as they are read.

    Raises:
        ScenarioError: it is no exact recording, or is damaged. OSError.
    """
    reader = _Reader(str(path), recordings=True, exact=True)
    found = _parts(path, reader.mistakes)
    header = reader.header(next(found, Part({}, Document({}, "", 1))))
    if not reader.mistakes.found and not (isinstance(header, RecordedHeader) and header.recorded.exact):
        text = "found no exact recording, expected one of ykactor record --exact"
        reader.mistakes.found.append(Mistake(str(path), 1, 1, "", text))
    if reader.mistakes.found:
        raise ScenarioError(reader.mistakes.found)
    for part in found:
        if reader.mistakes.found:
            break
        reader.count(part)
        if part is not None and isinstance(part.tree, Line):
            yield part.document.line, part.tree
    reader.check_end()
    if reader.mistakes.found:
        raise ScenarioError(reader.mistakes.found)


def is_file_name(config: str) -> bool:
    """True if ``config`` is the name of a queue file, and not the text of one: a single line that ends like such a name."""
    name = config.strip()
    return len(name.splitlines()) == 1 and name.endswith((".yaml", ".yml"))


def named_text(file: Path, scenario: str | Path) -> str:
    """The text of a queue file that is named in a file. Raises:  OSError, ScenarioError."""
    try:
        return _config_text(file)
    except OSError as error:  # the user may not have typed this name
        raise OSError(error.errno, error.strerror, f"{scenario}: config: {file}") from None


def _config_text(file: Path) -> str:
    mistakes = Mistakes(str(file))
    text = _decoded(file.read_bytes(), 1, mistakes)
    if text is None:
        raise ScenarioError(mistakes.found)
    return text


class Part(Struct):
    """The header or a message: its value, and the keys that lead to it in its document."""

    tree: object
    document: Document
    keys: tuple[Key, ...] = ()

    def note(self, mistakes: Mistakes, found: Found) -> None:
        """Add a mistake in this part."""
        keys = (*self.keys, *found.keys)
        place = self.document.place(keys, of_key=found.is_key)
        mistakes.found.append(Mistake(mistakes.source, *place, join("", *keys), found.message))


def messages_of(path: Path) -> Iterator[Part]:
    """The messages of a file that has no mistakes, to add warnings about them."""
    found = _parts(path, Mistakes(str(path)))
    next(found)
    return (part for part in found if part)


class _Reader:
    """Converts the parts of one file and collects their mistakes."""

    def __init__(self, source: str, *, recordings: bool, exact: bool = False) -> None:
        self.mistakes = Mistakes(source)
        self._recordings, self._exact = recordings, exact
        #: It is a recording that is not read, so its lines say nothing.
        self.refuses = False
        #: Of a recording: its part of the header, its turns so far, and its last line and its number.
        self.recorded: Recorded | None = None
        self._turns = 0
        self._last: tuple[int, object] = (1, None)

    def header(self, part: Part | None) -> Header:
        """The header; an empty one if it has a mistake."""
        if part is None:
            return Header("", "", 0)
        is_recording = isinstance(part.tree, dict) and "recorded" in part.tree
        found = self._converted(part, part.tree, RecordedHeader if is_recording else Header)
        if isinstance(found, RecordedHeader):
            self.recorded = found.recorded
            if refusal := self._refusal(found.recorded):
                self.refuses = True
                part.note(self.mistakes, Found(("recorded",), refusal, is_key=True))
        return found if isinstance(found, Header) else Header("", "", 0)

    def _refusal(self, recorded: Recorded) -> str:
        """The reason why a recording is not read; "" if it is."""
        if recorded.version > VERSION:
            return f"found version {recorded.version}, of a newer ykactor, expected at most {VERSION}"
        if not self._recordings:
            return "found a recording, expected another scenario: only ykactor simulate and replay read recordings"
        if recorded.exact and not self._exact:
            return "found an exact recording, which is for ykactor replay"
        return ""

    def count(self, part: Part | None) -> None:
        """Note a line of a recording, and a mistake if it is one after the last."""
        if part is None or self.recorded is None:
            return
        if isinstance(self._last[1], End):
            part.note(self.mistakes, Found((), "found a line after the last, which is of the type End"))
        self._turns += isinstance(part.tree, TurnLine)
        self._last = part.document.line, part.tree

    def check_end(self) -> None:
        """Note a mistake if the recording does not end with its last line, or lacks turns."""
        number, last = self._last
        text = ""
        if self.recorded is None or self.mistakes.found:
            return
        if not isinstance(last, End):
            text = "found the end of the file, expected a line of the type End: the recording is cut off"
        elif last.turns != self._turns:
            text = f"found {self._turns} turns, expected {last.turns}"
        if text:
            self.mistakes.found.append(Mistake(self.mistakes.source, number, 1, "", text))

    def _of_recording(self, part: Part, line: Line) -> tuple[float | None, TimedRequest | None]:
        """The message of a line of a recording, and its second; None for the last line, and with a mistake."""
        if self.recorded is None:
            part.note(self.mistakes, Found((), "found a line of a recording, expected recorded in the first line"))
        if self.recorded is None or isinstance(line, End):
            return None, None
        try:
            request = turn_of(line) if isinstance(line, TurnLine) else line
        except UnreadableLineError as error:
            part.note(self.mistakes, Found((), str(error)))
            return None, None
        at = seconds(line.at_ns - self.recorded.begin_ns)
        return at, TimedRequest(at, request)

    def messages(self, parts: Iterator[Part | None]) -> Iterator[TimedRequest]:
        """The messages without a mistake."""
        not_before = 0.0
        for part in parts:
            self.count(part)
            if part is None:
                continue
            at, message = self._of_recording(part, part.tree) if isinstance(part.tree, Line) else self._message(part)
            if at is None:
                continue
            if at < not_before:
                text = f"found {at}, expected at least {not_before}, the at of the message before"
                part.note(self.mistakes, Found(("at",), text))
            not_before = at
            if message is not None:
                yield message
        self.check_end()

    def _message(self, part: Part) -> tuple[float | None, TimedRequest | None]:
        """A message and its second; None for what has a mistake."""
        if not isinstance(part.tree, dict):
            text = f"found {shown(part.tree)}, expected a mapping with at, type and the request's fields"
            part.note(self.mistakes, Found((), text))
            return None, None
        moment = self._converted(part, {key: part.tree[key] for key in ("at",) if key in part.tree}, Moment)
        run_seconds = self._run_seconds(part, part.tree)
        request = self._converted(part, {key: value for key, value in part.tree.items() if key != "at"}, ScenarioRequest)
        if not isinstance(moment, Moment):
            return None, None
        return moment.at, None if request is None else TimedRequest(moment.at, request, run_seconds)

    def _run_seconds(self, part: Part, tree: dict[str, Any]) -> dict[int, float]:
        """Takes ``runSeconds``, which is not in the protocol, out of the asks of a message."""
        asks = tree.get("allocations") if tree.get("type") == "AllocationRequest" else None
        times: dict[int, float] = {}
        for index, ask in enumerate(asks if isinstance(asks, list) else []):
            if isinstance(ask, dict) and "runSeconds" in ask:
                inner = Part(ask, part.document, (*part.keys, "allocations", index))
                found = self._converted(inner, {"runSeconds": ask.pop("runSeconds")}, RunTime)
                times |= {index: found.run_seconds} if found else {}
        return times

    def _converted(self, part: Part, tree: object, kind: Any) -> Any:
        return converted(part, tree, kind, self.mistakes)


def _seen(messages: Iterator[TimedRequest], look: Callable[[TimedRequest], object]) -> Iterator[TimedRequest]:
    for message in messages:
        look(message)
        yield message


def _messages(path: Path, reader: _Reader, found: Iterator[TimedRequest], *, streams: bool) -> Iterable[TimedRequest]:
    """The messages of a scenario; those of JSON Lines, which may be many, are only checked if wanted, and read when needed."""
    if reader.refuses:
        return []
    if not (streams and path.suffix == ".jsonl" and path.is_file()):
        return list(found)
    deque(found, maxlen=0)
    return _Lines(path)


class _Lines:
    """The messages of JSON Lines in which no mistake was found. Raises:  ScenarioError if they were changed since; OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[TimedRequest]:
        reader = _Reader(str(self._path), recordings=True)
        found = self._parts(reader.mistakes)
        reader.header(next(found, None))
        yield from reader.messages(found)
        if reader.mistakes.found:
            raise ScenarioError(reader.mistakes.found)

    def _parts(self, mistakes: Mistakes) -> Iterator[Part]:
        """The header and the messages, which have no mistake of form unless they were changed."""
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.isspace():
                    continue
                try:
                    tree = decode_line(line) or msgspec.json.decode(line)
                except (UnreadableLineError, msgspec.DecodeError):
                    mistakes.found.append(Mistake(mistakes.source, number, 1, "", "changed since it was read"))
                    return
                yield Part(tree, Document(tree, "", number))


def converted(part: Part, tree: object, kind: Any, mistakes: Mistakes) -> Any:
    """``tree``, which is the part or some of its fields, as ``kind``; None if it has a mistake."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError:
        for found in mistakes_in(tree, kind):
            part.note(mistakes, found)
        return None


def _parts(path: Path, mistakes: Mistakes) -> Iterator[Part | None]:
    """The header, then each message; None for one that cannot be read, which is a mistake already."""
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.isspace():
                    document = _line(line, number, mistakes)
                    yield Part(document.tree, document) if document else None
        return
    document = document_of(path, mistakes)
    yield from _parts_of(document, mistakes) if document else [None]


def _line(data: bytes, number: int, mistakes: Mistakes) -> Document | None:
    """A line of JSON Lines, or of a recording; None with a mistake if it is neither."""
    try:
        found = decode_line(data)
    except UnreadableLineError as error:
        mistakes.found.append(Mistake(mistakes.source, number, 1, "", f"not a line of a recording: {error}"))
        return None
    return _json(data.rstrip(b"\r\n"), number, mistakes) if found is None else Document(found, "", number)


def document_of(path: Path, mistakes: Mistakes) -> Document | None:
    """The document of a file of YAML or JSON; None with a mistake if there is none. Raises as ``yaml_document``, or OSError."""
    data = path.read_bytes()
    if path.suffix == ".json":
        return _json(data, 1, mistakes)
    text = _decoded(data, 1, mistakes)
    return None if text is None else yaml_document(text, mistakes)


def _parts_of(document: Document, mistakes: Mistakes) -> Iterator[Part | None]:
    tree = document.tree
    if not isinstance(tree, dict):
        message = f"found {shown(tree)}, expected a mapping with name, config, until and messages"
        Part(tree, document).note(mistakes, Found((), message))
        yield None
        return
    if "partitions" in tree and "until" not in tree:
        message = "found a queue file, expected a scenario (name, config, until, messages), which may name a queue file"
        Part(tree, document).note(mistakes, Found(("partitions",), message, is_key=True))
        yield None
        return
    yield Part({key: value for key, value in tree.items() if key != "messages"}, document)
    messages = tree.get("messages", [])
    if not isinstance(messages, list):
        Part(tree, document).note(mistakes, Found(("messages",), f"found {shown(messages)}, expected a list"))
        return
    yield from (Part(message, document, ("messages", index)) for index, message in enumerate(messages))


def _json(data: bytes, line: int, mistakes: Mistakes) -> Document | None:
    text = _decoded(data, line, mistakes)
    return None if text is None else json_document(text, line, mistakes)


def _decoded(data: bytes, line: int, mistakes: Mistakes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        message = f"not UTF-8 text: {error.reason} at byte {error.start}"
        mistakes.found.append(Mistake(mistakes.source, line, 1, "", message))
        return None
