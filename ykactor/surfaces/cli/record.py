"""``ykactor record``: a part of the history in a journal as a file, to run it again, or with another configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, get_args

import click
import msgspec
from msgspec import Struct, structs

from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import S_NS, US_NS
from ykactor.journal.reading import Reader
from ykactor.sim.anonymous import Names, anonymised
from ykactor.sim.recording import Recording, Span, UnusableHistoryError, exact, exact_header
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import outages_text, time_text
from ykactor.surfaces.cli.history import opened, readable
from ykactor.surfaces.cli.options import EXISTING_DIRECTORY, PAST, grouped
from ykactor.surfaces.cli.replay import turns_in
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.files.regular import whole_file
from ykactor.wire.history import HistoryError, RecordedTurn, UnreadableCauseError, decode_turn
from ykactor.wire.scenario.model import RecordedHeader
from ykactor.wire.scenario.recording import AfterPreemption, Line, Outage, Recorded, encode_line, seconds

#: How long after its time a turn is committed at most.
LATEST_NS = 60 * S_NS


class Form(Struct, frozen=True):
    """The options for the form of a recording."""

    is_exact: bool
    is_anonymous: bool
    after_preemption: AfterPreemption | None


class _Window(Struct, frozen=True):
    """A part of a history.

    Attributes:
        begins: by partition, the transaction of the newest state before it, and its place there.
        outages: the times of it in which no daemon ran.
    """

    span: Span
    begins: dict[PartitionName, tuple[int, int]]
    outages: tuple[Outage, ...]


_TIME = "in UTC, as 2026-07-31 or 2026-07-31T09:30:00, or 10m, 2h or 7d ago"


@click.command()
@click.argument("directory", metavar="STATE_DIR", type=EXISTING_DIRECTORY)
@click.option("--from", "from_ns", type=PAST, metavar="TIME", help=f"The begin: {_TIME}.  [default: the oldest that is kept]")
@click.option("--to", "to_ns", type=PAST, metavar="TIME", help="The end.  [default: the newest]")
@grouped(
    "form",
    Form,
    click.option("--exact", "is_exact", is_flag=True, help="Record every turn with what was decided, for ykactor replay."),
    click.option(
        "--anonymise",
        "is_anonymous",
        is_flag=True,
        help="Replace all names by their ranks, and leave out tags, attributes and texts on which nothing depends.",
    ),
    click.option(
        "--after-preemption",
        type=click.Choice(get_args(AfterPreemption)),
        help="What becomes of a task that is preempted, or loses its node, where that is not recorded: it is submitted again"
        " and runs for its whole time, or is gone.  [default: resubmit]",
    ),
)
@click.option("-o", "--output", required=True, metavar="FILE.jsonl", help="The file; - is standard output.")
def command(directory: Path, from_ns: int | None, to_ns: int | None, form: Form, output: str) -> None:
    """Record what happened to a daemon from one time to another, from the journal in STATE_DIR.

    The recording begins with the state at that time, and has what all senders have sent since then. ykactor simulate runs it:
    with the same configuration to the same decisions at the same times, or with another one (--config). What tasks and resource
    managers have done because of decisions is recorded as what they would do: tasks run as long as they did, releases are
    confirmed as late. What could not be carried over like this is counted on standard error, and for how long no daemon ran.

    With --exact it has every turn of the daemon, which ykactor replay runs again and compares; it begins with the states before
    the time. The daemon may run meanwhile. The file is private: it has the names of users and applications. With --anonymise it
    has none, and the same decisions: each name is its rank among all names, and applications name the queue in which they were
    placed.
    """
    if form.is_exact and (form.is_anonymous or form.after_preemption is not None):
        other = "--anonymise" if form.is_anonymous else "--after-preemption"
        raise click.UsageError(f"found {other} with --exact, expected one of them")
    errors = UnusableHistoryError, HistoryError, UnreadableCauseError, UnreadableRowError, DamagedStateError
    with opened(directory) as reader, exit_codes.ending(*errors), _target(output) as file:
        window = _window(reader, from_ns, to_ns)

        def turns() -> Iterable[tuple[RecordedTurn, bytes | None]]:
            return _turns(reader, window)

        if form.is_exact:
            _write(file, window, exact_header(window.span), exact(turns))
            _tell(window)
            return
        recording = Recording(turns, window.span, form.after_preemption or "resubmit", is_pinned=form.is_anonymous)
        lines = anonymised(recording.lines, Names()) if form.is_anonymous else recording.lines()
        _write(file, window, recording.recorded, lines)
    _tell(window, f": {recording.tasks} tasks", recording.counts)


def _tell(window: _Window, tasks: str = "", counts: Mapping[str, int] = {}) -> None:
    span = window.span
    say(f"recorded from {time_text(span.from_ns)} to {time_text(span.to_ns)}{tasks}", err=True)
    if text := outages_text(window.outages):
        say(text, err=True)
    for what, count in sorted(counts.items()):
        if count:
            say(f"not carried over ({count}): {what}", err=True)


@contextmanager
def _target(output: str) -> Iterator[IO[bytes]]:
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_file(Path(output), 0o600) as file:
        yield file


def _write(file: IO[bytes], window: _Window, recorded: Recorded, lines: Iterable[Line]) -> None:
    span, recorded = window.span, structs.replace(recorded, outages=window.outages)
    name = f"{time_text(span.from_ns)} to {time_text(span.to_ns)}"
    header = RecordedHeader(name, "", seconds(span.to_ns - span.from_ns), recorded=recorded)
    file.write(msgspec.json.encode(header) + b"\n")
    for line in lines:
        file.write(encode_line(line))


# ---- the part of a history


def _window(reader: Reader, from_ns: int | None, to_ns: int | None) -> _Window:
    """The part of the history between two times. Raises:  click.ClickException with what is kept."""
    states = list(_states(reader))
    last = reader.row(reader.numbers()[1])
    if not states or last is None:
        raise click.ClickException(f"{reader.path}: found no state of a partition, expected one: there is nothing to begin with")
    kept = f"what is kept goes from {time_text(states[0][0])} to {time_text(last.at_ns)}"
    begin_ns = states[0][0] if from_ns is None else from_ns
    end_ns = last.at_ns if to_ns is None else to_ns
    if begin_ns < states[0][0] // US_NS * US_NS:
        raise click.ClickException(f"{reader.path}: found --from {time_text(begin_ns)}, expected a later time: {kept}")
    if begin_ns > last.at_ns:
        raise click.ClickException(f"{reader.path}: found --from {time_text(begin_ns)}, expected an earlier time: {kept}")
    if end_ns < begin_ns:
        raise click.ClickException(f"found --to {time_text(end_ns)}, expected a time after --from, {time_text(begin_ns)}")
    if end_ns > last.at_ns:
        say(f"--to is after the history, {kept}", err=True)
        end_ns = last.at_ns
    begins: dict[PartitionName, tuple[int, int]] = {}
    for at_ns, partition, number, position in states:
        if at_ns <= begin_ns or partition not in begins:
            begins[partition] = number, position
    span = Span(begin_ns // US_NS * US_NS, end_ns // US_NS * US_NS)
    return _Window(span, begins, tuple(_outages(reader, span)))


def _outages(reader: Reader, span: Span) -> Iterator[Outage]:
    """The times in which no daemon ran: each term but the first begins after one. A term may have no transaction."""
    for number in sorted({beginning.transaction for beginning in reader.beginnings()}):
        before, after = reader.row(number - 1), reader.row(number)
        if before is None or after is None:
            continue
        with readable(reader.path, number):
            times = [turn.now_ns for turn in map(decode_turn, after.turns()) if turn.number is not None]
        outage = Outage(max(before.at_ns, span.from_ns), min(*times, after.at_ns, span.to_ns))
        if outage.from_ns < outage.to_ns:
            yield outage


def _states(reader: Reader) -> Iterator[tuple[int, PartitionName, int, int]]:
    """The time, the partition, the transaction and the place of each state in the history, in its order."""
    for number in reader.base_numbers():
        row = reader.row(number)
        if row is None:  # it has become too old meanwhile
            continue
        texts = list(row.turns())
        for position in sorted(reader.base_positions(number)):
            with readable(reader.path, number):
                turn = decode_turn(texts[position])
            yield turn.now_ns, turn.partition, number, position


def _turns(reader: Reader, window: _Window) -> Iterator[tuple[RecordedTurn, bytes | None]]:
    """The turns of each partition from its state on, until the end."""
    first = min(number for number, _ in window.begins.values())
    last = reader.number_at(window.span.to_ns + LATEST_NS)
    newest = place = 0
    for number, turn, base in turns_in(reader, last, first=first):
        place, newest = (place + 1 if number == newest else 0), number
        begin = window.begins.get(turn.partition)
        if begin is not None and (number, place) >= begin and turn.now_ns <= window.span.to_ns:
            yield turn, base
