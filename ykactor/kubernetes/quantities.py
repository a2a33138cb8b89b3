"""Quantities of Kubernetes as integers: ``100m``, ``1.5Gi``, ``123e3``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?", re.ASCII)
_TEXT_MAX = 64
#: The largest amount that the daemon takes.
QUANTITY_MAX = 2**63 - 1
#: Powers of ten and of two, by suffix.
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
#: What Kubernetes calls cpu is vcore here, in thousandths; everything else is in units.
_CPU, _VCORE = "cpu", "vcore"


class QuantityError(ValueError):
    """Text is no quantity that can be counted."""


@lru_cache(4096)
def parse(text: str, *, scale: int = 0, up: bool) -> int:
    """A quantity times ``10**scale`` as an integer, rounded ``up`` or down.

    Raises:
        QuantityError: it is no quantity, is negative, or is above 2**63 - 1.
    """
    found = _FORM.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if found is None or not (found[2] or found[3]):
        raise QuantityError(f"found {text[:_TEXT_MAX]!r}, expected a quantity such as 100m, 1.5Gi or 123e3")
    sign, whole, part, suffix = found[1], found[2], found[3] or "", found[4] or ""
    digits, power = int(whole + part), scale - len(part)
    if sign == "-" and digits:
        raise QuantityError(f"found {text}, expected no negative quantity")
    if suffix in _BINARY:
        digits <<= _BINARY[suffix]
    else:
        power += _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    value = digits * 10**power if power >= 0 else _divided(digits, 10**-power, up=up)
    if value > QUANTITY_MAX:
        raise QuantityError(f"found {text}, expected at most 2**63 - 1")
    return value


def _divided(digits: int, divisor: int, *, up: bool) -> int:
    return -(-digits // divisor) if up else digits // divisor


def amounts(quantities: Mapping[str, str], *, up: bool) -> dict[str, int]:
    """A resource list of Kubernetes in base units: ``cpu`` becomes ``vcore`` in thousandths.

    Args:
        up: round up, as for what pods want; else down, as for what nodes offer.

    Raises:
        QuantityError: with the name of the resource.
    """
    found = {}
    for name, text in quantities.items():
        try:
            found[_VCORE if name == _CPU else name] = parse(text, scale=3 if name == _CPU else 0, up=up)
        except QuantityError as error:
            raise QuantityError(f"{name}: {error}") from None
    return found
