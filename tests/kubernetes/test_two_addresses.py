"""``ykactor kubernetes`` with several addresses: pods go on at the daemon that takes over, and none is lost or starts twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import trio
from cluster import Cluster
from daemon import real_daemon, run_command
from test_process import adapter, api_server

NODES, PODS = 4, 12


@pytest.mark.parametrize("hands_over", [False, True])
async def test_pods_go_on_at_the_next_daemon(tmp_path: Path, hands_over: bool) -> None:
    """Pods run, wait for room, and are created in the middle of a take-over; those that wait are bound when there is room."""
    directories, urls = [tmp_path / "a", tmp_path / "b"], [f"unix:{tmp_path / name}.sock" for name in "ab"]
    options = ("--state-dir", directories[0], "--standbys", "1")
    follows = ("--state-dir", directories[1], "--standby-of", urls[0])
    where = ("--ws", urls[1])
    async with (
        api_server(tmp_path) as (serving, config),
        real_daemon(*follows, ws=where, ready="standby_started") as standby,
        trio.open_nursery() as nursery,
    ):
        cluster = Cluster(serving.server, ",".join(urls))
        cluster.create("namespaces", {"metadata": {"name": "team"}})
        for number in range(NODES):
            cluster.node(f"n{number}", cpu="2")
        async with adapter(config, ",".join(urls)):
            async with real_daemon(*options, ws=("--ws", urls[0])) as daemon:
                for number in range(PODS):
                    cluster.pod(f"p{number}")
                await cluster.until(lambda: len(cluster.bound()) == 2 * NODES)
                before = cluster.bound()
                if not hands_over:
                    daemon.process.kill()
                    await daemon.process.wait()
                cluster.pod("between")
                take_over = ("take-over", "--state-dir", directories[1])
                await run_command(*take_over, *(["--hand-over"] if hands_over else []))
            ended = next(iter(before))
            serving.server.store.delete("pods", cluster.pods()[ended], {})
            await standby.wait_logged("daemon_started")
            for number in range(NODES, 2 * NODES):
                cluster.node(f"n{number}", cpu="2")
            await cluster.until(lambda: len(cluster.bound()) == PODS)
            cluster.daemon_url = urls[1]
            await cluster.quiet()
        assert cluster.pods().keys() == cluster.bound().keys() == {"between", *(f"p{number}" for number in range(PODS))} - {ended}
        assert before.items() - {(ended, before[ended])} <= cluster.bound().items()
        await serving.catch_up()
        started = Counter(uid for uid, _ in serving.kubelets.started)
        assert len(started) == PODS + 1
        assert set(started.values()) == {1}
        nursery.cancel_scope.cancel()
