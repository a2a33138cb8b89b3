"""A large snapshot is encoded and sent in parts, in every encoding, and arrives whole."""

import msgspec
import pytest

from ykactor.surfaces.sessions import feed_session
from ykactor.surfaces.sessions.feed_session import _encoded
from ykactor.wire.si.codec import ENCODINGS


def state():
    nodes = {f"n{number}": {"capacity": {"vcore": number}, "allocations": [f"t{number}"]} for number in range(50)}
    return {"name": "default", "queues": {"root": {"max": None}}, "nodes": nodes, "limits": [{"queue": "root"}]}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("is_shared", [False, True])
async def test_parts_show_the_same(name, is_shared, monkeypatch):
    """Only a state that nobody else reads is taken apart."""
    monkeypatch.setattr(feed_session, "PART_BYTES", 100)
    encoding, given = ENCODINGS[name], state()
    shown = await _encoded(given, encoding, is_shared=is_shared)
    data = encoding.encode(shown)
    decode = msgspec.json.decode if data[:1] == b"{" else msgspec.msgpack.decode
    assert decode(data) == state()
    assert (given == state()) is is_shared
