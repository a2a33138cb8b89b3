"""``POST /v1/dry-run`` (RE-10): what it tells of asks then happens, and nobody learns more by it than by submitting."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from callers import IDENTITIES, SECRETS, access, control_of
from msgspec import msgpack
from restdaemon import Rest, rest_daemon
from triedwork import QUEUES, allocation, applications

from ykactor.actors.clock import system_ns
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited
from ykactor.core.values.times import DAY_NS
from ykactor.surfaces.copies import child, computing
from ykactor.surfaces.copies.questions import NewWork, Tried
from ykactor.surfaces.daemon.groups import GroupResolver
from ykactor.surfaces.files.helper_process import HelperProcessError
from ykactor.surfaces.http import dry_run
from ykactor.wire.si import messages as si

PATH = "/v1/dry-run"
VICTIM = {"allowPreemptSelf": True, "allowPreemptOther": True}


def ask(key: str, of: str, cores: int, **more: object) -> dict[str, object]:
    return {"allocationKey": key, "applicationID": of, "resourcePerAlloc": {"vcore": str(cores)}, **more}


def submitted(name: str, queue: str, user: str = "alice") -> dict[str, object]:
    return {"applicationID": name, "queueName": queue, "ugi": {"user": user}}


async def tried(rest: Rest, body: object, expect: int = 200, **headers: str) -> Any:
    answer = await rest.ask(PATH, "POST", json.dumps(body).encode(), **headers)
    assert answer.status == expect, answer.body
    return answer.content


async def filled(rest: Rest) -> None:
    """A node of two cores on which an application of root.a has a task on each."""
    await rest.submit(
        si.NodeRequest(nodes=[si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": 2000})]),
        applications("old", "root.a"),
        si.AllocationRequest(allocations=[allocation("o-1", "old"), allocation("o-2", "old")]),
    )


async def test_what_is_told_then_happens() -> None:
    """The node and the victim of an ask, and the one that waits; nothing is there before it is submitted."""
    async with rest_daemon(QUEUES) as rest:
        await filled(rest)
        asks = [ask("x-1", "x", 1, preemptionPolicy=VICTIM), ask("x-2", "x", 9)]
        before = await rest.read("partition/default/queues")
        found = await tried(rest, {"applications": [submitted("x", "root.b")], "allocations": asks})
        assert await rest.read("partition/default/queues") == before
        one, other = found["asks"]
        assert (one["outcome"], one["nodeID"], len(one["preempts"]), one["others"]) == ("runs", "n1", 1, 0)
        assert (other["outcome"], other["code"]) == ("never", "TOO_LARGE")
        await rest.submit(applications("x", "root.b"), si.AllocationRequest(allocations=[allocation("x-1", "x")]))
        registry = rest.daemon.registry(rest.daemon.config.partitions[0].name)
        with trio.fail_after(60):
            while not (going := registry.leaf_of("old").applications["old"].tasks.released):  # type: ignore[index,arg-type]  # noqa: ASYNC110
                await trio.sleep(0.05)
        assert sorted(going) == one["preempts"]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"{", 400, "found a wrong body"),
        (b"[]", 400, "Expected `object`"),
        (b'{"asks": []}', 400, "unknown field `asks`"),
        (b'{"seconds": -1}', 400, "seconds: found -1, expected a number from 0 to 86400"),
        (b'{"seconds": 9223372036854775808}', 400, "expected a number from 0 to 86400"),
        (b'{"seconds": NaN}', 400, "found a wrong body"),
        (json.dumps({"allocations": [ask("a", "x", 1, runSeconds=-1)]}).encode(), 400, "allocations[0].runSeconds: found -1"),
        (
            json.dumps({"allocations": [ask("a", "x", 1, nodeID="n1")]}).encode(),
            400,
            "allocations[0].nodeID: found n1, expected none",
        ),
        (json.dumps({"allocations": [ask("a", "x", 1, partitionName="other")]}).encode(), 404, "Partition not found"),
        (b" " * (dry_run.BODY_MAX + 1), 413, "found a body of more than 1048576 bytes"),
    ],
)
async def test_wrong_bodies(body: bytes, status: int, text: str) -> None:
    """An answer says what was wrong, and where."""
    async with rest_daemon(QUEUES) as rest:
        answer = await rest.ask(PATH, "POST", body)
        assert (answer.status, text in answer.content["message"]) == (status, True), answer.body


async def test_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """BUSY for the next one, until the first has its answer."""
    begun, goes_on = trio.Event(), trio.Event()

    async def slow(*_: object, **__: object) -> bytes:
        begun.set()
        await goes_on.wait()
        return msgpack.encode(Tried([], b"{}"))

    monkeypatch.setattr(computing, "in_helper_process", slow)
    async with rest_daemon(QUEUES) as rest, trio.open_nursery() as nursery:
        nursery.start_soon(tried, rest, {})
        await begun.wait()
        assert (await tried(rest, {}, 503))["message"].startswith("BUSY: ")
        goes_on.set()
    assert goes_on.is_set()


@pytest.mark.parametrize(
    ("failure", "text"), [(trio.TooSlowError(), "longer than 30 s"), (HelperProcessError("MemoryError"), "MemoryError")]
)
async def test_a_process_that_takes_too_much(monkeypatch: pytest.MonkeyPatch, failure: Exception, text: str) -> None:
    """Time and memory of the process are limited: 503, and the next one is tried."""

    async def fail(*_: object, **__: object) -> bytes:
        raise failure

    async with rest_daemon(QUEUES) as rest:
        with monkeypatch.context() as patched:
            patched.setattr(computing, "in_helper_process", fail)
            assert text in (await tried(rest, {}, 503))["message"]
        assert (await tried(rest, {}))["asks"] == []


def test_the_process_may_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is nicer than the daemon, and has 1 GiB, and 30 s, also if the daemon that ends it is gone."""
    taken: list[object] = []
    monkeypatch.setattr(os, "nice", taken.append)
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: taken.append(limit))
    child.answer(msgpack.encode((NewWork(0, 60, [], [], {}), {})))
    assert taken == [10, (resource.RLIMIT_AS, (2**30, 2**30)), (resource.RLIMIT_CPU, (30, 30))]


