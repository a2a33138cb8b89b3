"""Quantities as text, and parsers of quantities, quotas, integers, durations and queue names in the configuration and in tags.

CF-20, CF-25 to CF-27, CF-29 to CF-31, QU-100 to QU-102. Every pattern matches the whole string, ASCII only.
"""

from __future__ import annotations

import re
from fractions import Fraction

import msgspec
from msgspec import Struct

from ykactor.core.values.resources import QUANTITY_MAX, Resource
from ykactor.core.values.times import S_NS

#: Suffix of a quantity -> factor. ``m`` is legal for ``vcore`` only and is not in this table.
FACTORS = {
    "": 1,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
#: Of ``memory``, the largest first.
_UNITS = sorted(FACTORS.items(), key=lambda unit: unit[1], reverse=True)

_QUANTITY = re.compile(r"([0-9]+) *([A-Za-z]*)")
_THOUSANDTHS = re.compile(r"([0-9]{0,9})\.([0-9]{1,3})0*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DIGITS = re.compile(r"[0-9]+")
_DURATION = re.compile(r"([+-]?)(?:0|((?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+))")
_DURATION_PART = re.compile(r"([0-9]*\.?[0-9]*)(ns|us|µs|μs|ms|s|m|h)")
_NS_PER = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_QUEUE_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
#: The tags of applications that carry quotas.
MAX_TAG, GUARANTEED_TAG = "namespace.resourcequota", "namespace.resourceguaranteed"
MAX_APPLICATIONS_TAG = "namespace.resourcemaxapps"


class QuantityError(ValueError):
    """A text is not a quantity; the message says what was found and what is expected."""


def parse_quantity(name: str, text: str) -> int:
    """The quantity in base units of ``text`` for the resource type ``name``.

    ``vcore`` is counted in thousandths: "2" is 2000 and "500m" is 500. Every other type is counted in plain units.

    Raises:
        QuantityError for anything but digits and a known suffix, and for results above 2**63 - 1.
    Source:  CF-29 to CF-31.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise QuantityError(f"found {shown(text)}, {_form_advice(name, text)}")
    digits, suffix = match.groups()
    if suffix == "m" and name == "vcore":
        factor = 1
    elif suffix in FACTORS:
        factor = FACTORS[suffix] * 1000 if name == "vcore" else FACTORS[suffix]
    else:
        raise QuantityError(f"found {shown(text)}, {_suffix_advice(name, suffix)}")
    number = _decimal(digits)
    if number > QUANTITY_MAX or number * factor > QUANTITY_MAX:
        unit = "thousandths of a vcore" if name == "vcore" else "units"
        raise QuantityError(f"found {shown(text)}, expected at most {QUANTITY_MAX} {unit}")
    return number * factor


def quantity_text(name: str, quantity: int) -> str:
    """A quantity of base units in the notation of the queue file, exact: with the largest unit, of memory, that divides it."""
    if name == "vcore":
        return f"{quantity // 1000}" if quantity % 1000 == 0 else f"{quantity}m"
    if name == "memory" and quantity:
        suffix, factor = next((suffix, factor) for suffix, factor in _UNITS if quantity % factor == 0)
        return f"{quantity // factor}{suffix}"
    return str(quantity)


def parse_int32(text: str) -> int | None:
    """The value of an optional sign and decimal digits, None if ``text`` is not an int32 (CF-26)."""
    if _INTEGER.fullmatch(text) is None:
        return None
    value = -_decimal(text[1:]) if text[0] == "-" else _decimal(text.lstrip("+"))
    return value if -(2**31) <= value < 2**31 else None


def is_true(text: str) -> bool:
    """True if the value of a tag means true (PL-41)."""
    return text in ("1", "t", "T", "true", "True", "TRUE")


def parse_uint64(text: str) -> int | None:
    """The value of decimal digits, None if ``text`` is not a uint64 (CF-27)."""
    if _DIGITS.fullmatch(text) is None:
        return None
    value = _decimal(text)
    return value if value < 2**64 else None


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a duration in Go's form (``1h30m``, ``1.5s``), None if it is malformed or exceeds 64 bits (CF-25)."""
    match = _DURATION.fullmatch(text) if len(text) <= 100 else None
    if match is None:
        return None
    total = sum(Fraction(number) * _NS_PER[unit] for number, unit in _DURATION_PART.findall(match[2] or ""))
    if total > QUANTITY_MAX:
        return None
    return -int(total) if match[1] == "-" else int(total)


def duration_text(duration_ns: int) -> str:
    """A duration of at least 0 as people write it: ``1h30m``, ``1.5s``; reading it gives the same."""
    minutes, rest = divmod(duration_ns, 60 * S_NS)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest // S_NS}.{rest % S_NS:09}".rstrip("0").rstrip(".")
    parts = (str(hours), "h"), (str(minutes), "m"), (seconds, "s")
    return "".join(amount + unit for amount, unit in parts if amount != "0") or "0s"


def is_queue_name(text: str) -> bool:
    """True if ``text`` is one legal part of a queue path (CF-20)."""
    return _QUEUE_NAME.fullmatch(text) is not None


def shown(text: str) -> str:
    """The text for a message: quoted, on one line, cut to a readable length; "nothing" if empty."""
    if not text:
        return "nothing"
    return repr(text) if len(text) <= 60 else repr(text[:60]) + "..."


def brief(name: str) -> str:
    """A name as text for a message: unchanged, or quoted and cut if it is very long or not printable."""
    return name if len(name) <= 200 and name.isprintable() else shown(name)


def _decimal(digits: str) -> int:
    """``int(digits)``, but 2**64 for more than 20 digits: Python refuses to convert very long ones."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= 20 else 2**64


def _form_advice(name: str, text: str) -> str:
    """Advice for a text that is not a quantity; for decimal vcores the right text."""
    if name != "vcore":
        return "expected a whole number with an optional suffix such as k, M, Gi"
    advice = "expected a whole number with an optional suffix such as m (thousandths) or k"
    if fraction := _THOUSANDTHS.fullmatch(text.strip()):
        whole, thousandths = fraction.groups()
        advice += f": write {int(whole + thousandths.ljust(3, '0'))}m"
    return advice


def _suffix_advice(name: str, suffix: str) -> str:
    """Advice for an unknown suffix: the known ones with that letter, if there are any."""
    if suffix == "m":
        return "the suffix m (thousandths) is for vcore only"
    alike = [known for known in FACTORS if known and known[0].lower() == suffix[0].lower()]
    all_known = ["m (thousandths)"] * (name == "vcore") + list(filter(None, FACTORS))
    known = " or ".join(alike) or "one of " + ", ".join(all_known)
    return f"unknown suffix {shown(suffix)}, expected {known}"


class _Quantity(Struct):
    value: int


class _Quota(Struct):
    resources: dict[str, _Quantity]


def parse_quota(text: str) -> Resource | None:
    """The quota in a tag, the SI's Resource in JSON; None for an invalid one, which changes nothing (QU-101, QU-102)."""
    if not text:
        return None
    try:
        resource = {name: quantity.value for name, quantity in msgspec.json.decode(text, type=_Quota).resources.items()}
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):  # whatever a client writes
        return None
    values = resource.values()
    legal = any(values) and all(0 <= value <= QUANTITY_MAX for value in values)
    return resource if legal else None


def quota_types(tags: dict[str, str]) -> set[str]:
    """The resource types of all quotas in tags, whose names may have any case."""
    texts = [value for tag, value in tags.items() if tag.lower() in (MAX_TAG, GUARANTEED_TAG)]
    return {name for text in texts for name in parse_quota(text) or ()}
