"""The text format of Prometheus, version 0.0.4."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate

from ykactor.actors.durations import Histogram
from ykactor.core.values.parts import Steps, emptied

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_OTHER = re.compile(r"[^a-zA-Z0-9_:]")


class Family:
    """One metric with all its series.

    Args:
        kind: ``counter``, ``gauge`` or ``histogram``.
    """

    def __init__(self, name: str, kind: str, meaning: str) -> None:
        self.name = name
        self.lines = [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]

    def add(self, value: float, labels: str = "") -> None:
        """Add a series with its value."""
        self.lines.append(f"{self.name}{{{labels}}} {value}" if labels else f"{self.name} {value}")

    def add_histogram(self, histogram: Histogram, labels: str = "") -> None:
        """Add the series of a histogram."""
        before = f"{labels}," if labels else ""
        after = f"{{{labels}}}" if labels else ""
        counts = list(accumulate(histogram.counts))
        for bound, count in zip((*histogram.bounds, "+Inf"), counts, strict=True):
            self.lines.append(f'{self.name}_bucket{{{before}le="{bound}"}} {count}')
        self.lines.append(f"{self.name}_sum{after} {histogram.sum}")
        self.lines.append(f"{self.name}_count{after} {counts[-1]}")


class Exposition:
    """All metrics of a scrape, in the order in which they were first named.

    Args:
        rename: makes the names that are shown.
    """

    def __init__(self, rename: Callable[[str], str] = str) -> None:
        self._families: dict[str, Family] = {}
        self._rename = rename

    def family(self, name: str, kind: str, meaning: str) -> Family:
        """The metric of this name; a new one the first time."""
        name = self._rename(name)
        found = self._families.get(name)
        if found is None:
            found = self._families[name] = Family(name, kind, meaning)
        return found

    def counter(self, name: str, meaning: str) -> Family:
        """A metric that only grows."""
        return self.family(name, "counter", meaning)

    def gauge(self, name: str, meaning: str) -> Family:
        """A metric that goes up and down."""
        return self.family(name, "gauge", meaning)

    def histogram(self, name: str, meaning: str) -> Family:
        """A metric of bands."""
        return self.family(name, "histogram", meaning)

    def encoded(self) -> Steps[list[bytes]]:
        """The text in parts; nothing is left here. Metrics without a series are left out."""
        parts: list[bytes] = []
        for family in self._families.values():
            if len(family.lines) == 2:
                continue
            for part in emptied(family.lines):
                parts.append("\n".join([*part, ""]).encode())
                yield len(part)
        return parts


def labels(**values: str) -> str:
    """Labels with their values, as they stand between the braces."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in values.items())


def escaped(value: str) -> str:
    """The value of a label."""
    return value.translate(_ESCAPES) if "\\" in value or '"' in value or "\n" in value else value


def name_part(text: str) -> str:
    """A text as a part of the name of a metric; different texts may give the same one."""
    return _OTHER.sub("_", text)
