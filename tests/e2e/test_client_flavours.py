"""The client in asyncio and in plain programs: each does what the one for trio does, over real sockets."""

import asyncio
import inspect
import signal
import subprocess
import sys
import textwrap
import threading
from functools import partial
from math import inf

import pytest
import trio
from daemon import application, asks, node
from daemonhere import daemon_here

import ykactor.client.asyncio
import ykactor.client.sync
from ykactor.client import Disconnected, Refused, RequestRefused, SessionReplaced
from ykactor.client.resource_manager import IN_FLIGHT_MAX
from ykactor.wire.si import messages as si

DRAIN = si.NodeRequest(nodes=[si.NodeInfo(node_id="n1", action=si.NodeAction.DRAIN_NODE)])


async def in_thread(program, *args):
    """A program that does not run trio."""
    return await trio.to_thread.run_sync(partial(program, *args), abandon_on_cancel=True)


async def in_asyncio(program, *args):
    return await in_thread(lambda: asyncio.run(program(*args)))


def receive_all(rm, timeout):
    while True:
        rm.receive(timeout)


def keys(response):
    return [entry.allocation_key for entry in getattr(response, "new", ()) if isinstance(entry, si.Allocation)]


# ---- asyncio


async def test_asyncio_resource_manager():
    """Requests, refusals, many at once, and iteration."""

    async def program(url):
        async with ykactor.client.asyncio.connect(url, rm_id="rm") as rm:
            await rm.request(node())
            await rm.request(application())
            with pytest.raises(Refused, match="NO_APPLICATION"):
                await rm.request(asks("t0", of="unknown"))
            many = [node(f"m{number}") for number in range(2 * IN_FLIGHT_MAX)]
            answered = [request async for request, outcome in rm.send_all(many) if isinstance(outcome, si.Ack)]
            assert answered == many
            await rm.request(asks("t1"))
            async for response in rm:
                if keys(response) == ["t1"]:
                    return

    async with daemon_here() as (_, url):
        await in_asyncio(program, url)


async def test_asyncio_follower_and_operator():
    async def program(url):
        async with (
            ykactor.client.asyncio.keep_registered(url, rm_id="rm") as rm,
            ykactor.client.asyncio.follow(url, kinds=["NODE"]) as events,
            ykactor.client.asyncio.operate(url) as operator,
        ):
            assert isinstance(await anext(rm), si.RegisterResourceManagerResponse)
            rm.send(node())
            assert isinstance(await anext(rm), si.NodeResponse)
            await operator.request(DRAIN)
            with pytest.raises(RequestRefused, match="unknown"):
                await operator.request(si.TerminateApplication(application_id="unknown"))
            while (await anext(events)).event_change_detail != "NODE_SCHEDULABLE":
                pass

    async with daemon_here() as (_, url):
        await in_asyncio(program, url)


async def test_no_message_is_lost_by_who_is_cancelled():
    """A task that waited for the next message is cancelled; the message goes to the next one that asks."""

    async def program(url):
        async with ykactor.client.asyncio.connect(url, rm_id="rm") as rm:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(rm), 0.01)
            await rm.request(node("n1"))
            assert (await anext(rm)).accepted[0].node_id == "n1"

    async with daemon_here() as (_, url):
        await in_asyncio(program, url)


async def test_a_cancelled_request_does_not_disturb_the_next():
    async def program(url):
        async with ykactor.client.asyncio.connect(url, rm_id="rm") as rm:
            for number in range(20):
                task = asyncio.create_task(rm.request(node(f"n{number}")))
                await asyncio.sleep(0.001 * (number % 3))
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert isinstance(await rm.request(node("last")), si.Ack)

    async with daemon_here() as (_, url):
        await in_asyncio(program, url)


async def test_calls_that_wait_end_when_the_session_is_closed():
    async def program(url):
        async with ykactor.client.asyncio.connect(url, rm_id="rm") as rm:
            waiting = asyncio.create_task(anext(rm))
            await asyncio.sleep(0.01)
        with pytest.raises(Disconnected, match="the session is closed"):
            await waiting
        with pytest.raises(Disconnected, match="the session is closed"):
            await rm.request(node())

    async with daemon_here() as (_, url):
        await in_asyncio(program, url)


async def test_who_is_cancelled_while_it_connects_leaves_no_thread():
    """A server that accepts and does not answer."""

    async def program(url):
        async def open_it():
            async with ykactor.client.asyncio.connect(url, rm_id="rm"):
                pass

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(open_it(), 0.05)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        await in_asyncio(program, f"ws://127.0.0.1:{listener.socket.getsockname()[1]}")
    await no_thread_is_left()


