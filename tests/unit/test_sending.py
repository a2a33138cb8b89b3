"""The event loop time of large answers while they are sent, with a processor that takes what the test says."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial

import pytest
import trio
import trio.testing

from ykactor.surfaces.http import load
from ykactor.surfaces.http.load import BUSY_SHARE, FREE_BYTES, IDLE_SHARE, Sending

MIB = 2**20


class Processor:
    """CPU time of this thread, which passes only when somebody works."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def send(self, takes_s: float) -> None:
        """Work, and wait for the peer."""
        self.seconds += takes_s
        await trio.sleep(0.01)


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Processor:
    found = Processor()
    monkeypatch.setattr(load, "worked_s", lambda: found.seconds)
    return found


@pytest.mark.parametrize(
    ("is_busy", "own", "share"), [(True, 1.0, BUSY_SHARE), (True, 0.5, BUSY_SHARE / 2), (False, 1.0, IDLE_SHARE)]
)
async def test_readers_have_a_share_and_take_turns(
    autojump_clock: trio.testing.MockClock,
    processor: Processor,
    monkeypatch: pytest.MonkeyPatch,
    is_busy: bool,
    own: float,
    share: float,
) -> None:
    """SE-96: four that read in a loop and one that has a hundred connections take their share together, each the same of it."""
    sent, ours = Counter[str](), Sending()
    monkeypatch.setattr(ours._loop, "is_busy", lambda: is_busy)
    monkeypatch.setattr(ours._loop, "own", lambda: own)

    async def loop(holder: str) -> None:
        while True:
            await ours.send(holder, MIB, partial(processor.send, 0.002))
            sent[holder] += 1

    async with trio.open_nursery() as nursery:
        for holder in ["a", "b", "c", "d", *["crowd"] * 100]:
            for _ in range(3):
                nursery.start_soon(loop, holder)
        await trio.sleep(15)  # what was expected of a byte is not what it takes
        before_s, before, since_s = processor.seconds, Counter(sent), trio.current_time()
        await trio.sleep(60)
        taken = (processor.seconds - before_s) / (trio.current_time() - since_s)
        assert taken == pytest.approx(share, rel=0.1)
        counts = [sent[holder] - before[holder] for holder in sent]
        assert min(counts) > 0.8 * max(counts)
        nursery.cancel_scope.cancel()


async def test_what_a_slow_peer_waits_for_is_not_counted(autojump_clock: trio.testing.MockClock, processor: Processor) -> None:
    """SE-96: it takes no time of the loop, and what others do meanwhile is not its own."""
    ours = Sending()

    async def others() -> None:
        while True:
            processor.seconds += 0.1
            await trio.sleep(0.1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        before_s = ours._cost_s
        await ours.send("a", MIB, partial(processor.send, before_s * MIB))
        assert ours._cost_s == pytest.approx(before_s)
        nursery.cancel_scope.cancel()


async def test_an_error_of_a_connection_is_charged_too(autojump_clock: trio.testing.MockClock, processor: Processor) -> None:
    """SE-96: what was taken was taken."""
    ours = Sending()

    async def breaks() -> None:
        processor.seconds += 1.0
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    with pytest.raises(trio.BrokenResourceError):
        await ours.send("a", MIB, breaks)
    assert load.BURST_S - ours._queue.bucket.tokens == pytest.approx(1.0 / IDLE_SHARE, rel=0.01)


async def test_bodies_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: of different large ones; many who read the same one need it once, and small ones are sent in any case."""
    monkeypatch.setattr(load, "BYTES_MAX", 8 * FREE_BYTES)
    ours, large, others = Sending(), [bytes(4 * FREE_BYTES + 1)], [bytes(4 * FREE_BYTES)]
    with ours.kept("a", large):
        assert not ours.has_room("b", others)
        assert ours.has_room("b", [bytes(FREE_BYTES)])
        assert ours.has_room("b", large)
        with ours.kept("a", large), ours.kept("a", [bytes(FREE_BYTES)]):
            assert len(ours._bodies) == 1
        assert not ours.has_room("b", others)
    assert ours.has_room("b", others)
    assert not ours._bodies
    assert ours.has_room("b", [large[0], large[0]])


async def test_nobody_takes_the_memory_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: of what different bodies may have, one reader has a quarter of what others leave, and one body in any case."""
    monkeypatch.setattr(load, "BYTES_MAX", 16 * FREE_BYTES)
    ours, body = Sending(), FREE_BYTES + 1
    with ExitStack() as held:
        for holder in ("crowd", "a", "b"):
            taken = 0
            while ours.has_room(holder, parts := [bytes(body)]):
                held.enter_context(ours.kept(holder, parts))
                taken += 1
            assert taken == {"crowd": 3, "a": 3, "b": 2}[holder]
        assert ours.has_room("c", [bytes(4 * FREE_BYTES)])
        assert not ours.has_room("crowd", [bytes(body)])
