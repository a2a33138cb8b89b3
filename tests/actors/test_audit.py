"""The audit on a virtual clock: what is told at once, what is summed, and what is there if the daemon ends in the middle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from accessfiles import access_of
from deliveries import FakeDelivery
from memorystore import MemoryStore
from msgspec import structs

from ykactor.access.access import Access
from ykactor.access.model import ANYBODY, Identity, Role
from ykactor.access.tokens import Tokens
from ykactor.actors.feed import FeedActor
from ykactor.actors.journal import Journal
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.selection import EventFilter
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited, Fact
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.admission.audit import KEYS_MAX, OTHERS, SUM_S, TEXT_MAX, UNKNOWN, Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.files.daemon_rows import DaemonRows, begun_acts
from ykactor.wire.history import encode_facts
from ykactor.wire.si import messages as si
from ykactor.wire.si.events import events

OPS = Caller(Role.OPERATOR, "10.0.0.7:5000", structs.replace(ANYBODY, name="ops"))
DEFAULT = PartitionName("default")


def stranger(origin: str) -> Caller:
    return Caller(Role.RM, origin, UNKNOWN)


@asynccontextmanager
async def auditing(
    store: MemoryStore | None = None, feed_begins: trio.Event | None = None
) -> AsyncIterator[tuple[Audit, list[Audited]]]:
    """A running audit, and what it has told so far."""
    told: list[Audited] = []

    def deliver(_: PartitionName, facts: list[Fact]) -> None:
        told.extend(fact for fact in facts if isinstance(fact, Audited))

    def now_ns() -> int:
        return round(trio.current_time() * 10**9)

    journal = None if store is None else Journal(store, encode_facts, now_ns)
    partitions = {DEFAULT: Mailbox("default", 1)}
    feed = FeedActor(FakeDelivery(events, deliver), partitions, journal=journal)
    audit = Audit(feed, partitions, now_ns, DaemonRows(journal))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_after, feed_begins, feed)
        nursery.start_soon(audit.run)
        if journal is not None:
            nursery.start_soon(journal.run)
        yield audit, told
        nursery.cancel_scope.cancel()


async def run_after(begins: trio.Event | None, feed: FeedActor) -> None:
    if begins is not None:
        await begins.wait()
    await feed.run()


async def settled(seconds: float = 0) -> None:
    await trio.sleep(seconds)
    await trio.testing.wait_all_tasks_blocked()


# ---- refusals


async def test_a_flood_is_summed(autojump_clock: trio.testing.MockClock) -> None:
    """SE-74: the first refusal is told at once, the others of its network once a minute with their number, then no more."""
    async with auditing() as (audit, told):
        audit.refused(stranger("10.1.2.3:1000"), Act.CONNECT, "/v1/rm", "no proof")
        await settled()
        assert [fact.times for fact in told] == [1]
        for number in range(10_000):
            audit.refused(stranger(f"10.1.2.{number % 256}:{number}"), Act.CONNECT, "/v1/rm", "no proof")
        await settled(SUM_S - 1)
        assert len(told) == 1
        await settled(1)
        assert [(fact.times, fact.origin) for fact in told[1:]] == [(10_000, "10.1.2.15:9999")]
        await settled(10 * SUM_S)
        assert len(told) == 2
        audit.refused(stranger("10.1.2.3:1000"), Act.CONNECT, "/v1/rm", "no proof")
        await settled()
        assert [fact.times for fact in told[2:]] == [1]


async def test_many_networks_are_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """SE-74: each of the first 1,024 has its own event, all others together one in a minute."""
    async with auditing() as (audit, told):
        for _ in range(3):
            for number in range(4 * KEYS_MAX):
                audit.refused(stranger(f"10.{number // 256}.{number % 256}.1:1"), Act.CONNECT, "/v1/rm", "no proof")
            await settled()
        first = [fact for fact in told if fact.origin != OTHERS]
        assert len(first) == KEYS_MAX
        assert [fact.times for fact in told if fact.origin == OTHERS] == [3 * KEYS_MAX]
        await settled(SUM_S)
        assert len(told) == 2 * (KEYS_MAX + 1)
        assert sum(fact.times for fact in told) == 3 * 4 * KEYS_MAX


async def test_an_identity_is_told_apart_from_others(autojump_clock: trio.testing.MockClock) -> None:
    """SE-74: a flood from the same address hides neither what an identity is refused, nor another act."""
    async with auditing() as (audit, told):
        for _ in range(100):
            audit.refused(stranger(OPS.origin), Act.CONNECT, "/v1/rm", "no proof")
        audit.refused_message(OPS, si.MoveApplication(application_id="app-1", queue_name="root.b"), "no")
        audit.refused_message(OPS, si.ReleaseResourceManager(rm_id="rm-1"), "no")
        audit.refused_message(OPS, si.ScheduleRequest(), "no")
        await settled()
        assert [(fact.who, fact.act, fact.target) for fact in told[1:]] == [
            ("ops", Act.MOVE, "app-1"),
            ("ops", Act.RELEASE, "rm-1"),
            ("ops", Act.SEND, "ScheduleRequest"),
        ]


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("10.1.2.3:1", "10.1.2.200:2", True),
        ("10.1.2.3:1", "10.1.3.3:1", False),
        ("2001:db8::1:5", "2001:db8::ffff:7", True),
        ("[2001:db8::1]:5", "2001:db8::9:7", True),
        ("2001:db8::1:5", "2001:db8:0:1::1:5", False),
        ("::ffff:10.1.2.3:1", "10.1.2.4:1", True),
        ("unix uid 1000", "unix uid 1000", True),
        ("unix uid 1000", "unix uid 1001", False),
    ],
)
async def test_networks(first: str, second: str, is_one: bool, autojump_clock: trio.testing.MockClock) -> None:
    """SE-74: /24 and /64; a user of a Unix socket is alone."""
    async with auditing() as (audit, told):
        for origin in (first, second):
            audit.refused(stranger(origin), Act.CONNECT, "/v1/rm", "no proof")
        await settled()
        assert len(told) == (1 if is_one else 2)


async def test_a_full_disk_keeps_refusals_waiting(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SE-74: while nothing can be written they are only counted."""
    monkeypatch.setattr("ykactor.actors.journal.EVENTS_MAX", 1)
    store = MemoryStore()
    store.answers = trio.Event()
    async with auditing(store) as (audit, told):
        for number in range(1000):
            audit.refused(stranger(f"10.0.{number % 100}.1:1"), Act.CONNECT, "/v1/rm", "no proof")
            await trio.lowlevel.checkpoint()
        await settled(SUM_S)
        assert len(told) < 5
        store.answers.set()
        await settled(2 * SUM_S)
        assert sum(fact.times for fact in told) == 1000


