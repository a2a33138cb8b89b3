"""A resource manager loses its session and registers again, over the socket of the real daemon (SC-141)."""

import pytest
from daemon import next_allocated, node, real_daemon
from msgspec import structs

from ykactor.client import Disconnected, Refused, RequestRefused, connect
from ykactor.wire.si import messages as si

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: g}, {name: old}]
"""
SMALLER = CONFIG.replace(", {name: old}", "")
USER = si.UserGroupInformation(user="alice")
GANG = si.AddApplicationRequest(application_id="gang", queue_name="root.g", ugi=USER, placeholder_ask={"vcore": 2000})
FORCED = si.AddApplicationRequest(
    application_id="plain", queue_name="root.old", ugi=USER, tags={"application.create.force": "true"}
)


def task(key, of="gang", on="", **fields):
    """A task of 1 vcore; ``p...`` is a placeholder of the group that all tasks of the gang are in."""
    group = "g" if of == "gang" else ""
    return si.Allocation(
        allocation_key=key,
        application_id=of,
        resource_per_alloc={"vcore": 1000},
        task_group_name=group,
        placeholder=key.startswith("p"),
        node_id=on,
        **fields,
    )


def said(*tasks):
    return si.AllocationRequest(allocations=list(tasks))


def ended(key, termination_type):
    """The confirmation that a task of the gang has ended."""
    release = si.AllocationRelease(application_id="gang", allocation_key=key, termination_type=termination_type)
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release]))


async def next_entries(rm, field):
    """The next entries of a list of an ``AllocationResponse``."""
    while True:
        response = await rm.__anext__()
        if isinstance(response, si.AllocationResponse) and getattr(response, field):
            return getattr(response, field)


async def begin(rm):
    """A gang of two that is complete, one of its real tasks about to take a place; and a plain application that runs a task."""
    await rm.request(node("n1", vcore=4000))
    await rm.request(si.ApplicationRequest(new=[GANG, FORCED]))
    await rm.request(said(task("p1"), task("p2"), task("r1", of="plain")))
    assert sorted(await next_allocated(rm, 3)) == [("p1", "n1"), ("p2", "n1"), ("r1", "n1")]
    await rm.request(said(task("t1")))
    (release,) = await next_entries(rm, "released")
    assert (release.allocation_key, release.termination_type) == ("p1", "PLACEHOLDER_REPLACED")


async def test_a_fresh_registration():
    """A fresh registration reports all anew, some of it too early; applications without a queue go on all the same."""
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", config=CONFIG) as rm:
            await begin(rm)
        async with connect(daemon.url, rm_id="rm-1", config=SMALLER) as rm:
            state = await daemon.state()
            assert (state["applications"], state["nodes"], sorted(state["queues"])) == ({}, {}, ["root", "root.g"])
            with pytest.raises(Refused) as refused:
                await rm.request(said(task("p1", on="n1"), task("r1", of="plain", on="n1")))
            assert [entry.reason for entry in refused.value.rejections] == [
                "failed to find application gang",
                "failed to find application plain",
            ]
            await rm.request(si.ApplicationRequest(new=[GANG, FORCED]))
            await rm.request(node("n1", vcore=4000))
            await rm.request(ended("p1", "PLACEHOLDER_REPLACED"))  # of another life
            await rm.request(said(task("r1", of="plain", on="n1"), task("p2", on="n1"), task("p1", on="n1"), task("p1", on="n1")))
            assert await next_allocated(rm, 3) == [("r1", "n1"), ("p2", "n1"), ("p1", "n1")]
            await rm.request(said(task("t1")))
            (release,) = await next_entries(rm, "released")
            await rm.request(ended(release.allocation_key, "PLACEHOLDER_REPLACED"))
            assert await next_allocated(rm) == [("t1", "n1")]
            state = await daemon.state()
            assert {path: queue["allocated"].get("vcore") for path, queue in state["queues"].items()} == {
                "root": 3000,
                "root.g": 2000,
                "root.@recovery@": 1000,
            }
            assert state["nodes"]["n1"]["allocated"] == {"vcore": 3000}
            assert {name: entry["state"] for name, entry in state["applications"].items()} == {
                "gang": "Starting",
                "plain": "Starting",
            }


async def test_a_resumed_session():
    """Nothing is forgotten: the release that was lost with the session is sent again, and the handshake ends as if nothing had
    happened; a confirmation that comes twice counts once."""
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", config=CONFIG) as rm:
            known = rm.sequence
            await begin(rm)
        async with connect(daemon.url, rm_id="rm-1", resume_from=known) as rm:
            assert len(await next_allocated(rm, 3)) == 3
            (release,) = await next_entries(rm, "released")
            assert release.message == "replacing allocationKey: t1"
            for _ in range(2):
                await rm.request(ended("p1", "PLACEHOLDER_REPLACED"))
            assert await next_allocated(rm) == [("t1", "n1")]
            state = await daemon.state()
            assert state["queues"]["root.g"]["allocated"] == {"vcore": 2000}


async def test_a_session_resumed_without_a_number():
    """``resumeFrom: now`` keeps everything and repeats nothing; it needs a registration to continue."""
    async with real_daemon() as daemon:
        with pytest.raises(RequestRefused) as refused:
            async with connect(daemon.url, rm_id="rm-1", resume_from="now"):
                pass
        assert refused.value.code == "RESYNC_REQUIRED"
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node("n1"))
        async with connect(daemon.url, rm_id="rm-1", resume_from="now") as rm:
            await rm.request(node("n2"))
            response = await rm.__anext__()
            assert [entry.node_id for entry in response.accepted] == ["n2"]
            assert sorted((await daemon.state())["nodes"]) == ["n1", "n2"]


async def test_deregistration():
    """All that the resource manager has goes, its session ends, and another one may register (SC-142)."""
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", config=CONFIG) as rm:
            await begin(rm)
            with pytest.raises(RequestRefused, match=r"RM rm-1 .* until it deregisters; it has been connected since "):
                async with connect(daemon.url, rm_id="rm-2"):
                    pass
            await rm.request(si.DeregisterResourceManagerRequest())
            state = await daemon.state()
            assert (state["applications"], state["nodes"]) == ({}, {})
            with pytest.raises(Disconnected):
                async for _ in rm:
                    pass
        async with connect(daemon.url, rm_id="rm-2") as rm:
            await rm.request(node("n1"))
            assert sorted((await daemon.state())["nodes"]) == ["n1"]


async def test_another_tree_at_a_fresh_registration():
    """A queue that had applications can become a parent (CF-61), because these are forgotten first (SC-141)."""
    deeper = CONFIG.replace("{name: g}", "{name: g, queues: [{name: below}]}")
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", config=CONFIG) as rm:
            await begin(rm)
        async with connect(daemon.url, rm_id="rm-1", config=deeper) as rm:
            await rm.request(si.ApplicationRequest(new=[structs.replace(GANG, queue_name="root.g.below")]))
            state = await daemon.state()
            assert {name: entry["queueName"] for name, entry in state["applications"].items()} == {"gang": "root.g.below"}
