"""Kinds that servers have in different versions, or not at all: the newest is watched, and found again when a server changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from directapi import open_api, process
from fakehttp import Request
from fakeserver import FakeServer
from fakestore import Store
from test_probes import settings

from ykactor.kubernetes import adapter as adapters
from ykactor.kubernetes.adapter import Adapter
from ykactor.kubernetes.messages import Kind
from ykactor.kubernetes.process import Outages
from ykactor.kubernetes.reflector import find_version

LABELS = {"matchLabels": {"a": "b"}}


@asynccontextmanager
async def watching(server: FakeServer) -> AsyncIterator[Adapter]:
    """An adapter that finds no daemon."""
    async with (
        open_api(server.url) as api,
        trio.open_nursery() as nursery,
    ):
        adapter = Adapter(api, settings(), process())
        nursery.start_soon(adapter.run)
        yield adapter
        nursery.cancel_scope.cancel()


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not holds():  # noqa: ASYNC110
            await trio.sleep(0.01)


def budget(server: FakeServer, name: str) -> None:
    status = {"disruptionsAllowed": 0}
    server.store.create(
        "poddisruptionbudgets", "team", {"metadata": {"name": name}, "spec": {"selector": LABELS}, "status": status}
    )


def known(adapter: Adapter) -> int:
    return len(adapter.state.book.policies.budgets())


@pytest.mark.parametrize(("kubernetes", "version"), [("1.36", "policy/v1"), ("1.20", "policy/v1beta1")])
async def test_budgets_are_read_in_the_version_of_the_server(kubernetes: str, version: str) -> None:
    """And what the server has not is not asked for again and again."""
    async with FakeServer(Store(kubernetes)).running() as server:
        asked = Counter[str]()

        async def count(request: Request) -> None:
            act = "watch" if "watch" in request.query else "get"
            asked[f"{act} {request.group}/{request.version}/{request.resource}"] += 1

        server.faults = count
        budget(server, "b")
        async with watching(server) as adapter:
            await until(lambda: adapter.state.is_listed)
            assert known(adapter) == 1
            await until(lambda: asked["get /v1/pods"] == 2)  # the one that leads lists them once more
            assert list(adapter.problems()) == []
        assert [asked[f"{act} {version}/poddisruptionbudgets"] for act in ("get", "watch")] == [1, 1]
        assert asked.pop("get /v1/pods") == 2
        assert max(number for each, number in asked.items() if "pods" not in each) == 1
        assert sum("podgroups" in each for each in asked) == (2 if kubernetes == "1.36" else 0)


async def test_a_version_that_is_served_no_longer_is_looked_for_again() -> None:
    """The server was made newer. What was deleted meanwhile is gone."""
    async with FakeServer().running() as server:
        budget(server, "b")
        async with watching(server) as adapter:
            await until(lambda: adapter.state.is_listed)
            kind = server._kinds.pop(("policy", "v1", "poddisruptionbudgets"))
            server._kinds["policy", "v2", "poddisruptionbudgets"] = kind
            server.store.remove("poddisruptionbudgets", server.store.get("poddisruptionbudgets", "team", "b"))
            budget(server, "c")
            budget(server, "d")
            server.cut_watches()
            await until(lambda: known(adapter) == 2)
            assert sum(each.kind is Kind.BUDGETS for each in adapter.reflectors) == 1


async def test_a_kind_that_comes_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alpha version was switched on."""
    monkeypatch.setattr(adapters, "LOOK_AGAIN_S", 0.1)
    async with FakeServer(Store("1.20")).running() as server, watching(server) as adapter:
        await until(lambda: adapter.state.is_listed)
        server._kinds["scheduling.k8s.io", "v1alpha2", "podgroups"] = "PodGroup"
        server.store.create(
            "podgroups", "team", {"metadata": {"name": "pg"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        )
        await until(lambda: bool(adapter.state.book.pod_groups))


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (["v1alpha1", "v1alpha2"], "v1alpha2"),
        (["v1alpha2", "v1beta1"], "v1beta1"),
        (["v1", "v2beta1", "v2alpha1"], "v1"),
        (["v1", "v10", "v2"], "v10"),
        (["v1beta2", "v1beta10"], "v1beta10"),
        (["other", "v1alpha1"], "v1alpha1"),
        ([], ""),
    ],
)
async def test_the_newest_version(versions: list[str], newest: str) -> None:
    """A stable one before beta and alpha ones; of those that have the kind."""
    async with FakeServer().running() as server:
        for key in [key for key in server._kinds if key[2] == "podgroups"]:
            del server._kinds[key]
        server._kinds["scheduling.k8s.io", "v99", "others"] = "Other"
        for version in versions:
            server._kinds["scheduling.k8s.io", version, "podgroups"] = "PodGroup"
        async with open_api(server.url) as api:
            found = await find_version(api, "scheduling.k8s.io", "podgroups", Outages(lambda _: None))
            assert found == (f"scheduling.k8s.io/{newest}" if newest else "")
            assert await find_version(api, "absent.k8s.io", "podgroups", Outages(lambda _: None)) == ""
