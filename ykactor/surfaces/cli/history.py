"""The history in a journal as commands read it, with the causes of turns in words; ``ykactor audit``: who has administered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from msgspec import structs

from ykactor.core.messages import submissions as of
from ykactor.core.messages.acts import Act, Administration, MoveApplication, SetQueueQuotas, TerminateApplication
from ykactor.core.messages.facts import Audited
from ykactor.core.messages.submissions import Submission
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.turn.turn import Cause, CycleDue, Input, Request, TimersDue
from ykactor.core.values.printable import printable
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.options import EXISTING_DIRECTORY, since_option, text_or_json
from ykactor.surfaces.cli.terminal import on_one_line, say
from ykactor.wire.history import HistoryError, UnreadableCauseError, decode_facts, decode_turn
from ykactor.wire.si.events import AUDIT, audit_text
from ykactor.wire.si.messages import EventRecord


@contextmanager
def opened(directory: Path) -> Iterator[Reader]:
    """The journal in a state directory, to be read; ends the command with what is wrong with it."""
    with exit_codes.ending(JournalError, UnreadableRowError, DamagedStateError), Reader.open(directory) as reader:
        yield reader


@contextmanager
def readable(path: Path, number: int) -> Iterator[None]:
    """Raises what cannot be read in a transaction as ``JournalError``, with the number of the transaction."""
    try:
        yield
    except (HistoryError, UnreadableCauseError, UnreadableRowError, DamagedStateError) as error:
        raise JournalError(f"{path}: transaction {number}: {error}; use the version of the program that wrote it") from None


# ---- the causes of turns in words: what may follow "because of"


def in_words(cause: Cause) -> str:
    """The cause of a turn on one line."""
    match cause:
        case Input(submissions):
            more = f" and {len(submissions) - 1} more" if len(submissions) > 1 else ""
            return submissions[0].words + more if submissions else "nothing"
        case Request(wanted):
            return f"{_who(wanted)}, to {wanted.words}"
        case CycleDue():
            return "a scheduling cycle"
        case TimersDue():
            return "a timer"


def cause_of(event: EventRecord, cause: Cause) -> str:
    """The cause of one of the events of a turn: the entry of its input that names the most of what the event is about."""
    if not isinstance(cause, Input) or not cause.submissions:
        return in_words(cause)
    about = {event.object_id, event.reference_id, event.queue_name} - {""}
    scores = [len(about & _names(submission)) for submission in cause.submissions]
    if not max(scores):
        wide = [submission for submission in cause.submissions if isinstance(submission, _WIDE)]
        return wide[0].words if wide else in_words(cause)
    # A key may be asked for and released in the same input.
    places = [place for place, score in enumerate(scores) if score == max(scores)]
    return cause.submissions[places[-1 if event.event_change_type == "REMOVE" else 0]].words


#: Submissions with effects on objects that they do not name.
_WIDE = (of.ApplyConfig, of.Reset, of.RemovePartition)


def _names(submission: Submission) -> set[str]:
    fields = ("application_id", "allocation_key", "node_id", "user")
    return {name for name in (getattr(submission, field, None) for field in fields) if name}


def _who(wanted: Administration) -> str:
    if not isinstance(wanted, SetQueueQuotas) and wanted.operator is not None:
        return wanted.operator.title
    if isinstance(wanted, TerminateApplication | MoveApplication) and wanted.who is not None:
        return f"the administrator {wanted.who.user}"
    return "the resource manager"


# ---- who has administered a daemon, and who was refused


@click.command()
@click.option(
    "--state-dir",
    "directory",
    required=True,
    type=EXISTING_DIRECTORY,
    help="The state directory of the daemon, which may run meanwhile.",
)
@since_option("")
@click.option("--who", metavar="NAME", help="Only what the identity NAME has done, or was refused.")
@click.option("--act", type=click.Choice([*Act], case_sensitive=False), help="Only this act.")
@text_or_json("json: JSON Lines.")
def audit(directory: Path, since_ns: int, who: str | None, act: str | None, output: str) -> None:
    """Print who has administered a daemon, and who was refused, in the order of their times.

    Refusals that repeat are told together once a minute, with the time of the last one and their number. Without a journal only
    the log and ykactor follow --kind AUDIT have the audit; they have it in the order in which it was told.

    Columns: time, act, object, identity, then from where, as which role, and what was before and after, or why it was refused.
    """
    audited = [fact for fact in _audited(directory, since_ns) if who in (None, fact.who) and act in (None, fact.act)]
    # A refusal may be told a minute after it happened, and an act that was interrupted after the restart.
    for fact in sorted(audited, key=lambda fact: fact.at_ns):
        say(on_one_line(_audit_row(fact)) if output == "json" else _audit_line(fact))
    if not audited:
        say("nothing in the journal matches", err=True)


def _audited(directory: Path, since_ns: int) -> Iterator[Audited]:
    with opened(directory) as reader:
        for number in reader.mentions(AUDIT, reader.number_at(since_ns)):
            row = reader.row(number)
            if row is None:  # it has become too old meanwhile
                continue
            with readable(reader.path, number):
                facts = [fact for text in row.turns() for fact in decode_facts(decode_turn(text).facts)]
            yield from (fact for fact in facts if isinstance(fact, Audited) and fact.at_ns >= since_ns)


def _audit_row(fact: Audited) -> dict[str, object]:
    """The entry as JSON; its time has the name that it has in events."""
    fields = structs.asdict(fact)
    return {"timestampNano": fields.pop("at_ns"), **fields}


def _audit_line(fact: Audited) -> str:
    """The entry on one line, whatever the texts of a client hold."""
    return printable(f"{time_text(fact.at_ns)} {fact.act:10} {fact.target or '-':24} {fact.who or '-':16} {audit_text(fact)}")
