"""A resource manager that stays registered: the daemon is killed, restarted, comes late, loses its state, refuses (SC-157)."""

from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from daemon import application, asks, node, real_daemon, run_command
from msgspec import structs
from trio_websocket import ConnectionClosed, serve_websocket

from ykactor.client import (
    Disconnected,
    Refusal,
    RequestRefused,
    SessionReplaced,
    connect,
    follow,
    keep_registered,
)
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("ykactor.client.reconnecting.BACKOFF_FIRST_S", 0.02)
    monkeypatch.setattr("ykactor.client.reconnecting.BACKOFF_MAX_S", 0.05)


def port_of(daemon):
    return ("--ws", daemon.url.removeprefix("ws://"))


async def placed(rm, count):
    """The keys of the next placements; what else comes is skipped, but for a new beginning."""
    keys = []
    async for message in rm:
        assert not isinstance(message, si.RegisterResourceManagerResponse | Refusal)
        if isinstance(message, si.AllocationResponse):
            keys += [allocation.allocation_key for allocation in message.new]
        if len(keys) >= count:
            break
    return keys


async def begun(rm):
    assert isinstance(await anext(rm), si.RegisterResourceManagerResponse)


async def answered(rm):
    with trio.fail_after(180):
        while rm.unanswered_count:  # noqa: ASYNC110 (nothing tells when it is)
            await trio.sleep(0.01)


async def kill(daemon):
    daemon.process.kill()
    await daemon.process.wait()


async def test_it_resumes_after_a_restart_and_sends_what_has_no_answer(tmp_path):
    """A request that was sent while the daemon was away arrives, and no message comes twice."""
    state = ("--state-dir", tmp_path / "state")
    async with real_daemon(*state) as first:
        async with keep_registered(first.url, rm_id="rm") as rm:
            await begun(rm)
            rm.send(node(vcore=8000))
            rm.send(application())
            rm.send(asks("t1", "t2"))
            assert await placed(rm, 2) == ["t1", "t2"]
            await kill(first)
            rm.send(asks("t3"))
            rm.send(asks("t1", "t4"))
            async with real_daemon(*state, ws=port_of(first)):
                assert await placed(rm, 2) == ["t3", "t4"]
                await answered(rm)


async def test_a_daemon_without_a_journal_is_told_everything_again():
    """Requests without an answer are forgotten: they are part of everything."""
    async with real_daemon() as first:
        async with keep_registered(first.url, rm_id="rm") as rm:
            await begun(rm)
            rm.send(node())
            await kill(first)
            rm.send(asks("lost"))
            async with real_daemon(ws=port_of(first)):
                while not isinstance(await anext(rm), si.RegisterResourceManagerResponse):
                    pass
                assert rm.unanswered_count == 0
                rm.send(node())
                rm.send(application())
                rm.send(asks("t1"))
                assert await placed(rm, 1) == ["t1"]


def tree(*queues):
    below = ", ".join(f"{{name: {name}}}" for name in queues)
    return f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{below}]}}]}}]"


async def test_each_fresh_registration_brings_its_configuration():
    """The configuration is in force before what is sent next, however many queues it has; it is asked for each time anew."""
    texts = [tree("q0", "a"), tree("b", *(f"q{number}" for number in range(2000)))]
    async with real_daemon() as first:
        async with keep_registered(first.url, rm_id="rm", config=lambda: texts.pop(0)) as rm:
            await begun(rm)
            await kill(first)
            async with real_daemon(ws=port_of(first)):
                while not isinstance(await anext(rm), si.RegisterResourceManagerResponse):
                    pass
                rm.send(node(vcore=8000))
                rm.send(application(queue="root.q1999"))
                rm.send(asks("t1"))
                assert await placed(rm, 1) == ["t1"]
    assert texts == []


async def test_it_registers_without_a_configuration_that_is_refused():
    """The refusal comes after the beginning, and says where the mistake is."""
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm", config=lambda: "partitions: none") as rm:
        await begun(rm)
        refusal = await anext(rm)
        assert refusal.request.config == "partitions: none"
        assert (refusal.answer.code, refusal.answer.path) == ("CONFIG_REFUSED", "config")
        rm.send(node())
        assert isinstance(await anext(rm), si.NodeResponse)


async def test_it_says_when_a_configuration_is_in_force():
    """The Ack with the checksum says that the queues of the configuration can be used."""
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm") as rm:
        await begun(rm)
        rm.send(si.UpdateConfigurationRequest(config=tree("a")))
        message = await anext(rm)
        assert isinstance(message, si.Ack)
        assert message.checksum
        await answered(rm)


