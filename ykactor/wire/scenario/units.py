"""Warnings for a scenario whose bare numbers of ``vcore`` are probably meant as cores.

On the wire and in scenarios a number is in base units, thousandths of a core for ``vcore``; in the queue file ``vcore: 4`` is 4
cores. The meaning stays, because recorded scenarios depend on it; a text such as ``"4"`` is 4 cores in both.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ykactor.core.values.words import plural
from ykactor.wire.queuefile.fields import Key
from ykactor.wire.queuefile.text import Mistakes
from ykactor.wire.scenario.load import messages_of
from ykactor.wire.scenario.mistakes import Found
from ykactor.wire.scenario.model import Scenario
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


def unit_warnings(file: Path, scenario: Scenario) -> list[str]:
    """One sentence for each bare number that is probably in cores, at most ``WARNINGS_MAX``, and how many more there are."""
    suspects = [] if scenario.recorded is not None else list(_suspects(scenario))  # a recording has quantities in base units
    if not suspects:
        return []
    warned = Mistakes(str(file))
    written = suspects[:WARNINGS_MAX]
    for index, part in enumerate(islice(messages_of(file), written[-1].index + 1)):
        for suspect in written:
            if suspect.index == index:
                part.note(warned, Found(suspect.keys, _text(suspect.value)))
    texts = list(map(str, warned.found))
    if len(suspects) > WARNINGS_MAX:
        texts.append(f"{file}: {len(suspects) - WARNINGS_MAX} more numbers of vcore like these")
    return texts


def _text(value: int) -> str:
    return f'the number {value} is {value / 1000:g} cores; write "{value}" for {plural(value, "core")}, "{value}m" for this'


def _suspects(scenario: Scenario) -> Iterator[_Suspect]:
    for index, message in enumerate(scenario.messages):
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
