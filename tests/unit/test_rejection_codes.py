"""AP-139: every rejection of a partition has a code, and each code is about one rule."""

import pytest
from world import app, ask, foreign, make_world, node, queue, tree

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import AllocationRejected, ApplicationRejected, NodeRejected
from ykactor.core.messages.kinds import RejectionCode as Code
from ykactor.core.messages.submissions import HeldLimits, Submission
from ykactor.core.values.parts import finished

QUEUES = tree(
    queue("a"),
    queue("fair", p={"application.sort.policy": "fair"}),
    queue("small", max={"vcore": 1}),
    queue("p", queue("closed", submitacl="bob")),
    submitacl="alice",
)
GANG = {"vcore": 2}


def tagged(tag: str, value: str) -> Submission:
    """An ask with a tag."""
    return Ask("t", "app-1", {"vcore": 1}, tags={tag: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (node("n1", vcore=1), Code.DUPLICATE),
        (app("app-1"), Code.DUPLICATE),
        (app("app-2", user=""), Code.BAD_USER),
        (app("app-2", user="a b"), Code.BAD_USER),
        (app("app-2", "root.nowhere"), Code.NO_QUEUE),
        (app("app-2", "root.p"), Code.NO_QUEUE),
        (app("app-2", "root.a!"), Code.NO_QUEUE),
        (app("app-2", "root.a", user="eve"), Code.ACL),
        (app("app-2", "root.p.closed", user="eve"), Code.ACL),
        (app("app-2", "root.nowhere", user="eve"), Code.NO_QUEUE),
        (app("app-2", "root.fair", placeholders=GANG), Code.SORT_POLICY),
        (app("app-2", "root.small", placeholders=GANG), Code.QUOTA),
        (ask("t", "app-9", vcore=1), Code.NO_APPLICATION),
        (ask("t", "app-1", on="n9", vcore=1), Code.NO_NODE),
        (foreign("t", None, vcore=1), Code.NO_NODE),
        (foreign("t", "n9", vcore=1), Code.NO_NODE),
        (foreign("t", "n1", vcore=-1), Code.NEGATIVE_RESOURCES),
        (ask("t", "app-1", vcore=-1), Code.NEGATIVE_RESOURCES),
        (ask("t", "app-1"), Code.NO_RESOURCES),
        (ask("t", "app-1", vcore=1, placeholder=True), Code.NO_TASK_GROUP),
        (tagged("ykactor.io/node-selector", "a in"), Code.BAD_TAG),
        (tagged("ykactor.io/predicate", "x" * 254), Code.BAD_TAG),
    ],
)
def test_the_code_of_a_rejection(wrong: Submission, code: Code) -> None:
    """The neighbours of the entry take effect."""
    world = make_world(QUEUES, [node("n1", vcore=9), app("app-1")])
    world.send(ask("before", "app-1", vcore=1), wrong, ask("after", "app-1", vcore=1))
    (rejected,) = [found for found in world.facts if isinstance(found, AllocationRejected | ApplicationRejected | NodeRejected)]
    assert rejected.code is code
    assert world.placed() == ["before", "after"]


@pytest.mark.parametrize("wrong", [node("n2", vcore=1), app("app-2"), ask("t2", "app-1", vcore=1)])
def test_who_has_no_room(wrong: Submission) -> None:
    """SE-48, SE-49: LIMIT, whatever there is one too many of."""
    world = make_world(QUEUES, [node("n1", vcore=9), app("app-1"), ask("t1", "app-1", vcore=1)])
    limits = HeldLimits("rm", applications=1, asks=1, nodes=1, queues=0)
    core = world.direct.core
    core.begin_turn()
    (rejected,) = finished(core.ingest(0, [wrong], limits))
    assert isinstance(rejected, AllocationRejected | ApplicationRejected | NodeRejected)
    assert rejected.code is Code.LIMIT
