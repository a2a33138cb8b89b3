"""The lifecycle of an application as a table (AP-30)."""

from pathlib import Path

import pytest

import ykactor
from ykactor.core.messages.states import (
    APPLICATION_MOVES,
    COMPLETING_TIMEOUT_NS,
    QUEUE_CLEANER_NS,
    STARTING_TIMEOUT_NS,
    TERMINAL_TIMEOUT_NS,
    after_allocation,
)
from ykactor.core.messages.states import ApplicationEvent as Event
from ykactor.core.messages.states import ApplicationState as State
from ykactor.core.values.times import S_NS

#: state -> what run, complete, fail, expire and resume lead to; "-" is an error, or a move that changes nothing (AP-30, AP-31).
TABLE = {
    "New": "Accepted - Failing - Resuming",
    "Accepted": "Starting Completing Failing - Resuming",
    "Starting": "Running Completing Failing - -",
    "Running": "- Completing Failing - -",
    "Completing": "Running Completed Failing - -",  # fail: for partition removal and execution timeout only (AP-33)
    "Resuming": "Accepted - Failing - -",  # fail: the same
    "Failing": "- - Failed - -",
    "Completed": "- - - Expired -",
    "Failed": "- - - Expired -",
    "Rejected": "- - - Expired -",
    "Expired": "- - - - -",
}


@pytest.mark.parametrize(
    ("state", "event", "entered"),
    [(state, event, entered) for state, row in TABLE.items() for event, entered in zip(Event, row.split(), strict=True)],
)
def test_moves(state: str, event: Event, entered: str) -> None:
    """Each state and event as the table says; what is not in it is no move (AP-30)."""
    assert APPLICATION_MOVES.get((State(state), event)) == (None if entered == "-" else State(entered))


def test_the_table_is_complete() -> None:
    """Every state has its row, and the names are those on the wire."""
    assert {state.value for state in State} == set(TABLE)
    assert [event.value for event in Event] == [
        "runApplication",
        "completeApplication",
        "failApplication",
        "expireApplication",
        "resumeApplication",
    ]


def diagram() -> str:
    """The moves of an application as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> New", "    [*] --> Rejected"]
    lines += [f"    {before} --> {after}: {event.name.lower()}" for (before, event), after in APPLICATION_MOVES.items()]
    return "\n".join([*lines, "    Expired --> [*]"])


def test_the_essay_shows_the_table() -> None:
    """The diagram in the design essay is made of the table."""
    essay = (Path(ykactor.__file__).parent / "README.md").read_text()
    assert f"```mermaid\n{diagram()}\n```" in essay


def test_lengths() -> None:
    """Starting 5 min, Completing 30 s, terminal 72 h, the queue cleaner 10 s (AP-43, QU-96)."""
    lengths = (STARTING_TIMEOUT_NS, COMPLETING_TIMEOUT_NS, TERMINAL_TIMEOUT_NS, QUEUE_CLEANER_NS)
    assert [length // S_NS for length in lengths] == [300, 30, 72 * 3600, 10]


@pytest.mark.parametrize(
    ("state", "stateaware", "entered"),
    [
        ("New", True, "Accepted Starting"),
        ("New", False, "Accepted Starting Running"),
        ("Accepted", True, "Starting"),
        ("Accepted", False, "Starting Running"),
        ("Starting", True, "Running"),
        ("Starting", False, "Running"),
        ("Running", True, ""),
        ("Completing", True, "Running"),
        ("Completing", False, "Running"),
        ("Failing", True, ""),
        ("Completed", True, ""),
    ],
)
def test_after_allocation(state: str, stateaware: bool, entered: str) -> None:
    """The first allocation starts, the second runs (AP-36); without state awareness Starting lasts no time (AP-40).

    A recovered allocation is the first sign of life of a New application (AP-35).
    """
    assert after_allocation(State(state), stateaware=stateaware) == tuple(State(name) for name in entered.split())
