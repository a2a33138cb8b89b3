"""A daemon that runs out of file descriptors goes on for everybody who is connected, and takes nobody new."""

import resource
from contextlib import AsyncExitStack

from daemon import application, asks, next_allocated, next_event, node, real_daemon

from ykactor.client import Disconnected, connect, follow
from ykactor.client.connection import open_connection
from ykactor.surfaces.server.descriptors import LIMIT_MAX, RESERVE

LIMIT = 160


async def fill(stack, url):
    """Open connections until the daemon refuses one; how many it has taken."""
    for number in range(2 * LIMIT):
        try:
            await stack.enter_async_context(open_connection(url, "/v1/feed"))
        except Disconnected:
            return number
    raise AssertionError("the daemon takes more connections than it has descriptors")


async def test_connections_are_refused_before_descriptors_run_out(tmp_path):
    """With as many connections as the limit allows, all sessions go on, also with the journal; later there is room again."""
    wrapper = ["sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh"]
    async with real_daemon("--state-dir", tmp_path, wrapper=wrapper) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm, follow(daemon.url) as events, follow(daemon.url) as others:
            async with AsyncExitStack() as stack:
                assert 50 < await fill(stack, daemon.url) < LIMIT - RESERVE
                assert await fill(stack, daemon.url) == 0
                await rm.request(node("n1", vcore=4000))
                await rm.request(application())
                await rm.request(asks("t1"))
                assert await next_allocated(rm) == [("t1", "n1")]
                assert (await next_event(events, "NODE_ALLOC")).object_id == "n1"
                assert (await next_event(others, "NODE_ALLOC")).object_id == "n1"
                line = await daemon.wait_logged("connection_refused")
                assert line["reason"].startswith("only 64 file descriptors are left")
            async with follow(daemon.url) as again:
                await rm.request(node("n2", vcore=4000))
                assert (await next_event(again, "NODE")).object_id == "n2"
        assert daemon.noise == ""
        assert await daemon.stop() == 0


async def test_the_daemon_takes_as_many_as_the_system_allows():
    """SE-91: the 1,024 that most systems begin with are too few for the connections that the default limits allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with real_daemon(wrapper=["sh", "-c", f'ulimit -Sn {LIMIT}; exec "$@"', "sh"]) as daemon:
        assert resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE) == (min(hard, LIMIT_MAX), hard)
