"""Asks are recorded in the journal as they are, and read also in the form of versions before 4: stamps beside what was sent."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from msgspec import structs

from ykactor.core.messages.asks import Ask, Failure
from ykactor.core.messages.facts import FACTS, Fact
from ykactor.core.messages.kinds import Change, TerminationType
from ykactor.core.records.encoding import decode, encode, pairs
from ykactor.core.records.rows import TaskRow
from ykactor.core.turn.turn import Input
from ykactor.wire.history import HistoryError, decode_cause, decode_facts, encode_cause, encode_facts

SENT = Ask("t1", "app-1", {"vcore": 1}, 3, tags={"k": "v"}, failures=(Failure("n1", 1, 5),))  # type: ignore[arg-type]
ASK = structs.replace(SENT, created_ns=0, arrival=2, since_ns=7)
FIELDS = (
    b'"allocation_key":"t1","application_id":"app-1","resource":{"vcore":1},"priority":3,"tags":{"k":"v"},'
    b'"failures":[{"node_id":"n1","count":1,"until_ns":5}]'
)
TEXT = b"{" + FIELDS + b',"arrival":2,"since_ns":7}'
#: Before version 4; stamps are there also if they are 0.
EARLIER = b'{"spec":{' + FIELDS + b'},"created_ns":0,"arrival":2,"since_ns":7}'
TASK = ("task", 2)

FACTS = [kind for kind in FACTS if any(each.type is Ask for each in structs.fields(kind))]


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
    assert cause == b'{"input":[["SubmitAllocation",{"spec":{' + FIELDS + b"}}]]}"
    assert decode_cause(cause) == Input([SENT], None)


def test_a_row_has_the_ask_with_its_stamps() -> None:
    ((key, text),) = pairs(encode("default", [(TASK, TaskRow(ask=ASK, node_id="n1"))]))  # type: ignore[arg-type]
    assert text == b'{"ask":' + TEXT + b',"node_id":"n1"}'
    assert decode(key, text)[1:] == (TASK, TaskRow(ask=ASK, node_id="n1"))  # type: ignore[arg-type]
    assert decode(key, text.replace(TEXT, EARLIER)) == decode(key, text)


@pytest.mark.parametrize("kind", FACTS)
def test_a_fact_with_an_ask_is_read_as_it_was_written(kind: type[Fact]) -> None:
    """Each class of facts with an ask, in whatever field, is read as it was written, now and before version 4."""
    fact = made(kind)
    text = encode_facts([fact])
    assert text.count(TEXT) == sum(each.type is Ask for each in structs.fields(kind))
    assert decode_facts(text) == decode_facts(text.replace(TEXT, EARLIER)) == [fact]


def test_the_mistake_in_a_fact_is_that_in_the_present_form() -> None:
    """Also where the class has an earlier form."""
    with pytest.raises(HistoryError, match=r"fact 0 AskAdded: Expected `int`, got `str` - at `\$.ask.priority`"):
        decode_facts(b'[["AskAdded",{"at_ns":1,"ask":' + TEXT.replace(b"3", b'"3"', 1) + b',"queue":"root.a"}]]')
