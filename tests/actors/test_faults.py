"""One actor fails at its nth message, wherever that is in the life of several partitions: what must be true all the same."""

import random
from collections import Counter
from functools import partial

import pytest
import trio
import trio.testing
from memorystore import MemoryStore
from partitiontexts import several_loaded
from seeds import seeds
from test_supervision import LEAVES, NAMES, WIDER, Bug, Realm
from world import app, ask, node, queue, release, remove

from ykactor.actors.commands import Intake, Quiesce
from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.facts import PartitionFailed
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.node import NodeCore
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.records.encoding import encode
from ykactor.core.records.export import everything
from ykactor.core.turn.scheduler import SchedulerCore

#: The partition that fails.
VICTIM = "gpu"
KINDS = ("partition", "scheduler", "queue", "node")


class Fault:
    """An actor of a kind fails once, at its message ``number`` in one partition; before or after it has carried it out."""

    def __init__(self, kind, number, *, late):
        self.kind = kind
        self.left = number
        self.late = late
        self.realm = None

    def is_due(self, kind, core):
        """Count a message; whether it is the one."""
        if kind != self.kind or self.realm is None or not self._is_victim(core):
            return False
        self.left -= 1
        return self.left == 0

    def _is_victim(self, core):
        actor = self.realm.partitions.actors.get(VICTIM)
        if actor is None:
            return False
        registry = actor.core.registry
        owners = (actor.core, actor.scheduler_core, *registry.queues.values(), *registry.nodes.values())
        return any(core is owner for owner in owners)

    def inject(self, patch):
        """Replace what carries out messages."""
        for kind, owner, method in (
            ("partition", PartitionCore, "ingest"),
            ("partition", PartitionCore, "fire"),
            ("scheduler", SchedulerCore, "handle"),
            ("queue", LeafCore, "work"),
        ):
            patch.setattr(owner, method, partial(_generator, self, kind, getattr(owner, method)).__call__)
