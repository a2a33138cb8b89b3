"""Rounds: neighbours that different owners can handle at the same time go out together, everything else alone."""

from contextlib import suppress

import pytest
from world import app, ask, configure, foreign, forget, make_world, node, queue, release, remove, reset, tree

from ykactor.core.messages.submissions import Submission
from ykactor.core.partition.rounds import ForLeaves, ForNodes, in_rounds

LEAVES = [app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", on="n1", vcore=1), release("t1"), remove("app-1")]
NODES = [node("n1", vcore=1), foreign("f1", "n1", vcore=1), release("f1", ""), node("n1", "DRAIN_NODE"), forget()]
ALONE = [node("n1", "DECOMISSION"), configure(tree(queue("a"))), reset()]


def shown(submissions: list[Submission]) -> list[object]:
    """The rounds as lists, what is alone as it is."""
    return [part.submissions if isinstance(part, ForLeaves | ForNodes) else part for part in in_rounds(submissions)]


def test_neighbours_of_a_kind_share_a_round() -> None:
    """Leaves and nodes each handle neighbours together; the order of the input is kept."""
    assert shown([*LEAVES, *NODES, *LEAVES]) == [LEAVES, NODES, LEAVES]
    assert [type(part) for part in in_rounds([*LEAVES, *NODES])] == [ForLeaves, ForNodes]


@pytest.mark.parametrize("alone", ALONE, ids=lambda submission: type(submission).__name__)
def test_some_are_alone(alone: Submission) -> None:
    """A submission that concerns several owners shares its round with nothing, not even with its like."""
    assert shown([alone, alone]) == [alone, alone]
    assert shown([*LEAVES, alone, *LEAVES]) == [LEAVES, alone, LEAVES]
    assert shown([*NODES, alone]) == [NODES, alone]


def test_no_input_no_round() -> None:
    """A turn without submissions sends nothing."""
    assert shown([]) == []


def test_queues_are_created_in_parts() -> None:
    """The more queues the applications of a round create, the more often other tasks run."""

    def pauses(names: list[str]) -> int:
        world = make_world(tree(queue("a"), placementrules=[{"name": "provided", "create": True}]))
        ingest = world.direct.core.ingest(0, [app(f"app-{number}", name) for number, name in enumerate(names)])
        found, replies = 0, None
        with suppress(StopIteration):
            while True:
                sends = ingest.send(replies)
                found += not sends
                replies = [owner.handle(command) for owner, command in sends]
        return found

    assert pauses(["root.a"] * 100) == 0
    assert pauses([f"root.q{number}" for number in range(100)]) == 1
    assert pauses([f"root.q{number}.b.c.d" for number in range(100)]) >= 4
