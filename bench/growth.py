"""Does anything grow? Samples of a long run, the verdict about each quantity, and a picture."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean

from msgspec import Struct

from bench.table import number
from ykactor.surfaces.cli.report import drawing
from ykactor.surfaces.cli.report.drawing import line, text, ticks

MIB = 2**20
#: A quantity may be higher in the last third than in the middle third by this share ...
SHARE = 0.1
#: ... and by this much: MiB, descriptors, rows or entries.
SLACK = {"MiB": 4.0, "descriptors": 2.0, "rows": 50.0, "entries": 50.0}

#: Longer containers are counted, but not what is in them.
_ENTERED_MAX = 20_000
_ATOMS = (str, bytes, int, float, bool, type, type(None))
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)


class Quantity(Struct, frozen=True):
    """A measured quantity; ``unit`` is one of ``SLACK``."""

    name: str
    unit: str


#: The values of each quantity; 0 where there was none.
History = dict[Quantity, list[float]]


def note(history: History, sample: Mapping[Quantity, float]) -> None:
    """Append a sample, which need not have all quantities."""
    length = max(map(len, history.values()), default=0)
    for quantity in history.keys() | sample.keys():
        values = history.setdefault(quantity, [0.0] * length)
        values.append(sample.get(quantity, 0.0))


def growing(history: History) -> Iterator[str]:
    """The quantities that grow, each as a sentence."""
    for quantity, values in sorted(history.items(), key=lambda item: (item[0].unit, item[0].name)):
        third = len(values) // 3
        middle, last = fmean(values[third : 2 * third]), fmean(values[2 * third :])
        allowed = middle * (1 + SHARE) + SLACK[quantity.unit]
        if last > allowed:
            found = f"{quantity.name}: {last:,.1f} {quantity.unit} in the last third, {middle:,.1f} in the middle third"
            yield f"{found}, expected up to {allowed:,.1f}"


# ---- what is measured


def of_process() -> dict[Quantity, float]:
    """The memory and the open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        Quantity("resident memory", "MiB"): pages * os.sysconf("SC_PAGE_SIZE") / MIB,
        Quantity("open files", "descriptors"): float(len(os.listdir("/proc/self/fd"))),
    }


def of_files(folder: Path) -> dict[Quantity, float]:
    """The size of all files of a journal."""
    return {Quantity("journal files", "MiB"): sum(path.stat().st_size for path in folder.iterdir()) / MIB}


def tables(root: object) -> dict[Quantity, float]:
    """The entries of all containers that can be reached from an object, by the class and attribute that hold them."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        name, found = waiting.pop()
        if isinstance(found, _ATOMS) or id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, _CONTAINERS):
            counts[name] += len(found)
            if len(found) <= _ENTERED_MAX:
                waiting += ((name, item) for item in found)
                if isinstance(found, dict):
                    waiting += ((name, item) for item in found.values())
        elif type(found).__module__.startswith("ykactor."):
            kind = type(found).__name__
            waiting += ((f"{kind}.{attribute}", value) for attribute, value in _attributes(found))
    return {Quantity(name, "entries"): float(count) for name, count in counts.items()}


def _attributes(found: object) -> Iterator[tuple[str, object]]:
    yield from getattr(found, "__dict__", {}).items()
    for kind in type(found).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{kind.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            if hasattr(found, name) and name not in ("__dict__", "__weakref__"):
                yield slot, getattr(found, name)


# ---- the picture

_WIDTH, _PANEL, _GAP = 760, 110, 34
_LEFT, _RIGHT, _TOP = 70, 20, 56
#: The most points of a line.
_POINTS = 120

_STYLE = """
  text { font: 12px sans-serif; fill: #222 } .title { font-size: 15px; font-weight: bold } .faint { fill: #666 }
  .axis { stroke: #ddd; stroke-width: 1 } .third { stroke: #bbb; stroke-width: 1; stroke-dasharray: 4 3 }
  .line { fill: none; stroke: #3572a5; stroke-width: 1.5 }
"""


def picture(title: str, history: History, days: float) -> str:
    """A panel for each quantity, one below the other; the thirds are marked."""
    parts = [text(_LEFT, 24, title, "title")]
    bottom = _TOP
    for quantity, values in history.items():
        parts += _panel(quantity, values, bottom)
        bottom += _PANEL + _GAP
    for mark in ticks(days):
        if mark <= days:
            parts.append(text(_x(mark / days), bottom - _GAP + 16, number(mark), "faint", "middle"))
    parts.append(text(_WIDTH - _RIGHT, 24, "by simulated days; dashed: the thirds that are compared", "faint", "end"))
    return drawing.svg(_WIDTH, bottom + 10, _STYLE, parts)


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _panel(quantity: Quantity, values: list[float], top: float) -> list[str]:
    bottom = top + _PANEL
    marks = ticks(max(1.0, *values))[::2]
    parts = [text(_LEFT, top - 6, f"{quantity.name} ({quantity.unit})")]
    for mark in marks:
        y = bottom - mark / marks[-1] * _PANEL
        parts += [line(_LEFT, y, _WIDTH - _RIGHT, y, "axis"), text(_LEFT - 6, y + 4, number(mark), "faint", "end")]
    parts += [line(_x(third / 3), top, _x(third / 3), bottom, "third") for third in (1, 2)]
    step = -(-len(values) // _POINTS)
    groups = [values[start : start + step] for start in range(0, len(values), step)]
    points = " ".join(
        f"{_x(place / max(1, len(groups) - 1)):.1f},{bottom - max(group) / marks[-1] * _PANEL:.1f}"
        for place, group in enumerate(groups)
    )
    return [*parts, f'<polyline points="{points}" class="line"/>']
