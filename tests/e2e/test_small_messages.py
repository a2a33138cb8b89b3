"""Small messages that come together cost little more than one: the fixed costs of a message are paid once for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from daemonhere import daemon_here
from memorystore import MemoryStore

from bench.small_messages import Line, connected
from bench.workloads import Workload
from ykactor.actors.feed import FeedActor
from ykactor.actors.outbox import OutboxRegistry
from ykactor.surfaces.net.transports import FrameStream
from ykactor.wire.si import messages as si

SMALL = Workload(nodes=10, leaves=1, applications=1, asks_each=200)


class Steps(trio.abc.Instrument):
    """Counts the steps of the tasks of a session."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += "sessions" in task.name or "serve_listeners" in task.name


@asynccontextmanager
async def registered() -> AsyncIterator[Line]:
    """A registered resource manager with nodes and an application, of a daemon in this process that has a journal."""
    async with daemon_here(SMALL.config(), MemoryStore()) as (_, url), connected(url) as line:
        for request in (si.RegisterResourceManagerRequest(rm_id="rm"), *SMALL.setup()):
            await line.request(request)
        yield line


async def place(line: Line) -> list[si.Response]:
    """Send all asks at once, each in a message of its own; what comes until all are placed and acknowledged."""
    asks = [ask for request in SMALL.requests() for ask in request.allocations]
    responses = list[si.Response]()
    async with trio.open_nursery() as nursery:
        frames = [line.frame(si.AllocationRequest(allocations=[ask])) for ask in asks]
        nursery.start_soon(line.send, b"".join(frames))
        while count(responses) != (len(asks), len(asks)):
            responses += await line.receive()
    return responses


def count(responses: list[si.Response]) -> tuple[int, int]:
    """The acknowledgements, and the allocations."""
    placed = sum(len(response.new) for response in responses if isinstance(response, si.AllocationResponse))
    return sum(isinstance(response, si.Ack) for response in responses), placed


async def test_messages_that_come_together_are_handled_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of the session run less than once for each message, and what they wait for and send is asked and sent together."""
    called: Counter[str] = Counter()

    def counting(kind: type, name: str) -> None:
        function = getattr(kind, name)

        async def counted(*args: object) -> None:
            called[name] += 1
            await function(*args)

        monkeypatch.setattr(kind, name, counted)

    counting(FeedActor, "published")
    counting(FrameStream, "send_all")
    counting(OutboxRegistry, "room")
    async with registered() as line:
        steps = Steps()
        called.clear()
        trio.lowlevel.add_instrument(steps)
        await place(line)
        trio.lowlevel.remove_instrument(steps)
    assert steps.count < SMALL.asks / 2
    assert called["published"] < SMALL.asks / 4
    assert called["send_all"] < SMALL.asks / 4
    assert called["room"] < SMALL.asks / 4


async def test_answers_keep_the_order_of_their_requests() -> None:
    """Answers that are sent together are in the order of the requests, and numbered in the order in which they are sent."""
    async with registered() as line:
        responses = await place(line)
    ids = [int(response.id) for response in responses if isinstance(response, si.Ack)]
    assert ids == sorted(ids)
    numbers = [response.sequence for response in responses]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
