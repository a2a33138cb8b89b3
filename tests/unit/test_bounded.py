"""Nothing is kept for ever of what is gone: a partition in which things come and go does not grow."""

import gc
from collections.abc import Callable

import pytest
from world import World, answer, answering, app, ask, configure, foreign, forget, make_world, node, queue, release, remove, tree

from bench.growth import tables
from ykactor.core.accounting import accounts
from ykactor.core.messages.states import TERMINAL_TIMEOUT_NS
from ykactor.core.nodes import index
from ykactor.core.values.sorted_list import SortedList
from ykactor.core.values.times import S_NS
from ykactor.core.waiting import quota_reports

#: Ten years, in milliseconds.
YEARS_MS = 315_360_000_000
#: So many rounds fill the bounded logs of changes, and three times as many must not need more.
ROUNDS = 60

CONFIG = tree(
    queue("a", guaranteed={"vcore": 2}, p={"preemption.delay": "1ms"}),
    queue("b"),
    queue("c", max={"vcore": 4}, p={"quota.preemption.delay": "1s"}),
    placementrules=[{"name": "provided", "create": True}],
    limits=[{"limit": "each", "users": ["*"], "maxresources": {"vcore": "50"}}],
    preemption={"enabled": True, "quotapreemptionenabled": True},
)


def completed(world: World, name: str) -> None:
    """An application that completes by itself."""
    world.send(app(name), ask(f"{name}-t", name, vcore=1))
    world.send(release(f"{name}-t", name))


def removed(world: World, name: str) -> None:
    """An application that is removed with an ask, an allocation and a deadline in the far future."""
    world.send(app(name, timeout_ms=YEARS_MS), ask(f"{name}-t", name, vcore=1), ask(f"{name}-x", name, vcore=99))
    world.send(remove(name))


def rejected(world: World, name: str) -> None:
    """An application that may not be where it wants to be."""
    world.send(app(name, "root.a.below-a-leaf"))


def gang(world: World, name: str) -> None:
    """A gang whose real tasks replace the placeholders of one group; the other group times out."""
    world.send(app(name, "root.b", placeholders={"vcore": 2}))
    world.send(*(ask(f"{name}-{group}", name, placeholder=True, group=group, vcore=1) for group in ("g", "h")))
    world.send(ask(f"{name}-r", name, group="g", vcore=1))
    world.send(at=world.now_ns / S_NS + 901)
    world.send(remove(name))


def user(world: World, name: str) -> None:
    """A user with groups, and limits that count what is used."""
    world.send(app(f"app-{name}", user=name, groups=(f"group-{name}",)), ask(f"{name}-t", f"app-{name}", vcore=1))
    world.send(remove(f"app-{name}"))


def dynamic_queue(world: World, name: str) -> None:
    """A queue of its own for an application with a deadline in the far future, which lives longer than its other deadlines."""
    world.send(app(name, f"root.x.{name}", timeout_ms=YEARS_MS), ask(f"{name}-t", name, vcore=1))
    world.send(at=world.now_ns / S_NS + 400)
    world.send(remove(name))


def joined_node(world: World, name: str) -> None:
    """A node that takes an allocation and a foreign one, is drained and leaves."""
    world.send(node(name, vcore=200), app(name), ask(f"{name}-t", name, vcore=150), foreign(f"{name}-f", name, vcore=1))
    world.send(node(name, "DRAIN_NODE"))
    world.send(node(name, "DECOMISSION"), remove(name))


def predicate(world: World, name: str) -> None:
    """A predicate class that one application uses, and whose answers are forgotten or not given."""
    world.send(app(name), ask(f"{name}-t", name, predicate=name, vcore=1), *answer(name, "n1"))
    world.send(ask(f"{name}-u", name, predicate=f"{name}-silent", vcore=1))
    world.send(at=world.now_ns / S_NS + 20)
    world.send(remove(name), forget(name), forget(f"{name}-silent"))


def predicate_service(world: World, name: str) -> None:
    """A predicate service that goes while it is asked."""
    world.send(app(name), ask(f"{name}-t", name, predicate="p", vcore=1))
    world.send(answering(False))
    world.send(remove(name), answering(True), forget())


def preemption(world: World, name: str) -> None:
    """An ask that preempts, and one that tries in vain."""
    world.send(app(f"{name}-low", "root.b"), *(ask(f"{name}-v{n}", f"{name}-low", vcore=1) for n in range(10)))
    world.send(app(name), *(ask(f"{name}-p{n}", name, preempt_other=True, vcore=2) for n in range(2)))
    world.send(at=world.now_ns / S_NS + 40)
    world.send(remove(name), remove(f"{name}-low"))


def shape(world: World, name: str) -> None:
    """An ask with a size of its own, pending and reserved for a while."""
    world.send(app(name), ask(f"{name}-t", name, vcore=8), ask(f"{name}-u", name, vcore=9, **{f"gpu-{name}": 0}))
    world.send(at=world.now_ns / S_NS + 5)
    world.send(remove(name))


def lowered_quota(world: World, name: str) -> None:
    """A quota that is lowered below what is used, and raised again."""
    world.send(app(name, "root.c"), *(ask(f"{name}-{n}", name, vcore=1) for n in range(4)))
    world.send(configure(CONFIG.replace("vcore: '4'", "vcore: '2'")))
    world.send(at=world.now_ns / S_NS + 5)
    world.send(remove(name), configure(CONFIG))


KINDS = (
    completed, removed, rejected, gang, user, dynamic_queue, joined_node, predicate, predicate_service, preemption, shape,
    lowered_quota,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_gone_is_forgotten(kind: Callable[[World, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition knows after 72 h as little as before, however much came and went (AP-142 for its accounts)."""
    monkeypatch.setattr(accounts, "ROWS_MAX", 20)
    monkeypatch.setattr(accounts, "DAYS_MAX", 5)
    monkeypatch.setattr(index, "CHANGED_MAX", 20)
    monkeypatch.setattr(quota_reports, "_CLEANUP_SIZE", 20)
    world = make_world(CONFIG, [node("n1", vcore=10)], checked=False)
    sizes = []
    for count in (ROUNDS, 3 * ROUNDS):
        for number in range(count):
            kind(world, f"{kind.__name__}-{count}-{number}".replace("_", "-"))
        world.wait(world.now_ns / S_NS + TERMINAL_TIMEOUT_NS / S_NS + 1000)
        kind(world, f"last-{count}")  # some tables are looked through when something is added
        world.wait(world.now_ns / S_NS + TERMINAL_TIMEOUT_NS / S_NS + 1000)
        world.send()  # the turn before has tidied the accounts, and noted it
        world.facts.clear()
        world._heard = 0
        sizes.append(tables(world.direct))
    before, after = sizes
    grown = {name: (before.get(name, 0), size) for name, size in after.items() if size > 1.5 * before.get(name, 0) + 20}
    assert grown == {}


def test_an_order_holds_nothing_that_was_taken_out() -> None:
    """Each item is let go by itself: thousands that are freed at once would keep others waiting."""
    order: SortedList[object] = SortedList()
    for number in range(1000):
        order.add((number,), {number})
    for left in range(999, -1, -1):
        order.pop()
        held = [entry for entry in gc.get_referents(order._entries) if isinstance(entry, tuple) and entry[1] is not None]
        assert len(held) == len(order) == left
    assert list(gc.get_referents(order._entries)) == []
