"""The checks of a daemon's health: shared, fresh enough, and never for ever."""

import pytest
import trio
from trio.testing import MockClock

from ykactor.actors.commands import Read
from ykactor.actors.health import ANSWER_S, FRESH_S, HealthChecks
from ykactor.actors.mailbox import Mailbox


async def answering(inbox: Mailbox, asked: list[float]) -> None:
    """Finds one violation each time."""
    while True:
        read = await inbox.get()
        assert isinstance(read, Read)
        asked.append(trio.current_time())
        read.done({"queues": [], "usage": [f"violation {len(asked)}"]})


async def test_all_who_ask_share_a_check(autojump_clock: MockClock) -> None:
    """SC-131: the partition is asked once in 30 s, however many ask; then anew."""
    inbox: Mailbox = Mailbox("partition", 10)
    health, asked = HealthChecks({"default": inbox}, list), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answering, inbox, asked)
        async with trio.open_nursery() as readers:
            for _ in range(5):
                readers.start_soon(health.checks)
        assert len(asked) == 1
        await trio.sleep(FRESH_S)
        found = {check.description: check.problem for check in await health.checks()}
        assert found["default: usage"] == "violation 2"
        assert found["every partition runs, and the journal can be written"] == ""
        nursery.cancel_scope.cancel()


async def test_a_partition_that_does_not_answer(autojump_clock: MockClock) -> None:
    """A silent partition is a failed check, and so is what keeps the daemon from serving; stopped ones are not asked."""
    silent, closed = Mailbox("silent", 10), Mailbox("closed", 10)
    closed.close()
    health = HealthChecks({"silent": silent, "closed": closed}, lambda: ["the partition closed is stopped"])
    began_s = trio.current_time()
    problems = {check.description: check.problem for check in await health.checks()}
    assert trio.current_time() - began_s == pytest.approx(ANSWER_S)
    assert problems == {
        "every partition runs, and the journal can be written": "the partition closed is stopped",
        "silent: it answers": "no answer within 30 s",
    }


async def test_who_asks_may_go(autojump_clock: MockClock) -> None:
    """The next one who waits asks anew."""
    inbox: Mailbox = Mailbox("partition", 10)
    health, asked = HealthChecks({"default": inbox}, list), []
    with trio.move_on_after(1):
        await health.checks()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answering, inbox, asked)
        assert len(await health.checks()) == 3
        nursery.cancel_scope.cancel()
