"""Facts to the JSON of the journal and back."""

import enum
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from ykactor.core.messages.facts import FACTS, NodeRemoved, RecheckDue
from ykactor.wire.history import HistoryError, decode_facts, encode_facts

PLAIN = {int: 2**70, str: 'n"ö\n', bool: True, float: 0.1}


def sample(kind: Any, *, full: bool) -> Any:
    """A value of a type: with ``full`` nothing in it is empty or None, otherwise all that may be is."""
    kind = getattr(kind, "__supertype__", kind)
    if kind in PLAIN:
        return PLAIN[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        (given,) = (part for part in parts if part is not type(None))
        return sample(given, full=full) if full else None
    if origin is dict:
        return {sample(parts[0], full=True): sample(parts[1], full=True)} if full else {}
    if origin is tuple and parts[-1] is Ellipsis:
        return (sample(parts[0], full=True),) * 2 if full else ()
    if origin is tuple:
        return tuple(sample(part, full=full) for part in parts)
    if issubclass(kind, enum.Enum):
        return list(kind)[-1]
    return kind(**{name: sample(hint, full=full) for name, hint in get_type_hints(kind).items()})


@pytest.mark.parametrize("full", [True, False], ids=["full", "empty"])
@pytest.mark.parametrize("kind", FACTS)
def test_every_fact_comes_back(kind: Any, full: bool) -> None:
    """A fact that was encoded and decoded is equal, down to the types of its fields."""
    fact = sample(kind, full=full)
    (read,) = decode_facts(encode_facts([fact]))
    assert read == fact
    assert repr(read) == repr(fact)


def test_facts_are_pairs_of_a_name_and_fields() -> None:
    """The form that other programs read; the order is kept."""
    data = encode_facts([NodeRemoved(5, "n1"), RecheckDue(6)])
    assert msgspec.json.decode(data) == [["NodeRemoved", {"at_ns": 5, "node_id": "n1"}], ["RecheckDue", {"at_ns": 6}]]


@pytest.mark.parametrize(
    ("data", "mistake"),
    [
        (b'[["NodeRemoved",{"at_ns":5,"node_id":"n"}],["NodeVanished",{}]]', "fact 1: found 'NodeVanished', expected what"),
        (b'[["NodeRemoved",{"at_ns":"5","node_id":"n"}]]', "fact 0 NodeRemoved: Expected `int`, got `str` - at `$.at_ns`"),
        (b'[["NodeRemoved",{"at_ns":5', "fact 0 : "),
    ],
    ids=["unknown", "wrong", "cut off"],
)
def test_unreadable_facts_are_refused(data: bytes, mistake: str) -> None:
    """The error says what was found and where; a part of the facts is never returned."""
    with pytest.raises(HistoryError, match=mistake.replace("$", r"\$")):
        decode_facts(data)