async def test_it_says_when_a_request_with_an_id_is_carried_out():
    """After the direct results of the request; one without an id is answered in silence."""
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm") as rm:
        await begun(rm)
        rm.send(si.AllocationRequest())
        rm.send(structs.replace(node(), id="mine"))
        assert isinstance(await anext(rm), si.NodeResponse)
        answer = await anext(rm)
        assert isinstance(answer, si.Ack)
        assert answer.id == "mine"
        await answered(rm)


async def test_a_refusal_has_the_id_of_its_request():
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm") as rm:
        await begun(rm)
        rm.send(si.UpdateConfigurationRequest(config="partitions: none", id="mine"))
        assert (await anext(rm)).answer.id == "mine"


async def test_it_waits_for_a_daemon_that_comes_later(tmp_path):
    """Whoever starts first: the resource manager says why it waits."""
    said = []
    path = tmp_path / "socket"
    async with keep_registered(f"unix:{path}", rm_id="rm", on_connection=said.append) as rm:
        while not said:  # noqa: ASYNC110 (a plain function is called)
            await trio.sleep(0.01)
        assert "nothing listens there" in said[0]
        assert rm.is_lost
        async with real_daemon(ws=("--ws", f"unix:{path}")):
            await begun(rm)
            assert said[-1] == "registered"
            assert not rm.is_lost


async def test_two_do_not_take_the_session_from_each_other_for_ever():
    """One session at a time: the older one ends, and does not come back."""
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm") as rm:
        await begun(rm)
        async with connect(daemon.url, rm_id="rm", resume_from="now"):
            with pytest.raises(SessionReplaced, match="4001"):
                await anext(rm)
            assert rm.is_lost


async def test_it_leaves_the_daemon_to_another_one_when_an_operator_releases_it():
    """SE-71: who was released does not come back by itself, so that another one may register."""
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm") as rm:
        await begun(rm)
        await run_command("rm", "release", "rm", "--url", daemon.url)
        with pytest.raises(SessionReplaced, match="4006 an operator has ended the registration"):
            await anext(rm)
        assert rm.is_lost
        async with connect(daemon.url, rm_id="other"):
            pass


