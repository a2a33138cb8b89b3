"""The requests of a session that partitions have not finished: they are bounded by bytes, and acknowledged in the end."""

import pytest
import trio
import trio.testing
from daemon import node
from doubles import running_daemon
from msgspec import structs

from ykactor.access.limits import Limits as AccessLimits
from ykactor.client import Disconnected, connect
from ykactor.surfaces.admission.session_limits import InputMemory
from ykactor.surfaces.sessions.pending import Backlog, Pending
from ykactor.wire.si import messages as si


def pending(name: str) -> Pending:
    """A request that a partition of this name has not finished."""
    return Pending(name, [name], [name])  # type: ignore[list-item]


async def test_a_backlog_waits_for_the_oldest() -> None:
    """``add`` returns when what is not finished is within the bound, and forgets what is finished."""
    backlog = Backlog(InputMemory(lambda: AccessLimits(waiting_bytes=1000)), lambda: 10, bytes_max=100)
    first, second, third = pending("1"), pending("2"), pending("3")
    await backlog.add([(first, 60)])
    added = False

    async def add() -> None:
        nonlocal added
        await backlog.add([(second, 60)])
        added = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(add)
        await trio.testing.wait_all_tasks_blocked()
        assert not added
        first.done("1")  # type: ignore[arg-type]
        await trio.testing.wait_all_tasks_blocked()
        assert added
    second.done("2")  # type: ignore[arg-type]
    await backlog.add([(third, 60)])
    assert len(backlog._requests) == 1


async def test_a_backlog_counts_as_input_of_the_daemon() -> None:
    """Requests that are waited for leave less room for messages that are read, until they are finished or their session ends."""

    class Reader:
        refused = 0

        def refuse(self, code: int, reason: str) -> None:
            memory.forget(self)
            self.refused += 1

    memory, reader = InputMemory(lambda: AccessLimits(waiting_bytes=100)), Reader()
    backlog = Backlog(memory, lambda: 10)
    first = pending("1")
    await backlog.add([(first, 90)])
    memory.add(reader, 11)
    assert reader.refused == 1
    first.done("1")  # type: ignore[arg-type]
    await backlog.add([(pending("2"), 20)])
    memory.add(reader, 80)
    assert reader.refused == 1
    backlog.close()
    memory.add(reader, 20)
    assert reader.refused == 1
    memory.add(reader, 1)
    assert reader.refused == 2


async def test_a_backlog_of_finished_requests_costs_no_step() -> None:
    """``add`` lets no other task run if it need not wait: small requests that arrive during a turn are the input of the next."""
    backlog = Backlog(InputMemory(lambda: AccessLimits(waiting_bytes=1000)), lambda: 10, bytes_max=100)
    first = pending("1")
    with trio.testing.assert_no_checkpoints():
        await backlog.add([(first, 60)])
        first.done("1")  # type: ignore[arg-type]
        await backlog.add([(pending("2"), 60)])


async def test_a_session_reads_no_more_than_its_partition_handles() -> None:
    """While a partition stands still, a session takes requests of some 64 MiB; the others wait in the network."""
    attributes = {f"{number:02}": "x" * 4000 for number in range(60)}
    entry = structs.replace(node().nodes[0], attributes=attributes)
    large = si.NodeRequest(id="large", nodes=[entry] * 16)  # 3.8 MB
    async with running_daemon() as daemon, connect(daemon.url, rm_id="rm-1", encoding="msgpack") as rm:
        (double,) = daemon.doubles.values()
        double.resume = trio.Event()
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                for _ in range(30):
                    await rm.send(large)

            nursery.start_soon(send)
            while double.inbox.messages_waiting() < 16:  # noqa: ASYNC110  # a mailbox sets no event
                await trio.sleep(0.01)
            await trio.sleep(1)  # what would be read beyond the bound is read now
            assert double.inbox.messages_waiting() <= 18
            double.resume.set()
            acks = 0
            while acks < 30:
                acks += isinstance(await anext(rm), si.Ack)


async def test_an_error_while_acknowledging_ends_only_its_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Acknowledgements are sent by a task that outlives the session; the daemon goes on, and the log has the error."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:

            async def send() -> None:
                while True:
                    await rm.send(structs.replace(node(), id="1"))
                    await anext(rm)

            with monkeypatch.context() as broken:
                broken.setattr(daemon.feed, "published", None)
                with pytest.raises(Disconnected, match="1011"):
                    await send()
        assert "acknowledging_failed" in caplog.text
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node())
