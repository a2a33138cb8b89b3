"""Node selectors: what of a node's attributes an ask wants (the tag ``ykactor.io/node-selector``)."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from costs import is_linear
from hypothesis import given
from hypothesis import strategies as st
from world import World, app, ask, make_world, node, queue, release, tree

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import Submission, UpdateNode
from ykactor.core.nodes import index
from ykactor.core.planner.plan import TRY_WORK
from ykactor.core.turn.scheduler import Decide
from ykactor.core.values.selector import Requirement, SelectorError, parse, selects

NODE = {"zone": "a", "gpu": "a100", "empty": "", "node.kubernetes.io/type": "m5.large"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("zone=a", True),
        ("zone==a", True),
        ("zone=b", False),
        ("zone!=b", True),
        ("zone!=a", False),
        ("region!=a", True),  # a missing attribute is not equal to anything
        ("region=a", False),
        ("gpu in (a100,h100)", True),
        ("gpu in ( h100 , a100 )", True),
        ("gpu in (h100)", False),
        ("gpu notin (h100)", True),
        ("region notin (a)", True),
        ("region in (a)", False),
        ("gpu", True),
        ("!gpu", False),
        ("!region", True),
        ("region", False),
        ("empty=", True),
        ("zone=a,gpu in (a100), !tainted", True),
        ("zone=a,gpu in (h100)", False),
        ("node.kubernetes.io/type=m5.large", True),
        (" zone = a , gpu ", True),
    ],
)
def test_selects(text: str, selected: bool) -> None:
    """Every requirement must hold; a missing attribute fails ``=`` and ``in`` and passes ``!=`` and ``notin``."""
    assert selects(parse(text), NODE) is selected


WRONG = ["=a", "zone=a b", "zone in a", "zone in (a", "!", "a,,b", "zone in (a;b)", "(a)", "zone=a=b", "a in(b)c"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_selector(text: str) -> None:
    """The message shows where reading stopped, and what is allowed there."""
    with pytest.raises(SelectorError, match="expected"):
        parse(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else comes out, whatever a resource manager sends."""
    try:
        parse(text)
    except SelectorError:
        return


def test_parts() -> None:
    """Requirements in the order of the text."""
    assert parse("a in (x,y),!b") == (Requirement("a", ("x", "y"), holds=True), Requirement("b", None, holds=False))


# ---- in the scheduler


def labelled(name: str, **attributes: str) -> Submission:
    return UpdateNode(name, NodeAction.CREATE, {"vcore": 2}, attributes)  # type: ignore[arg-type]


def wants(key: str, text: str, *, vcore: int = 1) -> Submission:
    return Ask(key, "app-1", {"vcore": vcore}, tags={"ykactor.io/node-selector": text})  # type: ignore[arg-type]


def room(*nodes: Submission) -> World:
    world = make_world(tree(queue("a")), nodes)
    world.given(app("app-1"))
    return world


def test_only_selected_nodes_are_used() -> None:
    """Whatever their order; what selects nothing goes anywhere."""
    world = room(labelled("n1", zone="a"), labelled("n2", zone="b"), labelled("n3"))
    world.send(*(wants(key, "zone=b") for key in ("t1", "t2", "t3")), wants("t4", "!zone"), ask("t5", "app-1", vcore=1))
    placed = [line for line in world.heard() if " on " in line]
    assert placed[:3] == ["t1 on n2", "t2 on n2", "t4 on n3"]
    assert placed[3] in ("t5 on n1", "t5 on n3")
    assert world.why("t3") == "wants 0.001, has 0 of 0.002 vcore on the freest node that it can use, n2"
    world.send(labelled("n4", zone="b"))
    assert world.placed() == ["t3"]


def test_behind_many_others() -> None:
    """The first node that is selected is found deep in the list, too."""
    world = room(*(labelled(f"n{number:03}", zone="a") for number in range(200)), labelled("z", zone="b"))
    world.send(wants("t1", "zone=b"), wants("t2", "zone in (b)"), wants("t3", "zone=b"))
    assert [line for line in world.heard() if " on " in line] == ["t1 on z", "t2 on z"]


def test_only_nodes_that_it_names_are_looked_at() -> None:
    """An ask that selects one of many nodes costs a few looks, whether it fits there or not."""
    world = room(*(labelled(f"n{number:03}", host=f"n{number:03}") for number in range(300)))
    effort = world.direct.scheduler.state.tree.effort
    for key, text, placed in [("t1", "host=n299", ["t1"]), ("t2", "host in (n007)", ["t2"]), ("t3", "host=n299", [])]:
        world.heard()
        world.send(wants(key, text, vcore=2))
        assert world.placed() == placed
        assert effort.spent < 10 + TRY_WORK