# ---- acts


async def test_an_act_is_durable_before_its_effect(autojump_clock: trio.testing.MockClock) -> None:
    """SE-73: whatever is durable of an effect, the act is; the next daemon tells it, once."""
    store = MemoryStore()
    async with auditing(store) as (audit, told):
        with trio.move_on_after(1):
            async with audit.acting(OPS, Act.MOVE, "app-1", "in root.a"):
                await trio.sleep_forever()
        await audit.durable()
        assert told == []
    begun = begun_acts(store.records)
    async with auditing(store) as (audit, told):
        await audit.tell_interrupted(begun)
        await audit.durable()
        (fact,) = told
        assert (fact.who, fact.act, fact.target, fact.before) == ("ops", Act.MOVE, "app-1", "in root.a")
        assert fact.refusal == "the daemon ended before it was told whether this was done"
    assert begun_acts(store.records) == {}


async def test_an_act_is_told_once(autojump_clock: trio.testing.MockClock) -> None:
    """SE-72, SE-73: with what is there afterwards; in the journal as an event of no turn, and nothing else is left."""
    store = MemoryStore()
    async with auditing(store) as (audit, told):
        async with audit.acting(OPS, Act.DRAIN, "n1", "schedulable") as doing:
            doing.after = "draining"
        await audit.durable()
        assert [(fact.before, fact.after, fact.refusal) for fact in told] == [("schedulable", "draining", "")]
        assert (store.last_event, begun_acts(store.records)) == (1, {})
        (turn,) = store.turns
        assert "number" not in turn


async def test_an_act_is_kept_until_it_is_told(autojump_clock: trio.testing.MockClock) -> None:
    """SE-73: also while the feed has other things to do, the journal has one or the other."""
    store, feed_begins = MemoryStore(), trio.Event()
    async with auditing(store, feed_begins) as (audit, told), trio.open_nursery() as nursery:

        async def drain() -> None:
            async with audit.acting(OPS, Act.DRAIN, "n1"):
                pass

        nursery.start_soon(drain)
        await settled(10)
        assert [fact.target for fact in begun_acts(store.records).values()] == ["n1"]
        feed_begins.set()
        await settled(10)
        assert [fact.target for fact in told] == ["n1"]
        assert begun_acts(store.records) == {}


