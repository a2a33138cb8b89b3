"""An operator beside a resource manager, over the sockets of the real daemon."""

from contextlib import suppress
from pathlib import Path

import pytest
import trio
from daemon import application, asks, next_allocated, next_event, node, real_daemon, run_command

from ykactor.client import Disconnected, Follower, Operator, RequestRefused, connect, follow, operate
from ykactor.wire.si import messages as si

FIRST = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: a}, {name: b}]
"""
SECOND = FIRST.replace("{name: b}", "{name: b}, {name: c}")


def drain(node_id: str = "n1", action: str = "DRAIN_NODE") -> si.NodeRequest:
    return si.NodeRequest(nodes=[si.NodeInfo(node_id=node_id, action=action)])


async def told(feed: Follower, count: int) -> list[tuple[str, str, str]]:
    """Act, object and change of the next events of the audit."""
    events = [await next_event(feed, "AUDIT") for _ in range(count)]
    return [
        (event.event_change_detail.removeprefix("AUDIT_"), event.object_id, event.message.partition(": ")[2]) for event in events
    ]


async def test_an_operator_beside_a_resource_manager(queue_file: Path) -> None:
    """SE-70, SE-72: what it does is told with before and after; the resource manager goes on with numbers of its own."""
    async with (
        real_daemon("--config", queue_file) as daemon,
        operate(daemon.url) as operator,
        follow(daemon.url, kinds=["AUDIT"]) as feed,
    ):
        async with connect(daemon.url, rm_id="rm-1") as rm:
            for request in (node(), application("app-1", "root.a"), asks("t1")):
                await rm.request(request)
            assert await next_allocated(rm) == [("t1", "n1")]
            before = rm.sequence
            await operator.request(drain())
            await operator.request(drain(action="DRAIN_TO_SCHEDULABLE"))
            await operator.request(si.MoveApplication(application_id="app-1", queue_name="root.b"))
            assert (await daemon.state())["applications"]["app-1"]["queueName"] == "root.b"
            await rm.request(si.ApplicationRequest())
            assert rm.sequence == before + 2  # of the acts only the move is told it (AP-134)
        async with connect(daemon.url, rm_id="rm-1", resume_from=before + 2) as rm:
            assert rm.sequence == before + 4
        await operator.request(si.TerminateApplication(application_id="app-1"))
        assert await told(feed, 6) == [
            ("REGISTER", "rm-1", "nothing -> registered, connected"),
            ("DRAIN", "n1", "schedulable -> draining"),
            ("UNDRAIN", "n1", "draining -> schedulable"),
            ("MOVE", "app-1", "Starting in root.a -> Starting in root.b"),
            ("RESUME", "rm-1", "registered, not connected -> registered, connected"),
            ("TERMINATE", "app-1", "Starting in root.b -> Failing in root.b"),
        ]


async def test_configurations_of_an_operator(queue_file: Path) -> None:
    """SE-71, SE-72: one that it sends, and the file, which is read again although nothing has changed in it."""
    async with real_daemon("--config", queue_file) as daemon, operate(daemon.url) as operator:
        async with follow(daemon.url, kinds=["AUDIT"]) as feed:
            first = (await operator.request(si.ReloadConfiguration())).checksum
            second = (await operator.request(si.UpdateConfigurationRequest(config=SECOND))).checksum
            assert first != second
            assert (await operator.request(si.ReloadConfiguration())).checksum == first
            pairs = [(first, first), (first, second), (second, first)]
            assert await told(feed, 3) == [("CONFIGURE", "configuration", f"{old} -> {new}") for old, new in pairs]
            await trio.Path(queue_file).write_text(SECOND)
            assert await told(feed, 1) == [("CONFIGURE", "queues.yaml", f"{first} -> {second}")]
            await trio.Path(queue_file).write_text("partitions: 7")
            await daemon.wait_logged("config_refused")
            with pytest.raises(RequestRefused, match="CONFIG_REFUSED"):
                await operator.request(si.ReloadConfiguration())


async def test_a_resource_manager_is_released() -> None:
    """SE-71: as if it had deregistered; its session is told why, and another one may register."""
    async with real_daemon() as daemon, operate(daemon.url) as operator, follow(daemon.url, kinds=["AUDIT"]) as feed:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node())
            with pytest.raises(RequestRefused, match="REFUSED: rmID: rm-2 is not registered, found rm-1"):
                await operator.request(si.ReleaseResourceManager(rm_id="rm-2"))
            await operator.request(si.ReleaseResourceManager(rm_id="rm-1"))
            with pytest.raises(Disconnected, match="4006 an operator has ended the registration"):
                async for _ in rm:
                    pass
        assert (await daemon.state())["nodes"] == {}
        async with connect(daemon.url, rm_id="rm-2") as rm:
            await rm.request(si.DeregisterResourceManagerRequest())
        refused = "refused: rmID: rm-2 is not registered, found rm-1"
        found = await told(feed, 5)
        assert sorted(found) == [
            ("DEREGISTER", "rm-2", "registered -> nothing"),
            ("REGISTER", "rm-1", "nothing -> registered, connected"),
            ("REGISTER", "rm-2", "nothing -> registered, connected"),
            ("RELEASE", "rm-1", "registered -> nothing"),
            ("RELEASE", "rm-2", refused),
        ]


async def test_the_command_releases_as_an_operator() -> None:
    """SE-71: ``rm release`` of who has both roles is the act of an operator, for the session that it ends and for the audit."""
    async with (
        real_daemon() as daemon,
        follow(daemon.url, kinds=["AUDIT"]) as feed,
        connect(daemon.url, rm_id="rm-1") as rm,
    ):
        await run_command("rm", "release", "rm-1", "--url", daemon.url)
        with pytest.raises(Disconnected, match="4006 an operator has ended the registration"):
            async for _ in rm:
                pass
        expected = [("REGISTER", "rm-1", "nothing -> registered, connected"), ("RELEASE", "rm-1", "registered -> nothing")]
        assert await told(feed, 2) == expected


REFUSALS = [
    (drain("n9"), "REFUSED: nodes: failed to find node n9 in partition default"),
    (drain(action="DECOMISSION"), r"NOT_PERMITTED: nodes\[0\].action: found 'DECOMISSION', an operator may only DRAIN_NODE or"),
    (drain("n" * 5000), r"REFUSED: nodes: nodes\[0\].nodeID: found 5000 bytes, expected at most 4096"),
    (si.MoveApplication(application_id="app-9", queue_name="root.b"), "REFUSED: failed to find application app-9"),
    (si.TerminateApplication(application_id="app-1", partition_name="gpu"), "REFUSED: .* failed to find partition gpu"),
    (si.TerminateApplication(application_id="app-1", ugi=si.UserGroupInformation(user="x")), "NOT_PERMITTED: ugi: .* for itself"),
    (si.UpdateConfigurationRequest(config="partitions: 7"), "CONFIG_REFUSED"),
    (si.ReloadConfiguration(), "REFUSED: the daemon has no queue file to read again"),
    (si.ReleaseResourceManager(rm_id="rm-1"), "REFUSED: rmID: rm-1 is not registered, found no resource manager"),
    (si.ScheduleRequest(), "UNKNOWN_TYPE"),
]  # fmt: skip


async def test_what_is_refused() -> None:
    """SE-71: each with its reason and no effect; the session goes on, and works without any resource manager."""
    async with real_daemon() as daemon, operate(daemon.url) as operator:
        for request, reason in REFUSALS:
            with pytest.raises(RequestRefused, match=reason):
                await operator.request(request)
        assert (await operator.request(si.NodeRequest())).sequence == 0


async def test_the_audit_survives(tmp_path: Path) -> None:
    """SE-73, SE-75, SE-76: killed after the effect, perhaps before the answer: the audit has the act; replay passes over it."""
    state = tmp_path / "state"
    async with (
        real_daemon("--state-dir", state) as daemon,
        connect(daemon.url, rm_id="rm-1") as rm,
        follow(daemon.url) as feed,
        operate(daemon.url) as operator,
        trio.open_nursery() as nursery,
    ):
        await rm.request(node())
        await operator.request(drain())
        with pytest.raises(RequestRefused):
            await operator.request(si.MoveApplication(application_id="app-1", queue_name="root.b"))
        await next_event(feed, "NODE_SCHEDULABLE", "false")
        nursery.start_soon(ignoring_the_end, operator, drain(action="DRAIN_TO_SCHEDULABLE"))
        await next_event(feed, "NODE_SCHEDULABLE", "true")
        daemon.process.kill()
        await daemon.process.wait()
    async with real_daemon("--state-dir", state) as daemon:
        assert (await daemon.state())["nodes"]["n1"]["schedulable"]
        await daemon.stop()
    lines = (await run_command("audit", "--state-dir", state))[0].splitlines()
    acts = [line.split()[1:4] for line in lines]
    assert acts == [
        ["REGISTER", "rm-1", "anybody"],
        ["DRAIN", "n1", "anybody"],
        ["MOVE", "app-1", "anybody"],
        ["UNDRAIN", "n1", "anybody"],
    ]
    assert lines[1].endswith(" as operator: schedulable -> draining")
    assert lines[2].endswith(" as operator: refused: failed to find application app-1")
    assert "as operator: draining -> schedulable" in lines[3] or "the daemon ended before it was told" in lines[3]
    await run_command("replay", state)


async def ignoring_the_end(operator: Operator, request: si.OperatorRequest) -> None:
    with suppress(Disconnected):
        await operator.request(request)


async def test_a_changed_access_file_is_told(tmp_path: Path) -> None:
    """SE-72: the names of the identities that are others from now on."""
    file = tmp_path / "access.yaml"
    await trio.Path(file).write_text("identities: [{name: ops, roles: [operator], proofs: [{user: root}]}]\n")
    async with real_daemon("--access", file) as daemon:
        await trio.Path(file).write_text("identities: [{name: dash, roles: [reader], proofs: [{user: root}]}]\n")
        line = await daemon.wait_logged("audited")
        assert (line["act"], line["target"], line["after"]) == ("ACCESS", "access.yaml", "added: dash; removed: ops")
