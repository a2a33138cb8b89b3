"""A replica handles the messages of its daemon; there is none here (DU-19, DU-22)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import pytest
import trio
from msgspec import structs
from trio.testing import MockClock, wait_all_tasks_blocked

import ykactor
from ykactor.actors.clock import Clock
from ykactor.actors.commands import read_partition
from ykactor.actors.gateway import Point
from ykactor.actors.pauses import drive
from ykactor.actors.selection import Batch, EventFilter, Format
from ykactor.actors.subscription import Reached, Subscription
from ykactor.client.login import Login
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited
from ykactor.core.messages.states import PartitionState
from ykactor.core.messages.submissions import ApplyConfig
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.records.base import new
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps
from ykactor.sim.direct import run_turn
from ykactor.sim.replica import copied
from ykactor.surfaces.replica.following import MISMATCHES_MAX, Following, MismatchesError
from ykactor.surfaces.replica.replica import REACH_S, OtherHistoryError, Replica
from ykactor.wire import queuefile
from ykactor.wire.build import BUILD
from ykactor.wire.history import encode_cause, encode_facts
from ykactor.wire.si.events import events
from ykactor.wire.turns import (
    Base,
    Configuration,
    Facts,
    Hello,
    LastTurn,
    OtherBuildError,
    Past,
    Process,
    Resumed,
    Turn,
    Wanted,
    checksum_of,
    decode_of_replica,
)

DEFAULT = PartitionName("default")
CONFIG = queuefile.load("").partitions[0]
FIRST, SECOND = ("1-aa", 1), ("2-bb", 4)


class Daemon:
    """Makes the messages of a daemon."""

    def __init__(self) -> None:
        self._restored = new(CONFIG, reserves=True)
        self._facts: list[Any] = []

    def hello(self, *terms: tuple[str, int], build: str = BUILD) -> Hello:
        return Hello(build, list(terms or [FIRST]), 5, 6)

    def shown(self) -> list[Process | Configuration]:
        return [Process({DEFAULT: (PartitionState.ACTIVE, 7)}, None, []), Configuration("text", "sum")]

    def base(self) -> Base:
        return Base(DEFAULT, self._restored.base)

    def turn(self, first_event: int = 1, checksum: int | None = None) -> Turn:
        """The first turn, which has events."""
        cause, facts = Input([ApplyConfig(CONFIG)]), list[Any]()
        again = new(CONFIG, reserves=True)
        run_turn((again.core, again.scheduler), 10, cause, facts.extend)
        self._facts = facts
        found = checksum_of([encode_facts(facts)]) if checksum is None else checksum
        return Turn(DEFAULT, 1, 10, encode_cause(cause), found, first_event)


def audited(first_event: int, target: str = "x") -> Facts:
    fact = Audited(1, "me", "here", "", Act.CONNECT, target)
    return Facts(DEFAULT, encode_facts([fact]), first_event)


def past(first: int, count: int) -> Past:
    fact = Audited(1, "me", "here", "", Act.CONNECT, "past")
    return Past(first, [events(fact, DEFAULT, number)[0] for number in range(first, first + count)])  # type: ignore[misc]


class Wants:
    """A connection: what the replica sends."""

    def __init__(self) -> None:
        self.sent: list[Wanted] = []

    async def send(self, data: bytes) -> None:
        self.sent.append(cast("Wanted", decode_of_replica(data)))


class World:
    def __init__(self) -> None:
        self.replica = Replica("ws://daemon", Clock(0), list)
        self.following = Following(self.replica, Login())
        self.wants = Wants()

    async def handle(self, *messages: Any) -> None:
        await self.following.handle(messages, cast("Any", self.wants))
        await self.replica.feed.published(PartitionName(""))

    @property
    def numbers(self) -> Sequence[int]:
        """The events that followers may read."""
        ring = self.replica.feed.ring
        found = [ring.event(number) for number in range(ring.lowest, ring.durable + 1)]
        return [event.sequence for event in found]  # type: ignore[attr-defined]


@pytest.fixture
async def w(nursery: trio.Nursery) -> World:
    world = World()
    nursery.start_soon(world.replica.run)
    return world


async def test_events_have_the_numbers_of_the_daemon(w: World) -> None:
    """Events come with turns, with facts and from before; the same twice counts once."""
    daemon = Daemon()
    await w.handle(daemon.hello())
    await w.handle(past(1, 3), audited(3), *daemon.shown(), daemon.base(), turn := daemon.turn(4))
    count = len(w.numbers) - 3
    assert count > 0
    await w.handle(audited(4 + count), past(2, 2))
    assert w.numbers == [*range(1, 5 + count)]
    assert (w.wants.sent, w.following.turns, turn.number) == ([Wanted(0)], 1, 1)


async def test_nothing_is_shown_behind_a_gap(w: World) -> None:
    """Events that follow missing ones wait for these; if the daemon has them no more, it goes on after them."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 2), audited(5))
    assert w.numbers == [1, 2]
    await w.handle(past(3, 3))
    assert w.numbers == [1, 2, 3, 4, 5]
    await w.handle(audited(9))
    assert w.numbers == [1, 2, 3, 4, 5]
    await w.handle(past(9, 1), audited(10))
    assert w.numbers == [9, 10]


