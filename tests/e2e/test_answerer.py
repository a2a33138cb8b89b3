"""A resource manager that answers where asks of a class may run, over the socket of the real daemon: prompt, slow, dead, gone."""

import msgspec
import pytest
import trio
from daemon import application, asks, next_allocated, next_event, node, real_daemon, run_command

from ykactor.client import connect, follow
from ykactor.core.messages.conditions import NO_PREDICATE_SERVICE
from ykactor.core.waiting.reasons import PREDICATE_UNKNOWN
from ykactor.wire.si import messages as si


def classed(key, predicate):
    tags = {"ykactor.io/predicate": predicate}
    wanted = si.Allocation(allocation_key=key, application_id="app-1", resource_per_alloc={"vcore": 1000}, allocation_tags=tags)
    return si.AllocationRequest(allocations=[wanted])


async def prepare(rm):
    for request in (node("n1"), node("n2"), application()):
        await rm.request(request)


async def next_question(rm):
    while not isinstance(response := await rm.__anext__(), si.PredicatesRequest):
        pass
    return response


async def reason(daemon, key):
    """The reason of a pending ask, as a follower sees it."""
    state = await daemon.state()
    (found,) = [
        application["reason"] for application in state["applications"]["app-1"]["pending"] if key in application["allocationKeys"]
    ]
    return found


async def until_reason(daemon, key, words):
    while words not in await reason(daemon, key):
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_asked_and_answered(encoding):
    """The question names the class, an ask of it and the nodes in order; the ask runs where it may; refusals are reported."""
    async with (
        real_daemon() as daemon,
        connect(daemon.url, rm_id="rm-1", encoding=encoding, answers_predicates=True) as rm,
        follow(daemon.url) as feed,
    ):
        await prepare(rm)
        await rm.request(classed("t1", "gpu"))
        asked = await next_question(rm)
        assert [(entry.predicate, entry.node_id, entry.allocate, entry.allocation_key) for entry in asked.checks] == [
            ("gpu", "n1", True, "t1"),
            ("gpu", "n2", True, "t1"),
        ]
        await rm.answer(asked, lambda check: "" if check.node_id == "n2" else "no gpu")
        assert await next_allocated(rm) == [("t1", "n2")]
        await rm.request(classed("t2", "gpu"))  # of the same class: nobody is asked again
        assert await next_allocated(rm) == [("t2", "n2")]
        await rm.request(classed("t3", "tape"))
        await rm.answer(await next_question(rm), lambda check: "no tape drive")
        event = await next_event(feed, "REQUEST")
        assert (event.object_id, event.message) == ("t3", "Unschedulable request 't3': no tape drive (2x); ")
        assert await reason(daemon, "t3") == "no node that has room for it may run it: no tape drive (2x)"
        forget = [si.PredicateScope(predicate="tape", node_id="n1")]
        await rm.request(si.PredicatesResponse(forget=forget, answers=[si.PredicateAnswer(predicate="tape", node_id="n1")]))
        assert await next_allocated(rm) == [("t3", "n1")]
        assert await daemon.stop() == 0
        assert daemon.noise == ""


async def test_slow_and_dead_answerers_stall_nobody():
    """Asks without a class and asks of an answered class are placed while others wait; each when its own answer is there."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1", answers_predicates=True) as rm:
        await prepare(rm)
        await rm.request(classed("dead", "dead"))
        await rm.request(classed("slow", "slow"))
        await next_question(rm)
        asked = await next_question(rm)
        for number in range(3):
            await rm.request(asks(f"free-{number}"))
            assert [key for key, _ in await next_allocated(rm)] == [f"free-{number}"]
        assert await reason(daemon, "slow") == await reason(daemon, "dead") == PREDICATE_UNKNOWN
        await rm.answer(asked, lambda check: "")
        assert [key for key, _ in await next_allocated(rm)] == ["slow"]
        assert await reason(daemon, "dead") == PREDICATE_UNKNOWN


async def test_nobody_answers():
    """A session that does not say that it answers is not asked; one that goes is not waited for; one that comes back is asked."""
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await prepare(rm)
            await rm.request(classed("t1", "gpu"))
            assert NO_PREDICATE_SERVICE in await reason(daemon, "t1")
            sequence = rm.sequence
        async with connect(daemon.url, rm_id="rm-1", resume_from=sequence, answers_predicates=True) as rm:
            await next_question(rm)
            assert await reason(daemon, "t1") == PREDICATE_UNKNOWN
        await until_reason(daemon, "t1", NO_PREDICATE_SERVICE)
        async with connect(daemon.url, rm_id="rm-1", resume_from=rm.sequence, answers_predicates=True) as rm:
            await rm.answer(await next_question(rm), lambda check: "")
            assert await next_allocated(rm) == [("t1", "n1")]


async def test_answers_that_make_no_sense():
    """Empty and endless classes are refused; an unknown node or class is none of our business."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1", answers_predicates=True) as rm:
        await prepare(rm)
        for predicate, code in (("", "EMPTY_ID"), ("x" * 300, "OUT_OF_RANGE")):
            await rm.send(si.PredicatesResponse(id="bad", answers=[si.PredicateAnswer(predicate=predicate, node_id="n1")]))
            response = await rm.__anext__()
            while not isinstance(response, si.ErrorResponse):
                response = await rm.__anext__()
            assert (response.code, response.path) == (code, "answers[0].predicate")
        await rm.request(si.PredicatesResponse(answers=[si.PredicateAnswer(predicate="gpu", node_id="n9")]))
        await rm.request(asks("t1"))
        assert await next_allocated(rm) == [("t1", "n1")]


async def test_a_scenario_answers(tmp_path):
    """``submit`` registers as somebody who answers if the scenario does, and prints what it is asked."""
    story = tmp_path / "story.jsonl"
    messages = [
        {"at": 0, "type": "NodeRequest", "nodes": [{"nodeID": "n1", "action": "CREATE", "schedulableResource": {"vcore": 1000}}]},
        {"at": 0, **msgspec.to_builtins(application())},
        {"at": 0, **msgspec.to_builtins(classed("t1", "gpu"))},
        {"at": 0, "type": "ScheduleRequest", "steps": 1},
        {"at": 1, "type": "PredicatesResponse", "answers": [{"predicate": "gpu", "nodeID": "n1"}]},
        {"at": 1, "type": "ScheduleRequest", "steps": 1},
    ]
    header = {"name": "story", "config": "", "until": 2}
    story.write_bytes(b"\n".join(map(msgspec.json.encode, [header, *messages])))
    async with real_daemon("--manual") as daemon:  # so that the answer to a step tells that it is done
        printed, _ = await run_command("submit", story, "--url", daemon.url, "--speed", "5")
    asked, allocated = (printed.index(text) for text in ("predicate check: may gpu run on n1", "allocated t1 of app-1 on n1"))
    assert asked < allocated