async def no_thread_is_left():
    """A thread ends just after it has said so."""
    with trio.fail_after(180):
        while any(thread.name == "ykactor-client" for thread in threading.enumerate()):  # noqa: ASYNC110
            await trio.sleep(0.001)


async def test_questions_that_have_one_answer():
    """Both flavours ask such questions; a missing answer raises the same errors as in a session."""

    async def program(url):
        assert "partitions" in (await ykactor.client.asyncio.read_configuration(url)).config
        return (await ykactor.client.asyncio.check_health(url)).healthy

    async with daemon_here("partitions: [{name: default, queues: [{name: root}]}]") as (_, url):
        assert await in_asyncio(program, url)
        assert (await in_thread(ykactor.client.sync.check_health, url)).healthy
    with pytest.raises(Disconnected):
        await in_thread(ykactor.client.sync.read_configuration, "ws://127.0.0.1:1")


# ---- plain


@pytest.mark.parametrize("flavour", [ykactor.client.asyncio, ykactor.client.sync])
def test_everything_is_documented(flavour):
    """All names have the docstrings of the trio client, and its parameters."""
    for name in flavour.__all__:
        shown = getattr(flavour, name)
        members = [member for key, member in vars(shown).items() if key[0] != "_"] if isinstance(shown, type) else []
        assert all(part.__doc__ for part in (shown, *members)), name
    assert "rm_id" in inspect.signature(flavour.connect).parameters


async def test_plain_resource_manager():
    def program(url):
        with ykactor.client.sync.connect(url, rm_id="rm") as rm:
            rm.request(node())
            rm.request(application())
            with pytest.raises(Refused, match="NO_APPLICATION"):
                rm.request(asks("t0", of="unknown"))
            many = [node(f"m{number}") for number in range(2 * IN_FLIGHT_MAX)]
            assert [request for request, outcome in rm.send_all(many) if isinstance(outcome, si.Ack)] == many
            rm.request(asks("t1"))
            assert next(True for response in rm if keys(response) == ["t1"])
            for timeout in (0, 0.01):
                with pytest.raises(TimeoutError, match=f"found no message within {timeout} s"):
                    receive_all(rm, timeout)
            rm.request(asks("t2"))
            while keys(rm.receive(180)) != ["t2"]:
                pass
            rm.request(asks("t3"))
            while keys(rm.receive(inf)) != ["t3"]:
                pass

    async with daemon_here() as (_, url):
        await in_thread(program, url)
    await no_thread_is_left()


async def test_plain_follower_and_operator():
    def program(url):
        with (
            ykactor.client.sync.keep_registered(url, rm_id="rm") as rm,
            ykactor.client.sync.follow(url, kinds=["NODE"]) as events,
            ykactor.client.sync.operate(url) as operator,
        ):
            assert isinstance(next(rm), si.RegisterResourceManagerResponse)
            rm.send(node())
            assert isinstance(next(rm), si.NodeResponse)
            operator.request(DRAIN)
            assert next(True for event in events if event.event_change_detail == "NODE_SCHEDULABLE")

    async with daemon_here() as (_, url):
        await in_thread(program, url)


@pytest.mark.parametrize("opener", ["connect", "operate"])
async def test_errors_of_connecting_are_raised(opener):
    options = {"rm_id": "rm"} if opener == "connect" else {}

    def plain():
        with getattr(ykactor.client.sync, opener)("ws://127.0.0.1:1", **options):
            pass

    async def program():
        async with getattr(ykactor.client.asyncio, opener)("ws://127.0.0.1:1", **options):
            pass

    with pytest.raises(Disconnected, match="nothing listens there"):
        await in_thread(plain)
    with pytest.raises(Disconnected, match="nothing listens there"):
        await in_asyncio(program)
    await no_thread_is_left()


async def test_a_daemon_that_ends_is_noticed():
    def program(url, stop):
        with ykactor.client.sync.connect(url, rm_id="rm") as rm:
            stop()
            with pytest.raises(Disconnected, match="the connection was closed"):
                next(rm)

    async with daemon_here() as (daemon, url):
        token = trio.lowlevel.current_trio_token()
        await in_thread(program, url, lambda: token.run_sync_soon(daemon.stop))


