"""Scenario files: a recorded session of a resource manager, each message with the virtual second at which it was sent.

``.json`` is JSON, ``.jsonl`` is JSON Lines for long traces (a header line, then one message on each line), any other file is
YAML. In YAML only the numbers, booleans and nulls of JSON are read as such: ``010``, ``1:30``, ``yes`` and dates stay text,
because quantities and names are written like this.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from yaml import CSafeLoader, MappingNode, MarkedYAMLError
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ProtocolError, explain, refuse_repeated_keys

#: A virtual second; the maximum in nanoseconds fits in 64 bits.
Second = Annotated[float, msgspec.Meta(ge=0, le=9e9)]


class TimedRequest(msgspec.Struct, frozen=True):
    """A request and the virtual second at which it is sent."""

    at: float
    request: si.WorkRequest


class Scenario(msgspec.Struct, frozen=True):
    """A queue configuration, and the messages of a resource manager to the scheduler that runs it."""

    name: str
    config: str
    #: The virtual second of the last scheduling cycle.
    until: float
    #: Whether the simulator confirms releases that the scheduler starts.
    confirm_releases: bool = True
    #: In the order of their ``at``.
    messages: list[TimedRequest] = []


class ScenarioError(Exception):
    """A scenario file is wrong.

    Attributes:
        file: the path as given.
        number: of the message, from 1; 0 if the mistake is not in a message.
        path: where in the message or the header, for example ``nodes[0].action``; empty for the whole.
        message: what was found and what was expected.

    ``place`` is the line and column, from 1, of a mistake in the YAML.
    """

    def __init__(self, file: str, number: int, path: str, message: str, place: tuple[int, int] | None = None) -> None:
        where = f"{file}:{place[0]}:{place[1]}" if place else file
        places = [where, f"message {number}" if number else "", path]
        super().__init__(", ".join(filter(None, places)) + f": {message}")
        self.file = file
        self.number = number
        self.path = path
        self.message = message


def load(path: str | Path) -> Scenario:
    """Read a scenario.

    Raises:
        ScenarioError for the first mistake; OSError when the file cannot be read.
    """
    messages: list[TimedRequest] = []
    number = 0
    try:
        parts = _parts(str(path))
        header = _convert(next(parts, {}), _Header)
        for part in parts:
            number += 1
            messages.append(_timed_request(part, messages[-1].at if messages else 0.0))
    except ProtocolError as mistake:
        raise ScenarioError(str(path), number, mistake.path, mistake.message) from None
    return Scenario(header.name, header.config, header.until, header.confirm_releases, messages)


def dump_jsonl(scenario: Scenario, target: str | Path | BinaryIO) -> None:
    """Write JSON Lines to a path or to an open binary file; ``load`` returns an equal scenario."""
    if isinstance(target, (str, Path)):
        with Path(target).open("wb") as file:
            dump_jsonl(scenario, file)
        return
    encode = msgspec.json.Encoder().encode
    target.write(encode(_Header(scenario.name, scenario.config, scenario.until, scenario.confirm_releases)) + b"\n")
    for message in scenario.messages:
        target.write(encode({"at": message.at, **msgspec.to_builtins(message.request)}) + b"\n")


class _Header(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A scenario without its messages."""

    name: str
    config: str
    until: Second
    confirm_releases: bool = True


class _Moment(msgspec.Struct):
    at: Second


def _parts(file_name: str) -> Iterator[object]:
    """The header, then each message: as builtins, or as bytes of one JSON line."""
    path = Path(file_name)
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            yield from (line for line in file if not line.isspace())
        return
    tree = _read(path.read_bytes()) if path.suffix == ".json" else _read_yaml(path.read_bytes(), file_name)
    if not isinstance(tree, dict):
        raise ProtocolError("WRONG_TYPE", f"found {_kind(tree)}, expected a mapping with name, config, until and messages")
    messages = tree.pop("messages", [])
    if not isinstance(messages, list):
        raise ProtocolError("WRONG_TYPE", f"found {_kind(messages)}, expected a list", "messages")
    yield tree
    yield from messages


def _timed_request(part: object, not_before: float) -> TimedRequest:
    tree = _read(part) if isinstance(part, bytes) else part
    if not isinstance(tree, dict):
        raise ProtocolError("WRONG_TYPE", f"found {_kind(tree)}, expected a mapping with at, type and the request's fields")
    moment = _convert({key: tree[key] for key in ("at",) if key in tree}, _Moment)
    if moment.at < not_before:
        reason = f"found {moment.at}, expected at least {not_before}, the at of the message before"
        raise ProtocolError("OUT_OF_ORDER", reason, "at")
    request = {key: value for key, value in tree.items() if key != "at"}
    return TimedRequest(moment.at, _convert(request, si.WorkRequest))


def _convert(part: object, kind: Any) -> Any:
    tree = _read(part) if isinstance(part, bytes) else part
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise explain(error, tree, kind) from None


def _read(data: bytes) -> object:
    """JSON as builtins; repeated keys are refused."""
    try:
        tree: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ProtocolError("MALFORMED", f"found bytes that are not JSON: {error}") from None
    refuse_repeated_keys(data)
    return tree


def _kind(tree: object) -> str:
    return "nothing" if tree is None else type(tree).__name__


# ---- YAML


class _Loader(CSafeLoader):
    """A safe loader that reads scalars as JSON does and refuses repeated keys."""

    #: Filled below; replaces the resolvers of YAML 1.1.
    yaml_implicit_resolvers = {}  # noqa: RUF012

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            keys = Counter(key.value for key, _ in node.value)
            repeated = max(keys, key=keys.__getitem__)
            raise ConstructorError(None, None, f"found the key {repeated} twice, expected it once", node.start_mark)
        return mapping


for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern + r"\Z"), _first)


def _read_yaml(data: bytes, file_name: str) -> object:
    loader = _Loader(data)
    place = None
    try:
        tree: object = loader.get_single_data()
    except MarkedYAMLError as error:
        reason = ", ".join(filter(None, (error.context, error.problem)))
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else None
    except ReaderError as error:
        reason = error.reason
        before = data[: error.position].decode(errors="replace")
        place = before.count("\n") + 1, len(before) - before.rfind("\n")
    except RecursionError as error:
        reason = str(error)
    except (ValueError, LookupError, AttributeError) as error:
        reason = f"a value does not match its tag: {error!r}"
    else:
        return tree
    finally:
        loader.dispose()
    raise ScenarioError(file_name, 0, "", f"found text that is not valid YAML: {reason}", place)
