"""A daemon that is killed and started again: its journal can be replayed and read as a story, also while it runs."""

import re
import signal
from pathlib import Path

import msgspec
from daemon import application, asks, node, real_daemon, run_command

from ykactor.client import connect


async def test_replay_and_story_of_a_daemon(tmp_path: Path) -> None:
    """The decisions of two runs are one history, in which every turn is as recorded."""
    state = tmp_path / "state"
    async with real_daemon("--state-dir", state) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(node(vcore=2000))
        await rm.request(application())
        await rm.request(asks("t1", "t2", "t3"))
        daemon.process.send_signal(signal.SIGKILL)
        await daemon.process.wait()
    async with real_daemon("--state-dir", state) as daemon, connect(daemon.url, rm_id="rm-1", resume_from="now") as rm:
        await rm.request(node("n2", vcore=1000))
        output, _ = await run_command("replay", state, "-o", "json")
        counts = msgspec.json.decode(output)
        assert counts["difference"] is None
        assert counts["facts"] > 20
        for name in ("t1", "t3"):
            from_journal, _ = await run_command("story", name, "--state-dir", state)
            lines = from_journal.splitlines()
            assert f"because of the request for ask {name} of app-1" in lines[0]
            from_daemon, _ = await run_command("story", name, "--url", daemon.url)
            assert [re.split("  because of |  in the scheduling cycle", line)[0] for line in lines] == from_daemon.splitlines()
        assert await daemon.stop() == 0
    output, _ = await run_command("replay", state)
    assert output.startswith(f"{state}: as recorded: ")