async def test_what_had_no_effect_is_no_act(autojump_clock: trio.testing.MockClock) -> None:
    """SE-72: it is told as refused by who refuses it."""
    store = MemoryStore()
    async with auditing(store) as (audit, told):
        with pytest.raises(ValueError, match="no"):
            async with audit.acting(OPS, Act.DRAIN, "n1"):
                raise ValueError("no")
        await audit.durable()
        assert (told, begun_acts(store.records)) == ([], {})


async def test_texts_are_cut(autojump_clock: trio.testing.MockClock) -> None:
    """SE-72: what a client sends may be long."""
    async with auditing() as (audit, told):
        async with audit.acting(OPS, Act.DRAIN, "n" * 5000, "b" * 5000, "a" * 5000):
            pass
        audit.refused(OPS, Act.SEND, "t" * 5000, "r" * 5000)
        await settled()
        texts = [text for fact in told for text in (fact.target, fact.before, fact.after, fact.refusal)]
        assert max(map(len, texts)) == TEXT_MAX + len("...")


def test_an_identity_is_no_application() -> None:
    """EV-75: a follower of an application does not get what an identity of the same name has done."""
    (event,) = events(Audited(0, "app-1", "10.0.0.7:5000", "operator", Act.DRAIN, "n1"), "default", 1)
    assert not EventFilter(applications=frozenset({"app-1"})).wants(event)
    assert EventFilter(kinds=frozenset({"AUDIT"})).wants(event)
    assert EventFilter(kinds=frozenset({"AUDIT_DRAIN"})).wants(event)
    assert not EventFilter(queues=("root",)).wants(event)


# ---- the access file


def access(**rm_ids: str) -> Access:
    roles = frozenset({Role.RM})
    return Access(identities=tuple(Identity(name=name, roles=roles, rm_ids=frozenset({rm})) for name, rm in rm_ids.items()))  # type: ignore[arg-type]


def limited(at_top: str, own: str = "limits: {}") -> Access:
    return access_of(f"identities: [{{name: a, roles: [reader], {own}}}, {{name: b, roles: [reader]}}]\n{at_top}\n")


CHANGES: dict[str, tuple[Access, Access, str]] = {
    "all": (access(a="1", b="1", c="1"), access(b="2", c="1", d="1"), "added: d; changed: b; removed: a"),
    "a token": (
        access(a="1", b="1"),
        structs.replace(access(a="1", b="1"), tokens=Tokens().with_new("yk_x", "b", None, None)),  # type: ignore[arg-type]
        "tokens added: 2acd950e of b",
    ),
    "another token": (
        structs.replace(access(b="1"), tokens=Tokens().with_new("yk_x", "b", None, None)),  # type: ignore[arg-type]
        structs.replace(access(b="1"), tokens=Tokens().with_new("yk_y", "b", None, None)),  # type: ignore[arg-type]
        "tokens added: 16384f77 of b; tokens removed: 2acd950e of b",
    ),
    "limits": (
        limited("limits: {sessions: 9}"),
        limited("limits: {sessions: 8, totalSessions: 99}", "limits: {sessions: 4, asks: 5}"),
        "limit totalSessions: 4128 -> 99; limit sessions: 9 -> 8; limit sessions: 9 -> 4 of a; limit asks: 1000000 -> 5 of a",
    ),
    "nothing": (access(a="1"), structs.replace(access(a="1"), jwks_file="x"), "no identity, token or limit changed"),
}


@pytest.mark.parametrize(("before", "after", "text"), CHANGES.values(), ids=CHANGES)
async def test_changes_of_the_access_file(
    before: Access, after: Access, text: str, autojump_clock: trio.testing.MockClock
) -> None:
    """SE-72: names of identities, ids of tokens, and limits; never what shows somebody."""
    async with auditing() as (audit, told):
        await audit.access_changed(Path("/etc/access.yaml"), before, after)
        await settled()
        assert [(fact.act, fact.target, fact.origin, fact.after) for fact in told] == [
            (Act.ACCESS, "access.yaml", "/etc/access.yaml", text)
        ]
