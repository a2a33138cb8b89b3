"""``ykactor explain --on``: the explanation from a journal; its history tells of applications that are remembered no longer."""

from __future__ import annotations

from pathlib import Path

import click

from ykactor.access.explanations import explanation, meanings
from ykactor.core.inspection.finding import Kind, names_like, nearest, nothing, several
from ykactor.core.messages.asks import AskID
from ykactor.core.messages.facts import ApplicationChanged, ApplicationRejected, Fact, Released
from ykactor.core.messages.states import ApplicationState
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName
from ykactor.core.values.parts import finished
from ykactor.journal.reading import Reader
from ykactor.sim.twin import Twin
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.history import opened, readable
from ykactor.surfaces.cli.present_state import recorded_state
from ykactor.wire.history import decode_facts, decode_turn
from ykactor.wire.si import messages as si

_NOBODY: AskID = ApplicationID(""), AllocationKey("")
_ENDED = ApplicationState.COMPLETED, ApplicationState.FAILED, ApplicationState.REJECTED


def explain_journal(journal: Path, name: str, kind: Kind | None, partition: str) -> si.Explanation:
    """Explain what a name, or ``APP/ASK``, means in a journal.

    Raises:
        ClickException: it means nothing, or several things.
    """
    fork, now_ns = recorded_state(journal)
    known = fork()
    among = {each: cores for each, cores in known.items() if partition.lower() in ("", each.lower())}
    if not among:
        raise click.ClickException(f"found {partition}, expected one of {', '.join(known)}")
    for cores in among.values():
        Twin(cores, now_ns, _NOBODY)  # lets it come to rest
    owner, _, key = name.partition("/")
    kind = "application" if key else kind
    found = [(match, cores) for cores in among.values() for match in finished(meanings(owner, kind, None, *_state(cores)))]
    if len(found) > 1:
        raise click.ClickException(several(owner, [match for match, _ in found]))
    for match, cores in found:
        told = finished(explanation(match._replace(key=key or match.key), None, *_state(cores), now_ns))
        if told is not None:
            return told
    like = [each for cores in among.values() for each in finished(names_like(cores[0], owner, kind, None))]
    with opened(journal) as reader:
        if kind in (None, "application", "ask") and (status := _end(reader, owner, key, kind, {*among})):
            return si.Explanation(status=status)
        since = next((f"since {time_text(row.at_ns)}" for row in reader.rows(reader.numbers()[0])), "that is kept")
    unknown = nothing(name, kind, nearest(owner, like))
    raise click.ClickException(f"{unknown}; the history {since} has no end of one")


def _state(cores: Cores) -> tuple[PartitionCore, SchedulerState]:
    return cores[0], cores[1].state


# ---- the past


def _end(reader: Reader, name: str, key: str, kind: Kind | None, partitions: set[PartitionName]) -> str:
    """A sentence about the last end of an application, of its task, or of any task with this key; "" if the history has none."""
    for number in reversed(reader.mentions(key or name)):
        row = reader.row(number)
        if row is None:  # it has become too old meanwhile
            continue
        with readable(reader.path, number):
            turns = [turn for turn in map(decode_turn, row.turns()) if turn.partition in partitions]
            facts = [fact for turn in turns for fact in decode_facts(turn.facts)]
        for fact in reversed(facts):
            told = "" if key or kind == "ask" else _end_of_application(fact, name)
            if told or (told := _end_of_task(fact, name if key else "", key or name) if kind != "application" or key else ""):
                return f"{told}, as the history says"
    return ""


def _end_of_application(fact: Fact, name: str) -> str:
    match fact:
        case ApplicationRejected(application_id=application_id, reason=reason) if application_id == name:
            return f"application {name} was rejected at {time_text(fact.at_ns)}: {reason}"
        case ApplicationChanged(application_id=application_id, state=state) if application_id == name and state in _ENDED:
            why = f": {fact.why}" if fact.why else ""
            return f"application {name} ended in {fact.queue} at {time_text(fact.at_ns)}: it was {state.value}{why}"
    return ""


def _end_of_task(fact: Fact, owner: str, key: str) -> str:
    """The same of a task; without an owner of any application."""
    if not isinstance(fact, Released) or fact.ask.allocation_key != key or owner not in ("", fact.ask.application_id):
        return ""
    why = f": {fact.message}" if fact.message else ""
    where = f"on {fact.node_id} in {fact.queue} at {time_text(fact.at_ns)}"
    return f"task {key} of application {fact.ask.application_id} ended {where}: {fact.termination_type.value}{why}"
