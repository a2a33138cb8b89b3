"""The requests of an operator in a daemon of this process: limited identities, a disk that does not answer, a part that fails."""

import logging

import pytest
import trio
from callers import SECRETS, control_of
from daemon import application, asks, node
from daemonhere import daemon_here
from doubles import running_daemon
from memorystore import MemoryStore
from msgspec import structs
from partitiontexts import several
from world import queue

from ykactor.access.model import ANYBODY, Identity, Role
from ykactor.client import Disconnected, RequestRefused, connect, operate
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.daemon.daemon import Daemon
from ykactor.surfaces.sessions import operator_session
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.surfaces.sessions.operator_session import OperatorRequests
from ykactor.surfaces.sessions.pending import Pending
from ykactor.wire.si import messages as si
from ykactor.wire.si.protocol_error import ProtocolError

TEXT = several(default=[queue("a"), queue("b")], gpu=[queue("a")])


def requests_of(daemon: Daemon, identity: Identity) -> OperatorRequests:
    caller = Caller(Role.OPERATOR, "10.0.0.7:5000", identity)
    return OperatorRequests(daemon, ConfigUpdates(daemon, daemon.audit), caller, daemon.audit)


def in_partition(request: si.NodeRequest, partition: str) -> si.NodeRequest:
    nodes = [structs.replace(each, attributes={"si/node-partition": partition}) for each in request.nodes]
    return structs.replace(request, nodes=nodes)


async def test_an_operator_of_some_queues() -> None:
    """SE-26, OP-14: it moves, holds and ends what is in its queues, and does not learn what is in others."""
    limited = structs.replace(ANYBODY, name="ops", queues=frozenset({"root.a"}))
    async with daemon_here(TEXT, MemoryStore()) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        for name, leaf in ("app-1", "root.a"), ("app-2", "root.b"):
            await rm.request(application(name, leaf))
        requests = requests_of(daemon, limited)
        with pytest.raises(ProtocolError, match=r"^failed to find application app-2$"):
            await requests.carry_out(si.TerminateApplication(application_id="app-2"))
        for operation in (
            si.HoldApplication(application_id="app-2"),
            si.CancelAllocation(application_id="app-2", allocation_key="t1"),
            si.SetPriority(application_id="app-2", priority=1),
        ):
            with pytest.raises(ProtocolError, match=r"^failed to find application app-2$"):
                await requests.carry_out(operation)
        await rm.request(asks("t1", of="app-2"))
        await requests.carry_out(si.ExpectNoAllocations(allocation_keys=["t1"]))
        await requests.carry_out(si.HoldApplication(application_id="app-1"))
        assert daemon.registry("default").leaf("root.a").applications["app-1"].hold.by == "ops"
        await requests.carry_out(si.TerminateApplication(application_id="app-1"))
        assert list(daemon.registry("default").applications) == ["app-2"]


async def test_an_answer_waits_for_the_disk() -> None:
    """SE-70: no effect is acknowledged that a loss of power could take back."""
    store = MemoryStore()
    async with daemon_here(TEXT, store) as (daemon, url), connect(url, rm_id="rm-1") as rm, operate(url) as operator:
        await rm.request(node())
        store.answers = trio.Event()
        drain = si.NodeRequest(nodes=[si.NodeInfo(node_id="n1", action="DRAIN_NODE")])
        answered = trio.Event()

        async def request() -> None:
            await operator.request(drain)
            answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(request)
            while daemon.registry("default").nodes["n1"].schedulable:
                await trio.lowlevel.checkpoint()
            await trio.sleep(0.05)
            assert not answered.is_set()
            store.answers.set()
        facts = [name for turn in store.turns for name, _ in turn["facts"]]
        assert facts[-2:] == ["NodeSchedulable", "Audited"]


