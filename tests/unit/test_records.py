"""Rows of the state: what they say is taken over, whatever the rules of this version are (DU-4 to DU-6)."""

from __future__ import annotations

import msgspec
import pytest
from kept_rows import all_rows
from world import World, app, ask, hold, limit, make_world, node, queue, release, remove, terminate, tree

from ykactor.core.accounting.accounts import Account
from ykactor.core.messages.asks import ask_id
from ykactor.core.messages.states import Outcome
from ykactor.core.nodes import reservations
from ykactor.core.objects import lifecycle
from ykactor.core.records.base import made_from
from ykactor.core.records.encoding import UnreadableRowError, decode
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.values.parts import finished

#: The kinds of rows that earlier versions do not have.
COUNTED = (b'["default","account"', b'["default","use"')


def restart(world: World, rows: dict[bytes, bytes]) -> None:
    """Go on with a partition that is made from rows."""
    world.direct.restore(*finished(made_from(rows.items(), reserves=True))[:2])


def kept(world: World) -> dict[bytes, bytes]:
    return all_rows(world.direct.core, world.direct.scheduler)


def test_a_version_with_other_rules_goes_on_from_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """DU-4: a deadline that was set stays, whatever this version would set; so does a reservation."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4), node("n2", vcore=4)])
    world.given(app("app-1"), app("app-2"), ask("k1", "app-1", vcore=3), ask("k2", "app-2", vcore=3))
    world.given(ask("large", "app-2", vcore=2), release("k1"), at=1)
    world.given(ask("k3", "app-2", vcore=3), at=1)
    world.run(until=10)
    before = kept(world)
    application = world.direct.core.registry.leaf_of("app-1").applications["app-1"]  # type: ignore[arg-type]
    assert application.lifecycle.timers
    monkeypatch.setattr(lifecycle, "_STATE_TIMERS", {})
    monkeypatch.setattr(reservations, "RESERVATION_DELAY_NS", 10**15)
    restart(world, before)
    assert kept(world) == before


def test_what_was_due_meanwhile_is_due_at_the_start() -> None:
    """DU-6: an application completes 30 s after its last task, also if nothing ran at that time."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1", "root.a"), ask("k1", "app-1", vcore=1), release("k1"))
    assert world.state_of("app-1") == "Completing"
    restart(world, kept(world))
    world.direct.wake_at(1000 * 10**9)
    assert "app-1" not in world.direct.core.registry.applications
    assert [ended.application_id for ended in world.direct.core.timers.ended.values()] == ["app-1"]


def test_ended_applications_stay_in_the_order_in_which_they_ended() -> None:
    """DU-5: a journal has their rows by name; lists begin with the oldest, and of equal ids the last one is told (OP-10)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    for second, outcome in ((50, Outcome.CANCELLED), (100, None)):
        world.given(app("app-1", "root.a"), ask("k1", "app-1", vcore=1), release("k1"), at=second)
        if outcome is not None:
            world.send(remove("app-1", outcome))
        world.wait(second + 30)
    ended = list(world.direct.core.timers.ended)
    assert ended == sorted(ended, reverse=True)
    assert world.administer(hold("app-1")) == "application app-1 has ended: Completed"
    restart(world, dict(sorted(kept(world).items())))
    assert list(world.direct.core.timers.ended) == ended
    assert world.administer(hold("app-1")) == "application app-1 has ended: Completed"


def test_the_own_ask_of_a_reservation_is_one_object() -> None:
    """DU-5: who looks for its own reservation compares asks by identity (PE-52)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4), node("n2", vcore=4)])
    world.given(app("app-1"), *(ask(f"k{number}", "app-1", vcore=3) for number in range(2)))
    world.given(ask("k2", "app-1", vcore=2))
    world.run(until=10)
    restart(world, kept(world))
    state = world.direct.scheduler.state
    (reservation,) = state.reservations.by_ask.values()
    owner = world.direct.core.registry.leaf_of("app-1").applications["app-1"]  # type: ignore[arg-type]
    assert ask_id(reservation.ask) == ("app-1", "k2")
    assert reservation.ask is owner.tasks.asks["k2"]  # type: ignore[index]


def test_a_row_that_is_missing_is_named() -> None:
    """DU-12: an allocation on a node without a row is damage, not an allocation that is dropped."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1", "root.a"), ask("k1", "app-1", vcore=1))
    rows = kept(world)
    del rows[b'["default","node","n1"]']
    with pytest.raises(DamagedStateError, match="the rows name 'n1', which has no row"):
        restart(world, rows)


def test_rows_without_the_past() -> None:
    """DU-4: applications of a version that did not count anything are counted from now on, their tasks from their beginning."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1"), app("app-2"), ask("k1", "app-1", vcore=3), ask("k2", "app-1", vcore=3), ask("k3", "app-2", vcore=1))
    world.administer(terminate("app-2"))
    rows = {key: without_past(row) for key, row in kept(world).items() if not key.startswith(COUNTED)}
    restart(world, rows)
    world.given(release("k1"), at=5)
    world.given(release("k2"), at=6)
    application = world.direct.core.registry.leaf_of("app-1").applications["app-1"]  # type: ignore[arg-type]
    assert application.past.used == {"UNKNOWN": {"vcore": 18}}
    (ended,) = world.direct.core.timers.ended.values()
    assert (ended.state, ended.user, ended.past.states) == ("Failed", "", [])
    assert application.account.of_day == Account({"vcore": 18}, {"vcore": 15})


def test_rows_of_a_draining_queue_with_limits() -> None:
    """DU-4: earlier versions let it keep the limits of users and groups; from now on they bind nobody (QU-76)."""
    limited = queue("a", limits=[limit("alice", vcore=1)])
    world = make_world(tree(limited, queue("b")), [node("n1", vcore=4)])
    world.given(app("app-1"), ask("k1", "app-1", vcore=1), ask("k2", "app-1", vcore=1))
    key, configuration = b'["default","queue","root.a"]', b'["default","configuration"]'
    without = make_world(tree(queue("b")))
    earlier = msgspec.json.encode(msgspec.json.decode(kept(world)[key]) | {"state": "Draining"})
    restart(world, kept(world) | {key: earlier, configuration: kept(without)[configuration]})
    world.wait(1)
    assert world.placed() == ["k2"]


def without_past(row: bytes) -> bytes:
    """The row as earlier versions have written it."""
    fields = msgspec.json.decode(row)
    is_ended = "finished_ns" in fields
    for name in ("past", "user", "groups", "submission_ns") if is_ended else ("states", "started_ns", "counted_ns"):
        fields.pop(name, None)
    return msgspec.json.encode(fields)


@pytest.mark.parametrize(
    ("key", "data", "reason"),
    [
        (b'["default","node","n1"]', b"{}", "missing required field `capacity`"),
        (b'["default","node","n1"]', b'{"capacity', "truncated"),
        (b'["default","planet","n1"]', b"{}", "planet"),
        (b'["default"', b"{}", "truncated"),
        (b"[]", b"{}", "not enough values"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(key: bytes, data: bytes, reason: str) -> None:
    """DU-12: by its key, with what is wrong."""
    with pytest.raises(UnreadableRowError, match=reason):
        decode(key, data)


def test_a_field_that_is_new_is_refused() -> None:
    """DU-4: an older version would drop it with the next row that it writes."""
    row = msgspec.json.encode({"node_id": "n1", "made_ns": 5, "colour": "red"})
    with pytest.raises(UnreadableRowError, match=r'row \["default","reservation","app-1","k1"\]: .* unknown field `colour`'):
        decode(b'["default","reservation","app-1","k1"]', row)
