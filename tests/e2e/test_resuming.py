"""A session that resumes learns which requests of the session before it took effect (SC-157)."""

import pytest
import trio
from daemon import node
from doubles import running_daemon
from msgspec import structs

from ykactor.client import RequestRefused, connect
from ykactor.wire.si import messages as si


async def test_answers_come_before_the_registration() -> None:
    """The daemon has read a request when the connection is lost, and answers it before it says that the session has resumed."""
    async with running_daemon() as daemon:
        (partition,) = daemon.doubles.values()
        async with connect(daemon.url, rm_id="rm-1") as rm:
            partition.resume = trio.Event()
            await rm.send(structs.replace(node(), id="open"))
            with pytest.raises(RequestRefused):  # which is told at once, so the request before has been read
                await rm.request(si.MoveApplication(application_id="", queue_name="root.a"))
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