async def test_an_operator_is_told_that_the_disk_is_full() -> None:
    """DU-10, SE-70: before its request is carried out, which is answered when there is room again."""
    store, told = MemoryStore(), list[si.JournalStatus]()
    async with (
        daemon_here(TEXT, store) as (_, url),
        connect(url, rm_id="rm-1") as rm,
        operate(url, on_journal=told.append) as operator,
        trio.open_nursery() as nursery,
    ):
        store.is_full = True
        await rm.send(node())
        assert isinstance(await anext(rm), si.JournalStatus)
        nursery.start_soon(operator.request, si.NodeRequest())
        while not told:
            await trio.lowlevel.checkpoint()
        assert (told[0].writable, told[0].reason) == (False, "no room on the disk")
        store.is_full = False


async def test_a_part_of_the_nodes() -> None:
    """SE-71: the first node is drained when the second one cannot be: the answer says so, and so does the audit."""
    async with daemon_here(TEXT, MemoryStore()) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(node())
        await rm.request(in_partition(node("n2"), "gpu"))
        daemon.partitions["gpu"].close()
        both = [si.NodeInfo(node_id="n1", action="DRAIN_NODE"), *in_partition(node("n2", "DRAIN_NODE"), "gpu").nodes]
        requests = requests_of(daemon, ANYBODY)
        with pytest.raises(ProtocolError) as caught:
            await requests.carry_out(si.NodeRequest(nodes=both))
        assert caught.value.code == "INTERRUPTED"
        with pytest.raises(ProtocolError) as caught:
            await requests.carry_out(si.NodeRequest(nodes=both[1:]))
        assert caught.value.code == "UNAVAILABLE"
        schedulable = {name: daemon.registry(name).nodes[key].schedulable for name, key in [("default", "n1"), ("gpu", "n2")]}
        assert schedulable == {"default": False, "gpu": True}


async def test_a_partition_is_removed_behind_an_act(monkeypatch: pytest.MonkeyPatch) -> None:
    """The act was done: it is confirmed, although nothing is left to be told of what it has changed."""
    async with daemon_here(TEXT) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        done = operator_session._finished

        async def done_and_removed(pending: Pending) -> None:
            await done(pending)
            await rm.request(si.UpdateConfigurationRequest(config=several(default=[queue("a"), queue("b")])))

        monkeypatch.setattr(operator_session, "_finished", done_and_removed)
        await requests_of(daemon, ANYBODY).carry_out(si.HoldQueue(queue_name="root.a", held=True, partition_name="gpu"))
        assert [*daemon.partitions] == ["default"]


async def test_the_end_of_the_daemon() -> None:
    """A session that has nothing to do is told the reason."""
    async with daemon_here(TEXT, MemoryStore()) as (daemon, url), operate(url) as operator:
        await operator.request(si.NodeRequest())
        daemon.stop()
        with pytest.raises(Disconnected, match="1001 the daemon stops"):
            await operator._stream.receive()


async def test_who_is_refused_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """SE-74: a connection without a proof or without the role, and a message that is not permitted; never what was shown."""
    with caplog.at_level(logging.WARNING):
        async with running_daemon(admit=control_of().admit) as daemon:
            for token in "yk_" + "u" * 43, SECRETS["reader"]:
                with pytest.raises(RequestRefused):
                    async with operate(daemon.url, token=token):
                        pass
            async with connect(daemon.url, rm_id="rm-1", token=SECRETS["rm"]) as rm:
                with pytest.raises(RequestRefused, match="NOT_PERMITTED"):
                    await rm.request(si.UpdateConfigurationRequest())
            await trio.sleep(0.05)
    told = [vars(record)["keys"] for record in caplog.records if record.message == "audited"]
    assert [(keys["who"], keys["act"], keys["target"]) for keys in told] == [
        ("", "CONNECT", "/v1/operator"),
        ("reader", "CONNECT", "/v1/operator"),
        ("rm", "CONFIGURE", "UpdateConfigurationRequest"),
    ]
    assert "uuu" not in str(told)