async def test_a_kept_session_says_what_it_has_and_has_not():
    """The number of unanswered requests, the loss and the end are shown at once, although the session lives in another thread."""

    def plain(url):
        with ykactor.client.sync.keep_registered(url, rm_id="rm") as rm:
            assert isinstance(next(rm), si.RegisterResourceManagerResponse)
            assert (rm.unanswered_count, rm.is_lost) == (0, False)
            rm.send(node())
            assert rm.unanswered_count == 1 or isinstance(rm.receive(60), si.NodeResponse)
            with ykactor.client.sync.connect(url, rm_id="rm", resume_from="now"):
                with pytest.raises(SessionReplaced):
                    receive_all(rm, 60)
                assert rm.is_lost
                with pytest.raises(SessionReplaced):
                    rm.send(node())
        with pytest.raises(Disconnected):
            rm.send(node())

    async def program(url):
        async with ykactor.client.asyncio.keep_registered(url, rm_id="rm") as rm:
            assert isinstance(await anext(rm), si.RegisterResourceManagerResponse)
            assert not rm.is_lost
            rm.send(node())
            assert rm.unanswered_count == 1 or isinstance(await anext(rm), si.NodeResponse)

    async with daemon_here() as (_, url):
        await in_thread(plain, url)
    async with daemon_here() as (_, url):
        await in_asyncio(program, url)


async def test_a_request_is_what_it_was_when_it_was_handed_over():
    """One that cannot be sent is refused at once, and one that is changed afterwards is sent as it was."""

    def plain(url):
        with ykactor.client.sync.keep_registered(url, rm_id="rm") as rm:
            assert isinstance(next(rm), si.RegisterResourceManagerResponse)
            for wrong in (object(), "\ud800"):
                with pytest.raises((TypeError, ValueError)):
                    rm.send(si.NodeRequest(nodes=[si.NodeInfo(node_id=wrong, action=si.NodeAction.CREATE)]))
            assert rm.unanswered_count == 0
            for number in range(20):
                request = node(f"n{number}")
                rm.send(request)
                request.nodes.clear()
                assert rm.receive(60).accepted[0].node_id == f"n{number}"

    async with daemon_here() as (_, url):
        await in_thread(plain, url)


async def test_an_error_of_what_is_called_reaches_who_has_given_it():
    """The callback is called in another thread, and its error ends the session."""

    def fail(sentence):
        raise ZeroDivisionError(sentence)

    def plain(url):
        with ykactor.client.sync.keep_registered(url, rm_id="rm", on_connection=fail) as rm:
            next(rm)

    async def program(url):
        async with ykactor.client.asyncio.keep_registered(url, rm_id="rm", on_connection=fail) as rm:
            await anext(rm)

    async with daemon_here() as (_, url):
        for run in (partial(in_thread, plain, url), partial(in_asyncio, program, url)):
            with pytest.raises(ExceptionGroup) as raised:
                await run()
            assert raised.value.subgroup(ZeroDivisionError)
    await no_thread_is_left()


ENDS = {
    "the interpreter ends while a session is open": """
        opening = keep_registered(url, rm_id="rm")
        opening.__enter__()
        opening.itself = opening
    """,
    "the process was forked": """
        with keep_registered(url, rm_id="rm") as rm:
            child = os.fork()
            if child == 0:
                try:
                    rm.send(si.NodeRequest())
                except Disconnected:
                    sys.exit(7)
            else:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """,
    "the process was forked while a message was awaited": """
        with keep_registered(url, rm_id="rm") as rm:
            with suppress(TimeoutError):
                rm.receive(0)
            child = os.fork()
            if child == 0:
                try:
                    next(rm)
                except Disconnected:
                    sys.exit(7)
            else:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """,
    "there are no descriptors for the thread": """
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        with suppress(OSError):
            while True:
                os.open("/dev/null", 0)
        try:
            with keep_registered(url, rm_id="rm"):
                pass
        except OSError:
            pass
    """,
}
ENDING = """
import os, resource, sys
from contextlib import suppress
from ykactor.client import Disconnected
from ykactor.client.sync import keep_registered
from ykactor.wire.si import messages as si

url = "ws://127.0.0.1:1"
{}
print("done", flush=True)
"""


@pytest.mark.parametrize("how", ENDS)
def test_a_plain_program_ends(how):
    """Nothing waits for a thread that does not run."""
    program = ENDING.format(textwrap.dedent(ENDS[how]))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


INTERRUPTED = """
import sys
from ykactor.client.sync import follow

try:
    with follow(sys.argv[1], on_connection=lambda sentence: print(sentence, flush=True)) as messages:
        for message in messages:
            pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


async def test_ctrl_c_interrupts_a_plain_program_that_waits():
    """The program ends at once, and leaves its session in order."""
    async with daemon_here() as (_, url):
        command = [sys.executable, "-c", INTERRUPTED, url]
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
        try:
            output = b""
            while not output.endswith(b"\n"):
                output += await process.stdout.receive_some()
            process.send_signal(signal.SIGINT)
            async for chunk in process.stdout:
                output += chunk
            assert [line.split()[0] for line in output.decode().splitlines()] == ["connected", "interrupted"]
            assert await process.wait() == 0
        finally:
            process.kill()
            await process.stdout.aclose()
