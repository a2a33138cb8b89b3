"""Nodes that do not do what they are told."""

import pytest

from ykactor.core.objects.commands import PlaceBatch, Placed, Refused
from ykactor.core.objects.node import NodeCore
from ykactor.core.partition import cluster


class StubbornNode(NodeCore):
    """Refuses its first batches because something has just changed on it."""

    refusals = 3

    def on_place_batch(self, command: PlaceBatch) -> Placed | Refused:
        if self.refusals:
            self.refusals -= 1
            self.revision += 1
            return Refused(self.revision, f"node {self.node_id}: something else came first")
        return super().on_place_batch(command)


@pytest.fixture
def stubborn_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is one."""
    monkeypatch.setattr(cluster, "NodeCore", StubbornNode)
