"""A large snapshot is encoded and sent in parts, in every encoding, and arrives whole."""

import pytest
from world import World, node, queue, tree

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.surfaces.sessions import feed_session
from ykactor.surfaces.sessions.feed_session import _encoded, _parts
from ykactor.wire.si.codec import ENCODINGS


def state() -> PartitionStatus:
    return World(tree(queue("a")), [node(f"n{number}", vcore=number) for number in range(1, 51)]).shown()


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("is_shared", [False, True])
async def test_parts_show_the_same(name, is_shared, monkeypatch):
    """Only a state that nobody else reads is taken apart."""
    monkeypatch.setattr(feed_session, "PART_BYTES", 100)
    encoding, given = ENCODINGS[name], state()
    shown = await _encoded(given, encoding, is_shared=is_shared)
    assert encoding.encode(shown) == encoding.encode(state())
    assert (given == state()) is is_shared


async def test_messages_of_a_snapshot_in_parts_are_bounded(monkeypatch):
    """EV-62: a message ends with the entry with which it has enough bytes."""
    monkeypatch.setattr(feed_session, "MESSAGE_BYTES", 1000)
    encoding = ENCODINGS["ykactor.v1.json"]
    messages = [*_parts(await _encoded(state(), encoding, is_shared=False))]
    longest = max(len(encoding.encode(entry)) for entry in state().nodes.values())
    assert len(messages) > 3
    assert all(len(encoding.encode(message)) < 2 * (1000 + longest) for message in messages)
    assert [name for message in messages for name in message.nodes] == [*state().nodes]
