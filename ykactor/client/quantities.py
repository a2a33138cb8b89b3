"""Quantities as text, so that a number of cores cannot be taken for thousandths of a core."""

from fractions import Fraction
from math import isfinite


def cores(count: float | Fraction) -> str:
    """A quantity of ``vcore``: ``cores(4)`` is "4000m", ``cores(0.5)`` is "500m".

    Raises:
        ValueError: negative, or not a whole number of thousandths.
    """
    return f"{_whole(count, 1000, 'thousandths of a core')}m"


def gib(count: float | Fraction) -> str:
    """A quantity of ``memory``: ``gib(8)`` is "8192Mi", ``gib(0.5)`` is "512Mi".

    Raises:
        ValueError: negative, or not a whole number of MiB.
    """
    return f"{_whole(count, 1024, 'MiB')}Mi"


def _whole(count: float | Fraction, parts: int, unit: str) -> int:
    scaled = Fraction(str(count)) * parts if isfinite(count) else Fraction(-1)
    if scaled < 0 or scaled.denominator != 1:
        raise ValueError(f"found {count}, expected a number that is not negative and a whole number of {unit}")
    return scaled.numerator
