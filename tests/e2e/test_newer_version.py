"""A version with other rules writes a journal, and this one goes on with it (DU-4, DU-15)."""

from pathlib import Path

import msgspec
from daemon import application, asks, next_event, node, real_daemon, run_command

import ykactor
from ykactor.client import connect, follow

#: The other version reserves at once, however slow the machine is, and this one after 2 s. Every Python process imports this if
#: it finds the file.
OTHER_RULES = "from ykactor.core.nodes import reservations; reservations.RESERVATION_DELAY_NS = 0"


async def test_what_another_version_has_decided_stays(tmp_path: Path) -> None:
    """The state is exactly as before, although this version would have decided otherwise, which the replay shows."""
    (tmp_path / "sitecustomize.py").write_text(OTHER_RULES)
    other, state = {"PYTHONPATH": f"{tmp_path}:{Path(ykactor.__file__).parents[1]}"}, tmp_path / "state"
    # An interpreter of its own: modules take this constant when they are imported.
    async with real_daemon("--state-dir", state, environment=other, wrapper=("env",)) as daemon:
        async with follow(daemon.url) as followed, connect(daemon.url, rm_id="rm-1") as rm:
            for name in ("n1", "n2"):
                await rm.request(node(name, vcore=4000))
            await rm.request(application())
            await rm.request(asks("t1", "t2", vcore=3000))
            await rm.request(asks("t3", vcore=2000))
            reserved = await next_event(followed, "NODE_RESERVATION")
        before = await daemon.state()
        daemon.process.kill()
        await daemon.process.wait()
    assert before["nodes"][reserved.object_id]["reservations"] == ["t3"]
    async with real_daemon("--state-dir", state) as daemon:
        assert await daemon.state() == before
        assert await daemon.stop() == 0
    output, _ = await run_command("replay", state, "-o", "json", expect=1)
    difference = msgspec.json.decode(output)["difference"]
    assert difference["atNs"] == reserved.timestamp_nano
    assert difference["expected"][0] == "Reserved"
    assert difference["found"] is None