async def test_a_turn_that_is_decided_otherwise(w: World) -> None:
    """The copy is gone, the reason says so, and another base and the events of the turn are asked for; others go on."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 1), *daemon.shown(), daemon.base())
    assert w.replica.unavailable(DEFAULT) == ""
    await w.handle(daemon.turn(2, checksum=1), audited(9))
    assert "no copy of partition default yet" in w.replica.unavailable(DEFAULT)
    assert w.wants.sent[1:] == [Wanted(1, "default")]
    assert w.numbers == [1]
    assert w.replica.health.problems() == [w.replica.unavailable(DEFAULT)]
    await w.handle(past(2, 8), daemon.base(), daemon.turn(10))
    assert w.replica.unavailable(DEFAULT) == ""
    assert w.numbers[:10] == [*range(1, 11)]


async def test_the_third_mismatch_in_an_hour_is_the_end(autojump_clock: MockClock, w: World) -> None:
    """DU-19: another one would say nothing new."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 1), *daemon.shown())
    for wait_s in (0, 3601, 1):
        await trio.sleep(wait_s)
        await w.handle(daemon.base(), daemon.turn(2, checksum=1))
    with pytest.raises(MismatchesError):
        await w.handle(daemon.base(), daemon.turn(2, checksum=1))
    assert w.following.mismatches == MISMATCHES_MAX + 1


async def test_a_daemon_of_another_build_is_refused(w: World) -> None:
    """DU-19: another build may decide otherwise, so nothing would follow from what it decides."""
    same_version = f"{ykactor.__version__}+0123456789ab"
    with pytest.raises(OtherBuildError, match=re.escape(f"build {same_version}, expected {BUILD}: another build may decide")):
        await w.handle(Daemon().hello(build=same_version))


async def test_the_daemon_begins_again(w: World) -> None:
    """A new term of the same history: events stay and go on, copies stay until it is known that they need new bases."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 3), *daemon.shown(), daemon.base())
    await w.handle(daemon.hello(FIRST, SECOND))
    assert w.wants.sent == [Wanted(0), Wanted(3)]
    assert not w.replica.unavailable(DEFAULT)
    await w.handle(past(4, 0))
    assert w.replica.unavailable(DEFAULT)
    await w.handle(daemon.base(), audited(4))
    assert (w.numbers, w.replica.unavailable(DEFAULT)) == ([1, 2, 3, 4], "")
    assert str(w.replica.terms.present) == "2-bb"


async def test_followers_are_told_of_another_term(w: World) -> None:
    """EV-55: before its first event, however soon this follows: nobody could resume with its number and the term before."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 3), *daemon.shown())
    encode = Format(lambda events: [b"%d" % event.sequence for event in events], b" ".join)
    follower = Subscription(w.replica.feed, encode, EventFilter(), 0)
    found = [await follower.next(), await follower.next()]
    await w.handle(daemon.hello(FIRST, SECOND), past(4, 2))
    found += [await follower.next(), await follower.next()]
    told = [each.packed if isinstance(each, Batch) else each for each in found]
    assert told == [b"1 2 3", Reached(3), Reached(3), b"4 5"]


