"""Reads a scenario file, or reports every mistake with its place.

``.json`` is JSON, ``.jsonl`` is JSON Lines for long traces (a header line, then one message on each line), any other file is
YAML.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from ykactor.wire.queuefile.places import Key, join
from ykactor.wire.queuefile.text import ConfigError, Mistake, Mistakes, summary
from ykactor.wire.scenario.documents import Document, json_document, yaml_document
from ykactor.wire.scenario.mistakes import Found, mistakes_in, shown
from ykactor.wire.scenario.model import Header, Moment, RunTime, Scenario, TimedRequest
from ykactor.wire.si import messages as si


class ScenarioError(Exception):
    """A scenario file is wrong; its text has the first mistakes, one on each line, and the number of the others.

    Attributes:
        mistakes: all of them, by position.
    """

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(summary(mistakes))
        self.mistakes = mistakes


def load(path: str | Path, config_file: Path | None = None) -> Scenario:
    """Read a scenario.

    Args:
        config_file: the queue file to use instead of the scenario's ``config``.
    Raises:
        ScenarioError with all mistakes; OSError when the file or the queue file cannot be read.
    """
    reader = _Reader(str(path))
    try:
        found = _parts(Path(path), reader.mistakes)
        header = reader.header(next(found, Part({}, Document({}, "", 1))))
        messages = list(reader.messages(found))
    except ConfigError as error:  # not YAML
        reader.mistakes.found = error.mistakes
    if reader.mistakes.found:
        mistakes = sorted(reader.mistakes.found, key=lambda mistake: (mistake.line, mistake.column))
        raise ScenarioError([structs.replace(mistake, code="") for mistake in mistakes])  # the codes are those of queue files
    if config_file is None and _is_file_name(header.config):
        config_file = Path(path).parent / header.config.strip()
        config = _named_text(config_file, path)
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
    )


def _is_file_name(config: str) -> bool:
    """Whether ``config`` names a queue file, and is not the text of one: a single line that ends like such a name."""
    name = config.strip()
    return len(name.splitlines()) == 1 and name.endswith((".yaml", ".yml"))


def _named_text(file: Path, scenario: str | Path) -> str:
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

    def __init__(self, source: str) -> None:
        self.mistakes = Mistakes(source)

    def header(self, part: Part | None) -> Header:
        """The header; an empty one if it has a mistake."""
        found = part and self._converted(part, part.tree, Header)
        return found if isinstance(found, Header) else Header("", "", 0)

    def messages(self, parts: Iterator[Part | None]) -> Iterator[TimedRequest]:
        """The messages without a mistake."""
        not_before = 0.0
        for part in parts:
            if part is None:
                continue
            if not isinstance(part.tree, dict):
                message = f"found {shown(part.tree)}, expected a mapping with at, type and the request's fields"
                part.note(self.mistakes, Found((), message))
                continue
            moment = self._converted(part, {key: part.tree[key] for key in ("at",) if key in part.tree}, Moment)
            run_seconds = self._run_seconds(part, part.tree)
            request = self._converted(part, {key: value for key, value in part.tree.items() if key != "at"}, si.WorkRequest)
            if isinstance(moment, Moment):
                if moment.at < not_before:
                    message = f"found {moment.at}, expected at least {not_before}, the at of the message before"
                    part.note(self.mistakes, Found(("at",), message))
                not_before = moment.at
                if request is not None:
                    yield TimedRequest(moment.at, request, run_seconds)

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
        """``tree``, which is the part or some of its fields, as ``kind``; None if it has a mistake."""
        try:
            return msgspec.convert(tree, kind)
        except msgspec.ValidationError:
            for found in mistakes_in(tree, kind):
                part.note(self.mistakes, found)
            return None


def _parts(path: Path, mistakes: Mistakes) -> Iterator[Part | None]:
    """The header, then each message; None for one that cannot be read, which is a mistake already."""
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.isspace():
                    document = _json(line.rstrip(b"\r\n"), number, mistakes)
                    yield Part(document.tree, document) if document else None
        return
    data = path.read_bytes()
    if path.suffix == ".json":
        document = _json(data, 1, mistakes)
    else:
        text = _decoded(data, 1, mistakes)
        document = None if text is None else yaml_document(text, mistakes)
    yield from _parts_of(document, mistakes) if document else [None]


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
