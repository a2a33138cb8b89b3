"""Warnings for a scenario whose bare numbers of ``vcore`` are probably meant as cores.

On the wire and in scenarios a number is in base units, thousandths of a core for ``vcore``; in the queue file ``vcore: 4`` is 4
cores. The meaning stays, because recorded scenarios depend on it; a text such as ``"4"`` is 4 cores in both.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ykactor.core.values.words import plural
from ykactor.wire.queuefile.fields import Key
from ykactor.wire.queuefile.text import Mistakes
from ykactor.wire.scenario.load import messages_of
from ykactor.wire.scenario.mistakes import Found
from ykactor.wire.scenario.model import TimedRequest
from ykactor.wire.si import messages as si
from ykactor.wire.si.messages import WireResource

#: A node with fewer thousandths of a core than this, or an ask with fewer than that, is probably in cores.
NODE_MIN, ASK_MIN = 1000, 10
#: Warnings that are written out.
WARNINGS_MAX = 5


class _Suspect(Struct, frozen=True):
    """A bare number: the index of the message, the keys in it, and the value."""

    index: int
    keys: tuple[Key, ...]
    value: int


class Units:
    """Looks for bare numbers that are probably in cores in the messages of a scenario, as they are read.

    A recording has quantities in base units.
    """

    def __init__(self) -> None:
        self._first: list[_Suspect] = []
        self._count = self._index = 0

    def look(self, message: TimedRequest) -> None:
        """Take the next message."""
        for suspect in _suspects(self._index, message):
            self._count += 1
            if self._count <= WARNINGS_MAX:
                self._first.append(suspect)
        self._index += 1

    def warnings(self, file: Path) -> list[str]:
        """One sentence for each of the first ``WARNINGS_MAX`` in the file, and how many more there are."""
        if not self._first:
            return []
        warned = Mistakes(str(file))
        for index, part in enumerate(islice(messages_of(file), self._first[-1].index + 1)):
            for suspect in self._first:
                if suspect.index == index:
                    part.note(warned, Found(suspect.keys, _text(suspect.value)))
        texts = list(map(str, warned.found))
        if self._count > WARNINGS_MAX:
            texts.append(f"{file}: {self._count - WARNINGS_MAX} more numbers of vcore like these")
        return texts


def unit_warnings(file: Path, messages: Iterable[TimedRequest]) -> list[str]:
    """The warnings of the messages of a scenario that is not a recording."""
    units = Units()
    for message in messages:
        units.look(message)
    return units.warnings(file)


def _text(value: int) -> str:
    return f'the number {value} is {value / 1000:g} cores; write "{value}" for {plural(value, "core")}, "{value}m" for this'


def _suspects(index: int, message: TimedRequest) -> Iterator[_Suspect]:
    request = message.request
    if isinstance(request, si.NodeRequest):
        for item, node in enumerate(request.nodes):
            keys = "nodes", item, "schedulableResource", "vcore"
            yield from _below(NODE_MIN, index, keys, node.schedulable_resource or {})
    elif isinstance(request, si.AllocationRequest):
        for item, allocation in enumerate(request.allocations):
            keys = "allocations", item, "resourcePerAlloc", "vcore"
            yield from _below(ASK_MIN, index, keys, allocation.resource_per_alloc)


def _below(minimum: int, index: int, keys: tuple[Key, ...], resource: WireResource) -> Iterator[_Suspect]:
    value = resource.get("vcore")
    if isinstance(value, int) and 0 < value < minimum:
        yield _Suspect(index, keys, value)