async def test_copies_go_on_after_a_lost_connection(w: World) -> None:
    """The daemon is told the last turn of each copy; if it answers that they go on, they do, and can be read all the time."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 3), *daemon.shown(), daemon.base(), turn := daemon.turn(4))
    last = LastTurn(turn.number, turn.now_ns, turn.checksum, turn.first_event)
    copy, newest = w.replica.copies.of[DEFAULT], w.numbers[-1]
    await w.handle(daemon.hello())
    assert w.wants.sent[-1] == Wanted(newest, copies={DEFAULT: last})
    await w.handle(Resumed(), audited(newest + 1))
    assert w.replica.copies.of[DEFAULT] is copy
    assert w.numbers[-1] == newest + 1


async def test_a_copy_that_has_run_no_turn_does_not_go_on(w: World) -> None:
    """Nothing shows of which history it is; others go on."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 3), *daemon.shown(), daemon.base())
    await w.handle(daemon.hello(), Resumed())
    assert w.wants.sent[-1] == Wanted(3)
    assert w.replica.unavailable(DEFAULT)


async def test_a_history_without_the_newest_event(w: World) -> None:
    """A daemon that goes on from an older copy of its state: nobody may be shown what it does not have."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 7))
    with pytest.raises(OtherHistoryError, match="event 7 of term 1-aa, which has ended with event 3"):
        await w.handle(daemon.hello(FIRST, SECOND))
    with pytest.raises(OtherHistoryError, match="found term 1-aa, which this history does not have"):
        await w.handle(daemon.hello(SECOND))


async def test_partitions_come_and_go(w: World) -> None:
    """They are in the order of the daemon; one that the daemon has no more goes, unless its end is still to come."""
    daemon, gpu = Daemon(), PartitionName("gpu")
    active = (PartitionState.ACTIVE, 7)
    await w.handle(daemon.hello(), past(1, 1), Process({gpu: active, DEFAULT: active}, None, []), daemon.base())
    assert [*w.replica.partitions] == [gpu, DEFAULT]
    await w.handle(Process({}, None, []))
    assert [*w.replica.partitions] == [DEFAULT]


async def test_an_event_to_come_is_waited_for(autojump_clock: MockClock, w: World) -> None:
    """A follower may have been told of an event, or of a term, by the daemon already; what never comes ends the wait."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 2))
    began_s = trio.current_time()
    assert await w.replica.reach(Point("1-aa", 2)) == "there"
    assert trio.current_time() == began_s
    async with trio.open_nursery() as nursery:
        nursery.start_soon(w.replica.reach, Point("2-bb", 4))
        await trio.sleep(1)
        await w.handle(daemon.hello(FIRST, ("2-bb", 3)), past(3, 2))
    assert trio.current_time() == began_s + 1
    assert await w.replica.reach(Point("2-bb", 5)) == "late"
    assert trio.current_time() == began_s + 1 + REACH_S


async def test_a_turn_to_come_is_waited_for(autojump_clock: MockClock, w: World) -> None:
    """DU-24: who has written at the daemon reads it here; what is shown beside the partitions has to be as new, if it is read."""
    daemon = Daemon()
    active = {DEFAULT: (PartitionState.ACTIVE, 7)}
    await w.handle(daemon.hello(), past(1, 1), *daemon.shown(), daemon.base())
    began_s = trio.current_time()
    first = Point("1-aa", turns={DEFAULT: 1})
    assert await w.replica.reach(first) == "late"
    assert trio.current_time() == began_s + REACH_S
    async with trio.open_nursery() as nursery:
        nursery.start_soon(w.replica.reach, first)
        await trio.sleep(1)
        await w.handle(daemon.turn(2))
    assert trio.current_time() == began_s + REACH_S + 1
    assert await w.replica.reach(structs.replace(first, term="")) == "there"
    assert await w.replica.reach(structs.replace(first, is_beside=True)) == "late"
    await w.handle(Process(active, None, [], turns={DEFAULT: 1}))
    assert await w.replica.reach(structs.replace(first, is_beside=True)) == "there"
    assert await w.replica.reach(Point(turns={"new": 1})) == "late"


