"""Numbers on the command line, each within a range; a wrong one is answered with what was expected."""

import math
from typing import Any

import click


class WholeNumber(click.IntRange):
    """A whole number within a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"found {str(value)!r}, expected a whole number {_within(self)}", param, ctx)


class Number(click.FloatRange):
    """A finite number within a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = float(super().convert(value, param, ctx))
        except click.BadParameter:
            found = math.nan
        if not math.isfinite(found):
            self.fail(f"found {str(value)!r}, expected a number {_within(self)}", param, ctx)
        return found


def _within(bounds: click.IntRange | click.FloatRange) -> str:
    if bounds.max is not None:
        return f"from {bounds.min} to {bounds.max}"
    return f"{'above' if bounds.min_open else 'of at least'} {bounds.min}"
