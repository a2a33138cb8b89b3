"""``python -m bench.soak``: thirty simulated days of churn, in which nothing may grow and every invariant holds.

One daemon after the other lives with the same journal: every other one ends as by ``kill -9``. Followers are slow or vanish, the
resource manager vanishes and resumes. The state is measured and checked after each simulated hour.
"""

from __future__ import annotations

import gc
import logging
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter
from unittest.mock import patch

import click
import trio
import trio.testing
from msgspec import Struct

from bench.beside import Beside
from bench.churn import Churn, config
from bench.growth import History, Quantity, growing, note, of_files, of_process, picture, tables
from bench.lives import Life, Line, living
from ykactor.actors import selection
from ykactor.actors.clock import Clock
from ykactor.core.accounting import accounts
from ykactor.core.values.times import S_NS
from ykactor.journal.reading import Reader
from ykactor.surfaces.files.state_dir import StateSettings
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si

PICTURE = Path(__file__).parent / "soak.svg"
_HOUR_S, _STEPS = 3600, 60
#: The number of accounts that are kept, instead of those of more than a month: its bound has to be reached in the first third.
_ACCOUNTS_MAX = 1_000
#: The bytes of the parts that the feed keeps, instead of 16 MiB, which no daemon reaches in its 60 hours: how many parts it has
#: before depends on its followers.
_KEPT_BYTES_MAX = 2**18
#: When all begins, Unix time.
_START_NS = 1_700_000_000 * S_NS
#: What the picture shows, beside the number of rows.
_SHOWN = ("resident memory", "open files", "journal files", "all rows", "all tables")


class Plan(Struct, frozen=True):
    """A soak; times are in simulated hours.

    Attributes:
        busy: applications in an hour.
        life: of a daemon.
        absence: how often the resource manager is away, for an hour.
        registration: how often it registers anew.
        keep_bytes: of the history.
    """

    hours: int = 30 * 24
    seed: int = 1
    busy: float = 10
    life: int = 60
    absence: int = 31
    registration: int = 97
    keep_bytes: int = 8 * 2**20


class Result(Struct):
    """The result of a soak.

    Attributes:
        history: a sample after each simulated hour.
        violations: of invariants.
        placed: the number of allocations.
        turns, compared: the turns that a replica beside has run, and how often all of both was compared.
        trimmed: the number of transactions that are no longer in the history.
    """

    history: History
    violations: list[str]
    placed: int
    trimmed: int
    turns: int
    compared: int


async def soak(plan: Plan, folder: Path, on_hour: Callable[[int, History], None] = lambda *_: None) -> Result:
    """Run a soak, with its journal in ``folder``. The clock must be a ``MockClock`` that jumps."""
    clock = Clock(_START_NS)
    settings = StateSettings(folder, "off", plan.keep_bytes, 7 * 24 * _HOUR_S * S_NS)
    churn = Churn(plan.seed, plan.busy)
    history: History = {}
    violated: list[str] = []
    beside = Beside()
    hour = 0
    while hour < plan.hours:
        async with living(settings, queuefile.load(config(0)), clock) as life, trio.open_nursery() as clients:
            for number in range(3):
                clients.start_soon(_follow, life, Random(plan.seed + number))
            clients.start_soon(beside.follow, life)
            if hour:
                await churn.manager.resume(life)
            for _ in range(min(plan.life, plan.hours - hour)):
                hour += 1
                await _hour(hour, plan, churn, life)
                found = [*await life.violations(), *await beside.violations(life)]
                violated += [f"hour {hour}: {violation}" for violation in found]
                note(history, _sample(life, folder))
                on_hour(hour, history)
            life.dies = hour // plan.life % 2 == 0
            clients.cancel_scope.cancel()
    with Reader.open(folder) as reader:
        trimmed = reader.numbers()[0] - 1
    return Result(history, violated, churn.manager.placed, trimmed, beside.turns, beside.compared)


async def _hour(hour: int, plan: Plan, churn: Churn, life: Life) -> None:
    if hour % plan.registration == 1:
        await churn.begin(life)
    if hour % plan.absence == 0:
        churn.manager.hang_up()
        await trio.sleep(_HOUR_S)
        await churn.manager.resume(life)
        return
    for _ in range(_STEPS):
        await churn.step(life)
        await trio.sleep(_HOUR_S / _STEPS)


async def _follow(life: Life, chance: Random) -> None:
    """One follower after the other, each slow or fast, for some hours."""
    while True:
        line = Line()
        life.serve_follower(line)
        line.send(si.Subscribe(from_=chance.choice(("now", "snapshot", 0))))
        ends_at = trio.current_time() + chance.uniform(0, 6) * _HOUR_S
        while trio.current_time() < ends_at and not line.has_ended:
            await trio.sleep(chance.uniform(0, 600))
            line.stop_reading()
            await trio.sleep(chance.choice((0, 1, 30)))
            line.read_on()
        line.hang_up()


def _sample(life: Life, folder: Path) -> dict[Quantity, float]:
    """All that is measured."""
    gc.collect()
    counts = tables(life.daemon)
    with Reader.open(folder) as reader:
        rows = Counter(key.split(b'"')[3].decode() for key, _ in reader.records())
    return {
        **of_process(),
        **of_files(folder),
        Quantity("all rows", "rows"): float(rows.total()),
        Quantity("all tables", "entries"): sum(counts.values()),
        **{Quantity(f"rows {kind}", "rows"): float(count) for kind, count in rows.items()},
        **counts,
    }


def run(plan: Plan, on_hour: Callable[[int, History], None] = lambda *_: None) -> Result:
    """Run a soak in a directory that is removed at the end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(accounts, "ROWS_MAX", _ACCOUNTS_MAX),
        patch.object(selection, "_KEPT_BYTES_MAX", _KEPT_BYTES_MAX),
    ):
        clock = trio.testing.MockClock(autojump_threshold=0)
        return trio.run(soak, plan, Path(folder), on_hour, clock=clock)


@click.command()
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="Simulated.")
@click.option("--seed", type=int, default=1, show_default=True)
def main(days: int, seed: int) -> None:
    """Soak a daemon, and fail if something grows or an invariant is violated."""
    logging.getLogger("ykactor").setLevel(logging.ERROR)
    began_s = perf_counter()
    result = run(Plan(hours=24 * days, seed=seed), partial(_report, began_s))
    shown = {quantity: values for quantity, values in result.history.items() if quantity.name in _SHOWN}
    PICTURE.write_text(picture(f"{days} days of churn", shown, days))
    click.echo(f"{result.placed} allocations, {result.trimmed} transactions left the history; {PICTURE}")
    click.echo(f"a replica beside has run {result.turns} turns, and showed what the daemon showed {result.compared} times")
    mistakes = [*result.violations, *growing(result.history)]
    for mistake in mistakes:
        click.echo(mistake, err=True)
    raise SystemExit(1 if mistakes else 0)


def _report(began_s: float, hour: int, history: History) -> None:
    if hour % 24 == 0:
        newest = {quantity.name: values[-1] for quantity, values in history.items() if quantity.name in _SHOWN}
        figures = ", ".join(f"{name} {value:,.1f}" for name, value in newest.items())
        click.echo(f"day {hour // 24} after {perf_counter() - began_s:.0f} s: {figures}")


if __name__ == "__main__":
    main()
