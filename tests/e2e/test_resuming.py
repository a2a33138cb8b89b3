"""Answers: a session that resumes learns which requests of the session before it took effect (SC-157)."""

import pytest
import trio
from daemon import asks, node
from doubles import running_daemon
from msgspec import structs

from ykactor.actors.commands import Administer, Publication
from ykactor.client import RequestRefused, connect
from ykactor.core.messages.facts import NodeRejected
from ykactor.wire.si import messages as si

MOVE = si.MoveApplication(application_id="app-1", queue_name="root.a")


async def test_answers_come_before_the_registration() -> None:
    """The daemon has read a request when the connection is lost, and answers it before it says that the session has resumed."""
    async with running_daemon() as daemon:
        (partition,) = daemon.doubles.values()
        async with connect(daemon.url, rm_id="rm-1") as rm:
            partition.resume = trio.Event()
            await rm.send(structs.replace(node(), id="open"))
            with pytest.raises(RequestRefused):  # which is told at once, so the request before has been read
                await rm.request(structs.replace(MOVE, application_id=""))
            last = rm.sequence

        async def go_on() -> None:
            await trio.sleep(0.1)
            partition.resume.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on)
            async with connect(daemon.url, rm_id="rm-1", resume_from=last) as rm:
                assert partition.resume.is_set()
                while not isinstance(message := await rm.__anext__(), si.Ack):
                    pass
    assert message.id == "open"


async def test_a_refusal_comes_after_what_was_published_before() -> None:
    """The turn that refuses a request leaves its receipt before the answer takes it away."""
    async with running_daemon() as daemon:
        (partition,) = daemon.doubles.values()
        double = partition._handle

        async def publish_first(command: object) -> None:
            if isinstance(command, Administer):
                daemon.feed.inbox.put_nowait(Publication("default", [NodeRejected(0, "n1", "first")]))
            await double(command)

        partition._handle = publish_first
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.send(structs.replace(MOVE, id="move"))
            assert isinstance(await rm.__anext__(), si.NodeResponse)
            assert isinstance(await rm.__anext__(), si.ErrorResponse)


async def test_a_partition_that_does_not_run_interrupts_a_request_of_several() -> None:
    """The others have their parts already; if it is the only one, nothing has happened."""
    async with running_daemon("default", "east") as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        daemon.doubles["east"].inbox.close()
        (ask,) = asks("k1").allocations
        there = structs.replace(ask, partition_name="east")
        with pytest.raises(RequestRefused) as refused:
            await rm.request(si.AllocationRequest(allocations=[ask, there]))
        assert refused.value.code == "INTERRUPTED"
        with pytest.raises(RequestRefused) as refused:
            await rm.request(si.AllocationRequest(allocations=[there]))
        assert refused.value.code == "UNAVAILABLE"
