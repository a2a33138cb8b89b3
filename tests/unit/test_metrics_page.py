"""A scrape is made anew in time, also if a partition does not answer."""

from types import SimpleNamespace
from typing import Any

import trio
from deliveries import FakeDelivery
from world import app, ask, make_world, node, queue, tree

from ykactor.actors.commands import Read
from ykactor.actors.feed import FeedActor
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.pauses import drive, pause
from ykactor.surfaces.http.monitoring import ANSWER_S, FRESH_S, SHARE, Metrics
from ykactor.surfaces.metrics.instruments import Instruments
from ykactor.surfaces.metrics.scrape import Sources


class Daemon:
    """A partition that answers when it is told to."""

    def __init__(self) -> None:
        self.world = make_world(tree(queue("a")), [node("n1", vcore=4)])
        self.world.given(app("one"), ask("t1", "one", vcore=1))
        self.inbox: Mailbox[Any] = Mailbox("partition default", 3)
        partitions = {"default": self.inbox}
        feed = FeedActor(FakeDelivery(lambda *_: []), partitions)
        gateway: Any = SimpleNamespace(partitions=partitions, feed=feed, standbys_status=None)
        self.instruments = Instruments(partitions)
        self.instruments.facts.count("default", self.world.facts)
        self.metrics = Metrics(Sources(gateway, {}, self.instruments, False))

    async def answer(self) -> None:
        """Answer one question."""
        command = await self.inbox.get()
        assert isinstance(command, Read)
        command.done(await drive(command.read(self.world.direct.core, self.world.direct.scheduler.state, 0), pause))

    async def scraped(self, nursery: trio.Nursery) -> str:
        """A scrape for which the partition answers at once."""
        nursery.start_soon(self.answer)
        return b"".join((await self.metrics.page()).parts).decode()


async def test_a_scrape_is_for_all_who_ask_within_a_second(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """Also for those who ask while it is made."""
    daemon = Daemon()
    bodies: list[list[bytes]] = []

    async def read() -> None:
        bodies.append((await daemon.metrics.page()).parts)

    nursery.start_soon(daemon.answer)
    async with trio.open_nursery() as readers:
        for _ in range(5):
            readers.start_soon(read)
    await trio.sleep(FRESH_S / 2)
    await read()
    assert len(bodies) == 6
    assert all(body is bodies[0] for body in bodies)
    for _ in range(20):  # in whatever order tasks run
        await trio.sleep(SHARE * FRESH_S)
        assert "yunikorn_queue_resource" in await daemon.scraped(nursery)
    assert daemon.inbox.messages_waiting() == 0


async def test_a_partition_that_does_not_answer(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """The rest is shown, and it is asked once only; what was counted for its queues is there again when it answers."""
    daemon = Daemon()
    counted = 'yunikorn_root_a_queue_container{state="allocated"} 1'
    assert counted in await daemon.scraped(nursery)
    for number in range(3):
        await trio.sleep(SHARE * FRESH_S)
        before_s = trio.current_time()
        silent = b"".join((await daemon.metrics.page()).parts).decode()
        assert trio.current_time() - before_s == (ANSWER_S if number == 0 else 0)
        assert "yunikorn_queue_resource" not in silent
        assert 'ykactor_mailbox_messages{mailbox="partition default"} 1' in silent
    await daemon.answer()
    await trio.sleep(SHARE * FRESH_S)
    assert counted in await daemon.scraped(nursery)


async def test_a_partition_whose_inbox_is_full_or_closed(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """The partition was not asked, so it is asked the next time."""
    daemon = Daemon()
    others = [Read(lambda *_: iter(()), lambda _: None) for _ in range(3)]  # type: ignore[arg-type]
    for other in others:
        daemon.inbox.put_nowait(other)
    assert "yunikorn_queue_resource" not in b"".join((await daemon.metrics.page()).parts).decode()
    daemon.inbox.take_nowait(3)
    await trio.sleep(SHARE * FRESH_S)
    assert "yunikorn_queue_resource" in await daemon.scraped(nursery)
    daemon.inbox.close()
    await trio.sleep(SHARE * FRESH_S)
    assert "ykactor_build_info" in b"".join((await daemon.metrics.page()).parts).decode()
