"""A base: the rows of a partition in one text, from which it is made again."""

from __future__ import annotations

import msgspec
import pytest
from world import app, ask, make_world, node, queue, tree

from ykactor.core.config.model import NameFilter, PartitionConfig, PlacementFilter, PlacementRule, QueueConfig
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import ApplyConfig, RemovePartition, SetPredicateService
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.records.base import base_of, decode_base, differing_row, encode_base, partition_from
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.turn.turn import CycleDue, Input
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import finished
from ykactor.sim.direct import run_turn
from ykactor.wire import queuefile

BUDGET = Budget(256, 10_000)


def text_of(core: PartitionCore, scheduler: SchedulerCore) -> bytes:
    return finished(encode_base(core, scheduler.state))


def test_a_partition_comes_back() -> None:
    """A partition comes back with all its rows, and the setting of its scheduler."""
    world = make_world(tree(queue("a")), [node("n1", vcore=2)])
    world.send(app("app-1", "root.a"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=5))
    text = text_of(world.direct.core, world.direct.scheduler)
    made = finished(partition_from(decode_base(text)))
    assert differing_row(decode_base(text), decode_base(text_of(*made))) is None
    other = text.replace(b'"reserves":true', b'"reserves":false')
    assert finished(partition_from(decode_base(other)))[1].state.reserves is False


def test_before_the_first_configuration_and_after_the_removal() -> None:
    """A partition without queues is a base, too; what follows is the same as without it."""
    config = queuefile.load(tree(queue("a"))).partitions[0]
    core = PartitionCore(config)
    both = [(core, SchedulerCore(core.registry))]
    for cause in ([ApplyConfig(config)], [node("n1", vcore=4), app("app-1", "root.a")], [RemovePartition()]):
        both = [both[0], finished(partition_from(decode_base(text_of(*both[0]))))]
        facts: list[list[Fact]] = [[], []]
        for made, into in zip(both, facts, strict=True):
            run_turn(made, 5, Input([*cause]), into.extend)
        assert facts[0] == facts[1]
        assert facts[0]
    made = finished(partition_from(decode_base(text_of(*both[0]))))
    ended: list[Fact] = []
    run_turn(made, 6, Input([SetPredicateService(is_there=False)]), ended.extend)
    run_turn(made, 6, CycleDue(BUDGET), ended.extend)
    assert not [fact for fact in ended if "Queue" in type(fact).__name__]


def test_the_first_difference() -> None:
    """The first difference is that of the lowest key; the order of rows and within sets does not count."""
    rows = [b'[["p","queue","a"],{"x":1}]', b'[["p","ended","k"],{"y":1}]']
    one = decode_base(base_of(rows, reserves=True))
    assert differing_row(one, decode_base(base_of(rows[::-1], reserves=True))) is None
    assert differing_row(one, decode_base(base_of(rows[:1], reserves=True))) == (b'["p","ended","k"]', b'{"y":1}', b"null")
    assert differing_row(decode_base(base_of([], reserves=True)), one) == (b'["p","ended","k"]', b"null", b'{"y":1}')
    names = NameFilter(listed=True, names=frozenset("ab"))
    config = PartitionConfig(
        PartitionName("p"),
        QueueConfig(QueuePath("root"), True),
        placement_rules=(PlacementRule("user", filter=PlacementFilter(users=names)),),
    )
    text = msgspec.json.encode(config)
    orders = [text.replace(b'"names":["b","a"]', b'"names":["a","b"]'), text.replace(b'"names":["a","b"]', b'"names":["b","a"]')]
    assert orders[0] != orders[1]
    bases = [decode_base(base_of([b'[["p","configuration"],%b]' % order], reserves=True)) for order in orders]
    assert differing_row(*bases) is None


def test_a_damaged_base() -> None:
    """A damaged base is refused as a whole."""
    with pytest.raises(UnreadableRowError, match="base: "):
        decode_base(b'{"rows":[]}')