def test_a_wrong_selector_is_refused() -> None:
    """The ask is rejected and says why; the others of the request are not touched (AP-137)."""
    world = room(labelled("n1"))
    world.send(wants("t1", "zone in"), wants("t2", ""))
    rejected, *others = world.heard()
    assert rejected.startswith("t1 rejected: tag ykactor.io/node-selector: found 'zone in', expected key=value")
    assert others[-1] == "t2 on n1"


def test_with_a_required_node() -> None:
    """Both must hold."""
    world = make_world(tree(queue("a")), [labelled("n1", zone="a"), node("n2", vcore=2)])
    world.given(app("app-1"))
    tags = {"ykactor.io/node-selector": "zone=b", "yunikorn.apache.org/requiredNode": "n1"}
    world.send(Ask("t1", "app-1", {"vcore": 1}, tags=tags))  # type: ignore[arg-type]
    assert world.placed() == []


@pytest.mark.parametrize(
    "hostile",
    [
        lambda n: "a" + " " * n + "!",
        lambda n: "a in (" + " " * n,
        lambda n: "a," * n,
        lambda n: "a in (" + "b," * n,
        lambda n: "!" * n,
    ],
    ids=["spaces", "open parenthesis", "requirements", "values", "marks"],
)
def test_reading_is_linear(hostile: Callable[[int], str]) -> None:
    """16 times the text takes about 16 times as long, whatever it holds, and not 256 times."""

    def read(text: str) -> None:
        with suppress(SelectorError):
            parse.__wrapped__(text)

    assert is_linear(read, hostile, 1_000)


def test_why_no_selected_node_is_used() -> None:
    """Other nodes are no help, however large."""
    world = room(labelled("n1", zone="a"), node("n2", vcore=9))
    world.send(wants("t1", "zone=b"), wants("t2", "zone=a", vcore=3))
    assert world.why("t1") == "no node has the attributes that it selects"
    assert world.why("t2") == "can never fit: the largest node that it selects has 0.002 vcore, it wants 0.003"


def test_a_selector_with_too_many_names_is_refused() -> None:
    """AP-137: 256 keys and values may be read, as an ask keeps all of them."""
    world = room(labelled("n1"))
    most = f"zone notin ({','.join(f'z{n}' for n in range(255))})"
    world.send(wants("t1", most), wants("t2", ",".join(f"!k{n}" for n in range(257))))
    placed, rejected = sorted(line for line in world.heard() if " on " in line or "rejected" in line)
    assert placed == "t1 on n1"
    assert rejected == "t2 rejected: tag ykactor.io/node-selector: found 257 keys and values, expected at most 256"


MANY = ",".join(f"k{number}!=v" for number in range(40))


def history(nodes: int) -> list[str]:
    """The story of asks with many requirements behind many nodes that they cannot use, while nodes change."""
    names = [f"n{number:04}" for number in range(nodes)]
    world = room(*(labelled(name, k7="v") for name in names), labelled("y", k1="w"), labelled("z"))
    world.send(wants("t1", f"{MANY},!k1"), wants("t2", MANY, vcore=2), wants("t3", MANY, vcore=2), wants("t4", f"{MANY},k9"))
    world.send(release("t1"), node(names[5], "DECOMISSION"), labelled("x", k9="w"))
    world.run(until=10)
    return world.heard()


def test_looking_at_all_nodes_before_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at all nodes that takes long is done in parts, before the ask is tried."""
    told = []
    for work in (0, 10**9):
        monkeypatch.setattr(index, "READY_WORK", work)
        told.append(history(200))
    assert told[0] == told[1]
    assert {"t1 on z", "t2 on y"} <= set(told[0])


def test_a_plan_pauses_while_it_looks_at_all_nodes() -> None:
    """However many requirements a selector has, other tasks run meanwhile."""

    def pauses(text: str) -> int:
        world = room(*(labelled(f"n{number:04}", k7="v") for number in range(3000)))
        world.direct.ingest(world.now_ns, [wants("t1", text)])
        return len(list(world.direct.scheduler.handle(Decide(world.now_ns, Budget(100, 10**9)))))

    assert pauses("spot") < 3
    assert pauses(f"{MANY},!k7") > 10