async def test_turns_of_other_terms(autojump_clock: MockClock, w: World) -> None:
    """DU-24: of an earlier term a replica has what the daemon has, and nobody waits for more; a later term may still come."""
    daemon = Daemon()
    hello = structs.replace(daemon.hello(FIRST, ("2-bb", 2)), turns_before={DEFAULT: 1})
    await w.handle(hello, past(1, 1), *daemon.shown(), daemon.base())
    assert await w.replica.reach(Point("1-aa", turns={DEFAULT: 9})) == "late"
    await w.handle(daemon.turn(2))
    assert await w.replica.reach(Point("1-aa", turns={DEFAULT: 9})) == "there"
    assert await w.replica.reach(Point("2-bb", turns={DEFAULT: 9})) == "late"
    for term, outcome in (("3-cc", "late"), ("1-zz", "elsewhere"), ("2-zz", "late"), ("nonsense", "elsewhere")):
        assert await w.replica.reach(Point(term, turns={DEFAULT: 1})) == outcome, term


async def test_turns_that_were_lost_with_a_term(autojump_clock: MockClock, w: World) -> None:
    """DU-24: the next daemon may have other ones with these numbers: they count when it has said that the copy goes on."""
    daemon = Daemon()
    active = {DEFAULT: (PartitionState.ACTIVE, 7)}
    shown = Process(active, None, [], turns={DEFAULT: 9})
    await w.handle(daemon.hello(), past(1, 1), *daemon.shown(), daemon.base(), daemon.turn(2), shown)
    written = Point("2-bb", turns={DEFAULT: 1})
    await w.handle(daemon.hello(FIRST, ("2-bb", 4)))
    assert await w.replica.reach(written) == "late"
    await w.handle(Resumed())
    assert await w.replica.reach(written) == "there"
    assert await w.replica.reach(structs.replace(written, is_beside=True)) == "late"
    await w.handle(structs.replace(shown, turns={DEFAULT: 1}), daemon.hello(FIRST, ("2-bb", 4)))
    assert await w.replica.reach(structs.replace(written, is_beside=True)) == "there"


async def test_a_copy_without_a_turn_is_no_copy(w: World) -> None:
    """The daemon sends facts in place of a turn if it takes the copy for lost: what there is here would be behind."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 1), *daemon.shown(), daemon.base(), audited(2))
    assert w.replica.unavailable(DEFAULT) == ""
    await w.handle(structs.replace(audited(3), turn=2))
    assert w.replica.unavailable(DEFAULT)
    assert w.numbers == [1, 2, 3]


async def test_an_event_of_a_large_turn_ends_the_wait(autojump_clock: MockClock, w: World) -> None:
    """The feed takes a large turn in parts; who waits for its last event has it as soon as it is there."""
    daemon, count = Daemon(), 5000
    await w.handle(daemon.hello(), past(1, 2))
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(w.replica.reach, Point("1-aa", 2 + count))
        await wait_all_tasks_blocked()
        facts = [Audited(1, "me", "here", "", Act.CONNECT, "x")] * count
        await w.following.handle([Facts(DEFAULT, encode_facts(facts), 3)], cast("Any", w.wants))
    assert trio.current_time() == began_s
    assert w.numbers[-1] == 2 + count


async def test_readers_do_not_hold_up_turns_that_have_come(autojump_clock: MockClock, w: World) -> None:
    """Others have the loop now and then, not after each message: each of four readers may take some ms of it then."""
    rounds, count = 0, 500

    async def read() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    await w.handle(Daemon().hello(), past(1, 2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await w.handle(*(audited(number) for number in range(3, 3 + count)))
        nursery.cancel_scope.cancel()
    assert w.numbers[-1] == 2 + count
    assert rounds < count / 10


async def test_a_partition_that_ends_as_soon_as_it_is_copied(w: World) -> None:
    """A partition may leave the configuration before its copy was read, or its next base may be there; others go on."""
    daemon = Daemon()
    await w.handle(daemon.hello(), past(1, 1), *daemon.shown())
    for _ in range(2):
        w.replica.copies.add(await drive(copied(daemon.base())))
    w.replica.copies.end(DEFAULT)
    await wait_all_tasks_blocked()
    await w.handle(daemon.base())
    inbox = w.replica.partitions[DEFAULT]
    assert await read_partition(inbox, read_name) == DEFAULT


def read_name(core: PartitionCore, _: object, __: int) -> Steps[PartitionName]:
    yield 1
    return core.name
