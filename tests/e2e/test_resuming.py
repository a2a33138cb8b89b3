"""Answers: a session that resumes learns which requests of the session before it took effect (SC-157)."""

import pytest
import trio
import trio.testing
from daemon import asks, node
from doubles import running_daemon
from msgspec import structs

from ykactor.actors.commands import Administer, Intake, Publication
from ykactor.client import RequestRefused, connect
from ykactor.core.messages.facts import NodeRejected
from ykactor.surfaces.sessions.rm_session import ResourceManagerSession
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


@pytest.mark.parametrize(
    ("full", "expected"),
    [
        ("", {"both": si.Ack, "move": si.ErrorResponse}),
        ("default", {}),
        ("east", {"both": si.ErrorResponse}),
    ],
)
async def test_a_request_is_answered_whatever_becomes_of_its_session(
    monkeypatch: pytest.MonkeyPatch, full: str, expected: dict[str, type]
) -> None:
    """A session ends while partitions work for it or have no room: what one of them has got is answered to the next session."""
    sessions: list[trio.CancelScope] = []
    run = ResourceManagerSession.run

    async def run_for_a_while(session: ResourceManagerSession) -> None:
        with trio.CancelScope() as scope:
            sessions.append(scope)
            await run(session)

    monkeypatch.setattr(ResourceManagerSession, "run", run_for_a_while)
    async with running_daemon("default", "east") as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            last = rm.sequence
            for name, partition in daemon.doubles.items():
                partition.resume = trio.Event()
                partition.inbox.offer(Intake([]))  # waits in the partition's task
                await trio.testing.wait_all_tasks_blocked()
                while name == full and partition.inbox.offer(Intake([])):
                    pass
            (ask,) = asks("k1").allocations
            await rm.send(si.AllocationRequest(id="both", allocations=[ask, structs.replace(ask, partition_name="east")]))
            await rm.send(structs.replace(MOVE, id="move"))
            await trio.testing.wait_all_tasks_blocked(0.05)  # the daemon has read both, and waits
            sessions[0].cancel()
            await trio.testing.wait_all_tasks_blocked(0.05)
        for partition in daemon.doubles.values():
            partition.resume.set()
        found = {}
        async with connect(daemon.url, rm_id="rm-1", resume_from=last) as rm:
            await rm.send(structs.replace(node(), id="later"))
            while not (isinstance(message := await rm.__anext__(), si.Ack) and message.id == "later"):
                if isinstance(message, si.Ack | si.ErrorResponse):
                    found[message.id] = type(message)
    assert found == expected


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
