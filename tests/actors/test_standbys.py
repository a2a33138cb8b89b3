"""Standbys of a journal in simulated time: what is told, when, and what is kept for them (DU-20, DU-21)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from memorystore import MemoryStore

from ykactor.actors import standbys as module
from ykactor.actors.journal import Journal
from ykactor.actors.standbys import Missed, Settings, Standbys
from ykactor.core.values.times import S_NS, utc_text
from ykactor.journal.terms import Beginning, Term
from ykactor.journal.transaction import Batch, Transaction
from ykactor.surfaces.daemon.reports import tell_of_standbys

HISTORY = [Beginning(Term(1, "a"), 1, 1, 1)]
WAIT_S = 2.0


def standbys_of(wanted: int = 0, *, goes_on: bool = False) -> Standbys:
    return Standbys(Path("state"), 0, HISTORY, Settings(wanted, WAIT_S, goes_on))


class Shown:
    """A reader of the journal: what is durable."""

    def __init__(self) -> None:
        self.number = 0
        self._raised = trio.Event()

    def raise_durable(self, number: int) -> None:
        self.number = number
        self._raised.set()
        self._raised = trio.Event()

    async def reached(self, number: int) -> None:
        while self.number < number:
            await self._raised.wait()


class NumberedStore(MemoryStore):
    """A store that tells standbys of each commit, as the one of a state directory does."""

    def __init__(self, standbys: Standbys) -> None:
        super().__init__()
        self._standbys = standbys

    async def commit(self, batch: Batch) -> None:
        self._standbys.begin_commit()
        await super().commit(batch)
        self._standbys.on_commit(Transaction.of(batch, len(self.batches), 0, 1))


class World:
    """A journal with its standbys, and a reader."""

    def __init__(self, standbys: Standbys) -> None:
        self.standbys = standbys
        self.store = NumberedStore(standbys)
        self.journal = Journal(self.store, lambda _: b"[]", lambda: S_NS, standbys=standbys)
        self.shown = Shown()
        self._last = 0

    def add(self, size: int = 1) -> int:
        """Add something to the journal; its number."""
        self._last += 1
        self.journal.note(b'["key"]', b'"%b"' % (b"x" * size))
        self.journal.follow(self.shown, self._last)
        return self._last

    async def has_shown(self, number: int) -> None:
        await self.shown.reached(number)


async def test_nothing_is_told_before_the_standby_has_it(autojump_clock: trio.abc.Clock, nursery: trio.Nursery) -> None:
    """The journal shows a transaction when the standby has it too, not when it is on the disk of the daemon."""
    world = World(standbys_of(1))
    standby = world.standbys.join(0)
    nursery.start_soon(world.journal.run)
    number = world.add()
    await trio.sleep(WAIT_S / 2)
    assert (len(world.store.batches), world.shown.number, world.journal.stalled) == (1, 0, None)
    world.standbys.told(standby, 1)
    await world.has_shown(number)


@pytest.mark.parametrize(
    ("connected", "lack"),
    [
        (0, "no standby, expected 3: none is connected"),
        (1, "1 standby, expected 3: 1 is connected"),
        (2, "2 standbys, expected 3: 2 are connected"),
    ],
)
async def test_without_enough_standbys_nothing_is_told(
    autojump_clock: trio.abc.Clock, nursery: trio.Nursery, connected: int, lack: str
) -> None:
    """After the time that they are waited for, the journal is stalled with the reason, until there are enough."""
    world = World(standbys_of(3))
    joined = [world.standbys.join(0) for _ in range(connected)]
    nursery.start_soon(world.journal.run)
    number = world.add()
    await trio.sleep(0.1)
    for standby in joined:
        world.standbys.told(standby, 1)
    await trio.sleep(100 * WAIT_S)
    assert world.shown.number == 0
    assert world.journal.stalled is not None
    assert world.journal.stalled.reason == f"transaction 1 is on {lack}"
    status = world.standbys.status()
    assert status.problem == f"tells nobody anything since {utc_text(status.alone_since)}: {world.journal.stalled.reason}"
    for _ in range(3 - connected):
        world.standbys.told(world.standbys.join(0), 1)
    await world.has_shown(number)
    assert world.journal.stalled is None
    assert world.standbys.status().problem == ""
    assert len(world.store.batches) == 1


async def test_each_standby_is_told_with_how_far_it_is(autojump_clock: trio.abc.Clock, nursery: trio.Nursery) -> None:
    """Transactions that a standby lacks are counted, with the age of the oldest; it counts if it lacks none."""
    world = World(standbys_of(1))
    first = world.standbys.join(0, "one", "10.0.0.1:1111")
    slow = world.standbys.join(0, "two", "[::1]:2222")
    nursery.start_soon(world.journal.run)
    for number in range(1, 4):
        world.add()
        await trio.sleep(1)
        world.standbys.told(first, number)
    world.standbys.told(slow, 1)
    shown = world.standbys.status().connected
    assert [(each.name, each.host, each.transaction, each.behind, each.counts) for each in shown] == [
        ("one", "10.0.0.1", 3, 0, True),
        ("two", "[::1]", 1, 2, False),
    ]
    assert shown[0].behind_seconds == 0
    assert shown[1].behind_seconds == pytest.approx(2, abs=0.1)
    assert str(shown[1]).startswith("two at [::1]:2222 has transaction 1 on its disk, 2 behind, for ")
    world.standbys.leave(first)
    assert [each.name for each in world.standbys.status().connected] == ["two"]


async def test_it_goes_on_alone_and_waits_again_when_a_standby_has_everything(
    autojump_clock: trio.abc.Clock, nursery: trio.Nursery
) -> None:
    """One commit is late with ``goes_on``; the next ones are not, until a standby has all of them."""
    world = World(standbys_of(1, goes_on=True))
    nursery.start_soon(world.journal.run)
    changes: list[bool] = []

    async def note_changes() -> None:
        while True:
            await world.standbys.changed()
            changes.append(world.standbys.is_alone)

    nursery.start_soon(note_changes)
    began_s = trio.current_time()
    await world.has_shown(world.add())
    assert trio.current_time() - began_s >= WAIT_S
    assert world.standbys.is_alone
    for _ in range(3):
        began_s = trio.current_time()
        await world.has_shown(world.add())
        assert trio.current_time() - began_s < WAIT_S
    assert world.journal.stalled is None
    standby = world.standbys.join(0)
    world.standbys.told(standby, 3)
    assert world.standbys.is_alone
    world.standbys.told(standby, 4)
    assert not world.standbys.is_alone
    number = world.add()
    await trio.sleep(WAIT_S / 2)
    assert world.shown.number == number - 1
    world.standbys.told(standby, 5)
    await world.has_shown(number)
    assert changes == [True, False]


async def test_a_standby_that_leaves_is_not_counted(autojump_clock: trio.abc.Clock, nursery: trio.Nursery) -> None:
    """One that had everything and is gone does not have the next transaction."""
    world = World(standbys_of(1))
    standby = world.standbys.join(0)
    nursery.start_soon(world.journal.run)
    first = world.add()
    await trio.sleep(0.1)
    world.standbys.told(standby, 1)
    await world.has_shown(first)
    world.standbys.leave(standby)
    world.add()
    await trio.sleep(2 * WAIT_S)
    assert world.shown.number == first


async def test_what_is_kept_is_bounded(
    autojump_clock: trio.abc.Clock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow standbys are, the newest transactions are kept up to a bound, once for all, and at least the newest one."""
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 10_000)
    world = World(standbys_of())
    for _ in range(3):
        world.standbys.join(0)
    nursery.start_soon(world.journal.run)
    for _ in range(50):
        await world.has_shown(world.add(1_000))
    with pytest.raises(Missed):
        await world.standbys.after(0)
    kept = [number for number in range(50) if not await misses(world.standbys, number)]
    assert kept
    assert kept == [*range(kept[0], 50)]
    assert sum(len(data) for data in await world.standbys.after(kept[0])) <= 10_000
    await world.has_shown(world.add(100_000))
    assert len(await world.standbys.after(50)) == 1


