"""``POST /v1/dry-run`` (RE-10): what it tells of asks then happens, and nobody learns more by it than by submitting."""

from __future__ import annotations

import json
import os
import resource
from functools import partial
from typing import Any

import pytest
import trio
from callers import SECRETS, control_of
from msgspec import msgpack
from restdaemon import Rest, rest_daemon
from triedwork import QUEUES, allocation, applications

from ykactor.surfaces.files.helper_process import HelperProcessError
from ykactor.surfaces.http import dry_run, trial
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
        return b"{}"

    monkeypatch.setattr(dry_run, "in_helper_process", slow)
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
            patched.setattr(dry_run, "in_helper_process", fail)
            assert text in (await tried(rest, {}, 503))["message"]
        assert (await tried(rest, {}))["asks"] == []


def test_the_process_may_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is nicer than the daemon, and has 1 GiB, and 30 s, also if the daemon that ends it is gone."""
    taken: list[object] = []
    monkeypatch.setattr(os, "nice", taken.append)
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: taken.append(limit))
    empty = trial.Trial(0, 60, {}, si.ApplicationRequest(), si.AllocationRequest(), {})
    trial.tried(msgpack.encode(empty))
    assert taken == [10, (resource.RLIMIT_AS, (2**30, 2**30)), (resource.RLIMIT_CPU, (30, 30))]


async def test_who_may_not_submit_may_not_try() -> None:
    """The role is that of resource managers, and they try only for users for whom they may submit."""
    async with rest_daemon(QUEUES, admit=control_of().admit) as rest:
        work = partial(tried, rest)
        shown = {name: f"Bearer {secret}" for name, secret in SECRETS.items()}
        await work({}, 401)
        await work({}, 403, Authorization=shown["reader"])
        body = {"applications": [submitted("x", "root.a", "zoe")], "allocations": [ask("x-1", "x", 1)]}
        assert "zoe" in (await work(body, 403, Authorization=shown["rm"]))["message"]
        body = {"applications": [submitted("x", "root.a")], "allocations": [ask("x-1", "x", 1)]}
        (one,) = (await work(body, Authorization=shown["rm"]))["asks"]
        assert (one["outcome"], one["code"]) == ("never", "NO_NODE")
