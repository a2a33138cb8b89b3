"""The shapes of reservations that fit on an offered node."""

from typing import Any

import pytest
from world import app, ask, make_world, node, queue, tree

from ykactor.core.nodes.index import NodeIndex


def test_a_shape_that_fits_no_node_that_opened_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty reservations of different sizes, none of which fits; a new node has room for the smallest two."""
    world = make_world(tree(queue("a")), [node(f"n{i:02}", vcore=100) for i in range(20)])
    world.given(app("filler"), *(ask(f"f{i}", "filler", vcore=80, on=f"n{i:02}") for i in range(20)))
    world.given(app("app-1"), *(ask(f"w{i}", "app-1", vcore=61 + i) for i in range(20)))
    world.wait(3)
    assert len(world.direct.scheduler.state.reservations.by_ask) == 20
    first_fit, looked_up = NodeIndex.first_fit, set[int]()

    def counted(self: NodeIndex, shape: Any) -> Any:
        looked_up.add(dict(shape[0])["vcore"])
        return first_fit(self, shape)

    monkeypatch.setattr(NodeIndex, "first_fit", counted)
    world.send(node("other", vcore=62))
    assert (world.placed(), looked_up) == (["w0"], {61, 62})
