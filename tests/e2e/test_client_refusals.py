"""Refusals of work in the client, and requests that do not wait for each other; over real sockets."""

from contextlib import asynccontextmanager

import pytest
import trio
from daemon import application as application_in
from daemon import asks, node
from daemonhere import daemon_here

from ykactor.client import Disconnected, Refused, RequestRefused, connect
from ykactor.client.resource_manager import IN_FLIGHT_MAX
from ykactor.wire.si import messages as si

QUEUES = """
partitions:  # without a queue root.default, which takes what has no other queue
  - name: default
    queues:
      - name: root
        queues:
          - {name: open, submitacl: "*"}
          - {name: closed, submitacl: bob}
"""


def application(name="app-1", queue="root.open"):
    return application_in(name, queue)


@asynccontextmanager
async def registered():
    """A resource manager of a daemon with one node."""
    async with daemon_here(QUEUES) as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(node())
        yield rm


async def test_a_rejected_application_raises():
    """The work was refused, although the request was carried out: nobody waits for it for ever (AP-139)."""
    async with registered() as rm:
        with pytest.raises(Refused, match=r"^ACL: application app-1: ") as raised:
            await rm.request(application(queue="root.closed"))
        assert not isinstance(raised.value, RequestRefused)
        (rejected,) = raised.value.rejections
        assert (rejected.application_id, rejected.code) == ("app-1", "ACL")


async def test_all_rejections_of_a_request_are_said():
    """The others take effect; the exception has every rejection, and its sentence the first and their number."""
    async with registered() as rm:
        await rm.request(application())
        mixed = si.AllocationRequest(
            allocations=[*asks("t1", of="a").allocations, *asks("t2").allocations, *asks("t3", of="b").allocations]
        )
        with pytest.raises(Refused, match=r"^NO_APPLICATION: allocation t1 of application a: .* \(and 1 more\)$") as raised:
            await rm.request(mixed)
        assert [rejected.allocation_key for rejected in raised.value.rejections] == ["t1", "t3"]
        placed = [entry.allocation_key async for entry in new_allocations(rm, 1)]
        assert placed == ["t2"]


async def new_allocations(rm, count):
    async for message in rm:
        for entry in message.new if isinstance(message, si.AllocationResponse) else ():
            yield entry
            count -= 1
        if count == 0:
            return


async def test_a_request_that_is_refused_whole_has_no_rejections():
    """The error is a `Refused` too, which says the field."""
    async with registered() as rm:
        with pytest.raises(Refused) as raised:
            await rm.request(si.AllocationRequest(allocations=[si.Allocation(allocation_key="")]))
        assert isinstance(raised.value, RequestRefused)
        assert (raised.value.path, list(raised.value.rejections)) == ("allocations[0].allocationKey", [])


async def test_many_requests_get_their_own_answers_in_order():
    """More than may be in flight, every third refused; each refusal is with its own request."""
    async with registered() as rm:
        queues = ["root.closed" if number % 3 == 0 else "root.open" for number in range(2 * IN_FLIGHT_MAX + 1)]
        requests = [application(f"app-{number}", queue) for number, queue in enumerate(queues)]
        seen = [(request, outcome) async for request, outcome in rm.send_all(iter(requests))]
        assert [request for request, _ in seen] == requests
        for (request, outcome), queue in zip(seen, queues, strict=True):
            if queue == "root.open":
                assert isinstance(outcome, si.Ack)
            else:
                assert [rejected.application_id for rejected in outcome.rejections] == [request.new[0].application_id]


async def test_the_same_application_twice_at_once():
    """The second one is the duplicate, although both rejection and acceptance come before the first answer."""
    async with registered() as rm:
        first, second = [outcome async for _, outcome in rm.send_all([application(), application()])]
        assert isinstance(first, si.Ack)
        assert (type(second), second.code) == (Refused, "DUPLICATE")


async def test_requests_in_flight_are_bounded():
    """A request is made only when there is room for it."""
    made = []

    def requests():
        for number in range(3 * IN_FLIGHT_MAX):
            made.append(number)
            yield node(f"m{number}")

    async with registered() as rm:
        answers = rm.send_all(requests())
        for taken in range(1, 4):
            await anext(answers)
            assert len(made) <= IN_FLIGHT_MAX + taken


async def test_who_stops_in_the_middle_can_go_on():
    """A request that was sent and is not waited for has an effect; later requests get their own answers, and none is kept."""
    async with registered() as rm:
        await anext(rm.send_all([application("a"), application("b"), application("c")]))
        with pytest.raises(Refused, match="DUPLICATE"):
            await rm.request(application("c"))
        assert rm._sent == {}


async def test_who_is_interrupted_can_go_on():
    """Before the first request was sent, and before the second one was answered: none is lost, and none is sent twice."""
    async with registered() as rm:
        requests = [application(f"app-{number}") for number in range(3)]
        answers, seen = rm.send_all(requests), []
        for _ in requests:
            with trio.CancelScope() as scope:
                scope.cancel()
                await anext(answers)
            seen.append(await anext(answers))
        assert [(request, type(outcome)) for request, outcome in seen] == [(request, si.Ack) for request in requests]
        assert rm._sent == {}, "no rejection is kept for what was not sent"


async def test_requests_to_a_daemon_that_ends():
    """Requests without an answer have an unknown outcome; nobody waits for ever."""
    async with daemon_here(QUEUES) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        answers = rm.send_all(node(f"n{number}") for number in range(1000))
        await anext(answers)
        daemon.stop()
        with pytest.raises(Disconnected):
            async for _ in answers:
                pass