async def misses(standbys: Standbys, number: int) -> bool:
    try:
        await standbys.after(number)
    except Missed:
        return True
    return False


async def test_transactions_come_in_order(autojump_clock: trio.abc.Clock, nursery: trio.Nursery) -> None:
    """A standby that takes them as it likes gets each once; one that has joined in the middle gets those after it."""
    world = World(standbys_of())
    standby, numbers = world.standbys.join(0), list[int]()
    nursery.start_soon(world.journal.run)

    async def take() -> None:
        while True:
            numbers.extend(Transaction.decode(data).number for data in await world.standbys.after(len(numbers)))
            await trio.sleep(0.05)

    nursery.start_soon(take)
    for _ in range(30):
        await world.has_shown(world.add())
    await trio.sleep(1)
    assert numbers == [*range(1, 31)]
    (data,) = await world.standbys.after(29)
    assert Transaction.decode(data).number == 30
    world.standbys.leave(standby)
    with pytest.raises(Missed):  # nobody is there: nothing is kept
        await world.standbys.after(29)


async def test_what_is_committed_when_a_standby_joins_is_missed(autojump_clock: trio.abc.Clock, nursery: trio.Nursery) -> None:
    """A commit that was under way was not kept for it: it is told so, and gets a copy."""
    world = World(standbys_of())
    nursery.start_soon(world.journal.run)
    await world.has_shown(world.add())
    number = world.standbys.number
    await world.has_shown(world.add())
    world.standbys.join(number)
    with pytest.raises(Missed):
        await world.standbys.after(number)


async def test_what_changes_during_a_slow_audit_is_told_after_it(autojump_clock: trio.abc.Clock, nursery: trio.Nursery) -> None:
    """The last that is told is how it is: a standby may be there again before it is told that none is."""
    world, told = World(standbys_of(1, goes_on=True)), list[str]()

    async def standbys_changed(_: Path, __: str, after: str) -> None:
        await trio.sleep(10)
        told.append(after)

    audit = SimpleNamespace(standbys_changed=standbys_changed)
    nursery.start_soon(world.journal.run)
    nursery.start_soon(tell_of_standbys, world.standbys, cast("Any", audit))
    await world.has_shown(world.add())
    await trio.sleep(1)
    world.standbys.join(1)
    await trio.sleep(60)
    assert told == ["alone: transaction 1 is on no standby, expected 1: none is connected", "1 standby"]


async def test_a_hand_over_does_not_wait_for_a_full_disk(autojump_clock: trio.abc.Clock, nursery: trio.Nursery) -> None:
    """A commit that has failed is under way no more: what it has was told nobody, and nothing is written after the end."""
    world = World(standbys_of(0))
    world.store.is_full = True
    nursery.start_soon(world.journal.run)
    world.add()
    await trio.sleep(1)
    assert world.journal.stalled is not None
    with trio.fail_after(60):
        await world.standbys.end()
    world.store.is_full = False
    await trio.sleep(60)
    assert world.store.batches == []
