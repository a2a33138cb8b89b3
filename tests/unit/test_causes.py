"""Causes of turns to the JSON of the journal and back, and to words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from queuetexts import SAMPLES
from test_history import sample
from world import app, ask, move, release, terminate

from ykactor.core.messages.acts import Administration
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import ApplyConfig, HeldLimits, RefuseEntry, RemovePartition, Reset, Submission
from ykactor.core.turn.turn import Cause, CycleDue, Input, Request, TimersDue
from ykactor.surfaces.cli.history import cause_of, in_words
from ykactor.wire import queuefile
from ykactor.wire.history import UnreadableCauseError, decode_cause, encode_cause
from ykactor.wire.si.messages import EventRecord

PLAIN = [kind for kind in get_args(Submission) if kind not in (ApplyConfig, RefuseEntry)]
REJECTED = get_args(RefuseEntry.__annotations__["rejected"])


def assert_comes_back(cause: Cause) -> None:
    again = decode_cause(encode_cause(cause))
    assert again == cause
    assert type(again) is type(cause)


@pytest.mark.parametrize("full", [True, False], ids=["full", "empty"])
@pytest.mark.parametrize("kind", PLAIN)
def test_every_submission_comes_back(kind: Any, full: bool) -> None:
    """Down to the types of its fields, and it has words."""
    cause = Input([sample(kind, full=full)])
    assert_comes_back(cause)
    assert repr(decode_cause(encode_cause(cause))) == repr(cause)
    assert in_words(cause)


@pytest.mark.parametrize("kind", REJECTED)
def test_refused_entries_come_back(kind: Any) -> None:
    """A refused entry comes back with its kind."""
    assert_comes_back(Input([RefuseEntry(sample(kind, full=True)), Reset()]))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_configuration_comes_back(path: Path) -> None:
    """A configuration comes back with all that it sets."""
    for partition in queuefile.load(path.read_text()).partitions:
        assert_comes_back(Input([ApplyConfig(partition)]))


@pytest.mark.parametrize("kind", get_args(Administration))
def test_every_request_comes_back(kind: Any) -> None:
    """A request comes back with its sender, or without."""
    for full in (True, False):
        assert_comes_back(Request(sample(kind, full=full)))


@pytest.mark.parametrize("cause", [TimersDue(), CycleDue(Budget(7, 5)), Input([]), Input([], HeldLimits("ci", 1, 2, 3, 4))])
def test_the_others_come_back(cause: Cause) -> None:
    """Also an empty input."""
    assert_comes_back(cause)
    assert in_words(cause)


@pytest.mark.parametrize(
    "data", [b"{}", b"[]", b'{"input":[["Moon",{}]]}', b'{"request":["Moon",{}]}', b'{"input":[["AddApplication",{}]]}']
)
def test_what_is_no_cause_is_refused(data: bytes) -> None:
    """Also one of another version."""
    with pytest.raises(UnreadableCauseError):
        decode_cause(data)


def event(object_id: str, reference_id: str = "", change: str = "ADD") -> EventRecord:
    return EventRecord(1, "APP", object_id, change, "NONE", 0, reference_id, "", "default", "", {})


def test_the_entry_that_names_the_most() -> None:
    """An event about an ask is caused by the entry of the ask, not by another one of the application; or by its release."""
    cause = Input([app("app-1"), ask("t1", "app-1"), ask("t2", "app-1"), release("t1", "app-1")])
    assert cause_of(event("app-1"), cause) == "the request for application app-1"
    assert cause_of(event("app-1", "t2"), cause) == "the request for ask t2 of app-1"
    assert cause_of(event("app-1", "t1"), cause) == "the request for ask t1 of app-1"
    assert cause_of(event("app-1", "t1", "REMOVE"), cause) == "the request to release t1 of app-1 (STOPPED_BY_RM)"


def test_entries_with_effects_everywhere() -> None:
    """An entry that names nothing of the event may still be its cause; if none does, all of the input is."""
    asks = [ask("t1", "app-1"), ask("t2", "app-1")]
    assert cause_of(event("n1"), Input([asks[0], Reset()])) == "a new registration"
    assert cause_of(event("root"), Input([RemovePartition()])) == "the removal of the partition from the configuration"
    assert cause_of(event("n1"), Input(asks)) == "the request for ask t1 of app-1 and 1 more"


def test_requests_name_who_asks() -> None:
    """An administrator by name."""
    assert in_words(Request(move("app-1", "root.b"))) == "the resource manager, to move application app-1 to root.b"
    assert in_words(Request(terminate("app-1"))) == "the resource manager, to end application app-1"
