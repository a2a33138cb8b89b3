"""The codes of what keeps asks back (AP-150), and what a reader that is limited to queues is told of each (SE-84)."""

from collections.abc import Callable
from typing import Any

import pytest
from gangs import gang, real, room, three
from test_view import view
from world import (
    World,
    answer,
    answering,
    app,
    ask,
    hand_back,
    hold,
    limit,
    make_world,
    node,
    queue,
    seen,
    terminate,
    tree,
)

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.values.resources import Resource
from ykactor.core.waiting.reasons import Place, without_others

A = queue("a")


def groups(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Groups of pending asks by the keys of their asks."""
    found = [group for application in state["applications"].values() for group in application.get("pending", ())]
    return {key: group for group in found for key in group["allocationKeys"]}


def waits(*submissions: Any, text: str = tree(A), nodes: int = 1, until: float = 0, confirms: bool = True) -> World:
    """An application in ``root.a`` on nodes of 4 cores."""
    world = make_world(text, [node(f"n{number}", vcore=4000) for number in range(nodes)], confirms=confirms)
    world.given(app("app-1"), *submissions)
    if until:
        world.run(until)
    return world


def t1(vcore: int = 1000, **keys: Any) -> Any:
    return ask("t1", "app-1", vcore=vcore, **keys)


def held(name: str) -> World:
    world = waits(t1(9000))
    world.administer(hold(name))
    return world


def failing() -> World:
    world = waits(ask("t0", "app-1", vcore=1000), confirms=False)
    world.administer(terminate("app-1"))
    world.send(t1())
    return world


def handed_back() -> World:
    world = waits(t1())
    world.given(hand_back("t1", "n0"))
    return world


def in_back_off() -> World:
    fillers = [ask(f"f{number}", "app-1", vcore=2000, on=f"n{number}") for number in range(2)]
    asks = [ask(f"t{number}", "app-2", vcore=3000) for number in range(3)]
    return waits(*fillers, app("app-2"), *asks, text=tree(queue("a", p={"application.unschedasks.backoff": 2})), nodes=2)


def second_starts_later() -> World:
    text = tree(queue("a", p={"application.sort.policy": "stateaware"}))
    return waits(ask("t0", "app-1", vcore=9000), app("app-2"), ask("t1", "app-2", vcore=1000), text=text)


def behind_placeholders() -> World:
    world = room(confirms=False)
    world.given(gang(), *three(), real("t4"), real("t2"), real("t3"), real("t1"))
    return world


def preempting() -> World:
    text = tree(queue("a", guaranteed={"vcore": 4000}, p={"preemption.delay": "1s"}), queue("b"), preemption={"enabled": True})
    world = waits(app("app-2", "root.b"), ask("b1", "app-2", vcore=4000), text=text, confirms=False)
    world.given(t1(4000, preempt_other=True))
    world.run(3)
    return world


def refused() -> World:
    return waits(answering(True), t1(predicate="gpu"), *answer("gpu", "n0", no="root.secret"))


def selecting() -> World:
    tags = {"ykactor.io/node-selector": "zone=b"}
    return waits(Ask("t1", "app-1", {"vcore": 1000}, tags=tags))  # type: ignore[arg-type]


def untried() -> World:
    world = make_world(tree(A), [node("n0", vcore=4000)], checked=False)
    world.direct.ingest(0, [app("app-1"), t1()])
    return world


#: By code: how an ask ``t1`` comes to have it, and what a reader of ``root.a`` is told.
SCENES: dict[PendingCode, tuple[Callable[[], World], str]] = {
    PendingCode.HELD: (lambda: held("root"), "held by an operator with queue root"),
    PendingCode.FAILING: (failing, "its application is Failing: it ends when the resource manager has confirmed its releases"),
    PendingCode.BACKOFF: (
        in_back_off,
        "its application is in back-off, because too many of its asks fit on no node (application.unschedasks.backoff)",
    ),
    PendingCode.ORDER: (
        second_starts_later,
        "another application of the queue starts first (application.sort.policy: stateaware)",
    ),
    PendingCode.PLACEHOLDER: (behind_placeholders, "waits for a placeholder of its task group"),
    PendingCode.MAX_APPLICATIONS: (
        lambda: waits(
            ask("t0", "app-1", vcore=1), app("app-2"), ask("t1", "app-2", vcore=1), text=tree(queue("a", maxapplications=1))
        ),
        "queue root.a runs 1 of at most 1 application",
    ),
    PendingCode.LIMIT: (
        lambda: waits(t1(3000), text=tree(queue("a", limits=[limit("alice", vcore=2000)]))),
        "can never fit: wants 3, may have at most 2 vcore in the limit of user alice in queue root.a",
    ),
    PendingCode.QUOTA: (
        lambda: waits(t1(3000), text=tree(queue("a", max={"vcore": 2000}))),
        "can never fit: wants 3, may have at most 2 vcore in queue root.a",
    ),
    PendingCode.NO_NODE: (lambda: waits(t1(), nodes=0), "there is no node"),
    PendingCode.UNKNOWN_NODE: (lambda: waits(t1(requires="n9")), "the node that it requires is not registered"),
    PendingCode.NOT_SELECTED: (selecting, "no node has the attributes that it selects"),
    PendingCode.LEFT_OUT: (
        handed_back,
        "there is no other node that it may use; back-off: it could not start on n0 until 1970-01-01T00:00:30Z",
    ),
    PendingCode.TOO_LARGE: (lambda: waits(t1(9000)), "can never fit: no node is large enough, even if it is empty"),
    PendingCode.DRAINED: (
        lambda: waits(node("n9", "CREATE_DRAIN", vcore=9000), t1(9000)),
        "every node that is large enough is drained",
    ),
    PendingCode.NODES: (
        lambda: waits(*(ask(f"t{number}", "app-1", vcore=2500) for number in (2, 3, 1)), nodes=2),
        "no node has room for it at present",
    ),
    PendingCode.PREDICATE: (refused, "the resource manager does not let it run on any node that has room"),
    PendingCode.RESERVED: (
        lambda: waits(*(ask(f"t{number}", "app-1", vcore=2500) for number in (2, 3, 1)), nodes=2, until=3),
        "node n0 is reserved for it",
    ),
    PendingCode.PREEMPTING: (preempting, "node n0 is reserved for it, and what it preempts there has not ended yet"),
    PendingCode.NEXT: (untried, "it fits, and is tried in the next cycle"),
}


def test_every_code_has_a_scene() -> None:
    """AP-150: a new code is told to limited readers only in words that somebody has thought of."""
    assert set(SCENES) == set(PendingCode)


@pytest.mark.parametrize("code", PendingCode)
def test_what_keeps_an_ask_back(code: PendingCode) -> None:
    """AP-150, SE-84: the code is the same for all; the words name nothing but the own queue, node and limit."""
    scene, told = SCENES[code]
    state = scene().state()
    assert groups(state)["t1"]["code"] == code
    shown = groups(seen(view("root.a", "root.g"), state))["t1"]
    assert (shown["code"], shown["reason"]) == (code, told)


def test_an_own_hold_names_no_queue() -> None:
    """OP-7: who holds is told to who sees everything."""
    state = held("app-1").state()
    shown = seen(view("root.a"), state)
    assert groups(shown)["t1"]["reason"] == "held by an operator"
    assert shown["applications"]["app-1"]["held"] == {"by": "an operator", "since": 0}
    assert groups(state)["t1"]["reason"].startswith("held by ops since ")


WANTED: Resource = {"vcore": 3000, "gpu": 0}
OF_OTHERS = [
    (PendingCode.QUOTA, Place(queue_name="root.p", resource="vcore"), "wants 3 vcore, more than is left in queue root.p"),
    (PendingCode.QUOTA, Place(queue_name="root", resource="vcore"), "wants 3 vcore, more than is left in the cluster"),
    (PendingCode.QUOTA, Place(queue_name="root.p", resource="gpu"), "too much gpu is in use in queue root.p"),
    (
        PendingCode.LIMIT,
        Place(queue_name="root", whose="user alice", resource="vcore"),
        "wants 3 vcore, more than is left in the limit of user alice in queue root",
    ),
    (PendingCode.MAX_APPLICATIONS, Place(queue_name="root.p"), "queue root.p runs as many applications as it may"),
    (
        PendingCode.MAX_APPLICATIONS,
        Place(queue_name="root.p", whose="group dev"),
        "group dev in queue root.p runs as many applications as it may",
    ),
]


@pytest.mark.parametrize(("code", "place", "told"), OF_OTHERS)
def test_a_place_out_of_view_is_named_without_numbers(code: PendingCode, place: Place, told: str) -> None:
    """SE-84: the name of what holds back; what others use of it is theirs."""
    assert without_others(code, place, WANTED, {}) == told


@pytest.mark.parametrize(
    "parent",
    [{"max": {"vcore": 8000}}, {"limits": [limit("*", vcore=8000)]}, {"limits": [limit("alice", vcore=8000)]}],
    ids=["quota", "limit of all", "own limit"],
)
def test_what_others_use_makes_no_difference(parent: dict[str, Any]) -> None:
    """SE-84: an ask that the queue above keeps back is told so in the same bytes, however much others use there."""
    told = []
    for used in (5000, 7000):
        text = tree(queue("p", queue("mine"), queue("other"), **parent))
        world = make_world(text, [node("n1", vcore=100_000)])
        world.given(app("app-1", "root.p.mine"), app("app-2", "root.p.other"), ask("o1", "app-2", vcore=used))
        world.given(ask("t1", "app-1", vcore=4000))
        state = world.state()
        assert groups(state)["t1"]["place"]["used"] == used
        told.append(seen(view("root.p.mine"), state))
    assert told[0] == told[1]
    assert groups(told[0])["t1"]["place"].keys() <= {"queueName", "resource", "whose"}
    assert "4 vcore, more than is left in" in groups(told[0])["t1"]["reason"]
