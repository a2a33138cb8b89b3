"""``ykactor replay``: runs the turns in a journal again, and compares what was decided."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Raw, Struct, to_builtins
from msgspec.structs import replace

from ykactor.core.records.base import base_of
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.sim.replay import Difference, Replay, reproduce
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.history import in_words, opened, readable
from ykactor.surfaces.cli.options import WholeNumber, text_or_json
from ykactor.surfaces.cli.terminal import indented, say_lines
from ykactor.wire.history import RecordedTurn, UnreadableCauseError, decode_cause, decode_turn
from ykactor.wire.post_mortem import UnreadablePostMortemError
from ykactor.wire.scenario import ScenarioError
from ykactor.wire.scenario.load import exact_lines
from ykactor.wire.scenario.recording import Rows, TurnLine


class Outcome(Struct, rename="camel"):
    """The result of a comparison.

    Attributes:
        turns, facts, transactions: how many, with the turn that differs.
        first_ns, last_ns: the Unix times of the first and the last of these turns; None if there is none.
        transaction, difference: the first difference, and in which transaction it is; None if there is none.
    """

    turns: int = 0
    facts: int = 0
    transactions: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    transaction: int | None = None
    difference: Difference | None = None


@click.command()
@click.argument("source", metavar="DIR|RECORDING|POST-MORTEM", type=click.Path(exists=True, path_type=Path))
@click.option("--until", type=WholeNumber(min=1), metavar="NUMBER", help="The last transaction. Default: the newest.")
@click.option("--partition", metavar="NAME", help="Only the turns of this partition.")
@text_or_json("json is one document.")
def command(source: Path, until: int | None, partition: str | None, output: str) -> None:
    """Run the turns in the journal in DIR again, each with its recorded cause, and compare what was decided.

    Begins with the oldest base in the history. Prints the first difference, and then exits with code 1. The
    daemon may run meanwhile. A difference is expected when another version of the program has written the journal.

    A RECORDING is a .jsonl file of ykactor record --exact; its transactions are its lines.

    Of a POST-MORTEM, the file that is written when a partition fails, the turn that failed is run again. Prints what it raises;
    if it raises nothing, that is printed, and the exit code is 1.
    """
    if source.suffix == ".jsonl":
        with exit_codes.ending(ScenarioError, JournalError):
            _show(source, compared(exact_turns(source, until, partition), source), partition, output)
    elif source.is_file():
        _reproduce(source)
    else:
        _replay(source, until, partition, output)


def _reproduce(path: Path) -> None:
    try:
        failure = reproduce(path)
    except (UnreadablePostMortemError, UnreadableCauseError, UnreadableRowError, DamagedStateError) as error:
        raise click.ClickException(f"{path}: {error}") from None
    if failure is None:
        raise click.ClickException(f"{path}: the turn raises nothing here")
    say_lines("".join(traceback.format_exception(failure)).rstrip("\n"))


def _replay(directory: Path, until: int | None, partition: str | None, output: str) -> None:
    with opened(directory) as reader:
        outcome = replayed(reader, until, partition)
        if partition is not None and not outcome.turns:
            _refuse_unknown(reader, until, partition)
    _show(directory, outcome, partition, output)


def _show(source: Path, outcome: Outcome, partition: str | None, output: str) -> None:
    if not outcome.turns and outcome.difference is None:
        of = "" if partition is None else f" of partition {partition}"
        raise click.ClickException(
            f"{source}: found no turn{of} after a base, expected one; history that is older than the oldest base in it cannot be"
            " run again"
        )
    say_lines(indented(_document(outcome)) if output == "json" else _text(source, outcome))
    if outcome.difference is not None:
        why = "another version of ykactor may have recorded it (ykactor rule DU-15)"
        raise click.ClickException(f"{source}: not every turn is as it was recorded; {why}")


def _refuse_unknown(reader: Reader, until: int | None, partition: str) -> None:
    known = sorted({turn.partition for _, turn, _ in turns_in(reader, until)})
    if known and partition not in known:
        raise click.ClickException(f"{reader.path}: no partition {partition}, there is {' and '.join(known)}")


#: A turn with the number of its transaction or line and, if there is one, the base before it.
Numbered = tuple[int, RecordedTurn, bytes | None]


def replayed(reader: Reader, until: int | None = None, partition: str | None = None) -> Outcome:
    """Run the turns up to transaction ``until`` again, up to the first difference.

    Raises:
        JournalError: the journal is damaged, or of another version.
    """
    return compared(turns_in(reader, until, partition), reader.path)


def compared(turns: Iterable[Numbered], path: Path) -> Outcome:
    """Run turns again, up to the first difference. Raises:  JournalError if one cannot be read; ``path`` is where they are."""
    replay, outcome, newest = Replay(), Outcome(), 0
    for number, turn, base in turns:
        with readable(path, number):
            difference = None if base is None else replay.begin(turn, base)
            difference = difference or replay.repeat(turn)
        if replay.turns > outcome.turns:
            outcome.turns, outcome.facts = replay.turns, replay.facts
            outcome.transactions += number != newest
            outcome.first_ns = turn.now_ns if outcome.first_ns is None else outcome.first_ns
            outcome.last_ns, newest = turn.now_ns, number
        if difference is not None:
            outcome.transaction, outcome.difference = number, difference
            break
    return outcome


def turns_in(reader: Reader, until: int | None = None, partition: str | None = None, first: int = 1) -> Iterator[Numbered]:
    """The turns from transaction ``first`` on."""
    for row in reader.rows(first):
        if until is not None and row.number > until:
            return
        bases = reader.bases(row.number)
        for position, text in enumerate(row.turns()):
            with readable(reader.path, row.number):
                turn = decode_turn(text)
            if partition in (None, turn.partition):
                yield row.number, turn, bases.get(position)


def exact_turns(path: Path, until: int | None = None, partition: str | None = None) -> Iterator[Numbered]:
    """The turns of an exact recording, up to a line. Raises:  ScenarioError."""
    rows: list[bytes] = []
    reserves = has_base = False
    for number, line in exact_lines(path):
        if until is not None and number > until:
            return
        if isinstance(line, Rows):
            reserves, has_base = line.reserves, True
            rows += (b"[%b,%b]" % (bytes(key), bytes(row)) for key, row in line.rows)
        elif isinstance(line, TurnLine):
            turn = RecordedTurn(line.partition_name, line.number, line.at_ns, line.cause, line.facts)
            base = base_of(rows, reserves=reserves) if has_base else None
            rows, has_base = [], False
            if partition in (None, turn.partition):
                yield number, turn, base


def _text(directory: Path, outcome: Outcome) -> str:
    found = outcome.difference
    counts = f"{outcome.turns} turns, {outcome.facts} facts, {outcome.transactions} transactions"
    if outcome.first_ns is not None and outcome.last_ns is not None:
        counts += f", from {time_text(outcome.first_ns)} to {time_text(outcome.last_ns)}"
    if found is None:
        return f"{directory}: as recorded: {counts}"
    turn = found.turn
    return "\n".join(
        [
            f"{directory}: the first difference after {counts}",
            f"turn      {turn.number} of partition {turn.partition}, in transaction {outcome.transaction}",
            f"time      {time_text(turn.now_ns)}",
            f"cause     {in_words(decode_cause(turn.cause))}",
            f"differs   {found.what}",
            f"expected  {found.expected.decode()}",
            f"found     {found.found.decode()}",
        ]
    )


def _document(outcome: Outcome) -> dict[str, Any]:
    found, document = outcome.difference, to_builtins(replace(outcome, difference=None))
    assert isinstance(document, dict)
    if found is not None:
        turn, known = found.turn, {"what": found.what, "expected": Raw(found.expected), "found": Raw(found.found)}
        where = {"partition": turn.partition, "turn": turn.number, "atNs": turn.now_ns, "cause": turn.cause}
        document["difference"] = where | known
    return document
