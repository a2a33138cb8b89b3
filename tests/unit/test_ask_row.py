"""Asks are recorded in the journal as all versions have recorded them: what was sent, beside the stamps of the leaf."""

from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs

from ykactor.core.messages.asks import Ask, Failure, ask_of, row_of
from ykactor.core.messages.facts import AskAdded, AskResized, Fact
from ykactor.core.messages.kinds import Change, TerminationType
from ykactor.core.turn.causes import Input
from ykactor.wire.causes import decode_cause, encode_cause
from ykactor.wire.history import decode_facts, encode_facts

SENT = Ask("t1", "app-1", {"vcore": 1}, 3, tags={"k": "v"}, failures=(Failure("n1", 1, 5),))  # type: ignore[arg-type]
ASK = structs.replace(SENT, created_ns=0, arrival=2, since_ns=0)
SPEC = (
    b'{"allocation_key":"t1","application_id":"app-1","resource":{"vcore":1},"priority":3,"tags":{"k":"v"},'
    b'"failures":[{"node_id":"n1","count":1,"until_ns":5}]}'
)
#: Stamps are recorded also if they are 0.
ROW = b'{"spec":' + SPEC + b',"created_ns":0,"arrival":2,"since_ns":0}'

FACTS = [kind for kind in get_args(Fact) if any(each.type is Ask for each in structs.fields(kind))]


def made(kind: type[Fact]) -> Fact:
    """A fact with a value for each field that it must have."""
    return kind(**{each.name: value_of(each.type) for each in structs.fields(kind) if each.required})


def value_of(kind: Any) -> Any:
    """Something of a type."""
    for value in (ASK, 1, "x", True, {}, [], *TerminationType, *Change):
        with suppress(msgspec.ValidationError):
            return msgspec.convert(value, kind)
    raise AssertionError(f"no value is a {kind}")


def test_an_input_has_asks_as_they_were_sent() -> None:
    cause = encode_cause(Input([SENT], None))
    assert cause == b'{"input":[["SubmitAllocation",{"spec":' + SPEC + b"}]]}"
    assert decode_cause(cause) == Input([SENT], None)


def test_rows_have_stamps_beside_what_was_sent() -> None:
    assert msgspec.json.encode(row_of(ASK)) == ROW
    assert ask_of(row_of(ASK)) == ASK
    assert row_of(ASK).spec == SENT


def test_facts_have_rows_of_their_asks() -> None:
    assert encode_facts([AskAdded(7, ASK, "root.a")]) == b'[["AskAdded",{"at_ns":7,"ask":' + ROW + b',"queue":"root.a"}]]'  # type: ignore[arg-type]
    resized = encode_facts([AskResized(7, ASK, ASK, "root.a")])  # type: ignore[arg-type]
    assert resized == b'[["AskResized",{"at_ns":7,"before":' + ROW + b',"after":' + ROW + b',"queue":"root.a"}]]'


@pytest.mark.parametrize("kind", FACTS)
def test_a_fact_with_an_ask_is_read_as_it_was_written(kind: type[Fact]) -> None:
    """Of each class of facts with an ask, in whatever field."""
    fact = made(kind)
    text = encode_facts([fact])
    assert decode_facts(text) == [fact]
    assert text.count(b'{"spec":{') == sum(each.type is Ask for each in structs.fields(kind))
