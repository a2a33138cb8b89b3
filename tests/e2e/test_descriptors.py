"""A daemon with few file descriptors has fewer connections of each kind, and goes on for everybody who is connected."""

import os
import resource
from contextlib import AsyncExitStack

import pytest
import trio
from daemon import COMMAND, application, asks, clean_environment, next_allocated, next_event, node, real_daemon
from doubles import running_daemon

from ykactor.client import Disconnected, connect, follow
from ykactor.client.connection import open_connection
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.net import descriptors
from ykactor.surfaces.net.descriptors import LIMIT_MAX, OWN_MAX, RESERVE, SESSIONS_MIN

LIMIT = 160
FIRST = "partitions: [{name: default, queues: [{name: root}]}]\n"


async def fill(stack, url):
    """Open connections until the daemon refuses one; how many it has taken."""
    for number in range(2 * LIMIT):
        try:
            await stack.enter_async_context(open_connection(url, "/v1/feed"))
        except Disconnected:
            return number
    raise AssertionError("the daemon takes more connections than it has descriptors")


async def test_connections_are_refused_before_descriptors_run_out(tmp_path):
    """SE-91: with as many followers as one may have, all sessions go on, also with the journal; later there is room again."""
    wrapper = ["sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh"]
    async with real_daemon("--state-dir", tmp_path, wrapper=wrapper) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm, follow(daemon.url) as events, follow(daemon.url) as others:
            async with AsyncExitStack() as stack:
                assert 5 < 2 + await fill(stack, daemon.url) < (LIMIT - RESERVE) / 4
                assert await fill(stack, daemon.url) == 0
                await rm.request(node("n1", vcore=4000))
                await rm.request(application())
                await rm.request(asks("t1"))
                assert await next_allocated(rm) == [("t1", "n1")]
                assert (await next_event(events, "NODE_ALLOC")).object_id == "n1"
                assert (await next_event(others, "NODE_ALLOC")).object_id == "n1"
                line = await daemon.wait_logged("handshake_failed")
                assert "sessions on /v1/feed of" in line["reason"]
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


@pytest.mark.parametrize("command", ["serve", "demo"])
async def test_too_few_descriptors_are_told_at_the_start(command, tmp_path):
    """SE-91: a daemon that could serve hardly anybody does not begin: code 2, because only a person can raise the limit."""
    few = RESERVE + OWN_MAX + SESSIONS_MIN - 1
    wrapper = ["sh", "-c", f'ulimit -n {few}; exec "$@"', "sh"]
    done = await trio.run_process(
        [*wrapper, *COMMAND, command, "--http", "none", "--ws", "127.0.0.1:0", "--state-dir", tmp_path],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=clean_environment(),
    )
    assert done.returncode == exit_codes.USAGE
    found = (
        f"Error: found a limit of {few} file descriptors, expected at least {few + 1}, for the daemon itself and 16 sessions: "
    )
    assert done.stderr.decode().startswith(found)


async def test_a_daemon_with_just_enough_descriptors_serves_its_sessions(tmp_path, queue_file):
    """SE-91: what it has open itself is within its share, with all that it can follow and listen to."""
    enough = RESERVE + OWN_MAX + SESSIONS_MIN
    wrapper = ["sh", "-c", f'ulimit -n {enough}; exec "$@"', "sh"]
    arguments = ("--state-dir", tmp_path / "state", "--config", queue_file)
    sockets = ("--ws", "127.0.0.1:0", "--ws", f"unix:{tmp_path}/s")
    async with real_daemon(*arguments, wrapper=wrapper, ws=sockets, http="127.0.0.1:0") as daemon:
        assert max(map(int, os.listdir(f"/proc/{daemon.process.pid}/fd"))) < OWN_MAX


async def test_connections_take_no_descriptors_of_the_daemon(monkeypatch):
    """SE-91: what is over all slots, as where other programs use descriptors of the process, is refused at once."""
    monkeypatch.setattr(descriptors, "RESERVE", 10**9)
    async with running_daemon() as daemon:
        with pytest.raises(Disconnected):
            async with open_connection(daemon.url, "/v1/feed"):
                pass
