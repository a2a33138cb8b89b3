"""AP-144: a resource manager hands back what it could not start, and a daemon that is started again remembers it."""

from pathlib import Path

from daemon import application, asks, next_allocated, node, real_daemon

from ykactor.client import connect
from ykactor.wire.si import messages as si


async def test_a_task_is_handed_back(tmp_path: Path) -> None:
    """The task goes to the other node; when that fails too it waits, also after a restart, and the reason names both nodes."""
    arguments = "--state-dir", tmp_path / "state"
    async with real_daemon(*arguments) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        for request in (node("n1"), node("n2"), application(), asks("t1")):
            await rm.request(request)
        nodes = []
        for _ in range(2):
            allocation = await next_new(rm)
            nodes.append(allocation.node_id)
            await rm.hand_back(allocation)
        assert sorted(nodes) == ["n1", "n2"]
    async with real_daemon(*arguments) as daemon, connect(daemon.url, rm_id="rm-1", resume_from="now") as rm:
        (waiting,) = (await daemon.state())["applications"]["app-1"]["pending"]
        assert "back-off: it could not start on n" in waiting["reason"]
        await rm.request(node("n3"))
        assert await next_allocated(rm) == [("t1", "n3")]


async def next_new(rm: object) -> si.Allocation:
    """The next allocation."""
    async for response in rm:  # type: ignore[attr-defined]
        if isinstance(response, si.AllocationResponse) and response.new:
            (allocation,) = response.new
            return allocation
    raise AssertionError("the connection has ended")
