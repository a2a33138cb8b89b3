"""Warnings for a scenario whose bare numbers of ``vcore`` are probably meant as cores.

On the wire and in scenarios a number is in base units, thousandths of a core for ``vcore``; in the queue file ``vcore: 4`` is 4
cores. The meaning stays, because recorded scenarios depend on it; a text such as ``"4"`` is 4 cores in both.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from yaml import CSafeLoader, MappingNode, Node, SequenceNode, compose

from ykactor.wire.scenario import Scenario
from ykactor.wire.si import messages as si
from ykactor.wire.si.messages import WireResource

#: A node with fewer thousandths of a core than this, or an ask with fewer than that, is probably in cores.
NODE_MIN, ASK_MIN = 1000, 10
#: Warnings that are written out.
WARNINGS_MAX = 5


class _Suspect(Struct, frozen=True):
    """A bare number: the message, from 1, the keys in it, and the value."""

    number: int
    keys: tuple[str | int, ...]
    value: int


def unit_warnings(file: Path, scenario: Scenario) -> list[str]:
    """One sentence for each bare number that is probably in cores, at most ``WARNINGS_MAX``, and how many more there are."""
    suspects = list(_suspects(scenario))
    if not suspects:
        return []
    place = _Places(file)
    texts = [_text(place.of(suspect), suspect) for suspect in suspects[:WARNINGS_MAX]]
    if len(suspects) > WARNINGS_MAX:
        texts.append(f"{file}: {len(suspects) - WARNINGS_MAX} more numbers of vcore like these")
    return texts


def _text(place: str, suspect: _Suspect) -> str:
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in suspect.keys).lstrip(".")
    value = suspect.value
    return (
        f'{place}, {path}: the number {value} is {value / 1000:g} cores; write "{value}" for {value} cores, "{value}m" for this'
    )


def _suspects(scenario: Scenario) -> Iterator[_Suspect]:
    for number, message in enumerate(scenario.messages, 1):
        request = message.request
        if isinstance(request, si.NodeRequest):
            for index, node in enumerate(request.nodes):
                keys = "nodes", index, "schedulableResource", "vcore"
                yield from _below(NODE_MIN, number, keys, node.schedulable_resource or {})
        elif isinstance(request, si.AllocationRequest):
            for index, allocation in enumerate(request.allocations):
                keys = "allocations", index, "resourcePerAlloc", "vcore"
                yield from _below(ASK_MIN, number, keys, allocation.resource_per_alloc)


def _below(minimum: int, number: int, keys: tuple[str | int, ...], resource: WireResource) -> Iterator[_Suspect]:
    value = resource.get("vcore")
    if isinstance(value, int) and 0 < value < minimum:
        yield _Suspect(number, keys, value)


class _Places:
    """Where a value is in the file: its line, or its message in JSON, which may be one line."""

    def __init__(self, file: Path) -> None:
        self._file = file
        is_yaml = file.suffix not in (".json", ".jsonl")
        self._root: Node | None = compose(file.read_bytes(), Loader=CSafeLoader) if is_yaml else None

    def of(self, suspect: _Suspect) -> str:
        if self._root is None:
            return f"{self._file}, message {suspect.number}"
        node = _value_at(self._root, ("messages", suspect.number - 1, *suspect.keys))
        return f"{self._file}:{node.start_mark.line + 1}"


def _value_at(node: Node, keys: tuple[str | int, ...]) -> Node:
    """The node at the end of this path, which exists."""
    for key in keys:
        if isinstance(node, SequenceNode):
            node = node.value[key]
        elif isinstance(node, MappingNode):
            node = _entry(node, key)
    return node


def _entry(mapping: MappingNode, wanted: Any) -> Node:
    """The value of a key; the mapping itself if the key came from elsewhere, as with a merge key."""
    return next((value for key, value in mapping.value if key.value == wanted), mapping)
