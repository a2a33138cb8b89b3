"""Applications are ended and moved over the socket of the real daemon."""

import pytest
from daemon import application, asks, next_allocated, next_event, node, real_daemon

from ykactor.client import RequestRefused, connect, follow
from ykactor.wire.si import messages as si

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        adminacl: " ops"
        queues: [{name: a}, {name: b}, {name: small, resources: {max: {vcore: 500m}}}]
"""
OPS = si.UserGroupInformation(user="bob", groups=["ops"])


async def refused(rm, request):
    """The sentence with which the daemon refuses it."""
    with pytest.raises(RequestRefused) as caught:
        await rm.request(request)
    assert caught.value.code == "REFUSED"
    return caught.value.message


async def test_moved_and_terminated():
    """A move is acknowledged when it is done, and the feed tells it; a termination goes through the handshake to Failed."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1", config=CONFIG) as rm, follow(daemon.url) as feed:
        for request in (node(), application("app-1", "root.a"), asks("t1")):
            await rm.request(request)
        assert await next_allocated(rm) == [("t1", "n1")]
        await rm.request(si.MoveApplication(application_id="app-1", queue_name="root.b", ugi=OPS))
        event = await next_event(feed, "QUEUE_APP", "moved")
        assert (event.object_id, event.reference_id, event.message) == ("root.a", "app-1", "moved to root.b")
        state = await daemon.state()
        assert state["applications"]["app-1"]["queueName"] == "root.b"
        assert state["queues"]["root.b"]["allocated"] == {"vcore": 1000}
        await rm.request(si.TerminateApplication(application_id="app-1", partition_name="Default"))
        release = await next_release(rm)
        assert (release.termination_type, release.message) == ("TIMEOUT", "releasing allocations on application termination")
        back = si.AllocationRelease(application_id="app-1", allocation_key="t1", termination_type="TIMEOUT")
        await rm.request(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[back])))
        assert (await daemon.state())["applications"]["app-1"]["state"] == "Failed"
        event = await next_event(feed, "APP_FAILING")
        assert event.message == "Terminated"


async def next_release(rm):
    while True:
        response = await rm.__anext__()
        if isinstance(response, si.AllocationResponse) and response.released:
            return response.released[0]


async def test_refusals_say_why():
    """A caller without the right, an absent object or one without room is answered with a sentence, and nothing changes."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1", config=CONFIG) as rm:
        for request in (node(), application("app-1", "root.a"), asks("t1")):
            await rm.request(request)
        await next_allocated(rm)
        eve = si.UserGroupInformation(user="eve")
        move = si.MoveApplication(application_id="app-1", queue_name="root.b", ugi=eve)
        assert await refused(rm, move) == "user eve may not administer root.a"
        assert await refused(rm, si.TerminateApplication(application_id="app-1", ugi=eve)) == "user eve may not administer root.a"
        small = si.MoveApplication(application_id="app-1", queue_name="root.small")
        assert await refused(rm, small) == "queue root.small has not enough vcore left for what the application uses"
        gone = si.TerminateApplication(application_id="app-9")
        assert await refused(rm, gone) == "failed to find application app-9"
        far = si.TerminateApplication(application_id="app-1", partition_name="gpu")
        assert await refused(rm, far) == "failed to find partition gpu"
        state = await daemon.state()
        assert state["applications"]["app-1"]["queueName"] == "root.a"