def hearing(rest: Rest) -> Callable[[], list[Audited]]:
    """The audited refusals of what is sent."""
    heard: list[Audited] = []

    async def tell(fact: Audited) -> None:
        heard.append(fact)

    rest.daemon.audit._tell = tell  # type: ignore[method-assign]
    return lambda: [fact for fact in heard if fact.act is Act.SEND]


def shown(name: str) -> str:
    return f"Bearer {SECRETS[name]}"


async def test_who_may_not_submit_may_not_try() -> None:
    """The role is that of resource managers, and applications of other users are refused as if they were sent."""
    async with rest_daemon(QUEUES, admit=control_of().admit) as rest:
        await tried(rest, {}, 401)
        await tried(rest, {}, 403, Authorization=shown("reader"))
        new = [submitted("x", "root.a", "zoe"), submitted("y", "root.a")]
        work = {"applications": new, "allocations": [ask("x-1", "x", 1), ask("y-1", "y", 1)]}
        one, other = (await tried(rest, work, Authorization=shown("rm")))["asks"]
        assert (one["outcome"], "zoe" in one["reason"]) == ("refused", True)
        assert (other["outcome"], other["code"]) == ("never", "NO_NODE")


async def test_who_may_not_submit_to_a_partition() -> None:
    """The whole work is refused, and audited as if it was sent (SE-74)."""
    limited = access({"rm": f"{IDENTITIES['rm']}, partitions: [gpu]"}, {"rm": SECRETS["rm"]})
    async with rest_daemon(QUEUES, admit=control_of(limited).admit) as rest:
        heard = hearing(rest)
        refused = await tried(rest, {"applications": [submitted("x", "root.a")]}, 403, Authorization=shown("rm"))
        await trio.testing.wait_all_tasks_blocked()
        assert [(fact.who, fact.target, fact.refusal) for fact in heard()] == [("rm", "ApplicationRequest", refused["message"])]


