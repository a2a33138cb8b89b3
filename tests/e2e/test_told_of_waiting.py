"""A resource manager that is told why its asks wait, over the socket of a daemon."""

import trio
from daemon import application, asks, node
from daemonhere import daemon_here
from msgspec import structs

from ykactor.client import connect, keep_registered
from ykactor.wire.si import messages as si

TWO_PARTITIONS = """
partitions:
- {name: default, queues: [{name: root, submitacl: "*", queues: [{name: default}]}]}
- {name: gpu, queues: [{name: root, submitacl: "*", queues: [{name: default}]}]}
"""


async def next_told(rm):
    while not isinstance(message := await anext(rm), si.SchedulingStateResponse):
        pass
    return message


async def test_each_session_that_wants_it_is_told():
    """AP-146, AP-148: in both encodings, with a number and in the order of the others; who does not want it gets none."""
    async with daemon_here() as (_, url):
        async with connect(url, rm_id="rm") as rm:
            for request in (node(), application(), asks("t1", "t2", vcore=3000)):
                await rm.request(request)
            before = rm.sequence
        for encoding in ("json", "msgpack"):
            async with connect(url, rm_id="rm", encoding=encoding, resume_from=before, wants_scheduling_states=True) as rm:
                with trio.fail_after(60):
                    found = await next_told(rm)
                assert found.sequence == rm.sequence > before
                before = rm.sequence
            (entry,) = found.entries
            assert (found.partition_name, entry.allocation_key, entry.application_id) == ("default", "t2", "app-1")
            assert (entry.state, entry.cause, entry.queue_name) == ("FAILED", "nodes", "root.default")
            assert (entry.requested, entry.available) == ({"vcore": 3000}, {"vcore": 1000})
            assert entry.nodes == {"too little vcore free": 1}
            assert entry.reason == "wants 3, has 1 of 4 vcore in the cluster"


async def test_a_partition_that_comes_later_tells_too():
    """AP-146: each partition tells of its own asks, also one that a configuration has added after the registration."""
    async with daemon_here() as (_, url), connect(url, rm_id="rm", wants_scheduling_states=True) as rm:
        await rm.request(si.UpdateConfigurationRequest(config=TWO_PARTITIONS))
        await rm.request(structs.replace(application(), new=[structs.replace(application().new[0], partition_name="gpu")]))
        await rm.request(si.AllocationRequest(allocations=[structs.replace(asks("t1").allocations[0], partition_name="gpu")]))
        with trio.fail_after(60):
            found = await next_told(rm)
        assert (found.partition_name, found.entries[0].cause) == ("gpu", "nodes")


async def test_a_kept_session_hands_it_on():
    """Iteration over a session that stays registered yields what is told as well."""
    async with daemon_here() as (_, url), keep_registered(url, rm_id="rm", wants_scheduling_states=True) as rm:
        assert isinstance(await anext(rm), si.RegisterResourceManagerResponse)
        for request in (application(), asks("t1")):
            rm.send(request)
        with trio.fail_after(60):
            assert [entry.allocation_key for entry in (await next_told(rm)).entries] == ["t1"]