async def test_a_daemon_that_belongs_to_another_one_refuses_it():
    """Trying again would not help."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="other"), keep_registered(daemon.url, rm_id="rm") as rm:
        with pytest.raises(RequestRefused, match="ALREADY_REGISTERED"):
            await anext(rm)


async def test_a_refusal_names_its_request():
    """A refused request is not sent again, and what follows is."""
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm") as rm:
        await begun(rm)
        rm.send(si.UpdateConfigurationRequest(config="partitions: none"))
        refusal = await anext(rm)
        assert isinstance(refusal, Refusal)
        assert refusal.request.config == "partitions: none"
        assert refusal.answer.code == "CONFIG_REFUSED"
        rm.send(node())
        assert isinstance(await anext(rm), si.NodeResponse)
        await answered(rm)


@asynccontextmanager
async def scripted(answers):
    """A server that answers each request by ``answers``; yields its URL and the list of the requests."""
    requests = []

    async def serve(request):
        connection = await request.accept(subprotocol=JSON.name)
        try:
            while True:
                requests.append(JSON.decode_request(await connection.get_message()))
                await connection.send_message(JSON.encode(answers(requests[-1], len(requests))).decode())
        except ConnectionClosed:
            pass

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve_websocket, serve, "127.0.0.1", 0, ssl_context=None))
        yield f"ws://127.0.0.1:{server.port}", requests
        nursery.cancel_scope.cancel()


async def test_an_interrupted_request_leads_to_a_new_beginning():
    """A part of it had an effect, and nobody knows which, so the daemon is told everything (SC-157)."""

    def answer(request, number):
        if isinstance(request, si.AllocationRequest) and number == 2:
            return si.ErrorResponse(sequence=number, code="INTERRUPTED", message="a part of it", id=request.id)
        return si.Ack(sequence=number, id=request.id)

    async with scripted(answer) as (url, requests), keep_registered(url, rm_id="rm") as rm:
        await begun(rm)
        rm.send(asks("t1"))
        await begun(rm)
        rm.send(asks("t1"))
        await answered(rm)
        registrations = [request for request in requests if isinstance(request, si.RegisterResourceManagerRequest)]
        assert [request.resume_from for request in registrations] == [registrations[0].resume_from] * 2
        assert len(requests) == 4


async def test_it_says_which_process_it_is():
    """A process that was replaced by one with a higher epoch does not come back (SC-158)."""
    async with real_daemon() as daemon:
        async with keep_registered(daemon.url, rm_id="rm", epoch=2) as rm:
            await begun(rm)
        async with keep_registered(daemon.url, rm_id="rm", epoch=1) as rm:
            with pytest.raises(RequestRefused, match="STALE_EPOCH"):
                await anext(rm)


async def test_what_cannot_start_is_handed_back():
    """AP-144, without waiting: it goes to the other node."""
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm") as rm:
        await begun(rm)
        for request in (node("n1"), node("n2"), application(), asks("t1")):
            rm.send(request)
        nodes = list[str]()
        async for message in rm:
            for allocation in message.new if isinstance(message, si.AllocationResponse) else ():
                nodes.append(allocation.node_id)
                rm.hand_back(allocation)
            if len(nodes) == 2:
                break
        assert sorted(nodes) == ["n1", "n2"]


async def test_predicates_are_answered():
    """A kept session sends its answer about predicates without waiting."""

    def answer(request, number):
        if isinstance(request, si.AllocationRequest):
            check = si.PredicateCheck(predicate="p", node_id="n1", allocate=True)
            return si.PredicatesRequest(sequence=number, partition_name="default", checks=[check])
        return si.Ack(sequence=number, id=request.id)

    async with scripted(answer) as (url, requests), keep_registered(url, rm_id="rm", answers_predicates=True) as rm:
        await begun(rm)
        rm.send(asks("t1"))
        async for message in rm:
            if isinstance(message, si.PredicatesRequest):
                rm.answer(message, lambda check: f"not on {check.node_id}", uses=3)
                break
        with trio.fail_after(60):
            while not isinstance(requests[-1], si.PredicatesResponse):  # noqa: ASYNC110 (nothing tells when it is there)
                await trio.sleep(0.01)
        (told,) = requests[-1].answers
        assert (told.predicate, told.node_id, told.allocate, told.error, told.uses) == ("p", "n1", True, "not on n1", 3)


async def test_sessions_that_end_at_once_are_opened_less_and_less_often(monkeypatch):
    """A daemon may die of what it is told each time."""
    monkeypatch.setattr("ykactor.client.reconnecting.BACKOFF_FIRST_S", 0.1)
    monkeypatch.setattr("ykactor.client.reconnecting.BACKOFF_MAX_S", 10.0)
    registered = []

    async def serve(request):
        connection = await request.accept(subprotocol=JSON.name)
        registered.append(JSON.decode_request(await connection.get_message()))
        await connection.send_message(JSON.encode(si.Ack(sequence=1, id=registered[-1].id)).decode())

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve_websocket, serve, "127.0.0.1", 0, ssl_context=None))
        async with keep_registered(f"ws://127.0.0.1:{server.port}", rm_id="rm") as rm:
            with trio.move_on_after(3):
                while True:
                    await anext(rm)
        nursery.cancel_scope.cancel()
    assert 2 <= len(registered) <= 8  # 0.05 + 0.1 + 0.2 + ... at least


async def test_nothing_can_be_sent_after_the_end():
    """A message is refused after the end, because it would be kept for ever."""
    async with real_daemon() as daemon, keep_registered(daemon.url, rm_id="rm") as rm:
        await begun(rm)
        async with connect(daemon.url, rm_id="rm", resume_from="now"):
            with pytest.raises(SessionReplaced):
                await anext(rm)
            with pytest.raises(SessionReplaced):
                rm.send(node())
            assert rm.unanswered_count == 0


@pytest.mark.parametrize("opener", [partial(keep_registered, rm_id="rm"), follow])
async def test_who_iterates_over_a_closed_session_is_told_so(opener, nursery):
    """A task that outlives the block in which the session was opened would wait for ever."""
    told = trio.Event()

    async def iterate(session):
        with pytest.raises(Disconnected, match="the session is closed"):
            async for _ in session:
                pass
        told.set()

    with trio.fail_after(60):
        async with real_daemon() as daemon, opener(daemon.url) as session:
            nursery.start_soon(iterate, session)
            await trio.testing.wait_all_tasks_blocked()
        await told.wait()
        with pytest.raises(Disconnected, match="the session is closed"):
            await anext(session)
