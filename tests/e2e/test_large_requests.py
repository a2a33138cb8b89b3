"""While a large request is decoded, checked and converted, all others go on; it has its effect as a whole, or none."""

import msgspec
import pytest
import trio
from daemon import application, asks, node
from daemonhere import daemon_here
from doubles import running_daemon
from world import queue, tree

from ykactor.client import Refused, RequestRefused, connect, follow, operate
from ykactor.client.connection import open_connection
from ykactor.surfaces.server import rm_requests
from ykactor.surfaces.server.caller import Caller
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

CONFIG = tree(queue("default"))


class Gate:
    """Stops requests at their first pause, until it is opened."""

    def __init__(self) -> None:
        self.reached = trio.Event()
        self.opened = trio.Event()

    async def pause(self, _: object = None) -> None:
        self.reached.set()
        await self.opened.wait()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(rm_requests, "pause", gate.pause)
    return gate


def many_nodes(count: int = 6000) -> si.NodeRequest:
    """Large enough to be decoded in slices."""
    return si.NodeRequest(id="large", nodes=[si.NodeInfo(node_id=f"n{number}", action="CREATE_DRAIN") for number in range(count)])


async def test_others_go_on_meanwhile(gate: Gate) -> None:
    """A follower gets its snapshot, an operator its answer, and who wants to register is told that it cannot."""
    async with daemon_here(CONFIG) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(node())
        await rm.send(many_nodes())
        await gate.reached.wait()
        async with follow(url, from_="snapshot") as follower, operate(url) as operator:
            assert isinstance(await anext(follower), si.Snapshot)
            await operator.request(si.NodeRequest(nodes=[si.NodeInfo(node_id="n1", action="DRAIN_NODE")]))
            with pytest.raises(RequestRefused, match="holds this daemon"):
                async with connect(url, rm_id="rm-2"):
                    pass
        assert list(daemon.registry("default").nodes) == ["n1"]
        gate.opened.set()
        while not isinstance(response := await anext(rm), si.Ack):
            pass
        assert response.id == "large"
        assert len(daemon.registry("default").nodes) == 6000


async def test_requests_of_a_session_keep_their_order(gate: Gate) -> None:
    """A small one waits for the large one before it."""
    async with daemon_here(CONFIG) as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.send(many_nodes())
        await gate.reached.wait()
        await rm.send(si.NodeRequest(id="small", nodes=[si.NodeInfo(node_id="n0", action="DECOMISSION")]))
        gate.opened.set()
        acks = []
        while len(acks) < 2:
            response = await anext(rm)
            if isinstance(response, si.Ack):
                acks.append(response.id)
        assert acks == ["large", "small"]


async def test_a_newer_session_that_takes_over_meanwhile(gate: Gate) -> None:
    """The request of the one before has no effect."""
    async with daemon_here(CONFIG) as (daemon, url), open_connection(url, "/v1/rm") as connection:
        for request in (si.RegisterResourceManagerRequest(rm_id="rm-1"), many_nodes()):
            await connection.send_message(JSON.encode(request).decode())
        await gate.reached.wait()
        async with connect(url, rm_id="rm-1", resume_from="now") as rm:
            gate.opened.set()
            await rm.request(application())
            assert list(daemon.registry("default").nodes) == []


async def test_a_daemon_that_stops_meanwhile(gate: Gate) -> None:
    """It does not wait for the request, which has no effect."""
    async with daemon_here(CONFIG) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.send(many_nodes())
        await gate.reached.wait()
        daemon.stop()
        await daemon.stopped.wait()
        assert list(daemon.registry("default").nodes) == []


async def test_a_caller_that_is_revoked_meanwhile(gate: Gate) -> None:
    """SE-63: what counts is what it may do right before the effect."""
    callers: list[Caller] = []

    def admit(*what: object) -> Caller:
        callers.append(Caller(*what[::2]))  # type: ignore[arg-type]
        return callers[-1]

    async with running_daemon(admit=admit) as daemon, open_connection(daemon.url, "/v1/rm") as connection:
        for request in (si.RegisterResourceManagerRequest(rm_id="rm-1"), many_nodes()):
            await connection.send_message(JSON.encode(request).decode())
        await gate.reached.wait()
        callers[0].revoked = "no longer"
        gate.opened.set()
        while not isinstance(response := JSON.decode_response(await connection.get_message()), si.ErrorResponse):
            pass
        assert (response.code, response.message, response.id) == ("NOT_PERMITTED", "no longer", "large")
        assert not [each for each in daemon.doubles["default"].received if type(each).__name__ == "UpdateNode"]


@pytest.mark.parametrize("last", [{"priority": "high"}, {"resourcePerAlloc": {"vcore": []}}, {"allocationKey": ""}])
async def test_a_mistake_at_the_end_refuses_all(last: dict[str, object]) -> None:
    """Whichever step finds it."""
    async with daemon_here(CONFIG) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(application())
        wrong = msgspec.to_builtins(asks(*map(str, range(6000))))
        wrong["allocations"].append(wrong["allocations"][0] | last)
        async with open_connection(url, "/v1/rm") as connection:
            for message in (JSON.encode(si.RegisterResourceManagerRequest(rm_id="rm-1")), msgspec.json.encode(wrong)):
                await connection.send_message(message.decode())
            while not isinstance(response := JSON.decode_response(await connection.get_message()), si.ErrorResponse):
                pass
        assert response.path.startswith(f"allocations[6000].{next(iter(last))}")
        assert daemon.waiting() == []


async def test_a_wrong_entry_at_the_end_is_rejected_alone() -> None:
    """AP-139: all before it take effect."""
    async with daemon_here(CONFIG) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(application())
        wrong = asks(*map(str, range(6000)))
        wrong.allocations.append(msgspec.structs.replace(wrong.allocations[0], resource_per_alloc={"vcore": "much"}))
        with pytest.raises(Refused) as refused:
            await rm.request(wrong)
        (rejected,) = refused.value.rejections
        assert (rejected.code, rejected.reason.startswith("allocations[6000].resourcePerAlloc.vcore")) == ("BAD_QUANTITY", True)
        assert len(daemon.waiting()) == 6000


async def test_a_large_request_for_a_partition_that_does_not_exist() -> None:
    """Each entry is refused, in order."""
    async with daemon_here(CONFIG) as (_, url), connect(url, rm_id="rm-1") as rm:
        nodes = many_nodes().nodes
        elsewhere = [msgspec.structs.replace(each, attributes={"si/node-partition": "x"}) for each in nodes]
        await rm.send(si.NodeRequest(nodes=elsewhere))
        refused: list[str] = []
        while len(refused) < len(nodes):
            response = await anext(rm)
            assert isinstance(response, si.NodeResponse)
            refused += [each.node_id for each in response.rejected]
        assert refused == [each.node_id for each in nodes]


async def test_a_large_request_of_an_operator() -> None:
    """It is checked a few nodes at a time, and refused with the path in the whole."""
    nodes = [si.NodeInfo(node_id=f"n{number}", action="DRAIN_NODE") for number in range(6000)]
    async with daemon_here(CONFIG) as (_, url), operate(url) as operator:
        with pytest.raises(RequestRefused, match="failed to find node n0 in partition default"):
            await operator.request(si.NodeRequest(nodes=nodes))
        for index in 0, 500, 5999:
            wrong = [*nodes]
            wrong[index] = si.NodeInfo(node_id="n", action="CREATE")
            with pytest.raises(RequestRefused) as refused:
                await operator.request(si.NodeRequest(nodes=wrong))
            assert (refused.value.code, refused.value.path) == ("NOT_PERMITTED", f"nodes[{index}].action")
