"""The time for which jobs of ``ykactor local`` may run in a queue, and what a reload of the daemon changes of it."""

from __future__ import annotations

from pathlib import Path

from daemon import real_daemon, run_command
from localjobs import local_manager

from ykactor.local.model import State

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: short, properties: {application.walltime.max: %s, application.walltime.default: %s}}
"""


async def test_the_queue_says_how_long_a_job_may_run(tmp_path: Path) -> None:
    """A job that says nothing has the default, one that wants more than the max is refused. A reload is for new jobs."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(QUEUES % ("1h", "10m"))
    async with (
        real_daemon("--config", queues) as daemon,
        local_manager(tmp_path / "l", daemon.url, "--resource", "vcore=8") as local,
    ):
        usual = await local.submit("sleep 1000", queue="root.short")
        wanted = await local.submit("sleep 1000", queue="root.short", time_limit_s=3600)
        for job in (usual, wanted):
            await local.has_state(job, State.RUNNING)
        refused = await local.submit("true", queue="root.short", time_limit_s=3601)
        assert await local.states(refused) == [State.REJECTED]
        reason = (await local.show(refused)).tasks[0].reason
        assert reason.endswith("its tasks run for 1h1s, queue root.short allows at most 1h")
        queues.write_text(QUEUES % ("1ms", "1ms"))
        await run_command("config", "apply", queues, "--url", daemon.url)
        ended = await local.submit("sleep 1000", queue="root.short")
        assert await local.states(ended) == [State.TIMED_OUT]
        assert [(await local.show(job)).job.time_limit_s for job in (usual, wanted, ended)] == [600, 3600, 0.001]
        assert [(await local.show(job)).tasks[0].state for job in (usual, wanted)] == [State.RUNNING] * 2