async def test_limits_of_the_sender_count() -> None:
    """An identity that may have one ask and one tag gets no more of them in a dry run; it is audited as if they were sent."""
    limited = access({"rm": f"{IDENTITIES['rm']}, limits: {{asks: 1, tags: 1}}"}, {"rm": SECRETS["rm"]})
    async with rest_daemon(QUEUES, admit=control_of(limited).admit) as rest:
        heard = hearing(rest)
        tags = {"a": "1", "b": "2"}
        asks = [ask("x-1", "x", 1, allocationTags=tags), ask("x-2", "x", 1), ask("x-3", "x", 1)]
        found = await tried(rest, {"applications": [submitted("x", "root.a")], "allocations": asks}, Authorization=shown("rm"))
        assert [each["outcome"] for each in found["asks"]] == ["refused", "never", "refused"]
        reasons = [each["reason"] for each in found["asks"]]
        assert reasons[0].startswith("limit tags = 1 of identity rm")
        assert reasons[2].startswith("limit asks = 1 of identity rm")
        assert found["refused"] == [f"at 0: partition default: {reasons[2]}"]
        await trio.testing.wait_all_tasks_blocked()
        assert [(fact.times, fact.refusal) for fact in heard()] == [(1, reasons[0])]  # the next of its kind is told later (SE-75)


async def test_a_clock_that_is_ahead() -> None:
    """DU-6: an ask that was created now does not seem to have waited for days, or it would preempt at once."""
    async with rest_daemon(QUEUES.replace("delay: 1s", "delay: 20s"), ahead_ns=30 * DAY_NS) as rest:
        await filled(rest)
        tags = {"creationTime": str(system_ns() // 10**9)}
        asks = [ask("x-1", "x", 1, preemptionPolicy=VICTIM, allocationTags=tags)]
        (one,) = (await tried(rest, {"applications": [submitted("x", "root.b")], "allocations": asks}))["asks"]
        assert (one["outcome"], len(one["preempts"]), one["afterSeconds"] > 0) == ("runs", 1, True)


async def test_groups_of_the_operating_system() -> None:
    """QU-93: an access list lets in the groups that the operating system knows of a user."""
    queues = "queues: [{name: root, queues: [{name: a, submitacl: ' ops'}]}]"
    queues = f"partitions: [{{name: default, usergroupresolver: {{type: os}}, {queues}}}]"
    async with rest_daemon(queues) as rest:
        rest.daemon._groups = GroupResolver(lambda user: ("ops",) if user == "alice" else None)
        new = [submitted("x", "root.a"), submitted("y", "root.a", "bob")]
        work = {"applications": new, "allocations": [ask("x-1", "x", 1), ask("y-1", "y", 1)]}
        one, other = (await tried(rest, work))["asks"]
        assert (one["outcome"], one["code"]) == ("never", "NO_NODE")
        assert (other["outcome"], other["reason"] != "") == ("refused", True)


async def test_asks_of_several_partitions() -> None:
    """The outcomes are in the order of the request, whatever the case of the names of partitions."""
    both = QUEUES + QUEUES.partition("partitions:\n")[2].replace("default", "GPU")
    async with rest_daemon(both) as rest:
        new = [submitted("x", "root.a"), submitted("x", "root.b") | {"partitionName": "gpu"}]
        names = ["gpu", "", "GPU", "Default", "Gpu"]
        asks = [ask(f"x-{number}", "x", 1, partitionName=name) for number, name in enumerate(names)]
        found = (await tried(rest, {"applications": new, "allocations": asks}))["asks"]
        told = [(each["partitionName"], each["allocationKey"], each["code"]) for each in found]
        assert told == [
            ("GPU" if name.lower() == "gpu" else "default", f"x-{number}", "NO_NODE") for number, name in enumerate(names)
        ]
